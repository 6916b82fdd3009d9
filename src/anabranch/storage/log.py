"""A log: numbered segments of rows with the punctuations in force after each, read from any position it holds.

This is the reading side. What changes often (the end, the punctuations, who has read how far) is a frozen ``LogState``
in memory, replaced only after the commit that changed it, so that it never shows what a crash could take back. Rows
come from SQLite, a few segments at a time. Must not write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from anabranch.errors import InvariantBroken, StateError, StreamNotFound, check
from anabranch.runtime.status import LogStatus, ReaderStatus
from anabranch.storage import codec
from anabranch.storage.bodies import Bodies
from anabranch.storage.connection import Connection, ReaderPool, one_row
from anabranch.storage.state import Bell, LogSpec, LogState, Mark, Published, Recent, find_mark, find_punctuations

__all__ = ["End", "Log", "LogSpec", "Segment"]

Found = TypeVar("Found")

READ_SEGMENTS: Final = 64
"""Segments that one read fetches at most: many small ones should not cost a query each."""

READ_BYTES: Final = 8 << 20
"""Bytes after which one read stops fetching: with the segment that passes it, what one reader holds in memory."""

_LOOKS: Final = 200
_LOOK_S: Final = 0.005
"""A second in all, for what takes a thread microseconds unless the machine is very busy."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One step of a log. ``first_id`` is the id of its first row, or of the next row to come when it has none.

    ``body`` has its rows as they are stored; who only passes them on need not look at them.
    """

    seq: int
    first_id: int
    body: bytes | memoryview | pa.Buffer | None
    schema: pa.Schema
    punctuations: Mapping[str, int]
    appended_us: int

    @cached_property
    def rows(self) -> pa.RecordBatch | None:
        return None if self.body is None else codec.decode_rows(self.body, self.schema)


class End(NamedTuple):
    """Where a log ends at one moment, and what it promises there."""

    seq: int
    last_id: int
    punctuations: Mapping[str, int]


class Log:
    """The reading side of one log. Any thread may use it."""

    def __init__(self, name: str, published: Published, readers: ReaderPool, bodies: Bodies) -> None:
        self.name: Final = name
        self._published = published
        self._pool = readers
        self._bodies = bodies

    @property
    def spec(self) -> LogSpec:
        return self._state.spec

    @property
    def incarnation(self) -> str:
        return self._state.incarnation

    def end_seq(self) -> int:
        return self._state.end.seq

    def end(self) -> End:
        state = self._state
        return End(state.end.seq, state.end.id, state.punctuations)

    def first_seq(self) -> int:
        """The first segment still held, or the next to come when none is."""
        return self._state.trimmed.seq + 1

    def last_id(self) -> int:
        return self._state.end.id

    def first_id(self) -> int:
        """The first row still held, or the next to come when none is."""
        return self._state.trimmed.id + 1

    def bytes(self) -> int:
        return self._state.bytes

    def readers(self) -> dict[str, int]:
        return dict(self._state.readers)

    def cut_off(self) -> frozenset[str]:
        """Readers that were cut off, and have not been removed yet."""
        return self._state.cut_off

    def is_full(self) -> bool:
        """Whether a writer must wait for readers. A log without named readers forgets its oldest rows instead."""
        state = self._state
        return bool(state.readers) and state.bytes >= state.spec.limit_bytes

    def punctuations(self) -> dict[str, int]:
        return dict(self._state.punctuations)

    def punctuations_at(self, seq: int) -> dict[str, int]:
        """The punctuations in force after ``seq``."""
        found = {} if seq == 0 else self._look(seq, find_punctuations)
        if found is None:
            raise StateError(
                f"Log {self.name!r} does not know its punctuations after segment {seq}: "
                f"it holds segments {self.first_seq()} to {self.end_seq()}.",
                remedy="Start the reader from a position that the log still holds.",
            )
        return found

    def latest_seq(self, after_seq: int, max_rows: int) -> int:
        """The furthest segment with no more than ``max_rows`` rows after ``after_seq``; but at least one segment."""
        state = self._state
        held = state.end.id - state.trimmed.id
        if after_seq == state.end.seq or (held <= max_rows and state.trimmed.seq <= after_seq <= state.end.seq):
            return state.end.seq
        start = self._mark(after_seq)
        with self._pool.connection() as connection:
            furthest = one_row(
                connection,
                "SELECT seq FROM segments WHERE log = ? AND last_id <= ? ORDER BY last_id DESC, seq DESC LIMIT 1",
                (state.number, start.id + max_rows),
            )
        return max(min(furthest[0], state.end.seq) if furthest else 0, after_seq + 1)

    def rows_between(self, after_seq: int, to_seq: int) -> int:
        return self._mark(to_seq).id - self._mark(after_seq).id

    def rows_held(self) -> int:
        return self._state.end.id - self._state.trimmed.id

    def id_at(self, seq: int) -> int:
        """The last row up to this segment."""
        return self._mark(seq).id

    def rows_after(self, seq: int) -> int:
        """How far behind a reader at ``seq`` is: the rows after it that are still held."""
        mark = self._look(seq, find_mark) or self._state.trimmed
        return max(0, self._state.end.id - mark.id)

    def seq_before_id(self, id: int) -> int:
        """The last segment that lies wholly before row ``id``: a reader that wants ``id`` reads after it."""
        state = self._state
        if not state.trimmed.id < id <= state.end.id + 1:
            raise StreamNotFound(
                f"Log {self.name!r} has no row {id}: it holds rows {state.trimmed.id + 1} to {state.end.id}.",
                remedy="Subscribe from the beginning, from now, or by punctuation.",
            )
        with self._pool.connection() as connection:
            row = one_row(
                connection,
                "SELECT seq FROM segments WHERE log = ? AND last_id < ? ORDER BY last_id DESC, seq DESC LIMIT 1",
                (state.number, id),
            )
        return min(row[0], state.end.seq) if row else state.trimmed.seq

    def seq_before_times(self, punctuations: Mapping[str, int]) -> int:
        """The last segment before which no held row is at or above these times: a reader that has everything below
        them reads after it."""
        state = self._state
        with self._pool.connection() as connection:
            cursor = connection.execute(
                "SELECT seq, tops FROM segments WHERE log = ? AND seq <= ? ORDER BY seq", (state.number, state.end.seq)
            )
            try:
                for seq, encoded in cursor:
                    tops = codec.decode_punctuations(encoded, state.spec.origins)
                    if any(top >= punctuations.get(origin, 0) for origin, top in tops.items()):
                        return int(seq) - 1
            finally:
                cursor.close()
        return state.end.seq

    def floors(self) -> dict[str, int]:
        """Per origin, 1 us above the largest time that was trimmed: from there on everything is held."""
        return {origin: top + 1 for origin, top in self._state.trimmed_tops.items()}

    def seq_before_last(self, rows: int, bytes_: int) -> int:
        """The first place after which no more than so many rows and bytes are held."""
        state = self._state
        first_id, first_bytes = state.end.id - rows, state.end.bytes - bytes_
        if state.trimmed.id >= first_id and state.trimmed.bytes >= first_bytes:
            return state.trimmed.seq
        with self._pool.connection() as connection:
            row = one_row(
                connection,
                "SELECT seq FROM segments WHERE log = ? AND last_id >= ? AND end_bytes >= ? "
                "ORDER BY last_id, seq LIMIT 1",
                (state.number, first_id, first_bytes),
            )
        return min(row[0], state.end.seq) if row else state.end.seq

    def tops(self, through_seq: int | None = None) -> dict[str, int]:
        """The largest time of each origin among all rows that there ever were, up to this segment if one is given."""
        state, rows = self._held_tops(through_seq)
        largest = dict(state.trimmed_tops)
        for encoded in rows:
            for origin, top in codec.decode_punctuations(encoded, state.spec.origins).items():
                largest[origin] = max(top, largest.get(origin, top))
        return largest

    def read(self, after_seq: int, to_seq: int) -> Iterator[Segment]:
        """The segments after ``after_seq`` up to ``to_seq``, lazily: no more than a few are in memory at a time."""
        state = self._state
        if to_seq > state.end.seq:
            raise self._not_held(state, to_seq)
        if after_seq < state.trimmed.seq and after_seq < to_seq:
            raise self._not_held(state, after_seq + 1)
        return self._segments(state, after_seq, to_seq)

    def is_at_hand(self, after_seq: int, to_seq: int) -> bool:
        """Whether ``read`` finds these segments, of which there is one at least, in memory: they are few and small."""
        recent = self._published.recent(self.name)
        return bool(recent) and recent[0].seq <= after_seq + 1 <= to_seq <= recent[-1].seq

    def wait_beyond(self, seq: int, timeout_s: float) -> bool:
        """Wait until there is a segment after ``seq``; False when the time is over, the store closed or someone was to
        look around without one."""
        return self._published.wait_beyond(self.name, seq, timeout_s)

    def wait_row(self, id: int, timeout_s: float) -> bool:
        """Wait until there is a row ``id``; False as for ``wait_beyond``. Fewer rows wake nobody."""
        return self._published.wait_row(self.name, id, timeout_s)

    def wake(self) -> None:
        """Whoever waits for a log of this store looks around, whether it is still wanted."""
        self._published.wake()

    def on_growth(self, bell: Bell) -> None:
        """From now on ``bell`` is rung for each new segment."""
        self._published.on_growth(self.name, bell)

    def on_follower(self, bell: Bell) -> None:
        """From now on ``bell`` is rung when somebody follows the log and nobody did."""
        self._published.on_follower(self.name, bell)

    def followed(self) -> AbstractContextManager[None]:
        """While somebody waits for what comes next: ``is_read``."""
        return self._published.followed(self.name)

    @property
    def is_read(self) -> bool:
        """Whether anybody waits for what comes next: a named reader, also one that is away, or a follower."""
        return bool(self._state.readers) or self._published.is_followed(self.name)

    def statistics(self) -> LogStatus:
        state = self._state
        return LogStatus(
            kind=state.spec.kind,
            incarnation=state.incarnation,
            segments=state.end.seq - state.trimmed.seq,
            rows=state.end.id - state.trimmed.id,
            bytes=state.bytes,
            limit_bytes=state.spec.limit_bytes,
            first_id=state.trimmed.id + 1,
            last_id=state.end.id,
            first_seq=state.trimmed.seq + 1,
            end_seq=state.end.seq,
            rows_in=state.end.id,
            bytes_in=state.end.bytes,
            punctuations=dict(state.punctuations),
            readers={name: ReaderStatus(seq=seq, lag_rows=self.rows_after(seq)) for name, seq in state.readers.items()},
            cut_off=tuple(sorted(state.cut_off)),
        )

    @property
    def _state(self) -> LogState:
        return self._published.state(self.name)

    def _segments(self, state: LogState, after_seq: int, to_seq: int) -> Iterator[Segment]:
        while after_seq < to_seq:
            recent = self._published.recent(self.name)
            if recent and recent[0].seq <= after_seq + 1:
                yield from _remembered(recent, state.stored_schema, after_seq, to_seq)
                return
            try:
                with self._pool.connection() as connection:
                    fetched = _fetch(connection, self._bodies, state, after_seq, to_seq)
            except FileNotFoundError:
                fetched = []
            if not fetched or fetched[0].seq != after_seq + 1:  # trimmed while we were reading
                raise self._not_held(self._state, after_seq + 1)
            for segment in fetched:
                check(segment.seq == after_seq + 1, f"Log {self.name!r} has a hole after segment {after_seq}.")
                after_seq = segment.seq
                yield segment

    def _held_tops(self, through_seq: int | None) -> tuple[LogState, list[Any]]:
        """The tops of the segments that a state holds. A trim is in the file a moment before it is published: then
        some of them are gone that ``trimmed_tops`` does not cover yet, and we look again."""
        for _ in range(_LOOKS):
            state = self._state
            through = state.end.seq if through_seq is None else min(through_seq, state.end.seq)
            with self._pool.connection() as connection:
                rows = connection.execute(
                    "SELECT tops FROM segments WHERE log = ? AND seq > ? AND seq <= ?",
                    (state.number, state.trimmed.seq, through),
                ).fetchall()
            if len(rows) == max(0, through - state.trimmed.seq):
                return state, [encoded for (encoded,) in rows]
            time.sleep(_LOOK_S)
        raise InvariantBroken(f"Log {self.name!r} lacks segments that were not trimmed.")

    def _mark(self, seq: int) -> Mark:
        mark = self._look(seq, find_mark)
        if mark is None:
            raise self._not_held(self._state, seq)
        return mark

    def _look(self, seq: int, find: Callable[[Connection, LogState, int], Found | None]) -> Found | None:
        """What the log knows of ``seq``. A trim is in the file a moment before it is published: then look again."""
        for _ in range(_LOOKS):
            state = self._state
            with self._pool.connection() as connection:
                found = find(connection, state, seq)
            if found is not None or not state.trimmed.seq < seq < state.end.seq:
                return found
            time.sleep(_LOOK_S)
        return None

    def _not_held(self, state: LogState, seq: int) -> StreamNotFound:
        return StreamNotFound(
            f"Log {self.name!r} does not hold segment {seq}: it holds {state.trimmed.seq + 1} to {state.end.seq}.",
            remedy="Subscribe from a position that the log still holds.",
        )


def _remembered(recent: Sequence[Recent], schema: pa.Schema, after_seq: int, to_seq: int) -> Iterator[Segment]:
    """Those of the last segments that are between these places."""
    for each in recent:
        if after_seq < each.seq <= to_seq:
            yield Segment(
                seq=each.seq,
                first_id=each.first_id,
                body=each.body,
                schema=schema,
                punctuations=each.punctuations,
                appended_us=each.appended_us,
            )


def _fetch(connection: Connection, bodies: Bodies, state: LogState, after_seq: int, to_seq: int) -> list[Segment]:
    cursor = connection.execute(
        "SELECT seq, rows, last_id, appended_us, punctuations, file, file_bytes, body FROM segments "
        "WHERE log = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (state.number, after_seq, to_seq, READ_SEGMENTS),
    )
    segments: list[Segment] = []
    size = 0
    try:
        for seq, rows, last_id, appended_us, punctuations, file, file_bytes, inline in cursor:
            body = bodies.read(file, file_bytes) if file is not None else inline
            segments.append(
                Segment(
                    seq=seq,
                    first_id=last_id - rows + 1,
                    body=body,
                    schema=state.stored_schema,
                    punctuations=codec.decode_punctuations(punctuations, state.spec.origins),
                    appended_us=appended_us,
                )
            )
            size += len(body or b"")
            if size >= READ_BYTES:
                break
    finally:
        cursor.close()
    return segments
