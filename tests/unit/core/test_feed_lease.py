"""Which copy of a feed speaks: home first, another one when none is heard, and nobody who was replaced."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.core.feed_lease import (
    MOST_PATIENCE,
    CopyAsked,
    Event,
    FeedLease,
    Looked,
    Replaced,
    RowsCame,
    Stuck,
    Turn,
)

HOSTS = ("a", "b", "c")
S = 1_000_000
TAKEOVER_US = 4 * S


def lease(host: str) -> FeedLease:
    return FeedLease(host, HOSTS, TAKEOVER_US)


def told(host: str, *events: Event, turn: Turn | None = None) -> tuple[Turn, list[int]]:
    """The turn after these events, and when the copy began to speak."""
    began = []
    turn = turn or lease(host).begin(0)
    for event in events:
        turn, begins = lease(host).handle(turn, event)
        if begins:
            began.append(event.now_us)
    return turn, began


def asked(host: str, now_us: int, *, speaks: bool | None = False, **said: bool | None) -> Iterator[Event]:
    """All others of this one are asked, and it decides."""
    for other in lease(host).others:
        yield CopyAsked(now_us, other, said.get(other, speaks))
    yield Looked(now_us)


def silence(host: str, first_us: int, last_us: int, *, speaks: bool | None = False) -> Iterator[Event]:
    """The others are asked once a second, and none of them speaks."""
    for now_us in range(first_us, last_us + 1, S):
        yield from asked(host, now_us, speaks=speaks)


def test_the_only_copy_begins_at_once() -> None:
    alone = FeedLease("a", ("a",), TAKEOVER_US)
    assert alone.handle(alone.begin(0), Looked(0))[1]
    assert alone.others == ()


def test_home_begins_when_all_others_have_said_that_they_do_not_speak() -> None:
    assert told("a", CopyAsked(S, "b", speaks=False), Looked(S), Looked(2 * S))[1] == []
    assert told("a", *asked("a", S))[1] == [S]


def test_home_does_not_begin_at_once_where_one_does_not_answer() -> None:
    """It was started again, and the one that took over is slow, or just registers."""
    began = told("a", *asked("a", S, b=None), *asked("a", 2 * S, b=True), *silence("a", 3 * S, 5 * S))[1]
    assert began == []
    assert told("a", *silence("a", S, 9 * S, speaks=None))[1] == [4 * S]


def test_home_that_comes_back_waits_for_the_one_that_took_over() -> None:
    turn, began = told("a", *asked("a", S, b=True))
    assert began == []
    assert told("a", *silence("a", 2 * S, 9 * S), turn=turn)[1] == [5 * S]


def test_another_one_begins_when_none_was_heard_for_the_time_that_was_set() -> None:
    assert told("b", *silence("b", S, 9 * S))[1] == [TAKEOVER_US]
    assert told("b", *silence("b", S, 2 * S), *asked("b", 3 * S, a=True), *silence("b", 4 * S, 9 * S))[1] == [7 * S]


def test_it_decides_only_when_all_others_were_asked() -> None:
    turn, _ = told("b", *silence("b", S, 3 * S))
    turn, began = told("b", CopyAsked(4 * S, "c", speaks=False), Looked(4 * S), turn=turn)
    assert began == []
    assert told("b", CopyAsked(4 * S, "a", speaks=True), Looked(4 * S), turn=turn)[1] == []


def test_one_that_slept_does_not_take_its_sleep_for_silence() -> None:
    slept = 100 * S
    assert told("b", *asked("b", S, a=True), *asked("b", slept, speaks=None), *asked("b", slept + S, a=True))[1] == []
    assert told("b", *asked("b", S, a=True), *silence("b", slept, slept + 9 * S))[1] == [slept + 2 * S]


def test_rows_that_come_into_the_lane_say_that_somebody_speaks() -> None:
    events = [event for s in range(1, 20) for event in (RowsCame(s * S), *asked("b", s * S, speaks=None))]
    turn, began = told("b", *events)
    assert began == []
    assert told("b", *silence("b", 20 * S, 30 * S, speaks=None), turn=turn)[1] == [23 * S]


def test_those_further_down_the_list_wait_longer() -> None:
    assert told("c", *silence("c", S, 20 * S))[1] == [2 * TAKEOVER_US]


def test_a_copy_that_was_replaced_waits_like_any_other() -> None:
    turn, _ = told("a", *asked("a", S))
    turn, began = told("a", Replaced(7 * S), *asked("a", 8 * S, b=True), *silence("a", 9 * S, 11 * S), turn=turn)
    assert (turn.speaks, began) == (False, [])
    assert told("a", *silence("a", 12 * S, 20 * S), turn=turn)[1] == [12 * S]


def test_a_copy_that_is_replaced_by_one_that_it_does_not_hear_waits_twice_as_long_each_time() -> None:
    turn, began = told("b", *silence("b", S, 4 * S, speaks=None))
    waited = []
    for _ in range(9):
        at_us = began[-1] + S
        turn, began = told("b", Replaced(at_us), *silence("b", at_us, at_us + 3600 * S, speaks=None), turn=turn)
        waited.append((began[0] - at_us) // TAKEOVER_US)
    assert waited == [2, 4, 8, 16, 32, *[MOST_PATIENCE] * 4]
    turn, _ = told("b", Replaced(9_000 * S), *asked("b", 9_000 * S, a=True), turn=turn)
    assert told("b", *silence("b", 9_001 * S, 9_010 * S), turn=turn)[1] == [9_004 * S]


def test_a_copy_that_cannot_register_lets_others_try_and_tries_again() -> None:
    turn, began = told("b", *silence("b", S, 4 * S))
    assert began == [4 * S]
    turn, began = told("b", Stuck(9 * S), turn=turn)
    assert (turn.speaks, began) == (False, [])
    assert told("b", *silence("b", 10 * S, 20 * S), turn=turn)[1] == [13 * S]


def test_a_copy_that_speaks_goes_on_whatever_others_say() -> None:
    turn, _ = told("a", *asked("a", S))
    turn, began = told("a", *asked("a", 2 * S, b=True), Looked(9 * S), turn=turn)
    assert (turn.speaks, began) == (True, [])
