"""A subscription in canonical order: by stream time, then origin, then number.

A tuple is held until every origin of the stream has promised to send nothing before it: then all that is to stand in
front of it has come, from whichever copy and in whichever order. So what comes out is the same sequence for every
reader of every replica, later than it could come by as much as the slowest origin lags behind. What is held is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import ConfigError, Overloaded
from anabranch.limits import ORDERED_BYTES
from anabranch.model.header import KIND, ORIGIN, STIME, TID, Kind
from anabranch.model.times import format_time
from anabranch.transport.tuples import boundaries

CANONICAL: Final = [(STIME, "ascending"), (ORIGIN, "ascending"), (TID, "ascending")]

P = TypeVar("P")


class Unordered(Protocol[P]):
    """What can be put in order: any subscription. Its place says how far it has handed out."""

    @property
    def stream(self) -> str: ...

    @property
    def reader(self) -> str | None: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def origins(self) -> tuple[str, ...]: ...

    @property
    def place(self) -> P: ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def acknowledge(self, place: P | None = None) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Held(Generic[P]):
    """Tuples that wait, between these times, and the place of the subscription before they had come."""

    rows: pa.RecordBatch
    first_us: int
    last_us: int
    before: P


class OrderedSubscription(Generic[P]):
    """Iterates the tuples of a subscription in canonical order (wire schema), each group followed by its boundaries.

    A boundary is the same time for all origins: nothing that comes later, of any origin, lies below it. ``place`` is
    that of the subscription up to which everything has been handed out. A read that does not follow ends with what is
    still held, in order. More than ``limits.ORDERED_BYTES`` is not held: then ``Overloaded`` names the slowest origin.
    """

    def __init__(self, subscription: Unordered[P]) -> None:
        if not subscription.origins:
            raise ConfigError(
                f"Stream {subscription.stream!r} has no punctuation, so it cannot be put in order.",
                remedy="Read it without ordering.",
            )
        self.stream: Final = subscription.stream
        self.reader: Final = subscription.reader
        self.schema: Final = subscription.schema
        self.place: P = subscription.place
        self._subscription: Final = subscription
        self._punctuations: dict[str, int] = dict.fromkeys(subscription.origins, 0)
        self._passed_us = 0
        self._held: list[_Held[P]] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        before = self._subscription.place
        for batch in self._subscription:
            self._hold(batch, before)
            before = self._subscription.place
            yield from self._released()
        yield from self._sorted([held.rows for held in self._held], self._subscription.place)
        self._held = []

    def acknowledge(self, place: P | None = None) -> None:
        """Tell the node, or each copy, that this named reader needs nothing up to ``place`` any more."""
        self._subscription.acknowledge(self.place if place is None else place)

    def close(self) -> None:
        self._subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def held_bytes(self) -> int:
        return sum(held.rows.nbytes for held in self._held)

    def _hold(self, batch: pa.RecordBatch, before: P) -> None:
        is_boundary = pc.equal(batch.column(KIND), pa.scalar(int(Kind.BOUNDARY), pa.int8()))
        said = batch.filter(is_boundary)
        times = said.column(STIME).cast(pa.int64()).to_pylist()
        for origin, time in zip(said.column(ORIGIN).to_pylist(), times, strict=True):
            if origin in self._punctuations:
                self._punctuations[origin] = max(time, self._punctuations[origin])
        rows = batch.filter(pc.invert(is_boundary)) if said.num_rows else batch
        if rows.num_rows:
            self._held.append(_held(rows, before))
            self._check_room()

    def _check_room(self) -> None:
        size = self.held_bytes
        if size > ORDERED_BYTES:
            slowest = min(self._punctuations, key=lambda origin: (self._punctuations[origin], origin))
            raise Overloaded(
                f"{size:,} bytes of stream {self.stream!r} are waiting to be put in order: the punctuation of "
                f"origin {slowest!r} is still at {format_time(self._punctuations[slowest])}.",
                remedy="Read it without ordering, or check with `anabranch status` what that origin is waiting for.",
            )

    def _released(self) -> Iterator[pa.RecordBatch]:
        """What all origins have passed now."""
        passed_us = min(self._punctuations.values())
        if passed_us <= self._passed_us:
            return
        self._passed_us = passed_us
        out: list[pa.RecordBatch] = []
        left: list[_Held[P]] = []
        for held in self._held:
            if held.first_us >= passed_us:
                left.append(held)
            elif held.last_us < passed_us:
                out.append(held.rows)
            else:
                over = pc.less(held.rows.column(STIME).cast(pa.int64()), passed_us)
                out.append(held.rows.filter(over))
                left.append(_held(held.rows.filter(pc.invert(over)), held.before))
        self._held = left
        place = left[0].before if left else self._subscription.place
        yield from self._sorted(out, place)
        self.place = place
        yield boundaries(dict.fromkeys(self._punctuations, passed_us), self.schema)

    def _sorted(self, batches: list[pa.RecordBatch], place: P) -> Iterator[pa.RecordBatch]:
        if batches:
            ordered = pa.Table.from_batches(batches).sort_by(CANONICAL).combine_chunks().to_batches()
            yield from ordered[:-1]
            self.place = place
            yield ordered[-1]


def _held(rows: pa.RecordBatch, before: Any) -> _Held[Any]:
    times = pc.min_max(rows.column(STIME).cast(pa.int64())).as_py()
    return _Held(rows, times["min"], times["max"], before)
