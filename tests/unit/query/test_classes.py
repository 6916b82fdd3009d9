"""Operator classes: each box in each mode, what moves it, and what table 2 makes of the query."""

from __future__ import annotations

import pytest

from anabranch.query.boxes import Arrow, Box, Filter, Map
from anabranch.query.builder import Query, Stream
from anabranch.query.classes import MODES, Recovery, as_text, judge, query_class, recoveries
from anabranch.query.judgement import OperatorClass, Order

REPEATABLE, CONVERGENT, DETERMINISTIC, ARBITRARY = OperatorClass


def box_of(stream: Stream) -> Box:
    return stream.query.diagram().box(stream.arrow.box)


def classes(stream: Stream) -> list[OperatorClass]:
    """By arrival, in race, in dpc."""
    return [judge(box_of(stream), order).operator_class for order in Order]


def source() -> Stream:
    return Query("q").source("s", "k string, v int")


def test_each_class_contains_those_before_it() -> None:
    assert REPEATABLE < CONVERGENT < DETERMINISTIC < ARBITRARY
    assert list(map(str, OperatorClass)) == ["repeatable", "convergent-capable", "deterministic", "arbitrary"]


def test_what_takes_each_tuple_by_itself_is_repeatable() -> None:
    s = source()
    for stream in (s.filter("v > 1"), s.map("v"), s.drop(0.5), s.drop("v > 1")):
        assert classes(stream) == [REPEATABLE] * 3


def test_a_join_has_no_timeout_and_is_repeatable() -> None:
    s = source()
    assert classes(s.join(s.map("k AS k2"), on="k = k2", within="1s")) == [REPEATABLE] * 3


def test_a_union_is_arbitrary_only_where_arrival_shows() -> None:
    s = source()
    assert classes(s.union(s)) == [ARBITRARY, REPEATABLE, REPEATABLE]


def test_the_alignment_of_windows_decides_the_class_of_an_aggregate() -> None:
    s = source()
    assert classes(s.aggregate("sum(v) AS v", window="2s", every="1s")) == [CONVERGENT] * 3
    assert classes(s.aggregate("sum(v) AS v", rows=4)) == [DETERMINISTIC] * 3
    assert classes(s.aggregate("sum(v) AS v", rows=4, every_rows=2)) == [DETERMINISTIC] * 3


def test_a_window_from_every_tuple_depends_on_where_a_restart_may_lie() -> None:
    s = source()
    assert classes(s.aggregate("sum(v) AS v", rows=4, every_rows=1)) == [CONVERGENT, CONVERGENT, REPEATABLE]
    assert classes(s.aggregate("sum(v) AS v", rows=1)) == [REPEATABLE] * 3


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("rand() > 0.5", "rand() would give a different value on every replica"),
        ("unix_timestamp() > v", "unix_timestamp() would give a different value on every replica"),
        ("current_date > date'2026-01-01'", "current_date() would give a different value on every replica"),
        ("timestamp'now' > _stime", "'now' is a different time on every replica"),
    ],
)
def test_chance_and_clocks_make_any_box_arbitrary(sql: str, reason: str) -> None:
    s = source()
    for stream in (s.filter("v > 1", sql)[1], s.drop(sql), s.map(f"v, {sql} AS w")):
        for order in Order:
            assert judge(box_of(stream), order).reason == reason
            assert judge(box_of(stream), order).operator_class is ARBITRARY


def test_functions_of_the_order_make_an_aggregate_arbitrary() -> None:
    s = source()
    for stream in (s.aggregate("first(v) AS v", window="1s"), s.aggregate("collect_list(v) AS v", rows=3)):
        assert classes(stream) == [ARBITRARY] * 3
        assert "depends on the order" in judge(box_of(stream), Order.NONE).reason


def test_a_function_with_a_harmless_argument_is_none_of_those() -> None:
    assert classes(source().map("unix_timestamp(k) AS at, 'now' AS word")) == [REPEATABLE] * 3


def test_sql_that_cannot_be_read_does_not_stop_the_drawing() -> None:
    box = Filter(name="f", input=Arrow("s"), predicates=("v >", "rand() > 1"))
    assert judge(box, Order.ARRIVAL).operator_class is ARBITRARY
    assert judge(Map(name="m", input=Arrow("s"), columns="'"), Order.ARRIVAL).operator_class is REPEATABLE


def test_a_query_is_as_general_as_its_most_general_box() -> None:
    s = source()
    assert query_class(s.query.diagram(), Order.ARRIVAL) == (REPEATABLE, ())
    s.filter("v > 1", name="f")
    assert query_class(s.query.diagram(), Order.ARRIVAL) == (REPEATABLE, ("f",))
    s.union(s, name="u").aggregate("count(*) AS n", window="1s", name="a")
    assert query_class(s.query.diagram(), Order.ARRIVAL) == (ARBITRARY, ("u",))
    assert query_class(s.query.diagram(), Order.NONE) == (CONVERGENT, ("a",))
    s.aggregate("count(*) AS n", rows=2, name="c")
    assert query_class(s.query.diagram(), Order.CANONICAL) == (DETERMINISTIC, ("c",))


def test_table_2_of_the_paper() -> None:
    table = {
        "passive_standby": "repeating repeating repeating divergent",
        "upstream_backup": "repeating convergent divergent divergent",
        "active_standby": "repeating repeating repeating divergent",
    }
    assert {name: " ".join(map(str, MODES[name].recoveries)) for name in table} == table
    assert set(MODES["amnesia"].recoveries) == {Recovery.GAP}


def test_what_a_failure_shows_follows_from_the_class_in_the_mode() -> None:
    s = source()
    s.union(s).aggregate("count(*) AS n", window="1s")
    assert {name: str(found) for name, found in recoveries(s.query.diagram()).items()} == {
        "amnesia": "gap",
        "passive_standby": "divergent",
        "upstream_backup": "divergent",
        "active_standby": "divergent",
        "race": "precise",
        "dpc": "precise",
    }
    s.map("rand() AS r")
    assert recoveries(s.query.diagram())["race"] is Recovery.REFUSED


def test_text() -> None:
    s = source()
    s.union(s, name="u").aggregate("count(*) AS n", rows=10, name="tens")
    assert (
        as_text(s.query.diagram())
        == """\
classes
  union u: arbitrary by arrival; it shows in which order its inputs came
  union u: repeatable in race; each tuple by itself, and streams have no order
  union u: repeatable in dpc; its inputs are put into canonical order first
  aggregate tens: deterministic; a restart counts from another tuple, and its windows stay shifted

state
  aggregate tens: the tuples of windows that are not full

recovery
  amnesia          gap         the query is arbitrary (u)
  passive_standby  divergent   the query is arbitrary (u)
  upstream_backup  divergent   the query is arbitrary (u)
  active_standby   divergent   the query is arbitrary (u)
  race             precise     the query is deterministic (tens)
  dpc              precise     the query is deterministic (tens)
"""
    )
