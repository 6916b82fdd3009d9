"""What a box that depends on order keeps between batches: shards of its groups, and the parts of a shard.

A shard is a share of the groups: that of one partition of Spark's state. What it keeps is rows: those that the
punctuation has not reached, and those that the box wants to see again. A box has no other state, so nothing is left of
a group of which no rows are kept.

A value of the state is read and written as a whole. So the rows of a shard are divided by group into parts of a bounded
size, more of them as there are more rows: a batch reads and writes only those parts that have new rows, or something to
do at this watermark. A summary says which these are. The state itself is read and written in the JVM
(``jvm/anabranch/Visit.java``): it sends a worker the summary, the new rows and these parts, and keeps what comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from anabranch.engine.ordered import NEVER, OrderedBox, work_off
from anabranch.engine.packing import GROUP, decode, encode, numbers
from anabranch.limits import SEGMENT_ROWS, WINDOW_PART_BYTES, WINDOW_PARTS
from anabranch.model.times import MS

RETURNED: Final = "kind int, part int, value binary"
"""What a worker answers with: packed rows that the box made, and what is to be kept; NULL of what is no more."""

_MADE: Final = 0
_KEPT: Final = 1
_SUMMARY: Final = -1
"""The summary, among the parts."""


class _Sent(IntEnum):
    """What the rows are that a worker gets. The summary is the first; its value is NULL if there is none."""

    SUMMARY = 0
    ROWS = 1
    PART = 2


_SHRINK: Final = 8
"""Parts are put together when they could be so many times larger: far from where they are divided."""


class PartStore(Protocol):
    """Where the parts of one shard lie."""

    def get(self, part: int) -> bytes: ...

    def put(self, part: int, rows: bytes) -> None: ...

    def remove(self, part: int) -> None: ...


class Shard:
    """The rows of one shard. ``summary`` is None for one that has none."""

    def __init__(self, store: PartStore, summary: bytes | None, box: OrderedBox) -> None:
        self._store = store
        self._box = box
        read = np.array([0, 1, 0, NEVER]) if summary is None else np.frombuffer(summary, np.int64)
        self._since_us = int(read[0])
        """The watermark of the last visit: all rows below it have been handed to the box."""
        self._wanted = int(read[1])
        """How many parts there should be. If there are not, all of them are at hand."""
        self._bytes, self._wakes = read[2:].reshape(2, -1).copy()
        """Per part, its bytes, and the smallest watermark at which there is something to do."""

    @property
    def summary(self) -> bytes | None:
        if not self._bytes.any():
            return None
        return np.concatenate([[self._since_us, self._wanted], self._bytes, self._wakes]).tobytes()

    def visit(self, new: list[pa.RecordBatch], watermark_us: int) -> list[pa.RecordBatch]:
        """Takes new rows, and gives what the box makes of those below the watermark."""
        if self._wanted != len(self._bytes):
            self._divide()
        divided = self._divided(pa.concat_batches(new)) if new else {}
        due = np.flatnonzero(self._wakes <= watermark_us)
        made = []
        for part in sorted({*divided, *due.tolist()}):
            rows = pa.concat_batches([*self._kept(part), *divided.get(part, ())])
            out, left, wake_us = work_off(self._box, rows, self._since_us, watermark_us)
            self._keep(part, left, wake_us)
            made.append(out)
        self._since_us = watermark_us  # also of parts that had nothing to do: no row of theirs waits below it
        self._wanted = self._fitting()
        return made

    def _divided(self, rows: pa.RecordBatch) -> dict[int, tuple[pa.RecordBatch]]:
        if len(self._bytes) == 1:
            return {0: (rows,)}
        parts = numbers(rows, GROUP[1]) & (len(self._bytes) - 1)  # their number is a power of two
        order = np.argsort(parts, kind="stable")
        found, starts = np.unique(parts[order], return_index=True)
        ordered = rows.take(pa.array(order))
        ends = [*starts[1:], len(order)]
        return {int(part): (ordered[low:high],) for part, low, high in zip(found, starts, ends, strict=True)}

    def _kept(self, part: int) -> Iterator[pa.RecordBatch]:
        if self._bytes[part]:
            yield decode(self._store.get(part))

    def _keep(self, part: int, rows: pa.RecordBatch, wake_us: int) -> None:
        if rows.num_rows:
            data = encode(rows)
            self._store.put(part, data)
            self._bytes[part] = len(data)
            self._wakes[part] = wake_us
        else:
            self._drop(part)

    def _drop(self, part: int) -> None:
        if self._bytes[part]:
            self._store.remove(part)
        self._bytes[part] = 0
        self._wakes[part] = NEVER

    def _fitting(self) -> int:
        """More parts when there are many more rows, and fewer when there are many less."""
        count, held = len(self._bytes), int(self._bytes.sum())
        while held > count * WINDOW_PART_BYTES and count < WINDOW_PARTS:
            count *= 2
        while count > 1 and held * _SHRINK < count * WINDOW_PART_BYTES:
            count //= 2
        return count

    def _divide(self) -> None:
        """Divides the rows into as many parts as there should be.

        When a part of them has something to do is not known then, but not before any of them had.
        """
        before, wake_us = len(self._bytes), int(self._wakes.min())
        kept = [rows for part in range(before) for rows in self._kept(part)]
        for part in range(before):
            self._drop(part)
        self._bytes, self._wakes = np.zeros(self._wanted, np.int64), np.full(self._wanted, NEVER)
        for part, (rows,) in self._divided(pa.concat_batches(kept)).items() if kept else ():
            self._keep(part, rows, wake_us)


def visitor(box: OrderedBox) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark's workers run in a batch for a shard with something to do: from rows ``SENT`` to rows ``RETURNED``."""

    def visit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kinds, parts, watermarks_ms, values = zip(*(row for batch in batches for row in _rows(batch)), strict=True)
        new = [decode(value) for kind, value in zip(kinds, values, strict=True) if kind == _Sent.ROWS]
        store = _Parts({p: v for k, p, v in zip(kinds, parts, values, strict=True) if k == _Sent.PART})
        shard = Shard(store, values[0], box)
        made = shard.visit(new, watermarks_ms[0] * MS)
        yield from _returned(made)
        yield _batch(
            [_KEPT] * (len(store.changed) + 1), [*store.changed, _SUMMARY], [*store.changed.values(), shard.summary]
        )

    return visit


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, pa.Buffer | None]]:
    kinds, parts, watermarks_ms = (batch.column(number).to_pylist() for number in range(3))
    return zip(kinds, parts, watermarks_ms, (value.as_buffer() for value in batch.column(3)), strict=True)


def _returned(made: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = pa.concat_batches(made) if made else ()
    for start in range(0, len(rows), SEGMENT_ROWS):
        yield _batch([_MADE], [0], [encode(rows[start : start + SEGMENT_ROWS])])


def _batch(kinds: list[int], parts: list[int], values: list[bytes | None]) -> pa.RecordBatch:
    columns = [pa.array(kinds, pa.int32()), pa.array(parts, pa.int32()), pa.array(values, pa.binary())]
    return pa.record_batch(columns, names=["kind", "part", "value"])


class _Parts:
    """The parts that were sent, and what became of them: None for those that are no more."""

    def __init__(self, sent: dict[int, bytes]) -> None:
        self._sent = sent
        self.changed: dict[int, bytes | None] = {}

    def get(self, part: int) -> bytes:
        kept = self.changed.get(part)
        return self._sent[part] if kept is None else kept

    def put(self, part: int, rows: bytes) -> None:
        self.changed[part] = rows

    def remove(self, part: int) -> None:
        self.changed[part] = None
