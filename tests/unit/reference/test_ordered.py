"""Boxes that take tuples in canonical order: what passes, when, and what is promised."""

from __future__ import annotations

import math

from anabranch.query.boxes import Arrow, Dedup
from anabranch.reference.ordered import DedupBox
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
