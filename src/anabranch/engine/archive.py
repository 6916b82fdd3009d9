"""The class archive: Spark's classes in a file that a JVM maps into memory, instead of loading them one by one.

With it Spark starts in about half the time. It is made once for each Java, installed PySpark and connector, by a
JVM that loads what a node needs and writes it down when it ends (``anabranch prepare``); a JVM that does not fit it
runs without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import pyspark

from anabranch.engine import connector

DIRECTORY: Final = Path(sys.prefix, "share", "anabranch")
"""Beside the installed PySpark, so that both come and go together."""


def archive() -> Path:
    """Where the archive of this Java, this PySpark and this connector is, or would be."""
    home, known = _java_home(), [pyspark.__version__, pyspark.__path__[0], connector.digest()]
    if home is not None:
        release = home / "release"
        known += [str(home), release.read_text() if release.exists() else ""]
    return DIRECTORY / f"spark-{hashlib.sha256(repr(known).encode()).hexdigest()[:12]}.jsa"


def can_be_made() -> bool:
    """Whether this Java brings the archive of its own classes on which another is made. One that was put together by
    ``jlink`` does not, unless it was asked for; its JVM refuses to start."""
    home = _java_home()
    return home is None or any(home.glob("lib/**/classes.jsa"))


def _java_home() -> Path | None:
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    home = None if java is None else Path(java).resolve().parents[1]
    return home if home is not None and home.exists() else None


def using() -> str:
    """The options of a JVM that shall use the archive: none where there is no archive."""
    found = archive()
    return f"-XX:SharedArchiveFile={found} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off" if found.exists() else ""


def making(target: Path) -> str:
    """The options of a JVM that shall write an archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={target} -Xlog:cds=off -Xlog:cds+dynamic=off"
