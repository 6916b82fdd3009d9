"""The JVM of this process: started with its messages in a file, ended with its children, forgotten when it died.

Left to itself a JVM writes to our standard error: notes about its own start, and a traceback of every Python worker
that was in the middle of an answer when its query was stopped. In a file, what matters can be told from what does not.

There is one at a time. PySpark expects it to outlive the process, and keeps what belongs to it in variables of its
classes: ``forget`` knows them all, so that after the death of one JVM another can be started.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession, SQLContext

from anabranch.engine import gateway
from anabranch.errors import EngineError
from anabranch.exits import how_it_ended

DEFAULT_MEMORY: Final = "2g"
"""Of a JVM, if the user says nothing."""

DEATH_S: Final = 0.5
"""How long a process may take to be gone after its connections are."""

_HEAP_WAS_FULL: Final = (3, 52)
"""The exit codes of a JVM that was told to end then, and of Spark."""

MESSAGES_BYTES: Final = 1 << 20
"""Messages that are kept after they were read: enough for any crash report of a JVM."""

UNFINISHED_S: Final = 3.0
"""How long a line or a traceback may take: a process that is short of time writes them piece by piece."""

_NOISE: Final = (
    "WARNING: Using incubator modules",
    "Setting default log level to",
    "To adjust logging level use",
    "NOTE: SPARK_LOCAL_DIRS",
)
"""What every start of Spark says."""

_GONE_READER: Final = re.compile(r"Traceback \(most recent call last\):\n(?:  .*\n)*BrokenPipeError.*\n?")
"""What a Python worker says when Spark no longer wants its answer: after a minute without work, or at a stop."""

_UNFINISHED: Final = re.compile(
    rb"(?:Traceback \(most recent call last\):\n(?:(?:  |Traceback |BrokenPipeError).*\n)*|(?<=\n)|\A).*\Z"
)
"""What is just being written: a line, or a traceback, whose last line says what it is about. Two workers may write at
the same time, a line each in turn."""

_JAVA_FRAME: Final = re.compile(r"\s+(at |\.\.\. \d+ more)")
"""A line of a Java stack trace: what was thrown is told by the lines between."""

_process: subprocess.Popen[bytes] | None = None
_messages: Path | None = None
_read_bytes = 0
_unfinished = b""
_unfinished_since = 0.0


def start(settings: Iterable[tuple[str, str]], messages: Path, given_up: Callable[[], bool] = lambda: False) -> None:
    """Starts the JVM of this process, if there is none. Settings for its memory and options work only here.

    ``given_up`` is asked while it waits for the JVM, and ends that.
    """
    global _messages, _read_bytes, _process
    if SparkContext._gateway is not None:
        return
    if _messages != messages or not messages.exists():
        _messages, _read_bytes = messages, 0
    settings = list(settings)
    made = gateway.given_by_others()
    is_ours = made is None
    if made is None:
        with gateway.answer_file() as answer:
            _process = gateway.spawn(settings, messages, answer)
            try:
                made = gateway.connected(_process, answer, given_up)
            except BaseException:
                gateway.kill(_process)
                raise
    SparkContext._ensure_initialized(gateway=made, conf=SparkConf().setAll(settings))
    if is_ours:  # what looked for the jars has opened Hadoop's own file system, which would be kept from now on
        made.jvm.org.apache.hadoop.fs.FileSystem.closeAll()


def process() -> subprocess.Popen[bytes] | None:
    """The process of the JVM that was started last; None if there was none, or it is not ours."""
    return _process


def is_gone() -> bool:
    """Whether there was a JVM, and it has ended by itself."""
    return _process is not None and _process.poll() is not None


def is_going(ended: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended, or just does: asked when a call into it has failed. Its connections end first."""
    with suppress(subprocess.TimeoutExpired):
        ended.wait(DEATH_S)
    return ended.returncode is not None


def was_killed(ended: subprocess.Popen[bytes] | None) -> bool:
    """Whether somebody else ended it, rather than itself."""
    return ended is not None and ended.returncode is not None and ended.returncode < 0


def death(ended: subprocess.Popen[bytes] | None, conf: Mapping[str, str]) -> EngineError:
    """How a JVM came to its end, why, as far as one can tell, and what to do about it. ``conf`` is the user's."""
    code = None if ended is None else ended.returncode
    if code is None:
        return EngineError("Spark is not responding.")
    memory = conf.get("spark.driver.memory", DEFAULT_MEMORY)
    told = f"Spark's JVM {how_it_ended(code)}"
    if code == -signal.SIGKILL:
        return EngineError(
            f"{told}, perhaps because this machine ran out of memory.",
            remedy=f"If so, give Spark less with spark.driver.memory, which is {memory}, or the machine more.",
        )
    if code in _HEAP_WAS_FULL:
        return EngineError(
            f"{told}, because its heap was full.", remedy=f"Raise spark.driver.memory, which is {memory}."
        )
    return EngineError(f"{told}.")


def forget() -> None:
    """Makes PySpark forget its JVM, which is gone or about to go: what PySpark is asked next begins anew."""
    global _process
    context, known = SparkContext._active_spark_context, SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    _process = None
    if context is not None:
        context._jsc = None
        if context._accumulatorServer is not None:
            context._accumulatorServer.shutdown()
    if known is not None:
        with suppress(Py4JError, OSError):
            known.shutdown()  # and with it the server for calls from the JVM


def end(wait_s: float) -> None:
    """Ends the JVM and waits for it, and then kills it. Its own children go with it."""
    ended = _process
    forget()
    if ended is None:  # there was none, or it was there before us and stays
        return
    if ended.stdin is not None:
        with suppress(OSError):
            ended.stdin.close()  # it lives as long as this pipe
    try:
        ended.wait(wait_s)
    except subprocess.TimeoutExpired:
        gateway.kill(ended)


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
