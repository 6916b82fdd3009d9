"""Stored rows and punctuations as tuples on the wire: every header column, names for origins, a BOUNDARY row for each
punctuation.

A node makes them for plain readers. A client that reads several copies makes them itself, of what passes its filter.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from anabranch.model.header import KIND, ORIGIN, STIME, TID, Kind

STORED_HEADER = 3
"""Header columns of a stored row: _tid, _stime, and a code for _origin."""


def insertions(
    rows: pa.RecordBatch, first_id: int | None, origins: tuple[str, ...], schema: pa.Schema
) -> pa.RecordBatch:
    """Stored rows as stable tuples with ids from ``first_id`` on, or without, where they are of no one log."""
    count = rows.num_rows
    names = pa.DictionaryArray.from_arrays(rows.column(ORIGIN), pa.array(origins, pa.string())).cast(pa.string())
    numbers = pa.nulls(count, pa.int64()) if first_id is None else pa.array(np.arange(first_id, first_id + count))
    header = [
        pa.array(np.full(count, int(Kind.INSERTION), dtype=np.int8)),
        numbers,
        rows.column(TID),
        rows.column(STIME),
        names,
    ]
    return pa.RecordBatch.from_arrays([*header, *rows.columns[STORED_HEADER:]], schema=schema)


def boundaries(punctuations: Mapping[str, int], schema: pa.Schema) -> pa.RecordBatch:
    """One row for each, ordered by origin."""
    ordered = sorted(punctuations.items())
    rows = [{KIND: int(Kind.BOUNDARY), STIME: time, ORIGIN: origin} for origin, time in ordered]
    return pa.concat_batches([one_row(schema, row) for row in rows])


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def one_row(schema: pa.Schema, values: Mapping[str, object]) -> pa.RecordBatch:
    """One row with these values, NULL elsewhere."""
    arrays = [
        pa.array([values[field.name]]).cast(field.type) if field.name in values else pa.nulls(1, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
