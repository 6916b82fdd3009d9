"""What a stage needs of its journals: enough for every result, and not what no result shows."""

from __future__ import annotations

import anabranch as ab
from anabranch.query.graph import stages
from anabranch.query.needs import EVERYTHING, needs


def needed(q: ab.Query, stage: str) -> dict[str, set[str] | None]:
    diagram = q.checked()
    found = needs(diagram, next(each for each in stages(diagram) if each.name == stage))
    return {stream: None if need.columns is None else set(need.columns) for stream, need in found.items()}


def of_identity(q: ab.Query, stage: str) -> bool:
    """Whether the stage asks which tuple a tuple is."""
    diagram = q.checked()
    found = needs(diagram, next(each for each in stages(diagram) if each.name == stage))
    return all(need.identity for need in found.values())


def query() -> tuple[ab.Query, ab.Stream]:
    q = ab.Query("q")
    return q, q.source("s", "Key int, x int, y int, unused string, at timestamp", time="at")


def test_an_aggregate_needs_its_groups_and_what_it_adds_up() -> None:
    q, s = query()
    q.output("out", s.aggregate("sum(x) + max(y) AS t, count(*) AS n", by="KEY", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": {"key", "x", "y"}}


def test_filters_and_maps_below_it_need_theirs() -> None:
    q, s = query()
    mapped = s.filter("unused = 'a'", name="some").map("key AS k, x * 2 AS d, y", name="mapped")
    q.output("out", mapped.aggregate("sum(d) AS t", by="k", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": {"unused", "key", "x", "y"}}


def test_a_drop_needs_its_predicate_or_the_identity() -> None:
    q, s = query()
    q.output("out", s.drop("y > 1", name="some").aggregate("sum(x) AS t", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": {"x", "y"}}
    q, s = query()
    q.output("out", s.drop(0.5, name="some").aggregate("sum(x) AS t", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": {"x"}}
    assert of_identity(q, "sums")


def test_a_map_or_a_union_below_a_drop_keeps_the_identity_that_it_decides_by() -> None:
    q, s = query()
    mapped = s.map("x AS v", name="mapped")
    q.output("out", mapped.drop(0.5, name="some").aggregate("sum(v) AS t", window="1s", name="sums"))
    assert (needed(q, "sums"), of_identity(q, "sums")) == ({"s": {"x"}}, True)
    q, s = query()
    both = q.union(s.map("x AS v", name="left"), s.map("y AS v", name="right"), name="both")
    q.output("out", both.drop(0.5, name="some").aggregate("count(*) AS n", window="1s", name="sums"))
    assert (needed(q, "sums"), of_identity(q, "sums")) == ({"s": {"x", "y"}}, True)
    q.output("all", both.aggregate("count(*) AS n", window="1s", name="others"))
    assert not of_identity(q, "others")


def test_an_aggregate_that_counts_needs_everything_because_it_puts_tuples_in_order() -> None:
    q, s = query()
    q.output("out", s.aggregate("sum(x) AS t", rows=3, name="sums"))
    assert needed(q, "sums") == {"s": None}


def test_a_star_needs_everything() -> None:
    q, s = query()
    q.output("out", s.map("*, 1 AS one", name="mapped").aggregate("sum(one) AS t", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": None}


def test_a_union_needs_all_columns_of_its_inputs_and_a_map_below_it_only_its_own() -> None:
    q, s = query()
    other = q.source("o", "Key int, z int, at timestamp", time="at")
    both = q.union(s.map("x AS v", name="left"), other.map("z AS v", name="right"), name="both")
    q.output("out", both.aggregate("count(*) AS n", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": {"x"}, "o": {"z"}}
    q, s = query()
    q.output("out", q.union(s, s, name="twice").aggregate("count(*) AS n", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": None}


def test_all_ways_down_to_one_stream_count() -> None:
    q, s = query()
    both = q.union(s.map("x AS v", name="left"), s.map("y AS v", name="right"), name="both")
    q.output("out", both.aggregate("count(*) AS n", window="1s", name="sums"))
    assert needed(q, "sums") == {"s": {"x", "y"}}


def test_the_stream_of_another_stage_is_read_in_part_too() -> None:
    q, s = query()
    first = s.aggregate("sum(x) AS t, max(y) AS m", by="key", window="1s", name="first")
    q.output("out", first.aggregate("max(t) AS t", window="2s", name="second"))
    assert needed(q, "second") == {"box:first": {"t"}}


def test_identity_is_needed_where_it_is_shown_or_asked_for() -> None:
    q, s = query()
    q.output("out", s.filter("x > 1", name="some"))
    q.output("pairs", s.join(s.map("x AS other", name="others"), on="x = other", within="1s", name="pairs"))
    assert needed(q, "s") == needed(q, "pairs") == {"s": None}
    assert EVERYTHING.identity
    q, s = query()
    q.output("out", s.aggregate("max(x) AS t", window="1s", name="sums"))
    diagram = q.checked()
    (stage,) = stages(diagram)
    assert not needs(diagram, stage)["s"].identity
