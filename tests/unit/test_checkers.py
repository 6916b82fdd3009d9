"""Each checker finds the violation it is there for, and says nothing of a stream that is right."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from anabranch.transport.wire import wire_schema
from tests.chaos.checkers import (
    Boundary,
    Row,
    entries_of,
    followed_exactly,
    ids_contiguous,
    last_punctuations,
    nothing_twice,
    punctuations_monotone,
    punctuations_true,
    same_punctuations,
    same_rows,
)


def row(number: int, *, at: int | None = None, origin: str = "ping/0", **values: Any) -> Row:
    return Row(id=number, tid=number, stime=number if at is None else at, origin=origin, values=values or {"n": number})


def boundary(at: int, origin: str = "ping/0") -> Boundary:
    return Boundary(origin=origin, stime=at)


ROWS = [row(1), row(2), row(3)]


def test_a_stream_that_is_right_passes_all() -> None:
    entries = [row(1), boundary(1), row(2), boundary(2), boundary(2), row(3, at=2), boundary(4)]
    assert same_rows(ROWS, ROWS[::-1]) == []
    assert nothing_twice(ROWS) == ids_contiguous(ROWS) == followed_exactly(ROWS, ROWS) == []
    assert punctuations_monotone(entries) == punctuations_true(entries) == []
    assert last_punctuations(entries) == {"ping/0": 4}
    assert same_punctuations({"ping/0": 4}, {"ping/0": 4}) == []


def test_a_missing_row_is_shown() -> None:
    (problem,) = same_rows(ROWS, [row(1), row(3)])
    assert "1 rows are missing" in problem
    assert "tid=2" in problem


def test_an_extra_row_is_shown() -> None:
    (problem,) = same_rows(ROWS, [*ROWS, row(4)])
    assert "should not be" in problem
    assert "tid=4" in problem


def test_rows_are_a_multiset() -> None:
    (problem,) = same_rows(ROWS, [*ROWS, row(2)])
    assert "too often" in problem
    assert "1 rows" in problem


def test_another_value_in_a_column_is_shown() -> None:
    (problem,) = same_rows([row(1, n=1)], [row(1, n=2)])
    assert "other columns" in problem


def test_another_type_name_or_null_is_another_value() -> None:
    for other in ({"n": 1.0}, {"n": True}, {"n": None}, {"m": 1}, {"n": 1, "m": 1}):
        assert same_rows([row(1, n=1)], [row(1, **other)]) != [], other


def test_a_column_is_exact_unless_it_is_said_to_be_rounded() -> None:
    near, far = [row(1, x=1.0 + 5e-13)], [row(1, x=1.0 + 5e-12)]
    assert same_rows([row(1, x=1.0)], near) != []
    assert same_rows([row(1, x=1.0)], near, frozenset({"x"})) == []
    assert same_rows([row(1, x=1.0)], far, frozenset({"x"})) != []


def test_nan_equals_nan_only() -> None:
    assert same_rows([row(1, x=math.nan)], [row(1, x=math.nan)]) == []
    assert same_rows([row(1, x=math.nan)], [row(1, x=1.0)], frozenset({"x"})) != []


def test_an_identity_that_comes_twice_is_found_whatever_its_id() -> None:
    (problem,) = nothing_twice([row(1), Row(id=2, tid=1, stime=1, origin="ping/0", values={"n": 1})])
    assert "x2" in problem
    assert nothing_twice([row(1), row(1, at=5), row(1, origin="ping/1")]) == []


def test_a_hole_a_repetition_and_a_wrong_beginning_are_not_contiguous() -> None:
    for rows in ([row(1), row(3)], [row(1), row(1)], [row(2)], [row(2), row(1)]):
        assert ids_contiguous(rows) != []


def test_a_boundary_that_goes_back_is_found_per_origin() -> None:
    assert punctuations_monotone([boundary(5), boundary(4)]) != []
    assert punctuations_monotone([boundary(5), boundary(4, origin="load/0")]) == []


def test_a_row_below_an_earlier_boundary_is_found_per_origin() -> None:
    assert punctuations_true([boundary(5), row(1, at=4)]) != []
    assert punctuations_true([boundary(5), boundary(3), row(1, at=4)]) != []
    assert punctuations_true([boundary(5), row(1, at=5)]) == []
    assert punctuations_true([row(1, at=4), boundary(5)]) == []
    assert punctuations_true([boundary(5), row(1, at=4, origin="load/0")]) == []


def test_another_last_punctuation_is_found() -> None:
    assert same_punctuations({"a": 1}, {"a": 2}) != []
    assert same_punctuations({"a": 1}, {}) != []
    assert same_punctuations({}, {"a": 1}) != []


def test_a_follower_must_see_each_row_once_in_order() -> None:
    assert followed_exactly(ROWS, [row(1), row(3)]) != []
    assert followed_exactly(ROWS, [row(1), row(2), row(2), row(3)]) != []
    assert followed_exactly(ROWS, [row(1), row(3), row(2)]) != []


def test_a_row_that_the_follower_saw_must_stay_as_it_was() -> None:
    assert followed_exactly(ROWS, [row(1), row(2, n=7), row(3)]) != []


def test_rows_and_boundaries_come_off_the_wire_in_order_with_times_as_microseconds() -> None:
    schema = wire_schema(pa.schema([("seen", pa.timestamp("us", "UTC"))]))
    at = datetime.fromtimestamp(2, UTC)
    batch = pa.RecordBatch.from_pylist(
        [
            {"_kind": 0, "_id": 1, "_tid": 9, "_stime": at, "_origin": "ping/0", "seen": at},
            {"_kind": 2, "_stime": at, "_origin": "ping/0"},
        ],
        schema=schema,
    )
    assert entries_of([batch]) == [
        Row(id=1, tid=9, stime=2_000_000, origin="ping/0", values={"seen": 2_000_000}),
        Boundary(origin="ping/0", stime=2_000_000),
    ]
