"""Which deployments run on this machine, for this user: so that another shell finds them without being told where.

A directory below the one for temporary files, which only this user may read, has for each running ``anabranch up``:

    PID.json    the file of the deployment, the process, when it began, and whether its nodes are processes
    PID.sock    where it takes requests (``control``)

Whoever runs holds a lock on its entry. An entry without one was left behind by a process that was killed, whatever
process has its number now: it is ignored, and removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anabranch.errors import ConfigError, NodeUnreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One deployment that runs here."""

    file: str
    """Absolute."""
    pid: int
    started_s: float
    """Seconds since 1970."""
    state: str | None
    """Below which directory the nodes have theirs, if not where the file says."""
    embedded: bool

    def control(self, directory: Path | None = None) -> Path:
        """Where it takes requests."""
        return (directory or registry()) / f"{self.pid}.sock"


def registry() -> Path:
    """The directory, made if there is none. One that others could write is refused: they could lead us anywhere."""
    path = Path(tempfile.gettempdir(), f"anabranch-{os.getuid()}")
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(
            f"{path} is not a private directory of this user.", remedy="Remove it, or set TMPDIR to another directory."
        )
    return path


@contextmanager
def registered(
    file: Path, *, state: Path | None = None, embedded: bool = False, directory: Path | None = None
) -> Iterator[Running]:
    """This process runs the deployment of that file, until the ``with`` block ends."""
    directory = directory or registry()
    for other in all_running(directory):
        if other.file == str(file.resolve()):
            raise ConfigError(f"{file} is already running: process {other.pid}.", remedy="Stop that one first.")
    running = Running(
        file=str(file.resolve()),
        pid=os.getpid(),
        started_s=time.time(),
        state=None if state is None else str(state.resolve()),
        embedded=embedded,
    )
    entry = directory / f"{running.pid}.json"
    new = entry.with_suffix(".new")
    with new.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        json.dump(asdict(running), held)
        held.flush()
        new.rename(entry)  # locked before anybody can see it
        try:
            yield running
        finally:
            entry.unlink(missing_ok=True)


def all_running(directory: Path | None = None) -> list[Running]:
    """Oldest first."""
    directory = directory or registry()
    found = [_read(entry) for entry in directory.glob("*.json")]
    return sorted((each for each in found if each is not None), key=lambda each: each.started_s)


def find(file: Path | None = None, *, directory: Path | None = None) -> Running:
    """The deployment of this file; without one, the only one that runs."""
    found = all_running(directory)
    told = ", ".join(each.file for each in found)
    if file is not None:
        found = [each for each in found if each.file == str(file.resolve())]
        if not found:
            remedy = f"Running deployments: {told}." if told else f"Start it: anabranch up {file}"
            raise NodeUnreachable(f"{file} is not running on this machine.", remedy=remedy)
    if not found:
        raise NodeUnreachable("No deployment is running on this machine.", remedy="Start one: anabranch up FILE")
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} deployments are running on this machine.", remedy=f"Name the file of one: {told}."
        )
    return found[0]


def _read(entry: Path) -> Running | None:
    """None if its process is gone; then the entry is removed, too."""
    try:
        with entry.open() as file:
            if _is_held(file.fileno()):
                facts: dict[str, Any] = json.load(file)
                return Running(**facts)
    except FileNotFoundError:  # it has just ended
        return None
    entry.unlink(missing_ok=True)
    entry.with_suffix(".sock").unlink(missing_ok=True)
    return None


def _is_held(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
