"""One transaction of a store: the only way in which anything in it changes.

Each operation writes through the store's one writing connection and keeps the state that the logs will have; the store
publishes these states after COMMIT, or throws them away. Must not commit, notify or keep anything by itself.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from anabranch import failpoints
from anabranch.errors import Overloaded, StreamNotFound, check
from anabranch.limits import READERS
from anabranch.storage import codec
from anabranch.storage.bodies import Bodies
from anabranch.storage.codec import EncodedRows
from anabranch.storage.connection import Connection, one_row
from anabranch.storage.state import (
    LogSpec,
    LogState,
    Mark,
    Recent,
    raise_punctuations,
    refuse_cut_off,
    refuse_difference,
    refuse_not_held,
)
from anabranch.storage.trimming import TRIM_SEGMENTS, last_doomed, slowest_in_the_way

SEGMENT_OVERHEAD_BYTES: Final = 64
"""What a segment counts besides its contents, so that segments without rows reach the limit of a log, too."""

STATEMENT_BYTES: Final = 64 << 10
"""What a statement adds to the write-ahead log beside its values, roughly and at most: four pages."""

LEDGER_BATCHES: Final = 100
"""Batches that the ledger remembers. Only the last one decides anything; the others are for people who look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What an append added: segments ``first_seq`` to ``last_seq`` and rows ``first_id`` to ``last_id``, maybe none."""

    log: str
    first_seq: int
    last_seq: int
    first_id: int
    last_id: int
    bytes: int

    @property
    def rows(self) -> int:
        return self.last_id - self.first_id + 1

    @property
    def segments(self) -> int:
        return self.last_seq - self.first_seq + 1


@dataclass(frozen=True, slots=True)
class _Body:
    """What a new segment holds, with the largest stream time of each origin in it."""

    body: bytes | memoryview | pa.Buffer | None
    count: int
    tops: Mapping[str, int]


_NO_ROWS: Final = _Body(None, 0, {})


@dataclass(frozen=True, slots=True)
class Oldest:
    """A segment that could be trimmed: its last row, and the largest stream time of each origin in it."""

    seq: int
    last_id: int
    tops: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A micro-batch that was logged: its checkpoint lineage and number, what it read, the watermark it ran with."""

    lineage: str
    batch_id: int
    ranges: str
    watermark_us: int


class Transaction:
    """Everything done here becomes durable together, when the ``with`` block of ``Store.transaction`` ends."""

    def __init__(self, connection: Connection, bodies: Bodies, states: Mapping[str, LogState]) -> None:
        self._connection = connection
        self._bodies = bodies
        self._states = dict(states)
        self.written: Final[list[str]] = []
        """Files that are named by nothing unless this is committed."""
        self.doomed: Final[list[str]] = []
        """Files that are named by nothing once this is committed."""
        self.logged_bytes = 0
        """By how much the write-ahead log may have grown, roughly."""
        self._over = False
        self._failed = False

    # --- logs ------------------------------------------------------------------------------------------------------

    def append(
        self,
        log: str,
        rows: pa.RecordBatch | pa.Table | None,
        punctuations: Mapping[str, int],
        *,
        now_us: int,
        force: bool = False,
    ) -> Appended:
        """Append rows, and after them the punctuations that they and all earlier rows keep.

        Without rows and news nothing is appended, unless ``force`` asks for a segment that repeats what is known.
        """
        before = self._state(log)
        batches = codec.split(rows, before.stored_schema)
        for batch in batches:
            codec.check_rows(batch, before.punctuations, before.spec.origins)
        origins = before.spec.origins
        found = [
            _Body(codec.encode_rows(batch), batch.num_rows, codec.largest_times(batch, origins)) for batch in batches
        ]
        return self._append(before, found, punctuations, now_us=now_us, force=force)

    def append_encoded(
        self, log: str, rows: Sequence[EncodedRows], punctuations: Mapping[str, int], *, now_us: int
    ) -> Appended:
        """The same for rows that are encoded already, each the body of a segment."""
        before = self._state(log)
        for each in rows:
            codec.check_encoded(each, before.punctuations, before.codes)
        found = [_Body(each.body, each.count, {each.origin: each.highest_us}) for each in rows]
        return self._append(before, found, punctuations, now_us=now_us)

    def _append(
        self,
        before: LogState,
        bodies: Sequence[_Body],
        punctuations: Mapping[str, int],
        *,
        now_us: int,
        force: bool = False,
    ) -> Appended:
        raised = raise_punctuations(before, punctuations)
        state, log = before, before.spec.name
        for body in bodies[:-1]:
            state = self._add_segment(state, body, before.punctuations, now_us)
        if bodies or force or raised != before.punctuations:
            state = self._add_segment(state, bodies[-1] if bodies else _NO_ROWS, raised, now_us)
        self._states[log] = state
        return Appended(
            log=log,
            first_seq=before.end.seq + 1,
            last_seq=state.end.seq,
            first_id=before.end.id + 1,
            last_id=state.end.id,
            bytes=state.end.bytes - before.end.bytes,
        )

    def trim(self, log: str, *, now_us: int) -> int:
        """Delete segments that every named reader has acknowledged; without readers, what is too old or too much.

        Returns how many; a bounded number at a time, so call it again after TRIM_SEGMENTS.
        """
        last = last_doomed(self._connection, self._state(log), now_us)
        return self.trim_through(log, last) if last else 0

    def trim_through(self, log: str, seq: int) -> int:
        """Delete the segments up to this one, which is held. Who may need them was decided before. Returns how many."""
        before = self._state(log)
        row = self._one_row(
            "SELECT last_id, end_bytes, punctuations FROM segments WHERE log = ? AND seq = ?", (before.number, seq)
        )
        check(row is not None, f"Log {log!r} was to be trimmed up to segment {seq}, which it does not hold.")
        last_id, end_bytes, punctuations = row or ()
        mark = Mark(seq, last_id, end_bytes)
        tops = self._tops_through(before, mark.seq)
        files = "SELECT file FROM segments WHERE log = ? AND seq <= ? AND file IS NOT NULL"
        self.doomed.extend(self._column(files, (before.number, mark.seq)))
        self._execute("DELETE FROM segments WHERE log = ? AND seq <= ?", (before.number, mark.seq))
        self.logged_bytes += end_bytes - before.trimmed.bytes  # pages that become free
        self._execute(
            "UPDATE logs SET trimmed_seq = ?, trimmed_id = ?, trimmed_bytes = ?, trimmed_punctuations = ?, "
            "trimmed_tops = ? WHERE log = ?",
            (mark.seq, mark.id, mark.bytes, punctuations, codec.encode_punctuations(tops, before.codes), before.number),
        )
        failpoints.reach("log.trim")
        known = codec.decode_punctuations(punctuations, before.spec.origins)
        self._states[log] = replace(before, trimmed=mark, trimmed_punctuations=known, trimmed_tops=tops)
        return mark.seq - before.trimmed.seq

    def begin_incarnation(self, log: str, floors: Mapping[str, int] | None = None) -> None:
        """Positions in the log mean something else from here on. With ``floors``, some tuples below these times will
        never be in it: it is as if they had been trimmed."""
        state = self._state(log)
        incarnation, tops = secrets.token_hex(8), dict(state.trimmed_tops)
        for origin, floor in (floors or {}).items():
            tops[origin] = max(floor - 1, tops.get(origin, 0))
        self._execute(
            "UPDATE logs SET incarnation = ?, trimmed_tops = ? WHERE log = ?",
            (incarnation, codec.encode_punctuations(tops, state.codes), state.number),
        )
        self._states[log] = replace(state, incarnation=incarnation, trimmed_tops=tops)

    def held_seq(self, log: str, seq: int) -> int:
        """This segment, or the last one that is gone already, as this transaction has it."""
        return max(seq, self._state(log).trimmed.seq)

    def oldest(self, log: str) -> list[Oldest]:
        """The oldest segments that are held: as many as one trim deletes at most."""
        state = self._state(log)
        rows = self._connection.execute(
            "SELECT seq, last_id, tops FROM segments WHERE log = ? ORDER BY seq LIMIT ?", (state.number, TRIM_SEGMENTS)
        ).fetchall()
        return [
            Oldest(seq, last_id, codec.decode_punctuations(tops, state.spec.origins)) for seq, last_id, tops in rows
        ]

    def make_room(self, log: str, now_us: int, *, keep: Set[str] = frozenset()) -> list[str]:
        """Trim; and while the log stays at its limit, cut off its slowest readers. Returns those cut off.

        A reader is cut off only for the good of a faster one: readers that are all equally far push back instead, and
        so do those in ``keep``, who cannot go on without what they have not read.
        """
        self.trim(log, now_us=now_us)
        cut: list[str] = []
        while slowest := slowest_in_the_way(self._connection, self._state(log), keep):
            for reader in slowest:
                self.cut_off(log, reader, now_us=now_us)
            cut += slowest
        if cut:
            self.trim(log, now_us=now_us)
        return cut

    # --- readers ---------------------------------------------------------------------------------------------------

    def add_reader(self, log: str, reader: str, *, at_seq: int) -> None:
        """Name a reader that has everything up to ``at_seq``. One that is known already stays where it is."""
        state = self._state(log)
        refuse_cut_off(state, reader)
        if reader in state.readers:
            return
        if len(state.readers) + len(state.cut_off) >= READERS:
            raise Overloaded(
                f"Log {log!r} has {READERS} named readers, the most it may have; {reader!r} was not added.",
                remedy="Remove a reader that is no longer used.",
            )
        refuse_not_held(state, reader, at_seq)
        self._execute("INSERT INTO readers (log, name, seq) VALUES (?, ?, ?)", (state.number, reader, at_seq))
        self._states[log] = replace(state, readers={**state.readers, reader: at_seq})

    def remove_reader(self, log: str, reader: str) -> None:
        """Forget a reader, also that it was cut off. An unknown one is no error: it may have been removed before."""
        state = self._state(log)
        self._execute("DELETE FROM readers WHERE log = ? AND name = ?", (state.number, reader))
        left = {name: seq for name, seq in state.readers.items() if name != reader}
        self._states[log] = replace(state, readers=left, cut_off=state.cut_off - {reader})

    def acknowledge(self, log: str, reader: str, seq: int) -> None:
        """The reader has everything up to ``seq`` durably. An older acknowledgement changes nothing."""
        state = self._state(log)
        refuse_cut_off(state, reader)
        if reader not in state.readers:
            raise StreamNotFound(
                f"Log {log!r} has no reader named {reader!r}.", remedy="Subscribe under this name first."
            )
        if seq <= state.readers[reader]:
            return
        refuse_not_held(state, reader, seq)
        self._execute("UPDATE readers SET seq = ? WHERE log = ? AND name = ?", (seq, state.number, reader))
        self._states[log] = replace(state, readers={**state.readers, reader: seq})

    def cut_off(self, log: str, reader: str, *, now_us: int) -> None:
        """Keep nothing for this reader any more, and tell it when it comes back."""
        state = self._state(log)
        self._execute("UPDATE readers SET cut_off_us = ? WHERE log = ? AND name = ?", (now_us, state.number, reader))
        left = {name: seq for name, seq in state.readers.items() if name != reader}
        self._states[log] = replace(state, readers=left, cut_off=state.cut_off | {reader})

    # --- small state and the ledger --------------------------------------------------------------------------------

    def put(self, key: str, value: bytes) -> None:
        self._execute("INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)", (key, value))
        self.logged_bytes += len(value)

    def remove(self, key: str) -> None:
        self._execute("DELETE FROM state WHERE key = ?", (key,))

    def get(self, key: str) -> bytes | None:
        """The value as this transaction has it."""
        row = self._one_row("SELECT value FROM state WHERE key = ?", (key,))
        return bytes(row[0]) if row else None

    def record_batch(self, batch: BatchRecord) -> None:
        """Note that a batch is logged. Whether it should be was decided before; twice would be a bug."""
        twice = self._one_row(
            "SELECT 1 FROM batches WHERE lineage = ? AND batch_id = ?", (batch.lineage, batch.batch_id)
        )
        check(twice is None, f"Batch {batch.batch_id} of lineage {batch.lineage!r} was to be logged twice.")
        self._execute(
            "INSERT INTO batches (lineage, batch_id, ranges, watermark_us) VALUES (?, ?, ?, ?)",
            (batch.lineage, batch.batch_id, batch.ranges, batch.watermark_us),
        )
        self._execute("DELETE FROM batches WHERE number <= (SELECT max(number) FROM batches) - ?", (LEDGER_BATCHES,))

    # --- a store that was copied from elsewhere --------------------------------------------------------------------

    def begin_incarnations(self) -> None:
        """From now on positions in the logs mean something else: the ids of readers elsewhere are not ours."""
        for name in list(self._states):
            self.begin_incarnation(name)

    def rename_lineage(self, lineage: str) -> None:
        """The checkpoint that the batches came from has got another id."""
        self._execute("UPDATE batches SET lineage = ?", (lineage,))

    # --- for the store ---------------------------------------------------------------------------------------------

    def create_log(self, spec: LogSpec) -> None:
        """Make the log, or find it as it was made; only its retention and its limit may change."""
        check(tuple(sorted(set(spec.origins))) == spec.origins, f"The origins of log {spec.name!r} are not sorted.")
        state = self._states.get(spec.name)
        if state is None:
            self._states[spec.name] = self._insert_log(spec)
            return
        refuse_difference(state.spec, spec)
        self._execute(
            "UPDATE logs SET retention_us = ?, limit_bytes = ? WHERE log = ?",
            (spec.retention_us, spec.limit_bytes, state.number),
        )
        self._states[spec.name] = replace(state, spec=spec)

    def finish(self) -> dict[str, LogState]:
        """No more operations; the states to publish once COMMIT has succeeded."""
        self._bodies.settle()
        self._over = True
        check(not self._failed, "A transaction was to be committed after one of its operations had failed.")
        return self._states

    # --- within ----------------------------------------------------------------------------------------------------

    def _state(self, log: str) -> LogState:
        state = self._states.get(log)
        if state is None:
            raise StreamNotFound(f"There is no log {log!r} in this store.")
        return state

    def _execute(self, sql: str, parameters: Sequence[Any]) -> None:
        """A statement without an answer: it is over when this returns."""
        self._check_open()
        self.logged_bytes += STATEMENT_BYTES
        try:
            self._connection.execute(sql, parameters)
        except BaseException:
            self._failed = True
            raise

    def _check_open(self) -> None:
        # SQLite ends a transaction by itself on some errors; a statement after that would commit alone.
        check(not self._over and self._connection.in_transaction, "A transaction was used after it had ended.")

    def _one_row(self, sql: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        self._check_open()
        try:
            return one_row(self._connection, sql, parameters)
        except BaseException:
            self._failed = True
            raise

    def _column(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        self._check_open()
        return [row[0] for row in self._connection.execute(sql, parameters).fetchall()]

    def _tops_through(self, state: LogState, seq: int) -> dict[str, int]:
        """The largest time of each origin among all rows that ever were up to this segment."""
        largest = dict(state.trimmed_tops)
        for tops in self._column("SELECT tops FROM segments WHERE log = ? AND seq <= ?", (state.number, seq)):
            for origin, top in codec.decode_punctuations(tops, state.spec.origins).items():
                largest[origin] = max(top, largest.get(origin, top))
        return largest

    def _insert_log(self, spec: LogSpec) -> LogState:
        incarnation = secrets.token_hex(8)
        self._execute(
            "INSERT INTO logs (name, kind, incarnation, schema, origins, retention_us, limit_bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                spec.name,
                spec.kind,
                incarnation,
                codec.encode_schema(spec.schema),
                json.dumps(spec.origins),
                spec.retention_us,
                spec.limit_bytes,
            ),
        )
        row = self._one_row("SELECT log FROM logs WHERE name = ?", (spec.name,))
        check(row is not None, f"Log {spec.name!r} was inserted and is not there.")
        return LogState(
            number=row[0] if row else 0,
            spec=spec,
            incarnation=incarnation,
            end=Mark(0, 0, 0),
            trimmed=Mark(0, 0, 0),
            punctuations={},
            trimmed_punctuations={},
            trimmed_tops={},
            readers={},
            cut_off=frozenset(),
            stored_schema=codec.stored_schema(spec.schema),
            codes={origin: code for code, origin in enumerate(spec.origins)},
        )

    def _add_segment(self, state: LogState, rows: _Body, punctuations: Mapping[str, int], now_us: int) -> LogState:
        known = codec.encode_punctuations(punctuations, state.codes)
        tops = codec.encode_punctuations(rows.tops, state.codes)
        body = rows.body
        body_bytes = len(body) if body is not None else 0
        size = SEGMENT_OVERHEAD_BYTES + len(known) + body_bytes
        end = Mark(state.end.seq + 1, state.end.id + rows.count, state.end.bytes + size)
        file = None
        if body is not None and body_bytes >= self._bodies.large_bytes:
            file = self._bodies.write(body)
            self.written.append(file)
        else:
            self.logged_bytes += body_bytes
        self._execute(
            "INSERT INTO segments (log, seq, rows, last_id, end_bytes, appended_us, punctuations, tops, file, "
            "file_bytes, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(state.number, end.seq, rows.count, end.id, end.bytes, now_us, known, tops),
                *((None, None, body) if file is None else (file, body_bytes, None)),
            ),
        )
        return state.grown(end, Recent(end.seq, state.end.id + 1, body, punctuations, now_us))
