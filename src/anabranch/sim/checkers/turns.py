"""Turns: a copy of a feed does not take it from another one that brings rows, unless something came between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anabranch.sim.observer import Broken, at
from anabranch.sim.world import SECOND

SETTLED_US: Final = 5 * SECOND
"""After a trouble: an answer may be late, and whoever was away is refused and waits."""


class Turns:
    """Is told when a copy begins, and of troubles."""

    def __init__(self) -> None:
        self._settled_us = 0
        self.takeovers = 0

    def disturbed(self, over_us: int) -> None:
        self._settled_us = max(self._settled_us, over_us + SETTLED_US)

    def begins(self, now_us: int, copy: str, others: Sequence[str]) -> None:
        """``others`` are the copies that bring rows."""
        self.takeovers += 1
        if others and now_us > self._settled_us:
            raise Broken(f"{at(now_us)} {copy} takes the feed from {others[0]}, which brings rows.")
