"""All processes of a session, by its id: a node with its JVM and Spark's Python workers, also when parents are gone.

A node that is started in a session of its own keeps everything it starts in it. Process groups would not do: Spark's
workers leave theirs. Nothing here asks a process: what is signalled may hang, or be stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.01
GONE_S: Final = 20.0
"""How long the system may take to end processes that it was told to kill."""

_PROC: Final = Path("/proc")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)


def members(session: int) -> dict[int, str]:
    """The processes of a session that still run, and the state of each as the system calls it: T is stopped."""
    return {pid: state for pid, state, its in _processes() if its == session and not state.startswith("Z")}


def kill(session: int) -> None:
    """SIGKILL for all of them, again and again, because one may just have started another; until none is left."""
    _until_none(session, signal.SIGKILL, lambda state: True)


def freeze(session: int) -> None:
    """SIGSTOP for all of them, until all stand still."""
    _until_none(session, signal.SIGSTOP, lambda state: not state.startswith(("T", "t")))


def thaw(session: int) -> None:
    for pid in members(session):
        _send(pid, session, signal.SIGCONT)


def _until_none(session: int, number: int, matters: Callable[[str], bool]) -> None:
    deadline = time.monotonic() + GONE_S
    while found := [pid for pid, state in members(session).items() if matters(state)]:
        for pid in found:
            _send(pid, session, number)
        if time.monotonic() > deadline:
            return  # in the hands of the system: a process that waits for a dead disk ends with it
        time.sleep(LOOK_S)


def _send(pid: int, session: int, number: int) -> None:
    """Only if the process is still one of them: its id may have a new owner."""
    with suppress(*_GONE):
        if os.getsid(pid) == session:
            os.kill(pid, number)


def _processes() -> Iterator[tuple[int, str, int]]:
    """Id, state and session of every process."""
    if not (_PROC / "self" / "stat").exists():
        yield from _listed()
        return
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with suppress(*_GONE):
                # after the name, which may hold anything: state, parent, group, session
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                yield int(entry.name), state, int(session)


def _listed() -> Iterator[tuple[int, str, int]]:
    """The same where the system has no /proc."""
    told = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        pid, state = line.split()
        with suppress(*_GONE):
            yield int(pid), state, os.getsid(int(pid))
