"""Rows on their way through Spark's Python workers: many of them as one binary value.

Spark would take every row apart and guess the types of what it puts together again (whole numbers beside NULL become
floating point), so rows travel packed: ``pack`` makes one binary value of all rows of a shard in a batch, and
``unpack`` takes apart what comes out. In between they are Arrow record batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.model.header import STIME

SHARD: Final = "_shard"
GROUP: Final = ("_group", "_group2")
"""Two hashes of the group: together they are as good as the group itself."""
EARLIEST: Final = "_earliest"
ROWS: Final = "_rows"
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
    """The rows that were packed."""
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


def numbers(rows: pa.RecordBatch, name: str) -> Integers:
    """A column of whole numbers or times, which has no NULL."""
    column = rows.column(name)
    return np.asarray((column.cast(pa.int64()) if column.type != pa.int64() else column).to_numpy(zero_copy_only=False))
