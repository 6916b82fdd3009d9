"""The connector: the jar by which Spark reads journals and writes logs, and what Spark is told of the node behind it.

Its sources are under ``jvm/``. It is compiled before the package is built, so that a user needs no compiler
(design note 15).
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from anabranch import limits

JAR: Final = Path(__file__).with_name("connector.jar")
SOURCE: Final = "anabranch.JournalSource"
"""The format of a journal, for ``spark.readStream``."""

SINK: Final = "anabranch.LogSink"
"""The format of a stage's log, for ``frame.writeStream``."""

MARK: Final = "_wm"
"""The column that the connector fills: the time of a control row, and NULL on all others. Without it there are none."""

LOCAL_FILES: Final = "anabranch.LocalFiles"
"""The file system of this machine for Spark: checkpoint files without a process for each of them."""

_VERSION: Final = re.compile(rb"^Implementation-Version: (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHost:
    """Where the journals are, and what this start of the node gave to its Spark."""

    address: str
    token: str

    def options(self) -> dict[str, str]:
        waits = {"wait_ms": limits.SPARK_ANSWER_S, "idle_ms": limits.SPARK_IDLE_S / 2}
        return {"address": self.address, "token": self.token} | {k: str(round(s * 1000)) for k, s in waits.items()}


NOWHERE: Final = JournalHost(address="127.0.0.1:1", token="")
"""For a stage that is compiled and not run."""


@cache
def release() -> str:
    """What the connector of this package says when it is asked who it is."""
    with zipfile.ZipFile(JAR) as jar:
        found = _VERSION.search(jar.read("META-INF/MANIFEST.MF"))
    assert found is not None
    return found[1].decode()


@cache
def digest() -> str:
    return hashlib.sha256(JAR.read_bytes()).hexdigest()
