"""Large bodies of segments: each a file of its own beside the store, which only names it.

SQLite writes what it gets to its write-ahead log, with a checksum for every page, and again to its file. For small
bodies that is the cheapest way there is; one of megabytes takes about 0.4 of the processor time, and of the time
until it is synced, in a file of its own.

The store stays the only judge of what is there. A file is synced, and its name in the directory, before the commit that
names it; it is removed after the commit that no longer does. What a crash leaves between the two is swept away when
the store is opened. A name is never used twice: a commit that failed may still turn out to have reached the disk, and
then it must find the file that it meant. Must not know about logs, sequences or SQLite.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from anabranch.errors import DiskFull, StateError
from anabranch.syncing import sync

LARGE_BYTES: Final = 1 << 20
"""Bodies from this size on are files. A file costs one more sync, which is about what SQLite takes for a megabyte."""


class Bodies:
    """The files of one store. Writing and removing is for its one writer; any thread may read."""

    def __init__(self, store: Path, large_bytes: int = LARGE_BYTES) -> None:
        self.large_bytes: Final = large_bytes
        self.directory: Final = store.with_name(store.name + "-bodies")
        self._unsettled = False

    def write(self, body: bytes | memoryview | pa.Buffer) -> str:
        """Writes and syncs the body; the name it has from now on. ``settle`` must follow before the commit."""
        name = secrets.token_hex(12)
        try:
            if not self.directory.is_dir():
                self.directory.mkdir(exist_ok=True)
                self._sync_directory(self.directory.parent)
            self._unsettled = True
            self._write(name, memoryview(body))
        except OSError as error:
            self.remove([name])
            raise self._not_written(error) from error
        return name

    def settle(self) -> None:
        """Makes the names of all that was written durable."""
        if self._unsettled:
            try:
                self._sync_directory(self.directory)
            except OSError as error:
                raise self._not_written(error) from error
            self._unsettled = False

    def read(self, name: str, size: int) -> pa.Buffer:
        """The body; FileNotFoundError when it was removed."""
        with pa.OSFile(str(self.directory / name)) as file:
            body = file.read_buffer()
        if body.size != size:
            raise self._damaged(name, size, body.size)
        return body

    def remove(self, names: Iterable[str]) -> list[str]:
        """Returns those that could not be removed now. It does not raise: the commit before it is done."""
        left = []
        for name in names:
            try:
                (self.directory / name).unlink(missing_ok=True)
            except OSError:
                left.append(name)
        return left

    def sweep(self, known: Mapping[str, int]) -> None:
        """At the opening: all that the store names is there in its size, and all else goes."""
        found = {file.name: file for file in self.directory.iterdir()} if self.directory.is_dir() else {}
        for name, size in known.items():
            file = found.pop(name, None)
            held = 0 if file is None else file.stat().st_size
            if held != size:
                raise self._damaged(name, size, held)
        self.remove(found)

    def _write(self, name: str, body: memoryview) -> None:
        descriptor = os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            while body:
                body = body[os.write(descriptor, body) :]
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _sync_directory(self, directory: Path) -> None:
        sync(directory)

    def _not_written(self, error: OSError) -> DiskFull:
        return DiskFull(
            f"Cannot write to {self.directory}: {error.strerror or error}. The transaction was rolled back.",
            remedy="Free space on that file system; no restart is needed.",
        )

    def _damaged(self, name: str, wanted: int, found: int) -> StateError:
        return StateError(
            f"The state file {self.directory / name} has {found} bytes of {wanted}, or is not there.",
            remedy="Restore the state directory from a backup, or remove it to start over without its contents.",
        )
