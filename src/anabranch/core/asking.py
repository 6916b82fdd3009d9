"""Whom the leader of a shared lane asks first to store an entry.

An entry is released when a majority holds it, so with two peers one answer is enough. The leader asks as many peers at
once as it needs, those that were quickest when it last asked all of them. The others hear of it *later*: with the next
entries, a second after it at most, in one letter. So each of them does for several entries together
what it would otherwise do for each, and so does the leader.

If those that were asked do not answer within three times what they usually take, all are asked. Whoever's answers
release the entry then is asked first from there on. Now and then all are asked to begin with: one that was slow may
be the quickest again. This is a matter of time only. What is stored, counted and released is said by ``shared_lane``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

AGAIN_ENTRIES: Final = 64
"""After so many entries all are asked at once."""

LATER_ENTRIES: Final = 16
"""A peer that lacks so many need not wait any longer."""

SOONEST_US: Final = 10_000
LATEST_US: Final = 50_000
"""How long those that were asked first may take before all are asked, at least and at most."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What the leader remembers of its peers. ``first`` are those that are asked at once: all of them if it is empty.
    ``usual_us`` is how long a release usually takes, and ``asked`` how many entries were given to ``first`` alone."""

    first: frozenset[str] = frozenset()
    usual_us: int = SOONEST_US
    asked: int = 0

    def entered(self) -> Asking:
        """Before an entry is given to anybody."""
        if not self.first:
            return self
        first = self.first if self.asked < AGAIN_ENTRIES else frozenset[str]()
        return Asking(first, self.usual_us, self.asked + 1)

    def asks(self, peer: str) -> bool:
        """Whether this peer is asked at once."""
        return not self.first or peer in self.first

    def is_far_behind(self, lacks: int) -> bool:
        """Whether a peer that lacks so many entries must not wait any longer."""
        return lacks >= LATER_ENTRIES

    def released(self, place: int, stored: Mapping[str, int], took_us: int, needed: int) -> Asking:
        """An entry was released so long after it had been entered; ``needed`` answers were enough for that."""
        usual_us = (7 * self.usual_us + min(took_us, LATEST_US)) // 8
        if self.first:
            return Asking(self.first, usual_us, self.asked)
        return Asking(_quickest(place, stored, needed), usual_us)

    def overdue(self) -> Asking:
        """Those that were asked first have not answered in time."""
        return Asking(usual_us=self.usual_us)

    @property
    def patience_us(self) -> int:
        return min(max(3 * self.usual_us, SOONEST_US), LATEST_US)


def _quickest(place: int, stored: Mapping[str, int], needed: int) -> frozenset[str]:
    """Those that hold the entry, unless they are all that there are, or not enough."""
    holders: Collection[str] = [peer for peer, known in stored.items() if known >= place][:needed]
    enough = needed <= len(holders) < len(stored)
    return frozenset(holders) if enough else frozenset()
