"""A new entry point and one that lost its disk are told apart, whoever is away, and no life is lived twice."""

from __future__ import annotations

import random

import pytest

from anabranch.core.roll_call import Beginning, Met, Roll, greet, merged


def newcomer(name: str, token: str, names: str) -> Beginning:
    return Beginning(name=name, token=token, peers=tuple(each for each in names if each != name))


def test_all_begin_their_first_life_when_nobody_has_heard_of_anybody() -> None:
    rolls: dict[str, Roll] = {name: {} for name in "abc"}
    for name in "abc":
        one = newcomer(name, f"token {name}", "abc")
        for peer in one.peers:
            assert not one.may_begin
            rolls[peer] = greet(rolls[peer], name, one.says)
            one = one.answered(peer, rolls[peer][name])
        assert one.may_begin
        assert not one.lost_its_disk


def test_the_same_directory_is_the_same_life() -> None:
    roll = greet({}, "a", Met(1, "first"))
    assert greet(roll, "a", Met(1, "first")) == roll


def test_another_directory_is_the_next_life_and_all_must_hear_of_it() -> None:
    knows = greet({}, "a", Met(1, "first"))
    one = newcomer("a", "second", "abc").answered("b", greet({}, "a", Met(1, "second"))["a"])
    assert one.life == 1
    one = one.answered("c", greet(knows, "a", one.says)["a"])
    assert (one.life, one.lost_its_disk, one.agreed) == (2, True, {"c"})
    assert not one.may_begin
    one = one.answered("b", greet({"a": Met(1, "second")}, "a", one.says)["a"])
    assert one.may_begin


def test_an_answer_to_an_earlier_life_does_not_count() -> None:
    one = newcomer("a", "second", "abc").answered("c", Met(2, "second"))
    assert one.answered("b", Met(1, "second")) == one


def test_who_lost_its_disk_is_told_what_it_had_written_down() -> None:
    assert merged({"a": Met(1, "t")}, {"a": Met(2, "u"), "b": Met(1, "v")}) == {"a": Met(2, "u"), "b": Met(1, "v")}
    assert merged({"a": Met(2, "u")}, {"a": Met(1, "t")}) == {"a": Met(2, "u")}


@pytest.mark.parametrize("names", ["ab", "abc", "abcd", "abcde"])
def test_every_disk_begins_another_life_whoever_answers(names: str) -> None:
    """One entry point loses its disk again and again; each time it meets as few of the others as may be."""
    chance = random.Random(names)
    for _ in range(200):
        rolls: dict[str, Roll] = {name: {} for name in names}
        lives = []
        for token in ("1", "2", "3", "4"):
            one = newcomer("a", token, names)
            there = chance.sample(one.peers, one.needed)
            while not one.may_begin:
                peer = chance.choice(there)
                rolls[peer] = greet(rolls[peer], "a", one.says)
                one = one.answered(peer, rolls[peer]["a"])
            lives.append(one.life)
        assert lives[0] == 1
        assert sorted(set(lives)) == lives
