"""A rebuild reserves places before it copies, and begins again when its peer is not what it was."""

from __future__ import annotations

from anabranch.core.rebuild import (
    AskPeer,
    AskSnapshot,
    InstallSnapshot,
    NobodyAnswered,
    PeerTold,
    PlaceReserved,
    RebuildState,
    ReservePlace,
    SnapshotArrived,
    begin,
    handle,
)
from anabranch.model.position import Position

PLACES = {("s", "u1"): Position("i", 7), ("s", "u2"): None}


def told() -> RebuildState:
    state, _ = begin("me.2", ("p", "q"))
    return handle(state, PeerTold(peer="p", life="p.1", places=PLACES))[0]


def copying() -> RebuildState:
    state = told()
    for stream, copy in PLACES:
        state, _ = handle(state, PlaceReserved(life="me.2", input=(stream, copy)))
    return state


def test_places_are_reserved_like_the_peers_before_its_snapshot_is_asked_for() -> None:
    state, actions = begin("me.2", ("p", "q"))
    assert actions == [AskPeer(peer="p")]
    state, actions = handle(state, PeerTold(peer="p", life="p.1", places=PLACES))
    assert actions == [
        ReservePlace(input=("s", "u1"), life="me.2", like="p", like_life="p.1", position=Position("i", 7)),
        ReservePlace(input=("s", "u2"), life="me.2", like="p", like_life="p.1", position=None),
    ]
    state, actions = handle(state, PlaceReserved(life="me.2", input=("s", "u1")))
    assert actions == []
    state, actions = handle(state, PlaceReserved(life="me.2", input=("s", "u2")))
    assert actions == [AskSnapshot(peer="p")]
    assert handle(state, SnapshotArrived(peer="p", life="p.1"))[1] == [InstallSnapshot(life="me.2")]


def test_a_peer_that_reads_nothing_is_copied_at_once() -> None:
    state, _ = begin("me.2", ("p",))
    assert handle(state, PeerTold(peer="p", life="p.1", places={}))[1] == [AskSnapshot(peer="p")]


def test_a_copy_that_is_silent_is_left_out() -> None:
    state, actions = handle(told(), NobodyAnswered())
    assert actions == [AskSnapshot(peer="p")]
    assert handle(state, PlaceReserved(life="me.2", input=("s", "u1"))) == (state, [])


def test_a_silent_peer_is_left_for_the_next_one() -> None:
    state, _ = begin("me.2", ("p", "q"))
    state, actions = handle(state, NobodyAnswered())
    assert actions == [AskPeer(peer="q")]
    assert handle(state, NobodyAnswered())[1] == [AskPeer(peer="p")]
    assert handle(copying(), NobodyAnswered())[1] == [AskPeer(peer="q")]


def test_a_peer_that_was_rebuilt_meanwhile_is_not_copied() -> None:
    """What was reserved is what it had read in its earlier life."""
    assert handle(copying(), SnapshotArrived(peer="p", life="p.2"))[1] == [AskPeer(peer="q")]


def test_answers_to_older_questions_change_nothing() -> None:
    state, _ = begin("me.2", ("p", "q"))
    assert handle(state, PeerTold(peer="q", life="q.1", places=PLACES)) == (state, [])
    assert handle(state, SnapshotArrived(peer="p", life="p.1")) == (state, [])
    waiting = told()
    assert handle(waiting, PlaceReserved(life="me.1", input=("s", "u1"))) == (waiting, [])
    assert handle(waiting, PeerTold(peer="p", life="p.1", places={})) == (waiting, [])
    assert handle(waiting, SnapshotArrived(peer="p", life="p.1")) == (waiting, [])
