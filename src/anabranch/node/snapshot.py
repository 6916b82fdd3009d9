"""The state of a replica at one moment, given to a peer that is rebuilt from it, while the replica goes on.

For that moment, a few milliseconds, every store is held in a transaction: no batch can be logged, nothing arrives and
nothing is trimmed. So the last batch of every log is the last one of its checkpoint, what a stage has read is in the
log of the one before it, and what that one has read is in the inlet's journal: all fits together without being cut.
Checkpoints and large bodies are linked, and SQLite's read transactions begun. What is slow comes afterwards: the copies
of the stores, made from these read transactions, and sending it all.

What is gathered lies in the directory of the state. It is removed when all was sent, when the peer has gone or asks
again, and after ``limits.SNAPSHOT_S``. Trimming is not held any longer than the moment: what the peer will
need after it, the logs that it reads keep for it, because it has reserved its place there before.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from anabranch import limits
from anabranch.engine.checkpoint_copy import link_checkpoint
from anabranch.errors import AnabranchError, ConfigError, DiskFull, NodeUnreachable
from anabranch.model.position import Position
from anabranch.node.inlet import stored_positions
from anabranch.node.state import QueryDirectory
from anabranch.query.assigned import AssignedQuery
from anabranch.storage.store import Store
from anabranch.transport.ports import PeerPlaces, SnapshotPiece


class Snapshots:
    """What a replica offers to its siblings. ``stores`` are those that are open, ``failure`` says why it cannot
    help."""

    def __init__(
        self,
        directory: QueryDirectory,
        part: AssignedQuery,
        stores: Mapping[Path, Store],
        *,
        reserve_bytes: int,
        failure: Callable[[], AnabranchError | None],
    ) -> None:
        self._directory = directory
        self._part = part
        self._stores = stores
        self._failure = failure
        self._reserve_bytes = reserve_bytes
        self._lock = threading.Lock()
        self._lent: dict[str, tuple[Path, float]] = {}
        """Per peer that fetches, where that lies, and how long it is kept."""

    def places(self, asker: str) -> PeerPlaces:
        self._check_asker(asker)
        return PeerPlaces(life=self._directory.life, belongs_to=self._directory.belongs_to, places=self._places())

    def _places(self) -> dict[str, dict[str, Position | None]]:
        places: dict[str, dict[str, Position | None]] = {}
        for stream, copies in self._part.upstream.items():
            known = stored_positions(self._stores[self._directory.inlet_file(stream)], stream)
            places[stream] = {copy: known.get(copy) for copy in copies}
        return places

    def snapshot(self, asker: str) -> tuple[str, Iterator[SnapshotPiece]]:
        self._check_asker(asker)
        return self._directory.life, self._pieces(asker)

    def expire(self) -> None:
        """Removes what was gathered for peers that have not fetched it in time: they may have gone for good."""
        with self._lock:
            over = [asker for asker, (_, until) in self._lent.items() if time.monotonic() > until]
            for asker in over:
                self._remove(asker)

    def _pieces(self, asker: str) -> Iterator[SnapshotPiece]:
        gathered = self._directory.lent / secrets.token_hex(4)
        with self._lock:
            self._remove(asker)  # it asks again: nobody fetches what was gathered before
            self._lent[asker] = gathered, time.monotonic() + limits.SNAPSHOT_S
        try:
            self._check_room()
            self.gather(gathered)
            for path in sorted(each for each in gathered.rglob("*") if each.is_file()):
                yield from _file_pieces(path, path.relative_to(gathered))
        except FileNotFoundError as error:
            raise NodeUnreachable(
                f"The snapshot for {asker!r} is gone: it took too long to fetch, or was requested again.",
                remedy="Fetch it again.",
            ) from error
        finally:
            with self._lock:
                if self._lent.get(asker, (None, 0))[0] == gathered:
                    self._remove(asker)

    def _remove(self, asker: str) -> None:
        gathered, _ = self._lent.pop(asker, (None, 0))
        if gathered is not None:
            shutil.rmtree(gathered, ignore_errors=True)

    def gather(self, target: Path) -> None:
        """All of the state, as it is at one moment, in a new directory of the same file system."""
        root = self._directory.path
        with ExitStack() as reading:
            with _held(self._stores.values()):
                pinned = {
                    target / path.relative_to(root): reading.enter_context(store.pinned())
                    for path, store in self._stores.items()
                }
                for path, store in pinned.items():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    store.link_bodies(path)
                for stage in self._part.stages:
                    checkpoint = self._directory.checkpoint(stage.name)
                    link_checkpoint(checkpoint, target / checkpoint.relative_to(root))
            for path, store in pinned.items():
                store.copy_to(path)

    def _check_asker(self, asker: str) -> None:
        siblings = [self._part.reader_at(host) for host in self._part.siblings]
        if asker not in siblings:
            known = ", ".join(siblings) or "none"
            raise ConfigError(
                f"Node {asker!r} cannot be rebuilt from {self._part.host!r}: it runs a different part of the query.",
                remedy=f"Deploy the same file to all nodes. Those that can: {known}.",
            )
        failure = self._failure()
        if failure is not None:
            raise NodeUnreachable(
                f"Node {self._part.host!r} cannot provide its state: {failure.message}",
                remedy="Restart or rebuild it first.",
            )

    def _check_room(self) -> None:
        needed = sum(path.stat().st_size for path in self._stores)
        free = self._directory.free_bytes() - self._reserve_bytes
        if needed > free:
            raise DiskFull(
                f"Node {self._part.host!r} needs {needed >> 20} MiB to copy its state, but has {max(0, free) >> 20}.",
                remedy="Free space on its disk; the rebuild then continues by itself.",
            )


@contextmanager
def _held(stores: Iterable[Store]) -> Iterator[None]:
    """Nothing is written to any of them."""
    with ExitStack() as held:
        for store in stores:
            held.enter_context(store.transaction())
        yield


def _file_pieces(path: Path, name: Path) -> Iterator[SnapshotPiece]:
    digest: Final = hashlib.sha256()
    with path.open("rb") as file:
        while len(read := file.read(limits.SNAPSHOT_PIECE_BYTES)) == limits.SNAPSHOT_PIECE_BYTES:
            digest.update(read)
            yield SnapshotPiece(path=name.as_posix(), bytes=read, digest=None)
        digest.update(read)
    yield SnapshotPiece(path=name.as_posix(), bytes=read, digest=digest.hexdigest())
