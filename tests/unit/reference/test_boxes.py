"""Each box by itself: what it puts out, under which identity and time, and what it promises."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from anabranch.errors import InvariantBroken
from anabranch.model.identity import identity_hash
from anabranch.query.boxes import Arrow, Drop, Filter, Map
from anabranch.reference.joins import JoinBox
from anabranch.reference.steps import DropBox, FilterBox, MapBox, UnionBox
from anabranch.reference.windows import AggregateBox, CountAggregateBox
from tests.unit.reference.streams import aggregate, counting, join, row, union

XS = {"x": "int"}


def test_a_tuple_goes_to_the_first_predicate_that_holds() -> None:
    box = FilterBox(Filter(name="f", input=Arrow("s"), predicates=("x > 5", "x > 1"), otherwise=True), XS, ["s/0"])
    six, two, zero, null = (row("s/0", 10, n, x=x) for n, x in enumerate([6, 2, 0, None]))
    assert box.process(0, [six, two, zero, null]) == {0: [six], 1: [two], 2: [zero, null]}


def test_without_otherwise_the_rest_is_gone() -> None:
    box = FilterBox(Filter(name="f", input=Arrow("s"), predicates=("x > 5",)), XS, ["s/0"])
    assert box.process(0, [row("s/0", 10, 1, x=1)]) == {}
    box.punctuate(0, {"s/0": 50})
    assert box.promises() == {"s/0": 50}


def test_a_map_keeps_identity_and_time() -> None:
    box = MapBox(Map(name="m", input=Arrow("s"), columns="*, X * 2 AS twice, _stime AS at"), {"x": "int"}, ["s/0"])
    assert box.process(0, [row("s/0", 10, 1, x=3)]) == {0: [row("s/0", 10, 1, x=3, twice=6, at=10)]}
    assert box.columns == {"x": "int", "twice": "int", "at": "timestamp"}
    box.punctuate(0, {"s/0": 50})
    assert box.promises() == {"s/0": 50}


def test_a_column_keeps_the_spelling_of_the_input() -> None:
    box = MapBox(Map(name="m", input=Arrow("s"), columns="CPU"), {"cpu": "double"}, ["s/0"])
    assert list(box.columns) == ["cpu"]


def test_a_union_keeps_identities_where_they_cannot_meet() -> None:
    box = UnionBox(union("u", "a", "b"), XS, [["a/0"], ["b/0"]], hashes=False)
    assert box.process(1, [row("b/0", 10, 7, X=3)]) == {0: [row("b/0", 10, 7, x=3)]}


def test_a_union_says_which_way_a_tuple_came_where_they_could() -> None:
    box = UnionBox(union("u", "f", "g"), XS, [["a/0"], ["a/0"]], hashes=True)
    identity = [("string", "a/0"), ("bigint", 10), ("bigint", 7)]
    ((first,), (second,)) = (box.process(port, [row("a/0", 10, 7, x=3)])[0] for port in (0, 1))
    assert first.tid == identity_hash("union", "u", [("int", 0), *identity])
    assert second.tid == identity_hash("union", "u", [("int", 1), *identity])
    assert first.origin == second.origin == "a/0"


def test_a_union_promises_per_origin_the_smallest_of_those_that_carry_it() -> None:
    box = UnionBox(union("u", "f", "g"), XS, [["a/0", "b/0"], ["a/0"]], hashes=True)
    box.punctuate(0, {"a/0": 30, "b/0": 20})
    assert box.promises() == {"a/0": 0, "b/0": 20}
    box.punctuate(1, {"a/0": 10})
    assert box.promises() == {"a/0": 10, "b/0": 20}


def joined(within_us: int = 5, on: str = "x = y") -> JoinBox:
    return JoinBox(join("j", "a", "b", on, within_us), {"x": "int"}, {"y": "int"}, [["a/0"], ["b/0"]])


def test_a_join_puts_out_a_pair_with_the_second_of_the_two() -> None:
    box = joined()
    assert box.process(0, [row("a/0", 10, 1, x=3)]) == {0: []}
    (pair,) = box.process(1, [row("b/0", 14, 2, y=3)])[0]
    left = [("string", "a/0"), ("bigint", 10), ("bigint", 1)]
    right = [("string", "b/0"), ("bigint", 14), ("bigint", 2)]
    assert pair == row("j", 14, identity_hash("join", "j", [*left, *right]), x=3, y=3)


def test_a_pair_is_the_same_whichever_came_last() -> None:
    one, other = joined(), joined()
    left, right = row("a/0", 14, 1, x=3), row("b/0", 10, 2, y=3)
    first = one.process(0, [left])[0] + one.process(1, [right])[0]
    second = other.process(1, [right])[0] + other.process(0, [left])[0]
    assert first == second != []


@pytest.mark.parametrize(("apart", "matches"), [(0, True), (4, True), (5, False), (-4, True), (-5, False)])
def test_a_pair_lies_less_than_the_window_apart(apart: int, matches: bool) -> None:
    box = joined(within_us=5)
    box.process(0, [row("a/0", 10, 1, x=3)])
    assert bool(box.process(1, [row("b/0", 10 + apart, 2, y=3)])[0]) is matches


def test_null_joins_nothing() -> None:
    box = joined()
    box.process(0, [row("a/0", 10, 1, x=None)])
    assert box.process(1, [row("b/0", 10, 2, y=None)]) == {0: []}


def test_a_join_forgets_only_what_can_match_no_more() -> None:
    box = joined(within_us=5)
    box.process(0, [row("a/0", 10, 1, x=3)])
    box.punctuate(1, {"b/0": 14})
    assert len(box.process(1, [row("b/0", 14, 2, y=3)])[0]) == 1
    box.punctuate(1, {"b/0": 16})
    assert box._buffers[0] == []


def test_a_join_promises_the_slower_input() -> None:
    box = joined()
    box.punctuate(0, {"a/0": 30})
    assert box.promises() == {"j": 0}
    box.punctuate(1, {"b/0": 20})
    assert box.promises() == {"j": 20}


def windows(window_us: int, every_us: int, *origins: str) -> AggregateBox:
    box = aggregate("g", "a", "count(*) AS n, sum(v) AS v", ("k",), window_us, every_us)
    return AggregateBox(box, {"K": "string", "v": "int"}, origins or ["a/0"])


def test_a_window_is_put_out_when_its_end_is_promised() -> None:
    box = windows(10_000, 10_000)
    box.process(
        0, [row("a/0", 3_000, 1, K="x", v=1), row("a/0", 9_999, 2, K="x", v=2), row("a/0", 10_000, 3, K="x", v=4)]
    )
    assert box.punctuate(0, {"a/0": 9_999}) == {0: []}
    tid = identity_hash("window", "g", [("string", "x"), ("bigint", 0), ("bigint", 10_000)])
    assert box.punctuate(0, {"a/0": 10_000}) == {0: [row("g", 10_000, tid, K="x", n=2, v=3)]}
    assert box.promises() == {"g": 10_001}
    assert box.columns == {"K": "string", "n": "bigint", "v": "bigint"}


def test_a_promise_counts_in_whole_milliseconds() -> None:
    box = windows(10_000, 10_000)
    box.process(0, [row("a/0", 3_000, 1, K="x", v=1)])
    box.punctuate(0, {"a/0": 9_999})
    assert box.promises() == {"g": 9_001}


def test_nothing_is_promised_in_the_first_millisecond() -> None:
    box = windows(10_000, 10_000)
    box.punctuate(0, {"a/0": 999})
    assert box.promises() == {"g": 0}


def test_windows_overlap_and_reach_back_before_the_first_tuple() -> None:
    box = windows(10_000, 5_000)
    box.process(0, [row("a/0", 3_000, 1, K="x", v=1)])
    (early, late) = box.close(10_000)[0]
    assert [early.stime, late.stime] == [5_000, 10_000]
    start = identity_hash("window", "g", [("string", "x"), ("bigint", -5_000), ("bigint", 5_000)])
    assert early.tid == start


def test_windows_may_leave_gaps() -> None:
    box = windows(2_000, 5_000)
    box.process(
        0, [row("a/0", 1_999, 1, K="x", v=1), row("a/0", 2_000, 2, K="x", v=1), row("a/0", 5_000, 3, K="x", v=1)]
    )
    assert [(each.stime, each.values["n"]) for each in box.close(10_000)[0]] == [(2_000, 1), (7_000, 1)]


def test_null_is_a_group_and_not_the_empty_string() -> None:
    box = windows(10_000, 10_000)
    box.process(0, [row("a/0", 1, 1, K=None, v=1), row("a/0", 2, 2, K="", v=2), row("a/0", 3, 3, K=None, v=4)])
    found = {each.values["K"]: each for each in box.close(10_000)[0]}
    assert (found[None].values["v"], found[""].values["v"]) == (5, 2)
    assert found[None].tid != found[""].tid


def test_zeros_are_one_group_and_so_are_nans() -> None:
    box = AggregateBox(aggregate("g", "a", "count(*) AS n", ("k",), 10_000), {"k": "double"}, ["a/0"])
    keys = [-0.0, 0.0, math.nan, float("nan")]
    box.process(0, [row("a/0", 1, n, k=key) for n, key in enumerate(keys)])
    zero, nan = box.close(10_000)[0]
    assert (zero.values["n"], nan.values["n"]) == (2, 2)
    assert math.copysign(1, zero.values["k"]) == 1.0  # type: ignore[arg-type]


def test_the_slowest_origin_holds_all_groups() -> None:
    box = windows(10_000, 10_000, "a/0", "b/0")
    box.process(0, [row("a/0", 1, 1, K="x", v=1)])
    assert box.punctuate(0, {"a/0": 99_000}) == {0: []}
    assert len(box.punctuate(0, {"b/0": 10_000})[0]) == 1


def test_a_broken_promise_stops_the_box() -> None:
    box = windows(10_000, 10_000)
    box.punctuate(0, {"a/0": 20_000})
    with pytest.raises(InvariantBroken, match="below the punctuation"):
        box.process(0, [row("a/0", 19_999, 1, K="x", v=1)])
    with pytest.raises(InvariantBroken, match="went back"):
        box.punctuate(0, {"a/0": 19_000})
    with pytest.raises(InvariantBroken, match="does not reach"):
        box.process(0, [row("z/0", 30_000, 1, K="x", v=1)])


def counts(rows: int, every_rows: int, *origins: str) -> CountAggregateBox:
    box = counting("c", "a", "count(*) AS n, sum(v) AS v", ("k",), rows, every_rows)
    return CountAggregateBox(box, {"K": "string", "v": "int"}, origins or ["a/0"])


def test_a_window_of_tuples_is_put_out_when_it_is_full_and_nothing_can_come_between() -> None:
    box = counts(2, 2)
    late, early = row("a/0", 5_000, 2, K="x", v=2), row("a/0", 3_000, 1, K="x", v=1)
    box.process(0, [late, early, row("a/0", 6_000, 3, K="x", v=4)])
    assert box.punctuate(0, {"a/0": 5_000}) == {0: []}, "a tuple at 5,000 may still come"
    tid = identity_hash("count", "c", [("string", "x"), *early.identity_parts, *late.identity_parts])
    assert box.punctuate(0, {"a/0": 6_000}) == {0: [row("c", 5_000, tid, K="x", n=2, v=3)]}
    assert box.promises() == {"c": 6_000}
    assert box.columns == {"K": "string", "n": "bigint", "v": "bigint"}


def test_a_window_of_tuples_that_lasts_too_long_is_put_out_as_it_is() -> None:
    box = CountAggregateBox(
        replace(counting("c", "a", "count(*) AS n, sum(v) AS v", ("k",), 3, 3), timeout_us=10_000),
        {"K": "string", "v": "int"},
        ["a/0"],
    )
    tuples = [row("a/0", 1_000 * v, v, K="x", v=v) for v in (1, 5, 11, 12, 13, 14)]
    box.process(0, tuples)
    made = box.close(20_000)[0]
    assert [(each.stime, each.values["n"]) for each in made] == [(11_000, 2), (13_000, 3)], "11 begins another"
    ends = [*tuples[0].identity_parts, *tuples[1].identity_parts]
    assert made[0].tid == identity_hash("count", "c", [("string", "x"), *ends])
    assert [(each.stime, each.values["n"]) for each in box.close(24_000)[0]] == [(24_000, 1)]


def test_tuples_are_counted_in_canonical_order() -> None:
    box = counts(1, 1, "a/0", "b/0")
    tuples = [row(origin, time, tid, K="x", v=1) for time in (1, 2) for origin in ("a/0", "b/0") for tid in (-1, 7)]
    box.process(0, list(reversed(tuples)))
    identities = [("string", "x")], [each.identity_parts for each in tuples]
    wanted = [identity_hash("count", "c", [*identities[0], *parts, *parts]) for parts in identities[1]]
    assert [each.tid for each in box.close(1_000)[0]] == wanted


@pytest.mark.parametrize(
    ("rows", "every", "sums"), [(3, 3, [6, 15]), (3, 1, [6, 9, 12, 15, 18]), (3, 2, [6, 12, 18]), (8, 1, [])]
)
def test_windows_of_tuples_advance_by_tuples(rows: int, every: int, sums: list[int]) -> None:
    box = counts(rows, every)
    box.process(0, [row("a/0", v, v, K="x", v=v) for v in range(1, 8)])
    assert [each.values["v"] for each in box.close(1_000)[0]] == sums


def test_how_the_tuples_are_cut_makes_no_difference() -> None:
    whole, cut = counts(3, 2), counts(3, 2)
    tuples = [row("a/0", 1_000 * v, v, K="xy"[v % 2], v=v) for v in range(1, 20)]
    whole.process(0, tuples)
    made = []
    for each in tuples:
        cut.process(0, [each])
        made += cut.close(each.stime)[0]
    assert made + cut.close(30_000)[0] == whole.close(30_000)[0]


def test_each_group_counts_for_itself_and_null_is_one() -> None:
    box = counts(2, 2)
    box.process(0, [row("a/0", n, n, K=key, v=n) for n, key in enumerate(["x", None, "", "x", None], start=1)])
    assert [(each.values["K"], each.values["v"]) for each in box.close(1_000)[0]] == [("x", 5), (None, 7)]


def test_a_drop_by_predicate_keeps_what_a_filter_would_not() -> None:
    box = DropBox(Drop(name="d", input=Arrow("s"), predicate="x > 5"), XS, ["s/0"])
    six, one, null = (row("s/0", 10, n, x=x) for n, x in enumerate([6, 1, None]))
    assert box.process(0, [six, one, null]) == {0: [one, null]}
    box.punctuate(0, {"s/0": 50})
    assert box.promises() == {"s/0": 50}


def dropped(fraction: float, seed: int, name: str = "d") -> list[int]:
    box = DropBox(Drop(name=name, input=Arrow("s"), fraction=fraction, seed=seed), XS, ["s/0"])
    tuples = [row("s/0", 10, n, x=0) for n in range(2_000)]
    kept = {each.tid for each in box.process(0, tuples)[0]}
    return [each.tid for each in tuples if each.tid not in kept]


def test_a_drop_by_fraction_decides_by_seed_and_identity_alone() -> None:
    few, more = dropped(0.1, 7), dropped(0.3, 7)
    assert 150 < len(few) < 250
    assert 530 < len(more) < 670
    assert set(few) < set(more), "what a small fraction drops, a larger one drops too"
    assert dropped(0.1, 7, name="other") == few
    assert dropped(0.1, 8) != few
