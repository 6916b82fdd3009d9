"""The JVM of this process: started with its messages in a file, ended with its children.

Left to itself a JVM writes to our standard error: notes about its own start, and a traceback of every Python worker
that was in the middle of an answer when its query was stopped. In a file, what matters can be told from what does not.
It ignores Ctrl-C (PySpark sees to that, and its workers inherit it), so it is still there for a clean stop.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

MESSAGES_BYTES: Final = 1 << 20
"""Messages that are kept after they were read: enough for any crash report of a JVM."""

UNFINISHED_S: Final = 3.0
"""How long a line or a traceback may take: a process that is short of time writes them piece by piece."""

_NOISE: Final = (
    "WARNING: Using incubator modules",
    "Setting default log level to",
    "To adjust logging level use",
    "NOTE: SPARK_LOCAL_DIRS",
    "Starting Streaming TransformWithStateInPandas Python worker",
    "Streaming TransformWithStateInPandas Python worker finish init",
    "Streaming TransformWithStateInPandas Python worker received parameters",
    "Streaming TransformWithStateInPandas Python worker Starting execution",
    "Streaming TransformWithStateInPandas Python worker Completed execution",
)
"""What every start says, of Spark and of an Aggregate that counts."""

_GONE_READER: Final = re.compile(r"Traceback \(most recent call last\):\n(?:  .*\n)*BrokenPipeError.*\n?")
"""What a Python worker says when Spark no longer wants its answer: after a minute without work, or at a stop."""

_UNFINISHED: Final = re.compile(
    rb"(?:Traceback \(most recent call last\):\n(?:(?:  |Traceback |BrokenPipeError).*\n)*|(?<=\n)|\A).*\Z"
)
"""What is just being written: a line, or a traceback, whose last line says what it is about. Two workers may write at
the same time, a line each in turn."""

_JAVA_FRAME: Final = re.compile(r"\s+(at |\.\.\. \d+ more)")
"""A line of a Java stack trace: what was thrown is told by the lines between."""

_messages: Path | None = None
_read_bytes = 0
_unfinished = b""
_unfinished_since = 0.0


def start(settings: Iterable[tuple[str, str]], messages: Path) -> None:
    """Starts the JVM of this process, if there is none. Settings for its memory and options work only here."""
    global _messages, _read_bytes
    if SparkContext._gateway is not None:
        return
    _messages, _read_bytes = messages, 0
    conf = SparkConf().setAll(list(settings))
    with messages.open("ab") as file:  # appending: it may be cut while the JVM writes
        gateway = launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    # What looked for the jars has opened Hadoop's own file system, which would be kept for all that follows.
    gateway.jvm.org.apache.hadoop.fs.FileSystem.closeAll()


def end(wait_s: float) -> None:
    """Ends the JVM and waits for it, and then kills it. Its own children go with it."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    if process is None:  # it was there before us, and stays
        return
    if process.stdin is not None:
        process.stdin.close()  # it lives as long as this pipe
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def new_messages() -> list[str]:
    """The lines that the JVM and its children wrote since the last call, without those that every start writes.

    What has no end yet is left for a later call, until nothing has been added to it for a while.
    """
    global _read_bytes, _unfinished, _unfinished_since
    if _messages is None or not _messages.exists():
        return []
    with _messages.open("rb+") as file:
        file.seek(_read_bytes)
        text = file.read()
        found = _UNFINISHED.search(text)
        open_end = b"" if found is None else found[0]
        if open_end != _unfinished:
            _unfinished, _unfinished_since = open_end, time.monotonic()
        if time.monotonic() - _unfinished_since > UNFINISHED_S:
            open_end = b""
        text = text[: len(text) - len(open_end)]
        _read_bytes += len(text)
        if _read_bytes > MESSAGES_BYTES and not open_end:
            file.truncate(0)
            _read_bytes = 0
    lines = _without_gone_readers(text.decode(errors="replace")).splitlines()
    return [line for line in lines if line and not line.startswith(_NOISE) and not _JAVA_FRAME.match(line)]


def _without_gone_readers(text: str) -> str:
    """Where one traceback stands between the lines of another, the other is whole when the one is gone."""
    count = 1
    while count:
        text, count = _GONE_READER.subn("", text)
    return text
