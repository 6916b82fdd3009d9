"""A replica that lost its state, built again from a peer (racing paper, section 3.1, and DESIGN's rules for it).

1. Ask a peer how far it has read each copy of each input.
2. Reserve these places for the new life at every copy, so that nothing the peer still lacks is trimmed before we have
   it. A copy that does not answer will take us for a reader that nobody knows, which is safe.
3. Only then take the peer's snapshot: it has read at least as far.

If the peer falls silent or begins a new life itself, the next one is asked from the beginning. ``handle`` is the one
door; it holds no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.model.position import Position

Input = tuple[str, str]
"""A stream, and the node that holds a copy of it."""

Places = Mapping[Input, Position | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildState:
    """``waiting`` holds the copies that were asked to reserve a place and have not answered."""

    life: str
    peers: tuple[str, ...]
    peer: str
    peer_life: str | None = None
    waiting: frozenset[Input] = field(default_factory=frozenset)
    copying: bool = False


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTold:
    """How far the peer has read, durably; None for a copy that it has never heard of."""

    peer: str
    life: str
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceReserved:
    life: str
    input: Input


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotArrived:
    peer: str
    life: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NobodyAnswered:
    """Nothing has come for as long as one waits."""


Event = PeerTold | PlaceReserved | SnapshotArrived | NobodyAnswered


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPeer:
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservePlace:
    input: Input
    life: str
    like: str
    like_life: str
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSnapshot:
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """All of the peer's state becomes ours, under our own life; every log begins a new incarnation."""

    life: str


Action = AskPeer | ReservePlace | AskSnapshot | InstallSnapshot
Step = tuple[RebuildState, list[Action]]


def begin(life: str, peers: tuple[str, ...], peer: str | None = None) -> Step:
    """Begins with this peer, by default the first. There is at least one."""
    peer = peers[0] if peer is None else peer
    return RebuildState(life=life, peers=peers, peer=peer), [AskPeer(peer=peer)]


def handle(state: RebuildState, event: Event) -> Step:
    match event:
        case PeerTold():
            return _reserve(state, event)
        case PlaceReserved():
            return _reserved(state, event)
        case SnapshotArrived():
            return _arrived(state, event)
        case NobodyAnswered():
            return _go_on(state)


def _reserve(state: RebuildState, event: PeerTold) -> Step:
    if event.peer != state.peer or state.peer_life is not None:
        return state, []
    state = replace(state, peer_life=event.life, waiting=frozenset(event.places))
    if not event.places:
        return _copy(state)
    return state, [
        ReservePlace(input=input_, life=state.life, like=event.peer, like_life=event.life, position=position)
        for input_, position in sorted(event.places.items(), key=lambda place: place[0])
    ]


def _reserved(state: RebuildState, event: PlaceReserved) -> Step:
    if event.life != state.life or event.input not in state.waiting:
        return state, []
    state = replace(state, waiting=state.waiting - {event.input})
    return _copy(state) if not state.waiting else (state, [])


def _copy(state: RebuildState) -> Step:
    return replace(state, waiting=frozenset(), copying=True), [AskSnapshot(peer=state.peer)]


def _arrived(state: RebuildState, event: SnapshotArrived) -> Step:
    if not state.copying or event.peer != state.peer:
        return state, []
    if event.life != state.peer_life:  # it was rebuilt meanwhile: what was reserved is not what it has read
        return _next_peer(state)
    return state, [InstallSnapshot(life=state.life)]


def _go_on(state: RebuildState) -> Step:
    """Without the copies that are silent, but not without the peer."""
    if state.peer_life is not None and not state.copying:
        return _copy(state)
    return _next_peer(state)


def _next_peer(state: RebuildState) -> Step:
    following = (state.peers.index(state.peer) + 1) % len(state.peers)
    return begin(state.life, state.peers, state.peers[following])
