"""What a box that depends on order keeps between batches: shards of its groups, and the parts of a shard.

A shard is a share of the groups, a key of Spark's state. What it keeps is rows: those that the punctuation has not
reached, and those that the box wants to see again. A box has no other state, so nothing is left of a group of which no
rows are kept.

Each access to state is a trip over a socket, and a value is written as a whole. So the rows of a shard are divided by
group into parts of a bounded size, more of them as there are more rows: a batch reads and writes only those parts that
have new rows, or something to do at this watermark. A summary tells which these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, MapState, TimerValues
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from anabranch.engine.ordered import NEVER, OrderedBox, work_off
from anabranch.engine.packing import GROUP, ROWS, decode, encode, numbers
from anabranch.errors import StateError
from anabranch.limits import SEGMENT_ROWS, WINDOW_PART_BYTES, WINDOW_PARTS
from anabranch.model.times import MS

MADE: Final = f"{ROWS} binary"
"""What comes out: packed rows."""

_SUMMARY: Final = StructType().add("summary", BinaryType()).add("timer_ms", LongType())
_PART: Final = StructType().add("part", IntegerType())
_PART_ROWS: Final = StructType().add("rows", BinaryType())
"""As types, not as text: that would be sent to the JVM to be read, by every task."""

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
        read = np.array([0, 0, NEVER]) if summary is None else np.frombuffer(summary, np.int64)
        if len(read) % 2 == 0:
            raise StateError(
                "The state of this box was written by an older version of Anabranch, in a form that is not read now.",
                remedy="Run the query on a new state directory, or with the version that wrote this one.",
            )
        self._since_us = int(read[0])
        """The watermark of the last visit: all rows below it have been handed to the box."""
        self._bytes, self._wakes = read[1:].reshape(2, -1).copy()
        """Per part, its bytes, and the smallest watermark at which there is something to do."""

    @property
    def summary(self) -> bytes | None:
        if not self._bytes.any():
            return None
        return np.concatenate([[self._since_us], self._bytes, self._wakes]).tobytes()

    @property
    def wake_us(self) -> int | None:
        """The smallest watermark at which there is anything to do without new rows."""
        earliest = int(self._wakes.min())
        return None if earliest == NEVER else earliest

    def visit(self, new: list[pa.RecordBatch], watermark_us: int) -> list[pa.RecordBatch]:
        """Takes new rows, and gives what the box makes of those below the watermark."""
        divided = self._divided(pa.concat_batches(new)) if new else {}
        due = np.flatnonzero(self._wakes <= watermark_us)
        made = []
        for part in sorted({*divided, *due.tolist()}):
            rows = pa.concat_batches([*self._kept(part), *divided.get(part, ())])
            out, left, wake_us = work_off(self._box, rows, self._since_us, watermark_us)
            self._keep(part, left, wake_us)
            made.append(out)
        self._since_us = watermark_us  # also of parts that had nothing to do: no row of theirs waits below it
        self._fit()
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

    def _fit(self) -> None:
        """Divides the rows into more parts, or fewer, when there are many more of them, or many less.

        When a part of them has something to do is not known then, but not before any of them had.
        """
        before, held, wake_us = len(self._bytes), int(self._bytes.sum()), int(self._wakes.min())
        count = before
        while held > count * WINDOW_PART_BYTES and count < WINDOW_PARTS:
            count *= 2
        while count > 1 and held * _SHRINK < count * WINDOW_PART_BYTES:
            count //= 2
        if count == before:
            return
        kept = [rows for part in range(before) for rows in self._kept(part)]
        for part in range(before):
            self._drop(part)
        self._bytes, self._wakes = np.zeros(count, np.int64), np.full(count, NEVER)
        for part, (rows,) in self._divided(pa.concat_batches(kept)).items() if kept else ():
            self._keep(part, rows, wake_us)


class OrderedRows(StatefulProcessor):
    """Spark's side of it: one shard at a time, visited when it has new rows or the watermark gives it something to do.

    In a batch Spark calls it with new rows first, and then for the timers that the watermark has passed.
    """

    def __init__(self, box: OrderedBox) -> None:
        self._box = box

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._summary = handle.getValueState("summary", _SUMMARY)
        self._rows = handle.getMapState("rows", _PART, _PART_ROWS)
        self._visited: dict[Any, int] = {}
        """The watermark at which a shard was visited with its new rows."""

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        packed = [decode(value) for frame in rows for value in frame.iloc[:, -1]]
        watermark_ms = self._visited[key] = timerValues.getCurrentWatermarkInMs()
        return self._visit(packed, watermark_ms)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        if self._visited.get(key) == watermark_ms:  # just before, in the same batch: there is nothing left to do
            return iter(())
        return self._visit([], watermark_ms)

    def close(self) -> None:
        pass

    def _visit(self, new: list[pa.RecordBatch], watermark_ms: int) -> Iterator[pd.DataFrame]:
        summary, timer_ms = self._summary.get() or (None, None)
        shard = Shard(_SparkParts(self._rows), summary, self._box)
        made = shard.visit(new, watermark_ms * MS)
        self._remember(shard, timer_ms)
        rows = pa.concat_batches(made) if made else ()
        for start in range(0, len(rows), SEGMENT_ROWS):
            yield pd.DataFrame({ROWS: [encode(rows[start : start + SEGMENT_ROWS])]})

    def _remember(self, shard: Shard, timer_ms: int | None) -> None:
        """Keeps the summary, and asks to be woken at the watermark at which there is something to do."""
        summary = shard.summary
        if summary is None:
            self._summary.clear()
            return
        if shard.wake_us is not None:
            wanted = -(-shard.wake_us // MS)  # Spark wakes it when the watermark is there, not only when past it
            if wanted != timer_ms:
                self._handle.registerTimer(wanted)
                timer_ms = wanted
        self._summary.update((summary, timer_ms))


class _SparkParts:
    def __init__(self, rows: MapState) -> None:
        self._rows = rows

    def get(self, part: int) -> bytes:
        found = self._rows.getValue((part,))
        assert found is not None
        return bytes(found[0])

    def put(self, part: int, rows: bytes) -> None:
        self._rows.updateValue((part,), (rows,))

    def remove(self, part: int) -> None:
        self._rows.removeKey((part,))
