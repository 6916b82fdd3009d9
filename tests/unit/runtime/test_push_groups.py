"""Which pushes share a transaction, and when they are answered."""

from __future__ import annotations

from anabranch.runtime.ingest.push_groups import PushGroups


def groups(*members: str, most: int = 100) -> PushGroups[str]:
    made = PushGroups[str](most)
    for member in members:
        made.join(member)
    return made


def test_a_push_that_finds_nothing_under_way_waits_for_nobody() -> None:
    made = groups("a")
    assert made.begin() == ["a"]
    assert made.end() == ["a"]
    assert made.is_idle


def test_what_comes_while_a_group_is_under_way_is_the_next_in_its_order() -> None:
    made = groups("a")
    made.begin()
    for member in "bcd":
        made.join(member)
        assert made.begin() == []
    assert made.end() == ["a"]
    assert made.begin() == ["b", "c", "d"]
    assert not made.is_idle
    assert made.end() == ["b", "c", "d"]
    assert made.begin() == []


def test_nobody_is_answered_before_its_group() -> None:
    made = groups("a")
    made.begin()
    made.join("b")
    assert made.end() == ["a"]
    assert (made.under_way, made.gathered) == ([], ["b"])


def test_a_group_that_fails_takes_with_it_what_was_decided_on_top_of_it() -> None:
    made = groups("a")
    made.begin()
    made.join("b")
    assert made.fail() == ["a", "b"]
    assert made.is_idle
    made.join("c")
    assert made.begin() == ["c"]


def test_a_group_takes_no_more_than_so_many_bytes_but_any_member_alone() -> None:
    made = groups(most=10)
    for member, size in (("a", 50), ("b", 4), ("c", 6), ("d", 1)):
        made.join(member, size)
    assert made.gathered_size == 61
    found = []
    while group := made.begin():
        found.append(list(group))
        made.end()
    assert found == [["a"], ["b", "c"], ["d"]]


def test_who_waits_no_longer_leaves_and_an_empty_group_is_none() -> None:
    made = groups("a")
    made.begin()
    for member in "bc":
        made.join(member)
    made.leave("b")
    assert made.gathered == ["c"]
    made.leave("c")
    made.end()
    assert made.is_idle


def test_a_group_of_a_shared_lane_is_over_when_its_place_is_released() -> None:
    made = groups("a")
    made.begin()
    assert made.released(9) == []  # it does not stand anywhere
    made.stands_at(5)
    made.join("b")
    assert made.released(4) == []
    assert made.released(5) == ["a"]
    assert made.released(6) == []
    assert made.begin() == ["b"]
