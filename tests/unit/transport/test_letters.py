"""What entry points say to each other comes out of a letter as it went in."""

from __future__ import annotations

import struct

import pytest

from anabranch.core.roll_call import Met
from anabranch.core.shared_lane import StoreAnswered, StoreAsked, TeachAsked, VoteAnswered, VoteAsked
from anabranch.errors import ConfigError
from anabranch.transport import letters, wire
from anabranch.transport.letters import AboutLane, Greeting, Message

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


def test_a_letter_comes_out_as_it_went_in() -> None:
    messages = [AboutLane(source="s", lane=str(number), message=said) for number, said in enumerate(SAID)]
    assert letters.letter_of(letters.letter("a", messages)) == ("a", messages)


def test_a_letter_that_is_cut_off_anywhere_or_goes_on_is_refused() -> None:
    letter = letters.letter("a", [AboutLane(source="s", lane="p", message=ASKED)])
    for size in range(len(letter)):
        with pytest.raises(ConfigError):
            letters.letter_of(letter[:size])
    with pytest.raises(ConfigError, match="does not hold"):
        letters.letter_of(letter + b"x")


def test_a_letter_that_lacks_entries_is_refused() -> None:
    letter = letters.letter("a", [AboutLane(source="s", lane="p", message=ASKED)])
    fewer = letter.replace(b'"sizes":[4,3,0]', b'"sizes":[4,3  ]')
    assert fewer != letter
    with pytest.raises(ConfigError, match="2 entries"):
        letters.letter_of(fewer)
    with pytest.raises(ConfigError):
        letters.letter_of(letter.replace(b'"sizes":[4,3,0]', b'"sizes":[-4,3,]'))


def test_answers_come_out_as_they_went_in() -> None:
    answers = [AboutLane(source="s", lane="p", message=SAID[1]), AboutLane(source="s", lane="q", message=SAID[3])]
    assert letters.answers_of(wire.decode(wire.encode(letters.answers_message(answers)))) == answers


def test_greetings_and_rolls_come_out_as_they_went_in() -> None:
    greeting = Greeting(source="s", form="s (x int64)", name="a", met=Met(2, "token"))
    assert letters.greeting_of(letters.greeting_message(greeting)) == greeting
    roll = {"a": Met(2, "token"), "b": Met(1, "other")}
    assert letters.roll_of(letters.roll_message(roll)) == roll


@pytest.mark.parametrize(
    "message",
    [
        {"sender": "a", "messages": 3},
        {"sender": "a", "messages": [{"source": "s", "lane": "p", "says": "x", "sender": "a", "term": 1, "lives": {}}]},
        {"messages": []},
    ],
)
def test_what_no_entry_point_says_is_refused(message: wire.Message) -> None:
    said = wire.encode({"sizes": [], **message})
    with pytest.raises(ConfigError):
        letters.letter_of(struct.pack("<I", len(said)) + said)
