"""Whom a leader asks first: as many as it needs, the quickest, and all when these take too long."""

from __future__ import annotations

from anabranch.core.asking import AGAIN_ENTRIES, LATER_ENTRIES, LATEST_US, SOONEST_US, Asking


def asked(asking: Asking, peers: str = "bc") -> str:
    return "".join(peer for peer in peers if asking.asks(peer))


def test_at_first_all_are_asked() -> None:
    assert asked(Asking().entered()) == "bc"


def test_who_answered_first_is_asked_first_from_then_on() -> None:
    asking = Asking().entered().released(7, {"b": 6, "c": 7}, took_us=3_000, needed=1)
    assert asked(asking.entered()) == "c"


def test_of_four_peers_two_are_asked() -> None:
    asking = Asking().released(7, {"b": 7, "c": 6, "d": 7, "e": 5}, took_us=3_000, needed=2)
    assert asked(asking.entered(), "bcde") == "bd"


def test_a_single_peer_is_always_asked() -> None:
    asking = Asking().released(7, {"b": 7}, took_us=3_000, needed=1)
    assert asked(asking.entered(), "b") == "b"


def test_what_was_released_without_enough_answers_says_nothing_about_who_is_quick() -> None:
    assert asked(Asking().released(7, {"b": 6, "c": 6}, took_us=3_000, needed=1)) == "bc"


def test_when_it_takes_too_long_all_are_asked_and_the_quickest_is_found_again() -> None:
    asking = Asking().released(7, {"b": 7, "c": 6}, took_us=3_000, needed=1).overdue()
    assert asked(asking) == "bc"
    assert asked(asking.released(8, {"b": 7, "c": 8}, took_us=30_000, needed=1)) == "c"


def test_now_and_then_all_are_asked() -> None:
    asking = Asking().released(1, {"b": 1, "c": 0}, took_us=3_000, needed=1)
    for _ in range(AGAIN_ENTRIES):
        asking = asking.entered()
        assert asked(asking) == "b"
    assert asked(asking.entered()) == "bc"


def test_one_that_is_far_behind_need_not_wait() -> None:
    assert not Asking().is_far_behind(LATER_ENTRIES - 1)
    assert Asking().is_far_behind(LATER_ENTRIES)


def test_patience_follows_what_a_release_usually_takes_within_bounds() -> None:
    asking = Asking()
    for place in range(100):
        asking = asking.released(place, {}, took_us=8_000, needed=1)
    assert 20_000 < asking.patience_us < 30_000
    for place in range(100):
        asking = asking.released(place, {}, took_us=1, needed=1)
    assert asking.patience_us == SOONEST_US
    for place in range(100):
        asking = asking.released(place, {}, took_us=10**9, needed=1)
    assert asking.patience_us == LATEST_US
