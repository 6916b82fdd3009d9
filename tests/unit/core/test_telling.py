"""Copies that tell each other their digests find where they differ, once, and nothing where they may be incomplete."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from anabranch.core import digests
from anabranch.core.digests import CopyDigests, RaiseAlarm, TuplesDigested
from anabranch.core.identities import Header
from anabranch.core.telling import DigestsHeard, Range, Telling, TellingState
from anabranch.limits import DIGEST_INTERVAL_US as I

ORIGINS = ("a", "b")

Row = tuple[int, int, int]
"""Code of the origin, stream time, number."""


class Copy:
    """A node that adds up its own log, and asks others."""

    def __init__(self, name: str, a: int = 0, b: int = 0) -> None:
        self.name = name
        self.telling = Telling(name, ORIGINS)
        self.state = TellingState(own=CopyDigests.began(np.array([a, b])))
        self.alarms: list[RaiseAlarm] = []

    def wrote(self, rows: list[Row], a: int = 0, b: int = 0) -> None:
        codes, times, numbers = zip(*rows, strict=True) if rows else ((), (), ())
        header = Header(np.array(codes, np.int32), np.array(times, np.int64), np.arange(len(rows)))
        found, promises = np.array(numbers, np.uint64), np.array([a, b])
        event = TuplesDigested(copy=self.name, header=header, numbers=found, promises=promises)
        self.state, alarms = self.telling.handle(self.state, event)
        assert alarms == []

    def begin_anew(self, a: int = 0, b: int = 0) -> None:
        self.state = replace(self.state, own=CopyDigests.began(np.array([a, b])))

    def ask(self, other: Copy) -> dict[str, tuple[int, int]]:
        """Returns the intervals that it asked for."""
        asked = self.telling.to_ask(self.state, other.name)
        told = other.telling.told(other.state, asked)
        self.state, alarms = self.telling.handle(self.state, DigestsHeard(copy=other.name, told=told))
        self.alarms += alarms
        return {origin: (each.begin_us // I, each.end_us // I) for origin, each in asked.items()}

    @property
    def differences(self) -> list[tuple[str, int, dict[str, int]]]:
        return [
            (alarm.origin, alarm.start_us // I, {copy: each.rows for copy, each in alarm.digests.items()})
            for alarm in self.alarms
        ]


ROWS: list[Row] = [(0, 1, 11), (1, 2, 2**64 - 1), (0, I - 1, 2**64 - 5), (0, I, 7), (1, 3 * I, 8)]


def test_the_same_rows_in_any_order_are_the_same_and_are_not_asked_for_again() -> None:
    x, y = Copy("x"), Copy("y")
    x.wrote(ROWS, a=2 * I, b=4 * I)
    for row in ROWS[::-1]:
        y.wrote([row])
    y.wrote([], a=2 * I, b=4 * I)
    assert x.ask(y) == {"a": (0, 2), "b": (0, 4)}
    assert x.ask(y) == {}
    x.wrote([], a=3 * I + 1)
    assert x.ask(y) == {"a": (2, 3)}
    assert x.alarms == []


@pytest.mark.parametrize("rows", [[], [(0, I, 6)], [(0, I, 7), (0, I, 7)]])
def test_what_differs_is_found_in_its_interval_once(rows: list[Row]) -> None:
    x, y = Copy("x"), Copy("y")
    x.wrote([(0, 1, 11), (0, I, 7), (0, 2 * I, 8)], a=3 * I)
    y.wrote([(0, 1, 11), *rows, (0, 2 * I, 8)], a=3 * I)
    x.ask(y)
    x.wrote([(0, 3 * I, 9)], a=4 * I)
    y.wrote([(0, 3 * I, 9)], a=4 * I)
    x.ask(y)
    assert x.differences == [("a", 1, {"x": 1, "y": len(rows)})]


def test_one_that_is_behind_is_compared_when_it_has_come_so_far() -> None:
    x, y = Copy("x"), Copy("y")
    x.wrote([(0, 1, 11), (0, I, 7), (1, 1, 3)], a=2 * I, b=I)
    y.wrote([(0, 1, 11)], a=2 * I - 1)
    x.ask(y)
    assert x.alarms == []
    y.wrote([(0, I, 5)], a=9 * I)  # and is ahead then
    assert x.ask(y) == {"a": (1, 2), "b": (0, 1)}
    assert x.differences == [("a", 1, {"x": 1, "y": 1})]


def test_three_are_compared_by_pairs() -> None:
    x, y, z = (Copy(name) for name in "xyz")
    for copy in (x, y, z):
        copy.wrote([(0, 1, 11 if copy is not z else 12)], a=I)
    x.ask(y)
    x.ask(z)
    y.ask(z)
    assert [set(alarm.digests) for alarm in [*x.alarms, *y.alarms]] == [{"x", "z"}, {"y", "z"}]


def test_what_a_copy_may_lack_is_not_compared() -> None:
    """Neither at who asks nor at who is asked: what lies below a floor was forgotten."""
    for low, high in [(Copy("x"), Copy("y", a=I + 1)), (Copy("x", a=I + 1), Copy("y"))]:
        low.wrote([(0, 1, 1), (0, I, 2), (0, 2 * I, 3)] if not low.state.own.begins[0] else [(0, 2 * I, 3)], a=3 * I)
        high.wrote([(0, 2 * I, 3)] if high.state.own.begins[0] else [(0, 1, 1), (0, 2 * I, 3)], a=3 * I)
        low.ask(high)
        assert low.alarms == []


def test_one_that_begins_anew_is_compared_from_there_on_and_nothing_is_made_up() -> None:
    x, y = Copy("x"), Copy("y")
    for copy in (x, y):
        copy.wrote([(0, 1, 1), (0, I, 2), (0, 2 * I, 3)], a=3 * I)
    x.ask(y)
    for copy in (x, y):
        copy.begin_anew(a=I)  # of what is compared already, some is read again
        copy.wrote([(0, I, 2), (0, 2 * I, 3)], a=3 * I)
        x.ask(y)
    for copy in (x, y):
        copy.wrote([(0, 3 * I, 4 if copy is x else 5)], a=4 * I)
    x.ask(y)
    assert x.differences == [("a", 3, {"x": 1, "y": 1})]


def test_an_answer_says_no_more_than_was_asked_for_and_vouched_for() -> None:
    y = Copy("y", a=2 * I)
    y.wrote([(0, 2 * I, 3), (0, 4 * I, 4), (1, 1, 5)], a=9 * I, b=I - 1)
    asked = {origin: Range(begin_us=0, end_us=4 * I) for origin in (*ORIGINS, "unknown")}
    told = y.telling.told(y.state, asked)
    assert {origin: (each.range, list(each.starts_us)) for origin, each in told.items()} == {
        "a": (Range(begin_us=2 * I, end_us=4 * I), [2 * I])
    }


def test_only_the_latest_digests_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "DIGESTS", 10)
    x, y = Copy("x"), Copy("y")
    for number in range(100):
        x.wrote([(0, number * I, number)], a=(number + 1) * I)
    assert len(x.state.own.sums.keys) == 10
    y.wrote([(0, number * I, number) for number in range(100)], a=100 * I)
    assert x.ask(y) == {"a": (90, 100)}
    assert x.alarms == []


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_pieces_and_the_moments_exactly_what_differs_is_found(seed: int) -> None:
    rng = Random(seed)
    rows = sorted((rng.randrange(20 * I), rng.randrange(2), rng.randrange(1 << 64)) for _ in range(200))
    wrong = set(rng.sample(range(200), 3))
    x, y = Copy("x"), Copy("y")
    places = {"x": 0, "y": 0}
    while min(places.values()) < 200:
        copy = rng.choice([each for each in (x, y) if places[each.name] < 200])
        first = places[copy.name]
        last = places[copy.name] = min(200, first + rng.randrange(1, 20))
        piece = [
            (code, time, number ^ (copy is y and first + at in wrong))
            for at, (time, code, number) in enumerate(rows[first:last])
        ]
        rng.shuffle(piece)
        promise = rows[last][0] if last < 200 else 20 * I
        copy.wrote(piece, a=promise, b=promise)
        if rng.random() < 0.5:
            x.ask(y)
    x.ask(y)
    assert {(origin, at) for origin, at, _ in x.differences} == {
        (ORIGINS[rows[each][1]], rows[each][0] // I) for each in wrong
    }
    assert len(x.differences) == len({(rows[each][1], rows[each][0] // I) for each in wrong})
