"""Building in Python: names from content, shared boxes, mistakes that wait for ``validate``."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest

from anabranch.errors import QueryError
from anabranch.query.boxes import Aggregate, Drop, Filter, Source
from anabranch.query.builder import Query, Stream

PROGRAM = """
from anabranch.query.builder import Query
q = Query("q")
s = q.source("s", "k string, v int")
a, b = s.filter("v > 1", "v > 0", otherwise=False)
u = a.union(b).map("k").aggregate("count(*) AS n", by="k", window="1s")
u.join(s.map("k AS k2"), on="k = k2", within="1s")
print([box.name for box in q.diagram().boxes])
"""


def test_derived_names_are_the_same_in_every_process() -> None:
    def names(seed: str) -> str:
        env = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True, text=True
        ).stdout

    assert names("1") == names("2")


def test_derived_names_never_change() -> None:
    query = Query("q")
    query.source("s", "v int").filter("v > 1")
    assert query.diagram().boxes[1].name == "filter_cadda3f0"


def test_a_derived_name_depends_on_kind_parameters_and_inputs() -> None:
    query = Query("q")
    s, t = query.source("s", "v int"), query.source("t", "v int")
    streams = [
        s.filter("v > 1"),
        s.filter("v > 2"),
        t.filter("v > 1"),
        s.map("v"),
        s.aggregate("count(*) AS n", window="1s"),
        s.aggregate("count(*) AS n", window="2s"),
        s.aggregate("count(*) AS n", window="2s", every="1s"),
        s.aggregate("count(*) AS n", rows=2),
        s.aggregate("count(*) AS n", rows=2, every_rows=1),
        s.drop(0.5),
        s.drop(0.25),
        s.drop(0.5, seed=1),
        s.drop("v > 1"),
        s.union(t),
        t.union(s),
    ]
    assert len({stream.arrow.box for stream in streams}) == len(streams)


def test_equal_boxes_are_one_box() -> None:
    query = Query("q")
    s = query.source("s", "v int")
    assert s.filter("v > 1").arrow == s.filter("v > 1").arrow
    assert s.filter("v > 1", name="f").arrow == s.filter("v > 1", name="f").arrow
    assert [box.name for box in query.diagram().boxes].count("f") == 1
    assert len(query.diagram().boxes) == 3


def test_a_filter_returns_one_stream_or_several() -> None:
    s = Query("q").source("s", "v int")
    assert isinstance(s.filter("v > 1"), Stream)
    assert [stream.arrow.port for stream in s.filter("v > 1", otherwise=True)] == [0, 1]
    assert [stream.arrow.port for stream in s.filter("v > 1", "v > 0", "v > -1", otherwise=True)] == [0, 1, 2, 3]


def test_durations_are_text_or_timedelta() -> None:
    s = Query("q").source("s", "t timestamp", time="t", disorder=timedelta(seconds=2), idle="1.5s")
    s.aggregate("count(*) AS n", by=["t"], window=timedelta(seconds=10), every="5s", name="a")
    source, aggregate = s.query.diagram().boxes
    assert isinstance(source, Source)
    assert isinstance(aggregate, Aggregate)
    assert (source.disorder_us, source.idle_us, source.silence_us) == (2_000_000, 1_500_000, None)
    assert (aggregate.window_us, aggregate.every_us) == (10_000_000, 5_000_000)


def test_groups_are_text_with_commas_or_a_sequence() -> None:
    s = Query("q").source("s", "a int, b int")
    one = s.aggregate("count(*) AS n", by=" a , b", window="1s")
    assert one.arrow == s.aggregate("count(*) AS n", by=("a", "b"), window="1s").arrow


def test_a_window_without_advance_tumbles() -> None:
    s = Query("q").source("s", "a int")
    s.aggregate("count(*) AS n", window="1s", name="a")
    box = s.query.diagram().box("a")
    assert isinstance(box, Aggregate)
    assert box.every_us == box.window_us


def test_windows_of_tuples_tumble_too() -> None:
    s = Query("q").source("s", "a int")
    s.aggregate("count(*) AS n", rows=4, name="a")
    box = s.query.diagram().box("a")
    assert isinstance(box, Aggregate)
    assert (box.count_window, box.counts, box.window_us, box.every_us) == ((4, 4), True, None, None)


def test_a_drop_takes_a_fraction_or_a_predicate() -> None:
    s = Query("q").source("s", "a int")
    s.drop(0.1, seed=7, name="some")
    s.drop("a > 1", name="large")
    some, large = s.query.diagram().boxes[1:]
    assert some == Drop(name="some", input=s.arrow, fraction=0.1, seed=7)
    assert large == Drop(name="large", input=s.arrow, predicate="a > 1")


def test_what_is_no_number_is_refused_at_once() -> None:
    s = Query("q").source("s", "a int")
    with pytest.raises(QueryError, match=r"rows: 2\.5 is a float"):
        s.aggregate("count(*) AS n", rows=2.5)  # type: ignore[call-overload]
    with pytest.raises(QueryError, match="None is a NoneType"):
        s.drop(None)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="seed: 'x' is a str"):
        s.drop(0.5, seed="x")  # type: ignore[arg-type]


def test_a_number_is_no_duration_but_does_not_stop_the_builder() -> None:
    s = Query("q").source("s", "a int")
    s.query.output("o", s.aggregate("count(*) AS n", window=10))  # type: ignore[arg-type]
    assert [problem.code for problem in s.query.validate()] == ["bad-duration"]


def test_the_same_name_for_two_different_boxes_waits_for_validate() -> None:
    s = Query("q").source("s", "v int")
    s.query.output("o1", s.filter("v > 1", name="f"))
    s.query.output("o2", s.filter("v > 2", name="f"))
    assert [problem.code for problem in s.query.validate()] == ["duplicate-name"]


def test_a_stream_of_another_query_is_refused_at_once() -> None:
    one, other = Query("one"), Query("other")
    mine, foreign = one.source("s", "v int"), other.source("t", "v int")
    with pytest.raises(QueryError, match="belongs to the query 'other'"):
        mine.union(foreign)
    with pytest.raises(QueryError, match="belongs to the query 'other'"):
        mine.join(foreign, on="true", within="1s")
    with pytest.raises(QueryError, match="belongs to the query 'other'"):
        one.output("o", foreign)


def test_things_that_are_not_streams_or_text_are_refused_at_once() -> None:
    query = Query("q")
    s = query.source("s", "v int")
    with pytest.raises(QueryError, match="is not a stream"):
        query.output("o", "s")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="Write SQL as text"):
        s.filter(5)  # type: ignore[call-overload]


def test_a_valid_query_gives_its_diagram() -> None:
    query = Query("q")
    query.output("o", query.source("s", "v int").filter("v > 1"))
    assert query.checked() == query.diagram()
    assert isinstance(query.diagram().boxes[1], Filter)
