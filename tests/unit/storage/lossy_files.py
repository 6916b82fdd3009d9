"""A disk that can lose power: a file system layer for SQLite that knows which writes were synced.

Every write goes to the real file, so that the store lives on; beside it each file has what is durable, and the writes
since its last sync, which a disk may keep or lose in any combination, sector by sector. A ``Photograph`` is all of that
at one moment; ``develop`` makes from it one of the directories that could be found after a power loss at that moment.
Shared memory (``-shm``) is not part of it: SQLite builds that anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from anabranch.storage import Bodies, Connection, configure

SECTOR = 512
LARGE_BYTES = 40_000


@dataclass(slots=True)
class Contents:
    """One file: what is durable, and what was done since: writes (offset, bytes) and truncations (size, None)."""

    durable: bytes
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    unnamed: bool = False
    """Whether its name in the directory is not durable."""

    def copy(self) -> Contents:
        return Contents(self.durable, list(self.pending), self.unnamed)


@dataclass(frozen=True, slots=True)
class Photograph:
    files: dict[str, Contents]

    def develop(self, directory: Path, rng: random.Random, *, keep: float) -> None:
        """A directory after the power loss: of what was not synced, each sector survived with probability ``keep``."""
        directory.mkdir()
        for name, contents in self.files.items():
            if contents.unnamed and rng.random() >= keep:
                continue
            image = bytearray(contents.durable)
            for offset, data in contents.pending:
                if data is not None:
                    _write_torn(image, offset, data, rng, keep)
                elif rng.random() < keep:
                    _resize(image, offset)
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(image)


def _write_torn(image: bytearray, offset: int, data: bytes, rng: random.Random, keep: float) -> None:
    for start in range(0, len(data), SECTOR):
        if rng.random() < keep:
            piece = data[start : start + SECTOR]
            _resize(image, max(len(image), offset + start + len(piece)))
            image[offset + start : offset + start + len(piece)] = piece


def _resize(image: bytearray, size: int) -> None:
    del image[size:]
    image.extend(bytes(size - len(image)))


class LossyDisk(apsw.VFS):  # type: ignore[misc]
    """The layer itself. ``before_change`` is called before each write, truncation and sync; it may raise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, Contents] = {}
        self.before_change: Callable[[], None] = lambda: None
        super().__init__(name, "")

    def connect(self, *, synchronous: str = "FULL", checkpoint_pages: int = 12) -> Callable[[Path], Connection]:
        """What ``Store.open`` takes. Checkpoints come often, so that a short story has many."""

        def connect(path: Path) -> Connection:
            connection: Connection = apsw.Connection(str(path), vfs=self.name)
            configure(connection, synchronous=synchronous)
            connection.execute(f"PRAGMA wal_autocheckpoint = {checkpoint_pages}").fetchall()
            return connection

        return connect

    def photograph(self) -> Photograph:
        return Photograph({name: contents.copy() for name, contents in self.files.items()})

    def xOpen(self, name: Any, flags: list[int]) -> LossyFile:  # noqa: N802
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        path = Path(filename)
        if path.name not in self.files:
            self.files[path.name] = Contents(path.read_bytes() if path.exists() else b"")
        return LossyFile(self, name, flags, self.files[path.name])

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.files.pop(Path(filename).name, None)


class LossyFile(apsw.VFSFile):  # type: ignore[misc]
    def __init__(self, disk: LossyDisk, name: Any, flags: list[int], contents: Contents) -> None:
        self._disk = disk
        self._contents = contents
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.before_change()
        super().xWrite(data, offset)
        self._contents.pending.append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.before_change()
        super().xTruncate(size)
        self._contents.pending.append((size, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.before_change()
        super().xSync(flags)
        image = bytearray(self._contents.durable)
        for offset, data in self._contents.pending:
            _resize(image, offset if data is None else max(len(image), offset + len(data)))
            if data is not None:
                image[offset : offset + len(data)] = data
        self._contents.durable = bytes(image)
        self._contents.pending.clear()


class LossyBodies(Bodies):
    """Files of bodies on a lossy disk. ``synced`` is False for a store that forgets to sync them."""

    def __init__(self, disk: LossyDisk, store: Path, *, synced: bool = True) -> None:
        super().__init__(store, LARGE_BYTES)
        self._disk = disk
        self._synced = synced

    def remove(self, names: Iterable[str]) -> list[str]:
        gone = list(names)
        for name in gone:  # a removal that is lost leaves a file that nobody names
            self._disk.files.pop(self._path(name), None)
        return super().remove(gone)

    def _write(self, name: str, body: memoryview) -> None:
        self._disk.before_change()
        contents = self._disk.files[self._path(name)] = Contents(b"", [(0, bytes(body))], unnamed=True)
        super()._write(name, body)
        self._disk.before_change()
        if self._synced:
            contents.durable = bytes(body)
            contents.pending.clear()

    def _sync_directory(self, directory: Path) -> None:
        self._disk.before_change()
        super()._sync_directory(directory)
        for contents in self._disk.files.values():
            contents.unnamed = contents.unnamed and not self._synced

    def _path(self, name: str) -> str:
        return f"{self.directory.name}/{name}"
