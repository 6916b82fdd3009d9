"""Which copy of a feed speaks: home first, another one when none is heard, and nobody who was replaced."""

from __future__ import annotations

from anabranch.core.feed_lease import CopyAsked, Event, FeedLease, Looked, Replaced, Turn

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


def silent(now_us: int, *hosts: str) -> list[CopyAsked]:
    return [CopyAsked(now_us, host, speaks=False) for host in hosts]


def test_the_only_copy_begins_at_once() -> None:
    alone = FeedLease("a", ("a",), TAKEOVER_US)
    assert alone.handle(alone.begin(0), Looked(0))[1]
    assert alone.others == ()


def test_home_begins_when_it_has_asked_all_others_and_none_speaks() -> None:
    assert told("a", Looked(S), *silent(S, "b"), Looked(9 * S))[1] == []
    assert told("a", *silent(S, "b"), *silent(2 * S, "c"), Looked(3 * S))[1] == [2 * S]


def test_home_that_comes_back_waits_for_the_one_that_took_over() -> None:
    turn, began = told("a", CopyAsked(S, "b", speaks=True), *silent(S, "c"), Looked(2 * S))
    assert began == []
    assert told("a", *silent(2 * S, "b", "c"), Looked(5 * S - 1), turn=turn)[1] == []
    assert told("a", *silent(2 * S, "b", "c"), Looked(5 * S), turn=turn)[1] == [5 * S]


def test_another_one_begins_when_none_was_heard_for_the_time_that_was_set() -> None:
    assert told("b", *silent(S, "a", "c"), Looked(TAKEOVER_US - 1))[1] == []
    assert told("b", Looked(TAKEOVER_US), Looked(TAKEOVER_US + 1))[1] == [TAKEOVER_US]
    heard = CopyAsked(3 * S, "a", speaks=True)
    assert told("b", heard, Looked(3 * S + TAKEOVER_US - 1))[1] == []
    assert told("b", heard, Looked(3 * S + TAKEOVER_US))[1] == [3 * S + TAKEOVER_US]


def test_those_further_down_the_list_wait_longer() -> None:
    assert told("c", Looked(2 * TAKEOVER_US - 1))[1] == []
    assert told("c", Looked(2 * TAKEOVER_US))[1] == [2 * TAKEOVER_US]


def test_a_copy_that_was_replaced_waits_like_any_other() -> None:
    turn, _ = told("a", *silent(0, "b", "c"))
    assert turn.speaks
    turn, began = told("a", Replaced(7 * S), *silent(8 * S, "b", "c"), Looked(7 * S + TAKEOVER_US - 1), turn=turn)
    assert (turn.speaks, began) == (False, [])
    assert told("a", Looked(7 * S + TAKEOVER_US), turn=turn)[1] == [7 * S + TAKEOVER_US]


def test_a_copy_that_speaks_goes_on_whatever_others_say() -> None:
    turn, _ = told("a", *silent(0, "b", "c"))
    turn, began = told("a", CopyAsked(S, "b", speaks=True), Looked(9 * S), turn=turn)
    assert (turn.speaks, began) == (True, [])
