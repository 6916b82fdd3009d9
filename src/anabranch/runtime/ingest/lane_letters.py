"""What the lanes of one source have to say to its other entry points.

Nothing that is said is kept, only of which lanes a peer is to be told: the message is made when the letter is written,
with all that there is then. A letter ends when it is full; the rest goes with the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic

from anabranch.core import shared_lane as lanes
from anabranch.runtime.ingest.lane_replica import LaneReplica
from anabranch.runtime.ports import Entry, Sent


class LaneLetters(Generic[Entry, Sent]):
    """``wake`` is called with a peer that is to be written to, and within how many seconds; ``room`` is the size of the
    entries after which a letter ends."""

    def __init__(self, peers: Iterable[str], *, wake: Callable[[str, float], None], room: int) -> None:
        self.replicas: dict[str, LaneReplica[Entry, Sent]] = {}
        self._due: dict[str, set[str]] = {peer: set() for peer in peers}
        """Per peer, the lanes of which it is to be told."""
        self._wake = wake
        self._room = room

    def begin(self, replicas: Mapping[str, LaneReplica[Entry, Sent]]) -> None:
        """The lanes are there. Every peer is written to: one that had answered before there were any is told nothing
        otherwise, and must hear of the life that begins."""
        self.replicas.update(replicas)
        for peer in self._due:
            self._wake(peer, 0.0)

    def tell(self, lane: str, peer: str, within_s: float) -> None:
        """There is something to say of this lane."""
        self._due[peer].add(lane)
        self._wake(peer, within_s)

    def letter(self, peer: str, *, reminder: bool) -> tuple[list[tuple[str, lanes.Message[Sent]]], bool]:
        """What this peer is to be told now, lane by lane; with ``reminder`` also where there are no news. And whether
        it is reminded by that of all that it is owed."""
        names, self._due[peer] = self._due[peer], set()
        owed = {name for name, replica in self.replicas.items() if name not in names and replica.owes(peer)}
        told: list[tuple[str, lanes.Message[Sent]]] = []
        room = self._room
        for name in sorted(names | owed if reminder else names):
            if room <= 0:
                self._due[peer].add(name)
                continue
            said = self.replicas[name].message(peer, room)
            if said is not None:
                message, size = said
                told.append((name, message))
                room -= size
        if self._due[peer]:
            self._wake(peer, 0.0)
        return told, reminder or not owed

    def owes(self, peer: str) -> bool:
        """Whether this peer is to be reminded of anything."""
        return any(replica.owes(peer) for replica in self.replicas.values())
