"""What a node is told of what another one holds: all streams in one message, the latest of each."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from anabranch.errors import NodeUnreachable
from anabranch.model.position import Position
from anabranch.node import acknowledger as module
from anabranch.node.acknowledger import Acknowledger
from anabranch.transport.ports import CopyAcknowledgement
from tests.waiting import HANG_S, wait_for


class Holding:
    """A stream of which rows come in."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.rows = 0
        self.told: list[int] = []

    def acknowledgement(self) -> CopyAcknowledgement | None:
        if not self.rows:
            return None
        position = Position("i", self.rows)
        return CopyAcknowledgement(stream=self.stream, reader="r", life="1", position=position, punctuations={})

    def acknowledged(self, said: CopyAcknowledgement) -> None:
        self.told.append(said.position.id)


class Listening:
    """Stands for the client of a node: it can be held in the middle of a call, or be away."""

    def __init__(self) -> None:
        self.heard: list[dict[str, int]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.away = False

    def acknowledge_copies(self, said: list[CopyAcknowledgement]) -> None:
        self.heard.append({each.stream: each.position.id for each in said})
        assert self.may_answer.wait(HANG_S)
        if self.away:
            raise NodeUnreachable("It is away.")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Listening, Acknowledger]]:
    monkeypatch.setattr(module, "ACKNOWLEDGE_S", 0.0)
    listening = Listening()
    acknowledger = Acknowledger("n", listening)
    acknowledger.start()
    yield listening, acknowledger
    listening.may_answer.set()
    acknowledger.close()
    acknowledger.join()


def test_what_comes_while_a_message_is_under_way_goes_in_one_message_the_latest_of_each_stream(
    node: tuple[Listening, Acknowledger],
) -> None:
    listening, acknowledger = node
    one, other = Holding("a"), Holding("b")
    listening.may_answer.clear()
    one.rows = 1
    acknowledger.tell(one)
    wait_for(lambda: listening.heard == [{"a": 1}])
    for rows in (2, 3):
        one.rows = other.rows = rows
        acknowledger.tell(one)
        acknowledger.tell(other)
    listening.may_answer.set()
    wait_for(lambda: other.told == [3])
    assert listening.heard == [{"a": 1}, {"a": 3, "b": 3}]
    assert one.told == [1, 3]


def test_a_node_that_is_away_is_told_with_what_comes_next(node: tuple[Listening, Acknowledger]) -> None:
    listening, acknowledger = node
    one = Holding("a")
    listening.away = True
    one.rows = 1
    acknowledger.tell(one)
    wait_for(lambda: listening.heard == [{"a": 1}])
    listening.away = False
    one.rows = 2
    acknowledger.tell(one)
    wait_for(lambda: one.told == [2])


def test_nothing_is_told_before_anything_is_held(node: tuple[Listening, Acknowledger]) -> None:
    listening, acknowledger = node
    nothing, one = Holding("a"), Holding("b")
    one.rows = 1
    acknowledger.tell(nothing)
    acknowledger.tell(one)
    wait_for(lambda: one.told == [1])
    assert all("a" not in heard for heard in listening.heard)
