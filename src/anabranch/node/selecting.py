"""A selection, applied to rows: what a reader has no use for is not sent to it."""

from __future__ import annotations

from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.selection import ALL_ROWS, Range, Selection

WORTH_IT: Final = 0.75
"""Of the rows. To leave out fewer than the rest costs more in copying than it saves in sending."""


def selected(rows: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """At least the rows in the selection."""
    if selection == ALL_ROWS:
        return rows
    masks = (reduce(pc.and_, (_inside(rows.column(each.column), each) for each in ranges)) for ranges in selection)
    mask = reduce(pc.or_, masks)
    return rows if mask.true_count > WORTH_IT * rows.num_rows else rows.filter(mask)


def _inside(column: pa.Array, range_: Range) -> pa.BooleanArray:
    """True or false for each value, never NULL."""
    bounds = []
    if range_.low is not None:
        bounds.append(pc.greater_equal(column, pa.scalar(range_.low, column.type)))
    if range_.high is not None:
        bounds.append(pc.less_equal(column, pa.scalar(range_.high, column.type)))
    inside = reduce(pc.and_, bounds)
    if pa.types.is_floating(column.type):
        inside = pc.or_(inside, pc.is_nan(column))  # which Spark sorts above all numbers, and finds equal to itself
    return pc.fill_null(inside, False) if inside.null_count else inside
