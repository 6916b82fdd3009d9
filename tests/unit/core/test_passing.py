"""Boundaries that a stage passes on without a batch: only what is true without one, and never less than was said."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.core.passing import Passing, raised
from anabranch.query.graph import stages

S = 1_000_000


def passing(make: str) -> Passing:
    query = ab.Query("q")
    left, right = query.source("a", "x bigint"), query.source("b", "y bigint")
    made = {
        "filter": lambda: left.filter("x > 1"),
        "join": lambda: left.join(right, on="x = y", within="1s", name="box"),
        "window": lambda: left.aggregate("sum(x) AS x", window="10s", name="box"),
        "early window": lambda: left.aggregate("sum(x) AS x", window="10s", emit_rows=2, name="box"),
        "count window": lambda: left.aggregate("sum(x) AS x", rows=3, name="box"),
        "session": lambda: left.session("sum(x) AS x", gap="1s", name="box"),
    }[make]()
    query.output("out", made)
    if make != "join":
        query.output("other", right.filter("y > 1"))
    diagram = query.checked()
    return Passing(diagram, next(stage for stage in stages(diagram) if "a" in stage.inputs))


def promised(make: str, *, rows: int = 0, before_us: int = 11 * S, now_us: int = 12 * S) -> dict[str, int] | None:
    inputs = {"a": {"a/0": 12 * S}, "b": {"b/0": 13 * S}}
    return passing(make).promised(inputs, rows=rows, before_us=before_us, now_us=now_us)


def test_what_never_waits_passes_on_what_its_inputs_promise() -> None:
    assert promised("filter") == {"a/0": 12 * S}


def test_a_join_promises_the_smaller_of_both_inputs() -> None:
    assert promised("join") == {"box": 12 * S}


@pytest.mark.parametrize("make", ["filter", "join", "window", "early window", "count window", "session"])
@pytest.mark.parametrize("before_us", [11 * S, 12 * S])
def test_no_boundary_overtakes_a_row_that_no_batch_has_logged(make: str, before_us: int) -> None:
    assert promised(make, rows=1, before_us=before_us) is None


def keeps(make: str, rows: dict[str, int], tops: dict[str, int], said_us: int = 12 * S) -> bool:
    return passing(make).keeps(rows, {"a": said_us, "b": said_us}, lambda stream: tops.get(stream, 0))


def test_a_window_of_time_keeps_its_rows_and_other_boxes_do_not() -> None:
    makes = ["window", "filter", "early window", "count window", "session"]
    assert [keeps(make, {"a": 1}, {}) for make in makes] == [True, False, False, False, False]


def test_a_join_keeps_rows_that_are_far_from_all_of_the_other_side() -> None:
    assert keeps("join", {"a": 3}, {"a": 20 * S})
    assert keeps("join", {"a": 3}, {"a": 20 * S, "b": 11 * S - 1})
    assert keeps("join", {"b": 3}, {"b": 20 * S, "a": 11 * S - 1})


def test_a_join_shows_rows_that_may_find_a_partner() -> None:
    assert not keeps("join", {"a": 3}, {"a": 20 * S, "b": 11 * S})
    assert not keeps("join", {"a": 3, "b": 1}, {"a": 20 * S, "b": 2 * S}), "one of before may be near the late one"
    assert not keeps("join", {"a": 3}, {}, said_us=0), "nothing is known of their times"


def test_a_join_of_a_stream_with_itself_keeps_nothing() -> None:
    query = ab.Query("q")
    left = query.source("a", "x bigint")
    query.output("out", left.join(left.map("x AS y"), on="x = y", within="1s", name="box"))
    (stage,) = stages(query.checked())
    assert not Passing(query.checked(), stage).keeps({"a": 1}, {"a": 12 * S}, lambda _: 0)


def test_a_window_of_time_promises_what_a_batch_with_that_watermark_would() -> None:
    assert promised("window") == {"box": 12 * S + 1}
    assert promised("window", before_us=10 * S, now_us=20 * S - 1000) == {"box": 20 * S - 1000 + 1}


def test_a_window_of_time_that_ends_has_its_batch() -> None:
    assert promised("window", before_us=19 * S, now_us=20 * S) is None


def test_a_watermark_does_not_go_back() -> None:
    """At a start inputs may not have said again what they promised before."""
    assert promised("window", before_us=12 * S, now_us=0) == {"box": 12 * S + 1}


@pytest.mark.parametrize("make", ["count window", "session"])
def test_what_spark_alone_knows_has_its_batch(make: str) -> None:
    assert promised(make) is None
    assert promised(make, before_us=12 * S) is not None


def test_what_was_said_stays_said() -> None:
    assert raised({"a/0": 7, "b/0": 1}, {"a/0": 5, "b/0": 9, "c/0": 3}) == {"a/0": 7, "b/0": 9, "c/0": 3}
