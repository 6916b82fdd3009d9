"""Processes of a benchmark: how they are started and killed, and what the system knows about one and all that it
started, processor time and memory. Linux only: reads /proc."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from anabranch.errors import ConfigError

PROC: Final = Path("/proc")
SAMPLE_S: Final = 0.2
KILL_S: Final = 10.0
JVM, PYTHON, ALL = "JVM", "Python", "all"
ROOT, WORKERS = "node and clients", "Python workers"

_PORTS: Final = range(20_000, 30_000)
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)


def check_system() -> None:
    if not (PROC / "self" / "smaps_rollup").exists():
        raise ConfigError(
            "This system does not report the memory and processor time of processes in /proc.", remedy="Use Linux."
        )


def start_python(directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """``python -m ARGUMENTS`` in a session of its own, so that Ctrl-C is ours alone. All its files are in there.

    What it says goes to ``results`` and ``messages`` there.
    """
    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    with (directory / "results").open("wb") as output, (directory / "messages").open("wb") as messages:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=messages,
            env=os.environ | {"TMPDIR": str(temporary)},
            start_new_session=True,
        )


def said_last(directory: Path) -> str:
    """The last words of a process that was started there."""
    return " ".join((directory / name).read_text()[-2_000:] for name in ("results", "messages"))


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, no two the same. They are below those that the system hands out to clients: nobody
    takes one while its node is dead."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def tree(root: int) -> list[int]:
    """The process and its descendants that are alive."""
    children: dict[int, list[int]] = {}
    for pid, fields in _stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> dict[str, float]:
    """Processor time of the process itself, of the JVM and of other descendants, with those that have ended."""
    pids = set(tree(root))
    seconds = {ROOT: 0.0, JVM: 0.0, WORKERS: 0.0}
    for pid, fields in _stats():
        if pid in pids:
            kind = ROOT if pid == root else JVM if _is_java(pid) else WORKERS
            seconds[kind] += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds | {ALL: sum(seconds.values())}


def threads(pid: int) -> int:
    """Of one process; 0 if it is gone."""
    return next((int(fields[17]) for each, fields in _stats() if each == pid), 0)


def jvm_of(root: int) -> int | None:
    return next((pid for pid in tree(root) if _is_java(pid)), None)


def memory_bytes(root: int) -> dict[str, int]:
    """By kind of process. What several share is divided among them, so that sums are true (PSS).

    A JVM starts a program by a copy of itself that has its memory until the program is loaded: that is no second one.
    """
    sizes = {JVM: 0, PYTHON: 0}
    jvm = jvm_of(root)
    for pid in tree(root):
        if pid == jvm or not _is_java(pid):
            sizes[JVM if pid == jvm else PYTHON] += _pss(pid)
    return sizes | {ALL: sum(sizes.values())}


def kill_tree(root: int) -> None:
    """SIGKILL for a process and its descendants; returns when none of them runs any more."""
    doomed = tree(root)
    for pid in doomed:
        with suppress(*_GONE):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline and any(fields[0] != "Z" for pid, fields in _stats() if pid in doomed):
        time.sleep(0.01)


class Peaks:
    """The largest memory of a process and its descendants while the ``with`` block runs."""

    def __init__(self, root: int) -> None:
        self.bytes: Final[dict[str, int]] = {}
        self._root = root
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peaks", daemon=True)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_S):
            for kind, size in memory_bytes(self._root).items():
                self.bytes[kind] = max(size, self.bytes.get(kind, 0))


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Each process and the fields of its ``stat`` after the name, which may hold anything: state, parent, ..."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(*_GONE):
                yield int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()


def _is_java(pid: int) -> bool:
    with suppress(*_GONE):
        return (PROC / str(pid) / "exe").readlink().name == "java"
    return False


def _pss(pid: int) -> int:
    with suppress(*_GONE):
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
