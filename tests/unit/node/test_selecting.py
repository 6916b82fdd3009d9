"""A selection leaves out rows that cannot matter, and only those."""

from __future__ import annotations

import math

import pyarrow as pa

from anabranch.model.selection import ALL_ROWS, Range
from anabranch.node.selecting import selected

NAN, INF = math.nan, math.inf


def kept(values: list[object], kind: pa.DataType, *ranges: tuple[object, object]) -> list[object]:
    """The values that are left when one of these ranges is asked for, among enough that never are."""
    rows = pa.record_batch({"x": pa.array([*values, *[None] * 100], kind), "n": pa.array(range(len(values) + 100))})
    selection = tuple((Range(column="x", low=low, high=high),) for low, high in ranges)  # type: ignore[arg-type]
    left = selected(rows, selection)
    assert left.num_rows < rows.num_rows
    return [values[n] for n in left.column("n").to_pylist() if n < len(values)]


def test_ends_belong_to_a_range_and_null_to_none() -> None:
    assert kept([1, 2, None, 3, 4], pa.int32(), (2, 3)) == [2, 3]
    assert kept([1, 2, None, 3, 4], pa.int64(), (None, 2), (4, None)) == [1, 2, 4]
    assert kept(["a", "b", None, "\u00e9"], pa.string(), ("b", None)) == ["b", "\u00e9"]


def test_nan_and_infinity_are_never_left_out_where_spark_would_find_them() -> None:
    values: list[object] = [NAN, INF, -INF, 0.0, -0.0, None]
    assert [repr(value) for value in kept(values, pa.float64(), (1.0, None))] == ["nan", "inf"]
    assert [repr(value) for value in kept(values, pa.float64(), (None, 0.0))] == ["nan", "-inf", "0.0", "-0.0"]


def test_all_ranges_of_one_alternative_must_hold() -> None:
    rows = pa.record_batch({"x": pa.array(range(100)), "y": pa.array([n % 10 for n in range(100)])})
    both = (Range(column="x", high=49), Range(column="y", low=9))
    assert selected(rows, (both,)).column("x").to_pylist() == [9, 19, 29, 39, 49]
    assert selected(rows, (both, (Range(column="x", low=99),))).num_rows == 6


def test_where_most_rows_are_needed_they_are_not_copied() -> None:
    rows = pa.record_batch({"x": pa.array(range(100))})
    assert selected(rows, ((Range(column="x", high=90),),)) is rows
    assert selected(rows, ALL_ROWS) is rows
