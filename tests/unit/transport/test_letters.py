"""What entry points say to each other comes out of a letter as it went in, and what is no letter is refused."""

from __future__ import annotations

import pytest

from anabranch.core.shared_lane import StoreAnswered, StoreAsked, TeachAsked, VoteAnswered, VoteAsked
from anabranch.errors import ConfigError
from anabranch.transport import letters, messages
from anabranch.transport.letters import AboutLane, Message

LIVES = {"a": 1, "b": 3}
ASKED = StoreAsked(
    sender="a",
    term=4,
    after=7,
    began_with=2,
    entries=(b"one", b""),
    released=8,
    counts=True,
    everywhere=6,
    base=b"base",
    lives=LIVES,
)
SAID: list[Message] = [
    VoteAsked(sender="a", term=4, last=(3, 9), trial=True, takes_over=True, lives=LIVES),
    VoteAnswered(sender="a", term=4, agreed=True, tried=5, lives=LIVES),
    ASKED,
    StoreAnswered(sender="a", term=4, agreed=False, stored=9, released=8, learns=True, lives=LIVES),
    TeachAsked(sender="a", term=4),
    StoreAsked(sender="a", term=5, after=0, began_with=0, entries=(b"two",), released=0),
    VoteAsked(sender="a", term=4, last=(3, 9)),
    VoteAnswered(sender="a", term=4, agreed=False),
]


ABOUT = [AboutLane(source="s", lane=str(number), message=said) for number, said in enumerate(SAID)]


def test_a_letter_comes_out_as_it_went_in() -> None:
    assert letters.letter_of(letters.letter("a", ABOUT)) == ("a", ABOUT)
    assert letters.answers_of(letters.answers(ABOUT)) == ABOUT


def test_a_letter_that_is_cut_off_anywhere_or_goes_on_is_refused() -> None:
    letter = letters.letter("a", [AboutLane(source="s", lane="p", message=ASKED)])
    for size in range(len(letter)):
        with pytest.raises(ConfigError):
            letters.letter_of(letter[:size])
    with pytest.raises(ConfigError):
        letters.letter_of(letter + b"x")


def test_a_letter_of_another_version_is_refused_with_both_versions() -> None:
    letter = letters.letter("a", ABOUT)
    with pytest.raises(ConfigError, match=f"version 9; this side speaks version {messages.VERSION}"):
        letters.letter_of(b"\x09" + letter[1:])


STORED = {"sender": "a", "term": 4, "agreed": True, "stored": 9}


@pytest.mark.parametrize(
    "said",
    [
        ["store-answered", "s", "p", {**STORED, "term": "4"}],
        ["store-answered", "s", "p", {**STORED, "agreed": 1}],
        ["store-answered", "s", "p", {**STORED, "lives": {"a": None}}],
        ["store-answered", "s", "p", {"sender": "a", "term": 4}],
        ["store-answered", "s", "p", [1]],
        ["store-answered", "s", 3, STORED],
        ["store-everything", "s", "p", STORED],
        ["store-answered", "s"],
        3,
    ],
    ids=str,
)
def test_what_no_entry_point_says_is_refused(said: object) -> None:
    with pytest.raises(ConfigError):
        letters.letter_of(messages.pack(["a", [said]]))
    with pytest.raises(ConfigError):
        letters.answers_of(messages.pack([said]))
    assert letters.answers_of(messages.pack([["store-answered", "s", "p", STORED]])), "this is what it should look like"
