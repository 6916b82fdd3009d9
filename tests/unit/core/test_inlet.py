"""An inlet lets every tuple through once, whoever brings it, and promises only what it has."""

from __future__ import annotations

import numpy as np

from anabranch.core.identities import Header
from anabranch.core.inlet import (
    NEW_READER,
    Acknowledge,
    Action,
    AppendToJournal,
    CopyAnswered,
    Event,
    Inlet,
    InletState,
    RebuildFromPeer,
    SubscribeAgain,
    TuplesArrived,
    beginning,
)
from anabranch.model.position import Position

INLET = Inlet("s", ("a", "b"))
Tuples = list[tuple[str, int, int]]


class Run:
    """An inlet with its state, and what it has journaled."""

    def __init__(self, inlet: Inlet = INLET) -> None:
        self.inlet = inlet
        self.state: InletState = NEW_READER
        self.journal: Tuples = []
        self.promised: dict[str, int] = {}

    def handle(self, event: Event, tuples: Tuples | None = None) -> list[Action]:
        self.state, actions = self.inlet.handle(self.state, event)
        for action in actions:
            if isinstance(action, AppendToJournal):
                self.journal += [(tuples or [])[index] for index in action.take]
                self.promised.update(action.punctuations)
        return actions

    def answered(self, copy: str, first_id: int = 1, incarnation: str = "i", **floors: int) -> list[Action]:
        return self.handle(CopyAnswered(copy=copy, incarnation=incarnation, first_id=first_id, floors=floors))

    def arrived(
        self, copy: str, first_id: int, tuples: Tuples, incarnation: str = "i", **promises: int
    ) -> list[Action]:
        origins, stimes, tids = zip(*tuples, strict=True) if tuples else ((), (), ())
        codes = [self.inlet.origins.index(origin) for origin in origins]
        header = Header(np.array(codes, np.int32), np.array(stimes, np.int64), np.array(tids, np.int64))
        event = TuplesArrived(copy=copy, incarnation=incarnation, first_id=first_id, header=header, promises=promises)
        return self.handle(event, tuples)


A1, A2, A3, B1 = ("a", 10, 1), ("a", 10, 2), ("a", 12, 1), ("b", 10, 1)


def test_the_first_arrival_passes_whoever_brings_it_and_in_any_order() -> None:
    run = Run()
    run.answered("x")
    run.answered("y")
    run.arrived("x", 1, [A1, B1])
    run.arrived("y", 1, [A2, A1, A3, B1])
    run.arrived("x", 3, [A3, A2])
    assert run.journal == [A1, B1, A2, A3]


def test_what_is_held_is_acknowledged_also_if_another_brought_it() -> None:
    run = Run()
    run.answered("x")
    run.answered("y")
    run.arrived("x", 1, [A1, A2])
    assert run.arrived("y", 1, [A1, A2])[-1] == Acknowledge(copy="y", position=Position("i", 2))


def test_the_largest_promise_of_any_copy_counts_and_older_tuples_are_duplicates() -> None:
    run = Run()
    run.answered("x")
    run.answered("y")
    run.arrived("x", 1, [A1, A2], a=11)
    run.arrived("y", 1, [], a=5, b=7)
    assert run.promised == {"a": 11, "b": 7}
    run.arrived("y", 1, [A2, ("b", 6, 9), ("b", 7, 9)])
    assert run.journal == [A1, A2, ("b", 7, 9)]


def test_a_copy_vouches_only_when_all_that_it_trimmed_is_here() -> None:
    run = Run()
    run.answered("x")
    run.answered("y", first_id=5, a=12)
    run.arrived("y", 5, [("a", 15, 1)], a=20)
    assert run.promised == {}  # y trimmed tuples up to 11 that this inlet may not have
    run.arrived("x", 1, [A1, A2], a=11)
    assert run.promised == {"a": 11}
    run.arrived("x", 3, [("a", 11, 7)], a=12)
    assert run.promised == {"a": 20}  # x lifted the inlet to y's floor
    assert run.journal == [("a", 15, 1), A1, A2, ("a", 11, 7)]


def test_one_origin_does_not_vouch_for_another() -> None:
    run = Run()
    run.answered("x")
    run.answered("y", a=12)
    run.arrived("y", 1, [], a=20, b=20)
    assert run.promised == {"b": 20}


def test_a_new_incarnation_is_read_anew_and_nothing_passes_twice() -> None:
    run = Run()
    run.answered("x")
    run.arrived("x", 1, [A1, A3], a=11)
    run.answered("x", incarnation="j", a=11)
    assert run.arrived("x", 3, [A2]) == [SubscribeAgain(copy="x")]  # late, from the old one
    run.arrived("x", 1, [A3, A1, ("a", 13, 1)], incarnation="j", a=13)
    assert run.journal == [A1, A3, ("a", 13, 1)]
    assert run.state.copies["x"].position == Position("j", 3)


def test_tuples_that_overlap_what_was_read_are_skipped_and_a_hole_is_asked_for() -> None:
    run = Run()
    run.answered("x")
    run.arrived("x", 1, [A1, A2])
    run.arrived("x", 2, [A2, A3])
    assert run.journal == [A1, A2, A3]
    before = run.state
    assert run.arrived("x", 5, [B1], b=9) == [SubscribeAgain(copy="x")]
    assert run.state is before


def test_a_copy_that_begins_with_what_was_read_already_is_skipped_up_to_there() -> None:
    run = Run()
    run.answered("x")
    run.arrived("x", 1, [A1, A2])
    run.answered("x", first_id=2)  # asked for with the last position that was durable
    run.arrived("x", 2, [A2, A3])
    assert run.journal == [A1, A2, A3]
    assert run.state.copies["x"].position == Position("i", 3)


def test_a_replica_does_not_begin_in_the_middle_and_a_client_may() -> None:
    (action,) = Run().answered("x", a=12)
    assert isinstance(action, RebuildFromPeer)
    client = Run(Inlet("s", ("a", "b"), joins_late=True))
    client.state = beginning([{"a": 12}, {"a": 10}])
    assert client.answered("x", first_id=7, a=12) == []
    client.arrived("x", 7, [("a", 11, 5), A3], a=13)
    assert client.journal == [A3]
    assert client.promised == {"a": 13}


def test_a_client_begins_where_each_of_its_copies_holds_everything() -> None:
    assert beginning([{"a": 12}, {"a": 10, "b": 3}]).punctuations == {"a": 12, "b": 3}
    assert beginning([{}, {}]).punctuations == {}


def test_a_replica_that_lost_its_disk_is_told_by_a_copy_that_knew_it() -> None:
    run = Run()
    event = CopyAnswered(copy="x", incarnation="i", first_id=1, floors={}, earlier_life=True)
    (action,) = run.handle(event)
    assert isinstance(action, RebuildFromPeer)
    assert run.state is NEW_READER
    run.answered("y")  # which holds everything, since this reader never acknowledged anything there
    assert not any(isinstance(action, RebuildFromPeer) for action in run.handle(event))


def test_an_origin_is_orphaned_when_no_live_copy_can_vouch() -> None:
    run = Run()
    run.answered("x")
    run.answered("y", a=12)
    assert run.inlet.orphaned(run.state, {"x", "y"}) == []
    assert run.inlet.orphaned(run.state, {"y"}) == ["a"]
    run.arrived("x", 1, [], a=12)
    assert run.inlet.orphaned(run.state, {"y"}) == []
    assert run.inlet.orphaned(run.state, set()) == []


def test_identities_are_forgotten_below_the_punctuation() -> None:
    run = Run()
    run.answered("x")
    for number in range(1, 2_001):
        run.arrived("x", number, [("a", number, 0)], a=number)
    assert len(run.state.remembered) < 200


def test_only_what_is_new_must_be_stored_at_once() -> None:
    state = NEW_READER

    def stored(event: Event) -> bool:
        nonlocal state
        state, actions = INLET.handle(state, event)
        return INLET.must_store(event, actions)

    def brings(copy: str, *stimes: int, **promises: int) -> TuplesArrived:
        times = np.array(stimes, np.int64)
        header = Header(np.zeros(len(times), np.int32), times, times)
        return TuplesArrived(copy=copy, incarnation="i", first_id=1, header=header, promises=promises)

    assert all(stored(CopyAnswered(copy=copy, incarnation="i", first_id=1, floors={})) for copy in "mno")
    assert stored(brings("m", 10, 11))
    assert not stored(brings("n", 11, 10))
    assert stored(brings("o", 10, 11, 12))
    assert stored(brings("m", 10, 11, 12, a=13)), "a promise that raises the inlet's is new"
    assert not stored(brings("n", 11, 10, a=13))
