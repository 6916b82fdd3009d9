"""The stateful half of an Aggregate that counts: figure 4 of the racing paper, for many groups at once.

Runs in Spark's Python workers. Spark would take every row apart and guess the types of what it puts together again
(whole numbers beside NULL become floating point), so rows travel packed: ``pack`` makes one binary value of all rows of
a shard in a batch, and ``unpack`` takes apart what comes out. In between they are Arrow record batches, and the work is
done on whole columns.

A shard is a part of the groups. What it keeps from batch to batch is one table of rows: those that the punctuation has
not reached, and of each group those that windows under way need. The first of these always begins a window, so no
counter is kept, and nothing is left of a group whose rows are all used up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.times import MS

SHARD: Final = "_shard"
GROUP: Final = ("_group", "_group2")
"""Two hashes of the group: together they are as good as the group itself."""
EARLIEST: Final = "_earliest"
ROWS: Final = "_rows"
FROM: Final = "_from"
TO: Final = "_to"
"""The first and the last window of its group, counted within the batch, that a row goes into."""

PACKED: Final = f"{SHARD} int, {EARLIEST} timestamp, {ROWS} binary"
MADE: Final = f"{ROWS} binary"
CHUNK_ROWS: Final = 65_536

_STATE: Final = "rows binary, timer_ms bigint"
Integers = npt.NDArray[np.int64]


def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a batch as one row per shard, with the earliest time among them."""
    for batch in batches:
        shards = batch.column(SHARD).to_numpy()
        order = np.argsort(shards, kind="stable")
        rows = batch.drop_columns([SHARD]).take(pa.array(order))
        found, starts = np.unique(shards[order], return_index=True)
        ends = [*starts[1:], len(order)]
        if len(found):
            yield pa.record_batch(
                {
                    SHARD: pa.array(found, pa.int32()),
                    EARLIEST: pa.array(np.minimum.reduceat(_numbers(rows, STIME), starts)).cast(rows[STIME].type),
                    ROWS: pa.array([encode(rows[low:high]) for low, high in zip(starts, ends, strict=True)]),
                }
            )


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that ``CountWindows`` packed."""
    for batch in batches:
        for value in batch.column(0):
            yield decode(value.as_py())


def encode(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue().to_pybytes())


def decode(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


class CountWindows(StatefulProcessor):
    """One shard at a time: puts its rows into windows, and waits for those that the punctuation has not reached."""

    def __init__(self, size: int, every: int) -> None:
        self._size = size
        self._every = every

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("waiting", _STATE)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,
    ) -> Iterator[pd.DataFrame]:
        packed = [decode(value) for frame in rows for value in frame.iloc[:, -1]]
        return self._visit(packed, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[pd.DataFrame]:
        """The punctuation has reached rows of a shard, perhaps without any new ones."""
        return self._visit([], timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def _visit(self, new: list[pa.RecordBatch], watermark_ms: int) -> Iterator[pd.DataFrame]:
        kept, timer_ms = self._state.get() or (None, None)
        batches = [decode(kept), *new] if kept is not None else new
        if not batches:
            return
        rows = pa.concat_batches(batches)
        made, left = put_into_windows(rows, watermark_ms * MS, self._size, self._every)
        self._keep(left, watermark_ms, timer_ms)
        for start in range(0, made.num_rows, CHUNK_ROWS):
            yield pd.DataFrame({ROWS: [encode(made[start : start + CHUNK_ROWS])]})

    def _keep(self, rows: pa.RecordBatch, watermark_ms: int, timer_ms: int | None) -> None:
        """Stores the rows of the shard, and asks to be woken when the punctuation passes the earliest that waits."""
        if rows.num_rows == 0:
            self._state.clear()
            return
        times = _numbers(rows, STIME)
        waiting = times[times >= watermark_ms * MS]
        if len(waiting):
            wanted = int(waiting.min()) // MS + 1  # Spark wakes it when the watermark is there: then the row is below
            if wanted != timer_ms:
                self._handle.registerTimer(wanted)
                timer_ms = wanted
        self._state.update((encode(rows), timer_ms))


def put_into_windows(
    rows: pa.RecordBatch, watermark_us: int, size: int, every: int
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of full windows, each with the numbers of its windows; and the rows to be kept.

    Only rows below the watermark are counted, in canonical order. ``every`` is at most ``size``, so each of them is in
    a window, full or under way.
    """
    complete = _numbers(rows, STIME) < watermark_us
    waiting = rows.filter(pa.array(~complete))
    ordered = _in_order(rows.filter(pa.array(complete)))
    place, counts = _places(ordered)
    full = np.maximum((counts - size) // every + 1, 0)  # windows, in the group of each row
    first = np.maximum(-((size - 1 - place) // every), 0)
    last = np.minimum(place // every, full - 1)
    out = first <= last
    made = ordered.drop_columns(list(GROUP)).filter(pa.array(out))
    made = made.add_column(0, TO, pa.array(last[out])).add_column(0, FROM, pa.array(first[out]))
    under_way = ordered.filter(pa.array(place >= full * every))
    return made, pa.concat_batches([under_way, waiting])


def _in_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """By group, then in canonical order: the codes of origins are in the order of their names."""
    keys: Sequence[Integers] = [_numbers(rows, name) for name in (TID, ORIGIN, STIME, *GROUP)]
    return rows.take(pa.array(np.lexsort(keys)))


def _places(rows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """For each of the ordered rows, its place in its group, from 0, and how many rows the group has."""
    count = rows.num_rows
    changes = np.zeros(count, dtype=bool)
    for name in GROUP:
        values = _numbers(rows, name)
        changes[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(np.concatenate([np.ones(min(count, 1), dtype=bool), changes[1:]]))
    sizes = np.diff(np.append(starts, count))
    return np.arange(count) - np.repeat(starts, sizes), np.repeat(sizes, sizes)


def _numbers(rows: pa.RecordBatch, name: str) -> Integers:
    column = rows.column(name)
    return np.asarray((column.cast(pa.int64()) if column.type != pa.int64() else column).to_numpy(zero_copy_only=False))
