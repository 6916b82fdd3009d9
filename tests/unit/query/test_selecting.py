"""Which rows a stage asks for: all that could matter, and where it is plain, no others."""

from __future__ import annotations

import math

import pytest

import anabranch as ab
from anabranch.model.selection import ALL_ROWS, Range, Selection
from anabranch.query.graph import stages
from anabranch.query.selecting import selections

COLUMNS = "Key int, big bigint, x double, f float, d decimal(9,2), t string, b boolean, at timestamp"


def query() -> tuple[ab.Query, ab.Stream]:
    q = ab.Query("q")
    return q, q.source("s", COLUMNS, time="at")


def asked(q: ab.Query, stage: str = "s") -> dict[str, Selection]:
    diagram = q.checked()
    return selections(diagram, next(each for each in stages(diagram) if each.name == stage))


def of(predicate: str) -> Selection:
    """What is asked for a stage that only filters by this."""
    q, s = query()
    q.output("out", s.filter(predicate))
    return asked(q)["s"]


def below(value: float) -> float:
    return math.nextafter(value, -math.inf)


def above(value: float) -> float:
    return math.nextafter(value, math.inf)


@pytest.mark.parametrize(
    ("predicate", "ranges"),
    [
        ("key < 5", [Range(column="Key", high=5)]),
        ("-5 <= KEY", [Range(column="Key", low=-5)]),
        ("5 > key", [Range(column="Key", high=5)]),
        ("key = 5", [Range(column="Key", low=5, high=5)]),
        ("(key >= 5) AND (key < 9)", [Range(column="Key", low=5), Range(column="Key", high=9)]),
        ("big = 9223372036854775807", [Range(column="big", low=(1 << 63) - 1, high=(1 << 63) - 1)]),
        ("x > 0.8", [Range(column="x", low=below(0.8))]),
        ("x <= 1e3", [Range(column="x", high=above(1000.0))]),
        ("x = -1", [Range(column="x", low=below(-1.0), high=above(-1.0))]),
        ("t = 'é 1'", [Range(column="t", low="é 1", high="é 1")]),
        ("t < 'm'", [Range(column="t", high="m")]),
    ],
)
def test_a_comparison_with_a_constant_is_a_range(predicate: str, ranges: list[Range]) -> None:
    assert of(predicate) == (tuple(ranges),)


@pytest.mark.parametrize(
    "predicate",
    [
        "key < big",
        "key + 1 < 5",
        "key <> 5",
        "key <=> 5",
        "NOT key < 5",
        "key < 5 OR x > 1",
        "key < 1.5",  # Spark compares as decimals
        "key < 1e0",
        "big > 9223372036854775808",
        "key > 2147483648",
        "f > 0.5",
        "d > 0.5",
        "t = 'a\\nb'",
        "t = 'a''b'",
        "t > 5",  # Spark casts the text, which can fail
        "key = '5'",
        "x > 1e999",
        "b",
        "at > '2026-01-01'",
        "key < NULL",
        "1 < 2",
        "_stime < '2026-01-01'",
    ],
)
def test_all_else_is_left_to_spark(predicate: str) -> None:
    assert of(predicate) == ALL_ROWS


def test_what_comes_after_something_that_could_fail_is_left_to_spark() -> None:
    assert of("key < 5 AND 1 / big > 0 AND x > 1") == ((Range(column="Key", high=5),),)
    assert of("1 / big > 0 AND key < 5") == ALL_ROWS
    q, s = query()
    q.output("out", s.filter("key < 5").filter("1 / big > 0").filter("x > 1"))
    assert asked(q)["s"] == ((Range(column="Key", high=5),),)
    q, s = query()
    q.output("out", s.drop("1 / big > 0").filter("key < 5"))
    assert asked(q)["s"] == ALL_ROWS
    q, s = query()
    q.output("out", s.map("1 / big AS one, key").filter("key < 5"))
    assert asked(q)["s"] == ALL_ROWS


def test_only_the_first_port_of_a_filter_is_known_by_one_predicate() -> None:
    q, s = query()
    first, second, rest = s.filter("key < 5", "x > 1", otherwise=True)
    q.output("out", second)
    q.output("more", rest)
    assert asked(q)["s"] == ALL_ROWS
    q, s = query()
    first, second = s.filter("key < 5", "x > 1")
    q.output("out", first)
    assert asked(q)["s"] == ((Range(column="Key", high=5),),)


def test_several_outputs_need_what_any_of_them_needs() -> None:
    q, s = query()
    q.output("low", s.filter("key < 5"))
    q.output("high", s.filter("key > 9"))
    low, high = (Range(column="Key", high=5),), (Range(column="Key", low=9),)
    assert set(asked(q)["s"]) == {low, high}
    q.output("all", s)
    assert asked(q)["s"] == ALL_ROWS


def test_below_a_union_a_join_or_a_window_each_way_down_counts() -> None:
    q, s = query()
    t = q.source("t", COLUMNS, time="at")
    union = s.filter("x > 1").union(t).filter("key < 5")
    q.output("sums", union.aggregate("count(*) AS n", window="1s", name="sums"))
    assert asked(q, "sums") == {
        "s": ((Range(column="x", low=below(1.0)), Range(column="Key", high=5)),),
        "t": ((Range(column="Key", high=5),),),
    }
    q, s = query()
    joined = s.filter("key < 5").join(s.map("key AS other").drop(0.5), on="key = other", within="1s", name="pairs")
    q.output("out", joined.filter("x > 1"))
    assert asked(q, "pairs") == {"s": ALL_ROWS}


def test_what_comes_out_of_a_join_or_a_window_is_not_selected() -> None:
    q, s = query()
    sums = s.aggregate("count(*) AS n", by="key", window="1s", name="sums")
    q.output("out", sums.filter("key < 5").aggregate("count(*) AS m", window="1s", name="more"))
    assert asked(q, "more") == {}
