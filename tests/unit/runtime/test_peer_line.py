"""When another entry point is written to: with news, as a reminder, and again when it was away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch import limits
from anabranch.core.roll_call import Met
from anabranch.core.shared_lane import PeerReachable
from anabranch.runtime.ingest.peer_line import NEVER, PeerLine

WORD: Any = PeerReachable(peer="b")


class Source:
    """Has something to say of each lane in ``news``, and is owed an answer of each in ``owed``. ``says`` is what it
    begins."""

    def __init__(self, news: str = "", owed: str = "", says: Met | None = None) -> None:
        self.says = says
        self.news = news
        self.owed = owed
        self.heard: list[str] = []

    def greets(self, peer: str) -> Met | None:
        return self.says

    def letter(self, peer: str, *, reminder: bool) -> tuple[list[tuple[str, Any]], bool]:
        lanes = sorted({*self.news, *self.owed} if reminder else set(self.news))
        of_all = reminder or not set(self.owed) - set(self.news)
        self.news = ""
        return [(lane, WORD) for lane in lanes], of_all

    def answered_by(self, peer: str, answers: Sequence[tuple[str, Any]]) -> bool:
        self.heard += [lane for lane, _ in answers]
        return bool(self.owed)


def lanes_of(letter: Sequence[tuple[str, str, Any]]) -> list[str]:
    return [f"{source}/{lane}" for source, lane, _ in letter]


def test_a_letter_is_about_all_sources_and_each_gets_its_answers() -> None:
    left, right = Source(news="p"), Source(news="qr")
    line = PeerLine[Any]("b", {"left": left, "right": right})
    letter = line.write(0.0)
    assert lanes_of(letter) == ["left/p", "right/q", "right/r"]
    assert line.answered(letter, 0.1) == NEVER
    assert (left.heard, right.heard) == (["p"], ["q", "r"])


def test_where_all_have_everything_nothing_is_said() -> None:
    line = PeerLine[Any]("b", {"left": Source()})
    assert line.write(0.0) == []
    assert line.answered([], 0.0) == NEVER


def test_a_peer_is_reminded_until_nothing_is_owed() -> None:
    source = Source(owed="p")
    line = PeerLine[Any]("b", {"left": source})
    assert lanes_of(line.write(10.0)) == ["left/p"]
    assert line.answered([], 10.1) == limits.HEARTBEAT_S - (10.1 - 10.0)
    assert line.write(10.2) == []  # it was reminded a moment ago
    assert lanes_of(line.write(10.0 + limits.HEARTBEAT_S)) == ["left/p"]
    source.owed = ""
    assert line.answered([], 11.0) == NEVER


def test_news_that_say_all_that_is_owed_are_a_reminder() -> None:
    source = Source(owed="p")
    line = PeerLine[Any]("b", {"left": source})
    line.write(10.0)
    source.news = "p"
    assert lanes_of(line.write(10.3)) == ["left/p"]
    assert line.write(10.0 + limits.HEARTBEAT_S) == []


def test_who_does_not_answer_is_away_and_is_looked_for_ever_less_often() -> None:
    line = PeerLine[Any]("b", {"left": Source(owed="p")})
    waits = []
    for _ in range(8):
        assert line.write(5.0) != []  # all is said again
        waits.append(line.failed())
    assert waits == [*limits.PEER_BACKOFF_S, 1.0, 1.0, 1.0]
    assert line.is_away
    line.write(5.0)
    line.answered([], 5.0)
    assert not line.is_away


def test_one_that_begins_is_written_to_again() -> None:
    source = Source(says=Met(1, "token"))
    line = PeerLine[Any]("b", {"left": source, "right": Source()})
    assert line.greetings() == {"left": Met(1, "token")}
    line.write(3.0)
    assert line.answered([], 3.0) == limits.HEARTBEAT_S
    source.says = None
    assert line.greetings() == {}
    line.write(3.1)
    assert line.answered([], 3.1) == NEVER
