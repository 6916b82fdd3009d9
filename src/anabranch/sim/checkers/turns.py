"""Turns: a copy of a feed does not take it from another one that brings rows, unless something came between them.

What befell only the host of the copy that begins is no reason: one that slept, or was started again, asks the others
before it begins. And the feed comes to rest: without a further trouble it does not move again and again, not even
between hosts that do not hear each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anabranch.sim.observer import Broken, at
from anabranch.sim.world import SECOND

SETTLED_US: Final = 5 * SECOND
"""After a trouble: an answer may be late, and whoever was away is refused and waits."""


MOVES: Final = 4
"""Without a further trouble: each of three copies once, and one of them again because it could not hear another."""


class Turns:
    """Is told when a copy begins, and of troubles."""

    def __init__(self) -> None:
        self._settled_us: dict[str, int] = {}
        self._moves = 0
        self.takeovers = 0

    def disturbed(self, name: str, over_us: int) -> None:
        """``name`` is a host, or whoever enters rows."""
        self._moves = 0
        self._settled_us[name] = max(self._settled_us.get(name, 0), over_us + SETTLED_US)

    def begins(self, now_us: int, host: str, others: Sequence[str]) -> None:
        """``others`` are the copies that bring rows, and could be heard to."""
        self.takeovers += 1
        self._moves += 1
        if self._moves > MOVES:
            raise Broken(
                f"{at(now_us)} the feed moves for the {self._moves}th time, though nothing has happened since."
            )
        settled_us = max((us for name, us in self._settled_us.items() if name != host), default=0)
        if others and now_us > settled_us:
            raise Broken(f"{at(now_us)} {host} takes the feed from {others[0]}, which brings rows.")
