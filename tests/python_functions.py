"""Functions that Python boxes of the tests call, in this process and in Spark's workers."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc


def describe(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of several types, made of a key, a number and a time; NULL where one is."""
    return pa.record_batch(
        {
            "known": pc.is_valid(rows["x"]),
            "shout": pc.utf8_upper(rows["k"]),
            "later": pc.add(rows["at"], pa.scalar(1_000_000, pa.duration("us"))),
            "twice": pc.multiply(rows["x"].cast(pa.int64()), 2),
        }
    )


def inverse(rows: pa.RecordBatch) -> pa.Array:
    """Of numbers that are neither NULL nor zero: others must not come here."""
    if rows.column(0).null_count or pc.any(pc.equal(rows.column(0), 0)).as_py():
        raise ZeroDivisionError("there is no inverse of 0")
    return pc.divide(1.0, rows.column(0).cast(pa.float64()))


def written(rows: pa.RecordBatch) -> pa.Table:
    """Any columns as text, and how many of them are NULL. Row by row: no value may depend on the rows beside it."""
    lines = [list(row.values()) for row in rows.to_pylist()]
    texts = pa.array([" ".join(map(str, line)) for line in lines], pa.string())
    return pa.table({"text": texts, "nulls": pa.array([line.count(None) for line in lines], pa.int32())})


def process(rows: pa.RecordBatch) -> pa.Array:
    """Not deterministic: who computes it."""
    return pa.array([os.getpid()] * rows.num_rows, pa.int64())


def too_few(rows: pa.RecordBatch) -> pa.Array:
    return pa.array([1] * (rows.num_rows - 1), pa.int64())


def too_small(rows: pa.RecordBatch) -> pa.Array:
    return pa.array([1] * rows.num_rows, pa.int32())


def renamed(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.rename_columns([f"{name}s" for name in rows.schema.names])


def a_list(rows: pa.RecordBatch) -> list[int]:
    return [1] * rows.num_rows


def fails(rows: pa.RecordBatch) -> pa.Array:
    raise ValueError(f"cannot score {rows.num_rows} rows")


NOT_CALLABLE = 1
