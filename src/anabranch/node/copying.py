"""The copies of streams that a node offers to replicas elsewhere: what each of them is sent, and what it acknowledges.

Rows and punctuations go out in log order (``pieces``). A reader that asks again ends its earlier read. One that is cut
off is sent no more until it asks again; it may read on then, but nothing is kept for it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set

from anabranch import limits
from anabranch.core.horizon import Slowest
from anabranch.core.readers import PositionReserved, ReaderAcknowledged, ReaderSubscribed
from anabranch.errors import AnabranchError, NodeUnreachable, StreamNotFound, check
from anabranch.model.punctuation import Punctuations
from anabranch.node.pieces import pieces
from anabranch.node.serving import ServedLog
from anabranch.node.trimming import ROUNDS
from anabranch.storage.codec import stored_schema
from anabranch.storage.log import Log
from anabranch.transport.ports import CopyAcknowledgement, CopyAnswer, CopyPiece, CopyRequest, CopyReservation

Held = Callable[[str, Iterator[CopyPiece], Callable[[], bool]], Iterator[CopyPiece]]
"""The pieces of a stream, each when it may be seen, until it is over."""


class Copies:
    """The logs that other nodes read, by the name of their stream. Any thread may use it.

    ``keep`` says which readers of a log belong to the node itself, and are never cut off, ``fragments`` what the others
    run, of which one is left that counts. ``to_come`` has the streams that will be there when the node has started.
    ``held`` may let the pieces of a stream wait until a reader may see them. ``told`` hears from each reader how far
    its slowest origin is.
    """

    def __init__(
        self,
        logs: Mapping[str, ServedLog],
        *,
        keep: Callable[[str], Set[str]] = lambda _: frozenset(),
        fragments: Callable[[str], Mapping[str, str]] = lambda _: {},
        to_come: Container[str] = (),
        held: Held | None = None,
        told: Callable[[str, Slowest], None] = lambda _reader, _slowest: None,
    ) -> None:
        self._logs = logs
        self._held = held
        self._told = told
        self._keep = keep
        self._fragments = fragments
        self._to_come = to_come
        self._numbers = itertools.count()
        self._current: dict[tuple[str, str], int] = {}
        self._hold_us: dict[tuple[str, str], int] = {}
        """How long a reader lets a few rows of a stream wait, as it said last."""
        self._lock = threading.Lock()

    def read_copy(self, request: CopyRequest, cancelled: Callable[[], bool]) -> tuple[CopyAnswer, Iterator[CopyPiece]]:
        served = self._served(request.stream)
        key = request.stream, request.reader
        with self._lock:
            number = self._current[key] = next(self._numbers)
            self._hold_us.pop(key, None)
        served.log.wake()  # an earlier read of the same reader ends
        answer = served.subscribed(
            ReaderSubscribed(
                reader=request.reader,
                life=request.life,
                position=request.position,
                punctuations=request.punctuations,
            )
        )

        def over() -> bool:
            return cancelled() or self._current[key] != number

        # What is held until a partner has it moves on with every piece, also with one that says nothing.
        quiet_s = limits.COPY_QUIET_S if self._held is None else limits.FOLLOW_WAIT_S
        sent = _pieces(served, request.reader, answer.first_id, over, quiet_s, lambda: self._hold_s(key))
        return (
            CopyAnswer(
                incarnation=answer.incarnation,
                first_id=answer.first_id,
                floors=answer.floors,
                earlier_life=answer.earlier_life,
                origins=served.log.spec.origins,
                schema=stored_schema(served.log.spec.schema),
            ),
            sent if self._held is None else self._held(request.stream, sent, over),
        )

    def trim(self, which: Callable[[Log], bool] = lambda _: True) -> list[tuple[str, str]]:
        """Forgets what all readers of these logs have; returns those that were cut off, as stream and reader."""
        chosen = [(stream, served) for stream, served in list(self._logs.items()) if which(served.log)]
        cut_off = [(stream, reader) for stream, served in chosen for reader in self._trim(stream, served)]
        with self._lock:
            for key in cut_off:
                self._current[key] = next(self._numbers)
        for stream, _ in cut_off:
            self._logs[stream].log.wake()
        return cut_off

    def wake(self) -> None:
        for served in list(self._logs.values()):
            served.log.wake()

    def renew(self, stream: str, floors: Punctuations) -> None:
        """The copy will have a hole below these times. Whoever reads it asks again, and is told."""
        served = self._logs.get(stream)
        if served is None:
            return
        served.renewed(floors)
        with self._lock:
            for key in self._current:
                if key[0] == stream:
                    self._current[key] = next(self._numbers)
        served.log.wake()

    def acknowledge_copies(self, acknowledgements: Sequence[CopyAcknowledgement]) -> None:
        """One that cannot be taken, because its stream is not there, holds up no other."""
        refused: AnabranchError | None = None
        for each in acknowledgements:
            self._hold_us[each.stream, each.reader] = each.hold_us
            try:
                self._served(each.stream).acknowledged(
                    ReaderAcknowledged(
                        reader=each.reader, life=each.life, position=each.position, punctuations=each.punctuations
                    )
                )
            except (NodeUnreachable, StreamNotFound) as error:
                refused = error
            else:
                self._told(each.reader, Slowest(each.slowest_us, each.slowest_origin))
        if refused is not None:
            raise refused

    def reserve_copy(self, reservation: CopyReservation) -> None:
        served = self._served(reservation.stream)
        served.reserved(
            PositionReserved(
                reader=reservation.reader,
                life=reservation.life,
                like=reservation.like,
                like_life=reservation.like_life,
                position=reservation.position,
            )
        )

    def _hold_s(self, key: tuple[str, str]) -> float:
        return min(self._hold_us.get(key, 0), limits.BATCH_INTERVAL_US) / 1_000_000

    def _trim(self, stream: str, served: ServedLog) -> list[str]:
        cut_off: list[str] = []
        for _ in range(ROUNDS):
            before = served.log.first_seq()
            full, fragments = served.log.is_full(), self._fragments(stream)
            cut_off += served.trim(full=full, keep=self._keep(stream), fragment_of=fragments)
            if served.log.first_seq() == before:
                break
        return cut_off

    def _served(self, stream: str) -> ServedLog:
        served = self._logs.get(stream)
        if served is None and stream in self._to_come:
            raise NodeUnreachable(f"Stream {stream!r} is not available yet: the node is starting.")
        if served is None:
            known = ", ".join(sorted(self._logs)) or "none"
            raise StreamNotFound(
                f"This node has no copy of {stream!r} for replicas.", remedy=f"Check the deployment. It has: {known}."
            )
        return served


def _pieces(
    served: ServedLog,
    reader: str,
    first_id: int,
    over: Callable[[], bool],
    quiet_s: float,
    hold_s: Callable[[], float],
) -> Iterator[CopyPiece]:
    """The log from this tuple on, until the reader is cut off from it."""
    log = served.log
    yield from pieces(log, first_id, over, quiet_s=quiet_s, hold_s=hold_s)
    counts = not served.is_cut_off(reader)
    check(over() or not counts, f"Log {log.name!r} trimmed rows that reader {reader!r} still needs.")
