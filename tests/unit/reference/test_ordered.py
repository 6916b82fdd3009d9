"""Boxes that take tuples in canonical order: what passes, when, and what is promised."""

from __future__ import annotations

import math

import pytest

from anabranch.model.identity import identity_hash
from anabranch.query.boxes import Arrow, Dedup, Latest, Resample, WSort
from anabranch.reference.joins import LatestBox, ResampleBox
from anabranch.reference.ordered import DedupBox, WSortBox
from tests.unit.reference.streams import row

MS = 1_000


def dedup(horizon_ms: int, *origins: str, key: str = "string") -> DedupBox:
    box = Dedup(name="d", input=Arrow("a"), by=("K",), horizon_us=horizon_ms * MS)
    return DedupBox(box, {"k": key, "v": "int"}, origins or ["a/0"])


def test_a_tuple_is_dropped_while_one_that_passed_is_younger_than_the_horizon() -> None:
    box = dedup(10)
    tuples = [row("a/0", MS * time, time, k="x", v=time) for time in (1, 5, 11, 20, 21)]
    box.process(0, tuples)
    first, _, third, _, last = tuples
    assert box.close(50 * MS) == {0: [first, third, last]}, "the one at 5 was dropped, so 11 counts from 1"


def test_it_waits_for_what_may_come_before() -> None:
    box = dedup(10, "a/0", "b/0")
    late = row("a/0", 5 * MS, 1, k="x", v=1)
    box.process(0, [late])
    assert box.punctuate(0, {"a/0": 50 * MS}) == {0: []}
    early = row("b/0", 4 * MS, 1, k="x", v=2)
    box.process(0, [early])
    assert box.punctuate(0, {"b/0": 50 * MS}) == {0: [early]}
    assert box.promises() == {"a/0": 50 * MS, "b/0": 50 * MS}


def test_of_equal_times_the_first_in_canonical_order_passes() -> None:
    box = dedup(10, "a/0", "b/0")
    tuples = [row(origin, MS, tid, k="x", v=tid) for origin in ("b/0", "a/0") for tid in (2, 1)]
    box.process(0, tuples)
    assert box.close(50 * MS) == {0: [tuples[3]]}


def test_keys_are_equal_as_groups_are() -> None:
    box = dedup(10, key="double")
    keys = [0.0, -0.0, math.nan, float("nan"), None, None]
    tuples = [row("a/0", MS, number, k=key, v=1) for number, key in enumerate(keys)]
    box.process(0, tuples)
    assert box.close(50 * MS) == {0: [tuples[0], tuples[2], tuples[4]]}


def latest(*, outer: bool = False, within_ms: int | None = None) -> LatestBox:
    within_us = None if within_ms is None else within_ms * MS
    box = Latest(name="l", left=Arrow("a"), right=Arrow("b"), on="k = rk", outer=outer, within_us=within_us)
    return LatestBox(box, {"k": "string"}, {"rk": "string", "v": "int"}, [["a/0"], ["b/0"]])


def found(box: LatestBox) -> list[tuple[int, object]]:
    return [(each.stime // MS, each.values["v"]) for each in box.close(100 * MS)[0]]


def test_a_tuple_finds_the_newest_that_is_not_later() -> None:
    box = latest()
    box.process(0, [row("a/0", time * MS, time, k="x") for time in (1, 4, 9)])
    box.process(1, [row("b/0", time * MS, time, rk="x", v=time) for time in (2, 3, 4, 10)])
    assert found(box) == [(4, 4), (9, 4)]


def test_a_tuple_without_a_partner_is_gone_or_has_null() -> None:
    for outer, wanted in ((False, [(5, 1)]), (True, [(3, None), (5, 1), (5, None), (5, None)])):
        box = latest(outer=outer)
        keys = [(3, "x"), (5, "x"), (5, "y"), (5, None)]
        box.process(0, [row("a/0", time * MS, number, k=k) for number, (time, k) in enumerate(keys)])
        box.process(1, [row("b/0", 4 * MS, 1, rk="x", v=1), row("b/0", 4 * MS, 2, rk=None, v=2)])
        assert found(box) == wanted


def test_a_partner_is_less_than_within_old() -> None:
    box = latest(within_ms=5)
    box.process(0, [row("a/0", time * MS, time, k="x") for time in (6, 7)])
    box.process(1, [row("b/0", 2 * MS, 1, rk="x", v=1)])
    assert found(box) == [(6, 1)]


def test_the_slower_input_holds_it_and_the_left_names_it() -> None:
    box = latest()
    left = row("a/0", 5 * MS, 7, k="x")
    box.process(0, [left])
    assert box.punctuate(0, {"a/0": 50 * MS}) == {0: []}
    box.process(1, [row("b/0", 5 * MS, 1, rk="x", v=1)])
    assert box.punctuate(1, {"b/0": 5 * MS}) == {0: []}, "a newer one may still come"
    tid = identity_hash("latest", "l", left.identity_parts)
    assert box.punctuate(1, {"b/0": 6 * MS}) == {0: [row("l", 5 * MS, tid, k="x", rk="x", v=1)]}
    assert box.promises() == {"l": 6 * MS}


SECONDS = [(2, 10.0), (6, 20.0), (6, 30.0), (9, None), (16, 40.0)]
"""Milliseconds and values of the second stream."""


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("linear", {1: None, 2: 10.0, 4: 15.0, 6: 30.0, 11: 35.0, 20: None}),
        ("previous", {1: None, 2: 10.0, 4: 10.0, 6: 30.0, 11: 30.0, 20: 40.0}),
        ("nearest", {1: 10.0, 2: 10.0, 4: 10.0, 6: 30.0, 11: 30.0, 20: 40.0}),
        ("mean", {1: 20.0, 2: 20.0, 4: 20.0, 6: 20.0, 11: 30.0, 20: 40.0}),
    ],
)
def test_a_value_is_made_of_those_around(how: str, wanted: dict[int, float | None]) -> None:
    box = Resample(name="r", left=Arrow("a"), right=Arrow("b"), columns=("V",), how=how, within_us=6 * MS)
    resampled = ResampleBox(box, {"k": "string"}, {"v": "double"}, [["a/0"], ["b/0"]])
    resampled.process(1, [row("b/0", time * MS, number, v=value) for number, (time, value) in enumerate(SECONDS)])
    resampled.process(0, [row("a/0", time * MS, time, k="x") for time in wanted])
    assert {each.stime // MS: each.values["v"] for each in resampled.close(100 * MS)[0]} == wanted


def test_a_tuple_waits_for_all_that_count_for_it_and_the_promise_with_it() -> None:
    box = Resample(name="r", left=Arrow("a"), right=Arrow("b"), columns=("v",), how="mean", within_us=6 * MS)
    resampled = ResampleBox(box, {"k": "string"}, {"v": "double"}, [["a/0"], ["b/0"]])
    each = row("a/0", 10 * MS, 1, k="x")
    resampled.process(0, [each])
    assert resampled.close(15 * MS) == {0: []}
    assert resampled.promises() == {"r": 9 * MS + 1}
    tid = identity_hash("resample", "r", each.identity_parts)
    assert resampled.close(16 * MS) == {0: [row("r", 10 * MS, tid, k="x", v=None)]}
    assert resampled.promises() == {"r": 10 * MS + 1}


def wsort(timeout_ms: int) -> WSortBox:
    box = WSort(name="w", input=Arrow("a"), by=("v",), timeout_us=timeout_ms * MS)
    return WSortBox(box, {"v": "int"}, ["a/0"])


def left(box: WSortBox, *rows: tuple[int, int | None]) -> tuple[list[tuple[int, object]], list[tuple[int, object]]]:
    box.process(0, [row("a/0", time * MS, number, v=v) for number, (time, v) in enumerate(rows)])
    made = box.close(100 * MS)
    return tuple([(each.stime // MS, each.values["v"]) for each in made[port]] for port in (0, 1))  # type: ignore[return-value]


def test_the_one_that_waited_longest_takes_along_what_sorts_before_it() -> None:
    assert left(wsort(10), (1, 5), (3, 2), (4, 7), (8, 1)) == ([(11, 1), (11, 2), (11, 5), (14, 7)], [])


def test_what_comes_when_one_behind_it_has_left_is_late() -> None:
    assert left(wsort(10), (1, 5), (11, 3), (12, 6)) == ([(11, 5), (22, 6)], [(11, 3)]), "at 11 the first leaves"
    assert left(wsort(10), (1, 5), (10, 3)) == ([(11, 3), (11, 5)], [])


def test_equal_ones_leave_in_canonical_order_and_null_first() -> None:
    assert left(wsort(10), (1, 5), (2, None), (3, 5)) == ([(11, None), (11, 5), (13, 5)], [])


def test_identities_are_kept_and_times_are_those_of_the_release() -> None:
    box = wsort(10)
    box.process(0, [row("a/0", 1 * MS, 7, v=5)])
    assert box.punctuate(0, {"a/0": 10 * MS}) == {0: [], 1: []}
    assert box.punctuate(0, {"a/0": 11 * MS}) == {0: [row("a/0", 11 * MS, 7, v=5)], 1: []}
    assert box.promises() == {"a/0": 11 * MS}
