"""Starts a JVM with Spark in it, as PySpark does, and connects to it. Differs from PySpark in four things:

- The JVM does not get the signals of this process. Who stops a service signals its whole process group (a terminal) or
  every process of its control group (systemd), and a JVM that heeded that would end before the batch under way, and
  before the process that has to see to a clean stop. So it has a process group of its own and ignores SIGINT and
  SIGTERM. It stays in our session, by which a node is found with all that it started, and it ends when its standard
  input does: no way of ending this process leaves it behind.
- What it writes goes to a file.
- The process is known from its first moment on: a start can be given up, and one that fails says how it ended.
- A JVM that ends at once with code 0 is an end, too. PySpark would wait for it for ever.
"""

from __future__ import annotations

import os
import shlex
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

from anabranch.errors import EngineError
from anabranch.exits import how_it_ended

LOOK_S: Final = 0.02
"""How often a start looks whether the JVM has said where it listens."""

_DEAF: Final = "trap '' INT TERM; exec \"$@\""
"""What is ignored when a program begins stays ignored: a shell passes it on, and a JVM then installs no handler."""

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def spawn(settings: Iterable[tuple[str, str]], messages: Path, answer: Path) -> subprocess.Popen[bytes]:
    """A JVM that writes to the file ``answer`` where it listens, once it does."""
    command = [str(Path(_find_spark_home(), "bin", "spark-submit"))]
    for key, value in settings:
        command += ["--conf", f"{key}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    environment = os.environ | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)}
    with messages.open("ab") as file:  # appending: it may be cut while the JVM writes
        return subprocess.Popen(
            ["/bin/sh", "-c", _DEAF, "spark-submit", *command],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            env=environment,
            process_group=0,
        )


def connected(process: subprocess.Popen[bytes], answer: Path, given_up: Callable[[], bool]) -> Any:
    """PySpark's gateway to the process, as soon as it answers. EngineError if it ends before that."""
    while not answer.exists():
        if process.poll() is not None:
            raise EngineError(f"The JVM {how_it_ended(process.returncode)} before Spark had started.")
        if given_up():
            raise EngineError("The start of the JVM was cancelled.")
        time.sleep(LOOK_S)
    said = answer.read_bytes()
    port, length = struct.unpack_from(">ii", said)
    with _environment({_PORT: str(port), _SECRET: said[8 : 8 + length].decode()}):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    gateway.proc = process
    return gateway


def given_by_others() -> Any:
    """The gateway of a JVM that was there before this process, such as that of spark-submit; None if there is none."""
    return launch_gateway() if _PORT in os.environ else None  # type: ignore[no-untyped-call]


@contextmanager
def answer_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="anabranch-jvm-") as directory:
        yield Path(directory, "answer")


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for a JVM with what it has started in its group: before it is a JVM, it is a script and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
