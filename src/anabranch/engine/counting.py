"""Windows of tuples on whole columns: figure 4 of the racing paper, for many groups at once.

Runs in Spark's Python workers. Spark would take every row apart and guess the types of what it puts together again
(whole numbers beside NULL become floating point), so rows travel packed: ``pack`` makes one binary value of all rows of
a shard in a batch, and ``unpack`` takes apart what comes out. In between they are Arrow record batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.header import ORIGIN, STIME, TID

SHARD: Final = "_shard"
GROUP: Final = ("_group", "_group2")
"""Two hashes of the group: together they are as good as the group itself."""
EARLIEST: Final = "_earliest"
ROWS: Final = "_rows"
FROM: Final = "_from"
TO: Final = "_to"
"""The first and the last window of its group, counted within the batch, that a row goes into."""

PACKED: Final = f"{SHARD} int, {EARLIEST} timestamp, {ROWS} binary"

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
                    EARLIEST: pa.array(np.minimum.reduceat(numbers(rows, STIME), starts)).cast(rows[STIME].type),
                    ROWS: pa.array([encode(rows[low:high]) for low, high in zip(starts, ends, strict=True)]),
                }
            )


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of full windows."""
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


def put_into_windows(
    rows: pa.RecordBatch, watermark_us: int, size: int, every: int
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of full windows, each with the numbers of its windows; and the rows to be kept.

    Only rows below the watermark are counted, in canonical order. ``every`` is at most ``size``, so each of them is in
    a window, full or under way.
    """
    complete = numbers(rows, STIME) < watermark_us
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
    keys: Sequence[Integers] = [numbers(rows, name) for name in (TID, ORIGIN, STIME, *GROUP)]
    return rows.take(pa.array(np.lexsort(keys)))


def _places(rows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """For each of the ordered rows, its place in its group, from 0, and how many rows the group has."""
    count = rows.num_rows
    changes = np.zeros(count, dtype=bool)
    for name in GROUP:
        values = numbers(rows, name)
        changes[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(np.concatenate([np.ones(min(count, 1), dtype=bool), changes[1:]]))
    sizes = np.diff(np.append(starts, count))
    return np.arange(count) - np.repeat(starts, sizes), np.repeat(sizes, sizes)


def numbers(rows: pa.RecordBatch, name: str) -> Integers:
    """A column of whole numbers or times, which has no NULL."""
    column = rows.column(name)
    return np.asarray((column.cast(pa.int64()) if column.type != pa.int64() else column).to_numpy(zero_copy_only=False))
