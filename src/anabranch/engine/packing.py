"""Rows on their way through Spark's Python workers: many of them as one binary value.

Spark would take every row apart and guess the types of what it puts together again (whole numbers beside NULL become
floating point), so rows travel packed (``packs``): as streams of Arrow, which are read and written here.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SHARD: Final = "_shard"
GROUP: Final = ("_group", "_group2")
"""Two hashes of the group: together they are as good as the group itself."""
TOUCHED: Final = "_touched"
ROWS: Final = "_rows"

Integers = npt.NDArray[np.int64]


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
