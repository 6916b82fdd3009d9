"""A replica that is rebuilt from a peer: it lost its state, or cannot get what it lacks from those that it reads.

``core.rebuild`` decides the order: ask a sibling how far it has read, reserve these places under the new life, and only
then fetch its state. This class asks, fetches, and installs: what arrives is checked file by file, made this node's own
(a life, incarnations of the logs, ids of the checkpoints; readers that only the peer has are left out), and becomes the
state in one step. Until then the directory is as it was, and after a kill everything begins again.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from anabranch.core import rebuild
from anabranch.core.backoff import RECONNECT
from anabranch.engine.checkpoint import make_durable
from anabranch.engine.checkpoint_copy import begin_lineage
from anabranch.errors import AnabranchError, ConfigError, DiskFull, StateError
from anabranch.model.names import replica_reader
from anabranch.node.dialer import Dialer
from anabranch.node.inlet import INLET_READER, stored_positions
from anabranch.node.stages import stage_reader
from anabranch.node.state import QueryDirectory, describe_changes
from anabranch.node.writing import forget_places
from anabranch.query.assigned import AssignedQuery
from anabranch.storage.store import Store
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyReservation, SnapshotPiece

_log: Final = logging.getLogger(__name__)

_ASK_S: Final = 3.0
"""How long a peer or a copy has for an answer: all that it does is one transaction."""

_SAY_S: Final = 1.0
_PARTS: Final = ("inlets", "stages", "checkpoints")


class Rebuilding:
    """Rebuilds the state in ``directory``. Nothing of it may be open meanwhile.

    ``writers`` are the keys of those that this node runs. ``progress`` is told what happens; ``wait`` sleeps so many
    seconds, and says whether the node is to stop.
    """

    def __init__(
        self,
        directory: QueryDirectory,
        part: AssignedQuery,
        *,
        writers: Sequence[str],
        dialer: Dialer,
        progress: Callable[[str], None],
        wait: Callable[[float], bool],
    ) -> None:
        self._directory = directory
        self._part = part
        self._writers = writers
        self._dialer = dialer
        self._progress = progress
        self._wait = wait
        self._empty: set[str] = set()
        self._last_error: AnabranchError | None = None

    # --- from outside ----------------------------------------------------------------------------------------------

    def if_empty(self) -> bool:
        """At the start of a node without state: takes that of a sibling which has some. Returns whether it did.

        A sibling that is not there, or has read nothing either, is not waited for: in a new deployment all of them
        begin so. Whether there is something that this node has lost, those that it reads will say. A node with writers
        waits for their word: if it is new, its writers must begin with the first tuple.
        """
        if not self._part.siblings or self._writers or _has_read(self._directory, self._part):
            return False
        return self._attempt()

    def until_done(self) -> bool:
        """Tries all siblings, again and again, for as long as it takes. Returns False if the node is to stop.

        StateError if all of them say that they have nothing: then there is nothing left to wait for.
        """
        backoff = RECONNECT
        while not self._attempt():
            if self._empty == self._part.siblings.keys():
                raise StateError(
                    f"{self._part.called} has lost its state, and so has every node that it could be rebuilt "
                    f"from: {', '.join(sorted(self._empty))}.",
                    remedy="What was trimmed upstream is gone. Start over with empty state directories on all nodes.",
                )
            why = f": {self._last_error}" if self._last_error else ""
            self._progress(f"waiting for a node to rebuild from{why}")
            backoff = backoff.failed()
            if self._wait(backoff.wait_s):
                return False
        return True

    # --- one try ---------------------------------------------------------------------------------------------------

    def _attempt(self) -> bool:
        """Asks each sibling once at most, with a new life."""
        self._empty.clear()
        life = secrets.token_hex(8)
        asked: set[str] = set()
        state, actions = rebuild.begin(life, tuple(self._part.siblings))
        todo = deque(actions)
        while not self._wait(0):
            action = todo.popleft()
            if isinstance(action, rebuild.InstallSnapshot):
                self._install(action.life)
                return True
            if isinstance(action, rebuild.AskPeer):
                if action.peer in asked:
                    return False
                asked.add(action.peer)
            event = self._perform(action)
            if event is not None:
                state, actions = rebuild.handle(state, event)
                todo.extend(actions)
            if not todo:  # all that was asked has answered, or will not
                state, actions = rebuild.handle(state, rebuild.NobodyAnswered())
                todo.extend(actions)
        return False

    def _perform(self, action: rebuild.AskPeer | rebuild.ReservePlace | rebuild.AskSnapshot) -> rebuild.Event | None:
        """What came of it; None if nothing did."""
        try:
            match action:
                case rebuild.AskPeer():
                    return self._ask(action.peer)
                case rebuild.ReservePlace():
                    return self._reserve(action)
                case rebuild.AskSnapshot():
                    return self._fetch(action.peer)
        except AnabranchError as error:
            self._last_error = error
            _log.info("A step of the rebuild failed: %s", error)
            return None

    def _client(self, node: str, address: str, timeout_s: float = _ASK_S) -> Client:
        return self._dialer.dial(node, address, timeout_s)

    def _ask(self, peer: str) -> rebuild.Event | None:
        with self._client(peer, self._part.siblings[peer]) as client:
            told = client.places(self._part.reader)
        changes = describe_changes(dict(told.belongs_to), self._directory.belongs_to)
        if changes:
            raise ConfigError(
                f"{self._part.called} cannot be rebuilt from {peer}: {'; '.join(changes)}.",
                remedy="Deploy the same query, tables and version to all nodes.",
            )
        places = {(stream, copy): at for stream, copies in told.places.items() for copy, at in copies.items()}
        if not any(position is not None and position.id for position in places.values()):
            self._empty.add(peer)
            return None
        self._progress(f"rebuilding from {peer}")
        return rebuild.PeerTold(peer=peer, life=told.life, places=places)

    def _reserve(self, place: rebuild.ReservePlace) -> rebuild.Event | None:
        stream, copy = place.input
        with self._client(copy, self._part.upstream[stream][copy]) as client:
            client.reserve_copy(
                CopyReservation(
                    stream=stream,
                    reader=replica_reader(self._part.reader),
                    life=place.life,
                    like=replica_reader(self._part.reader_at(place.like)),
                    like_life=place.like_life,
                    position=place.position,
                )
            )
        return rebuild.PlaceReserved(life=place.life, input=place.input)

    # --- what arrives ----------------------------------------------------------------------------------------------

    def _fetch(self, peer: str) -> rebuild.Event | None:
        target = self._directory.arriving()
        with self._client(peer, self._part.siblings[peer]) as client, client.snapshot(self._part.reader) as snapshot:
            try:
                write_pieces(self._watched(iter(snapshot), peer), target)
            except OSError as error:
                raise DiskFull(
                    f"The state of {peer} cannot be written to {target}: {error.strerror or error}.",
                    remedy="Free space on that file system; the rebuild then continues by itself.",
                ) from error
            return rebuild.SnapshotArrived(peer=peer, life=snapshot.life)

    def _watched(self, pieces: Iterator[SnapshotPiece], peer: str) -> Iterator[SnapshotPiece]:
        size, said = 0, time.monotonic()
        for piece in pieces:
            if self._wait(0):
                raise StateError("The node was stopped before it was rebuilt.")
            size += len(piece.bytes)
            if time.monotonic() - said >= _SAY_S:
                self._progress(f"rebuilding from {peer}: {size >> 20} MiB")
                said = time.monotonic()
            yield piece

    def _install(self, life: str) -> None:
        arrived = self._directory.path / "arriving"
        make_own(arrived, self._part, self._writers)
        make_durable(arrived)
        self._directory.install(life)
        self._progress("rebuilt")


def write_pieces(pieces: Iterator[SnapshotPiece], target: Path) -> None:
    """Files as a peer sends them, each checked by its digest."""
    with ExitStack() as opened:
        file: IO[bytes] | None = None
        digest: Any = None
        for piece in pieces:
            if file is None:
                path = target / _safe(piece.path)
                path.parent.mkdir(parents=True, exist_ok=True)
                file, digest = opened.enter_context(path.open("xb")), hashlib.sha256()
            file.write(piece.bytes)
            digest.update(piece.bytes)
            if piece.digest is not None:
                opened.close()
                file = None
                if piece.digest != digest.hexdigest():
                    raise StateError(f"{piece.path} of a peer arrived damaged.", remedy="It will be fetched again.")


def _safe(path: str) -> PurePosixPath:
    """A path that leads nowhere else."""
    found = PurePosixPath(path)
    if found.is_absolute() or ".." in found.parts or not found.parts or found.parts[0] not in _PARTS:
        raise ConfigError(f"A peer sent a file {path!r}, which is not part of a node's state.")
    return found


def make_own(directory: Path, part: AssignedQuery, writers: Sequence[str]) -> None:
    """What was a peer's becomes a state of its own: nobody takes its positions and checkpoints for those of the peer's.

    Replicas that read the peer's logs keep their places and floors in the copy. Its clients and writers do not; the
    writers of this node have lost their places.
    """
    readers = {INLET_READER} | {stage_reader(stage.name) for stage in part.stages}
    readers |= {replica_reader(name) for names in part.readers.values() for name in names}
    for path in sorted(directory.glob("*/*.db")):
        store = Store.open(path)
        try:
            checkpoint = directory / "checkpoints" / path.stem
            with store.transaction() as transaction:
                transaction.begin_incarnations()
                forget_places(transaction, writers)
                if path.parent.name == "stages" and (checkpoint / "metadata").exists():
                    transaction.rename_lineage(begin_lineage(checkpoint))
                for name, log in store.logs.items():
                    for reader in (log.readers().keys() | log.cut_off()) - readers:
                        transaction.remove_reader(name, reader)
        finally:
            store.close()


def _has_read(directory: QueryDirectory, part: AssignedQuery) -> bool:
    """Whether the node has read anything, or has begun to."""
    for stream in part.upstream:
        path = directory.inlet_file(stream)
        if path.exists():
            store = Store.open(path)
            try:
                if stored_positions(store, stream):
                    return True
            finally:
                store.close()
    return False
