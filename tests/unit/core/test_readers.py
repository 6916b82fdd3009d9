"""A log forgets only what its readers have, or says of each what it may lack."""

from __future__ import annotations

import pytest

from anabranch.core.readers import (
    Action,
    AnswerSubscription,
    CutOff,
    Event,
    PositionReserved,
    Reader,
    ReaderAcknowledged,
    ReaderForgotten,
    Readers,
    ReadersState,
    ReaderSubscribed,
    SegmentAppended,
    TrimDue,
    TrimThrough,
)
from anabranch.errors import InvariantBroken
from anabranch.model.position import Position


class Log:
    """A log with named readers and ten segments of ten tuples; segment n has stream times up to 100 n of origin a."""

    def __init__(self, *readers: str) -> None:
        self.rules = Readers("log")
        self.state = ReadersState(incarnation="i", readers={name: Reader() for name in readers})
        for number in range(1, 11):
            self.handle(SegmentAppended(last_id=number * 10, tops={"a": number * 100}))

    def handle(self, event: Event) -> list[Action]:
        self.state, actions = self.rules.handle(self.state, event)
        return actions

    def subscribe(
        self, reader: str, at: int | None = None, *, life: str = "1", incarnation: str = "i", **promised: int
    ) -> Action:
        position = None if at is None else Position(incarnation, at)
        event = ReaderSubscribed(reader=reader, life=life, position=position, punctuations=promised)
        (answer,) = self.handle(event)
        return answer

    def acknowledge(self, reader: str, at: int, *, life: str = "1", incarnation: str = "i", **promised: int) -> None:
        position = Position(incarnation, at)
        self.handle(ReaderAcknowledged(reader=reader, life=life, position=position, punctuations=promised))

    def reserve(self, reader: str, like: str, at: int | None, *, life: str = "2", like_life: str = "1") -> None:
        position = None if at is None else Position("i", at)
        self.handle(PositionReserved(reader=reader, life=life, like=like, like_life=like_life, position=position))


def answer(first_id: int, *, reader: str = "x", earlier_life: bool = False, **floors: int) -> AnswerSubscription:
    return AnswerSubscription(
        reader=reader, incarnation="i", first_id=first_id, floors=floors, earlier_life=earlier_life
    )


def test_a_log_is_trimmed_below_the_slowest_acknowledgement() -> None:
    log = Log("x", "y")
    assert log.subscribe("x") == answer(1)
    log.subscribe("y")
    log.acknowledge("x", 55)
    assert log.handle(TrimDue()) == []
    log.acknowledge("y", 30)
    assert log.handle(TrimDue()) == [TrimThrough(last_id=30)]
    log.acknowledge("y", 20)  # an old one, late
    log.acknowledge("y", 60)
    assert log.handle(TrimDue()) == [TrimThrough(last_id=50)]
    assert log.subscribe("x", 55) == answer(56)  # nothing went that it did not have: no floors


def test_a_reader_that_never_came_holds_everything() -> None:
    log = Log("x", "y")
    log.subscribe("x")
    log.acknowledge("x", 100)
    assert log.handle(TrimDue()) == []
    log.handle(ReaderForgotten(reader="y"))
    assert log.handle(TrimDue()) == [TrimThrough(last_id=100)]


def test_at_the_limit_the_slowest_is_cut_off_and_has_a_floor() -> None:
    log = Log("x", "y")
    log.subscribe("x")
    log.subscribe("y")
    log.acknowledge("x", 25)
    log.acknowledge("y", 70)
    assert log.handle(TrimDue(full=True)) == [CutOff(reader="x"), TrimThrough(last_id=70)]
    assert log.subscribe("x", 25) == answer(71, a=701)
    assert log.subscribe("y", 70) == answer(71, reader="y")


def test_a_cut_reader_counts_again_when_it_has_what_it_missed() -> None:
    log = Log("x", "y")
    log.subscribe("y")
    log.acknowledge("y", 40)
    assert log.handle(TrimDue(full=True)) == [CutOff(reader="x"), TrimThrough(last_id=40)]
    log.subscribe("x", a=400)  # it reads on, and may still lack something below 401
    log.acknowledge("x", 90, a=400)
    assert log.handle(TrimDue(full=True)) == []  # so y, which is behind it, is the last that counts
    log.acknowledge("y", 60)
    assert log.handle(TrimDue()) == [TrimThrough(last_id=60)]
    log.acknowledge("x", 90, a=401)
    log.acknowledge("y", 100)
    assert log.handle(TrimDue()) == [TrimThrough(last_id=90)]
    assert log.handle(TrimDue(full=True)) == [CutOff(reader="x"), TrimThrough(last_id=100)]


def test_nobody_is_cut_off_when_all_are_equally_slow_or_must_be_kept() -> None:
    log = Log("x", "y")
    assert log.handle(TrimDue(full=True)) == []
    log.subscribe("y")
    log.acknowledge("y", 50)
    assert log.handle(TrimDue(full=True, keep=frozenset({"x"}))) == []


def test_the_last_replica_of_a_fragment_is_not_cut_off_for_another_fragment() -> None:
    log = Log("x1", "x2", "y")
    fragment_of = {"x1": "x", "x2": "x", "y": "y"}
    for reader, last_id in (("x1", 10), ("x2", 20), ("y", 50)):
        log.subscribe(reader)
        log.acknowledge(reader, last_id)
    cut = [CutOff(reader="x1"), TrimThrough(last_id=20)]
    assert log.handle(TrimDue(full=True, fragment_of=fragment_of)) == cut  # x2 has what it needs
    assert log.handle(TrimDue(full=True, fragment_of=fragment_of)) == []
    assert log.handle(TrimDue(full=True)) == [CutOff(reader="x2"), TrimThrough(last_id=50)]


def test_one_that_nobody_knows_gets_the_floors_of_all_that_went() -> None:
    log = Log("x")
    log.subscribe("x")
    log.acknowledge("x", 40)
    log.handle(TrimDue())
    assert log.subscribe("new") == answer(41, reader="new", a=401)


def test_a_reader_of_another_incarnation_gets_all_that_is_left() -> None:
    log = Log("x")
    log.subscribe("x")
    log.acknowledge("x", 45)
    log.handle(TrimDue())
    assert log.subscribe("x", 9_999, incarnation="h") == answer(41)
    log.acknowledge("x", 77, incarnation="h")
    assert log.handle(TrimDue()) == []


def test_another_life_of_a_reader_is_a_stranger_unless_a_place_was_reserved() -> None:
    log = Log("x", "peer")
    log.subscribe("x")
    log.subscribe("peer")
    log.acknowledge("x", 60)
    log.acknowledge("peer", 30)
    log.handle(TrimDue())
    assert log.subscribe("x", 30, life="2") == answer(31, earlier_life=True, a=301)

    log = Log("x", "peer")
    log.subscribe("x")
    log.subscribe("peer")
    log.acknowledge("x", 60)
    log.acknowledge("peer", 30)
    log.reserve("x", "peer", 30)
    log.acknowledge("peer", 80)
    assert log.handle(TrimDue()) == [TrimThrough(last_id=30)]  # what the peer's state lacked is kept for the new life
    log.acknowledge("x", 90)  # of its earlier life
    assert log.handle(TrimDue()) == []
    assert log.subscribe("x", 30, life="2") == answer(31)


def test_a_reserved_place_has_the_floors_of_the_peer_it_is_taken_from() -> None:
    log = Log("x", "peer", "fast")
    log.subscribe("peer")
    log.acknowledge("peer", 20)
    log.subscribe("x")
    log.acknowledge("x", 20)
    log.subscribe("fast")
    log.acknowledge("fast", 50)
    log.handle(TrimDue(full=True))
    log.reserve("x", "peer", 20)
    assert log.subscribe("x", 20, life="2") == answer(51, a=501)
    log.reserve("x", "peer", 20, life="3", like_life="another")
    assert log.state.readers["x"].floors == log.state.trimmed


def test_a_position_beyond_the_end_is_a_defect() -> None:
    log = Log("x")
    log.subscribe("x")
    with pytest.raises(InvariantBroken, match="acknowledged"):
        log.acknowledge("x", 101)
    with pytest.raises(InvariantBroken, match="asks after"):
        log.subscribe("x", 101)
    with pytest.raises(InvariantBroken, match="goes back"):
        log.handle(SegmentAppended(last_id=99, tops={}))
