"""Copies are compared by interval of stream time, whatever the order; a difference is found, and nothing is made up."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from anabranch.core import digests
from anabranch.core.digests import Comparison, ComparisonState, CopyBegan, Event, RaiseAlarm, TuplesDigested
from anabranch.core.identities import Header
from anabranch.limits import DIGEST_INTERVAL_US as I

Row = tuple[int, int, int]
"""Code of the origin, stream time, number."""


class Run:
    """A comparison with its state, and the alarms it raised."""

    def __init__(self) -> None:
        self.comparison = Comparison(("a", "b"))
        self.state = ComparisonState()
        self.alarms: list[RaiseAlarm] = []

    def handle(self, event: Event) -> None:
        self.state, alarms = self.comparison.handle(self.state, event)
        self.alarms += alarms

    def began(self, *copies: str, a: int = 0, b: int = 0) -> None:
        for copy in copies:
            self.handle(CopyBegan(copy=copy, floors=np.array([a, b])))

    def brought(self, copy: str, rows: list[Row], a: int = 0, b: int = 0) -> None:
        codes, times, numbers = zip(*rows, strict=True) if rows else ((), (), ())
        header = Header(np.array(codes, np.int32), np.array(times, np.int64), np.arange(len(rows)))
        found, promises = np.array(numbers, np.uint64), np.array([a, b])
        self.handle(TuplesDigested(copy=copy, header=header, numbers=found, promises=promises))

    @property
    def differences(self) -> list[tuple[str, int, set[str]]]:
        return [(alarm.origin, alarm.start_us // I, set(alarm.digests)) for alarm in self.alarms]


ROWS: list[Row] = [(0, 1, 11), (1, 2, 2**64 - 1), (0, I - 1, 2**64 - 5), (0, I, 7), (1, 3 * I, 8)]


def test_the_same_rows_in_any_order_and_any_pieces_are_the_same() -> None:
    run = Run()
    run.began("x", "y")
    run.brought("x", ROWS)
    run.brought("x", [], a=9 * I, b=9 * I)
    for row in ROWS[::-1]:
        run.brought("y", [row])
    run.brought("y", [], a=9 * I, b=9 * I)
    assert run.alarms == []


def test_a_row_that_differs_is_found_in_its_interval_when_both_are_complete() -> None:
    run = Run()
    run.began("x", "y", "z")
    for copy in "xyz":
        run.brought(copy, [(0, 1, 11), (0, I + 1, 7 if copy != "y" else 6)])
    run.brought("x", [], a=2 * I)
    run.brought("y", [], a=2 * I - 1)
    assert run.alarms == []  # y may bring more
    run.brought("y", [], a=2 * I)
    assert run.differences == [("a", 1, {"x", "y"})]
    run.brought("z", [], a=5 * I)
    assert run.differences[1:] == [("a", 1, {"z", "y"})]
    (alarm, *_) = run.alarms
    assert (alarm.start_us, alarm.end_us) == (I, 2 * I)
    assert {copy: each.rows for copy, each in alarm.digests.items()} == {"x": 1, "y": 1}


@pytest.mark.parametrize("rows", [[], [(0, 1, 11)], [(0, 1, 11), (0, 1, 12), (0, 1, 12)]])
def test_a_row_that_is_missing_or_too_many_is_found(rows: list[Row]) -> None:
    run = Run()
    run.began("x", "y")
    run.brought("x", [(0, 1, 11), (0, 1, 12)], a=I)
    run.brought("y", rows, a=I)
    assert run.differences == [("a", 0, {"x", "y"})]


def test_an_interval_of_which_something_may_be_missing_is_not_compared() -> None:
    run = Run()
    run.began("x")
    run.began("y", a=I + 5)  # it begins in the middle of the second
    run.brought("x", [(0, 1, 1), (0, I + 1, 2), (0, 2 * I, 3)], a=3 * I)
    run.brought("y", [(0, 2 * I, 4)], a=3 * I)
    assert run.differences == [("a", 2, {"x", "y"})]


def test_a_copy_that_begins_anew_is_compared_anew() -> None:
    run = Run()
    run.began("x", "y")
    for copy in "xy":
        run.brought(copy, [(0, 1, 1)], a=I)
    run.began("y")  # it sends everything once more, and it is something else
    run.brought("y", [(0, 1, 2)], a=I)
    assert run.differences == [("a", 0, {"x", "y"})]


def test_a_closed_origin_is_compared_to_its_end() -> None:
    run = Run()
    run.began("x", "y")
    closed = 253_370_764_800 * 1_000_000
    run.brought("x", [(0, 1, 1), (0, 5 * I, 2)], a=closed)
    run.brought("y", [(0, 1, 1), (0, 5 * I, 3)], a=closed)
    assert run.differences == [("a", 5, {"x", "y"})]


def test_only_the_latest_are_kept_and_the_others_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "DIGESTS", 3)
    run = Run()
    run.began("x", "y")
    run.brought("x", [(0, number * I, number) for number in range(10)], a=10 * I)
    assert len(run.state.copies["x"].sums.keys) == 3
    run.brought("y", [(0, number * I, number + (number in (2, 8))) for number in range(10)], a=10 * I)
    assert run.differences == [("a", 8, {"x", "y"})]


@pytest.mark.parametrize("seed", range(20))
def test_random_pieces_find_exactly_the_changed_intervals(seed: int) -> None:
    """Few rows and many, in few intervals and many: all ways of adding up agree with each other."""
    chance = Random(seed)
    intervals = chance.choice([1, 3, 200])
    rows = [
        (chance.randrange(2), chance.randrange(intervals * I), chance.randrange(2**64))
        for _ in range(chance.choice([5, 500]))
    ]
    changed = chance.choice(rows)
    others = [row if row is not changed else (row[0], row[1], row[2] ^ 1) for row in rows]
    chance.shuffle(others)
    run = Run()
    run.began("x", "y")
    for copy, brought in (("x", rows), ("y", others)):
        while brought:
            count = chance.randrange(1, len(brought) + 1)
            run.brought(copy, brought[:count])
            brought = brought[count:]
        run.brought(copy, [], a=intervals * I, b=intervals * I)
    assert run.differences == [("ab"[changed[0]], changed[1] // I, {"x", "y"})], f"seed {seed}"
