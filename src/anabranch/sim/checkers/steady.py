"""Steadiness: a leader that lives and can be reached is not unseated, unless a producer takes its lane elsewhere."""

from __future__ import annotations

from typing import Final

from anabranch.sim.observer import Broken, at
from anabranch.sim.world import SECOND

UNDISTURBED_US: Final = 5 * SECOND
"""Who was hurt before that, or had a link that was, may have fallen silent meanwhile."""


class Steady:
    """Is told who asks to lead, and why; who leads no longer; and what happens to whom."""

    def __init__(self) -> None:
        self._disturbed_us: dict[str, int] = {}
        self._taken_over: dict[tuple[str, int], bool] = {}
        """By lane and term."""

    def disturbed(self, node: str, over_us: int) -> None:
        """Something happens to this one, which is over then."""
        self._disturbed_us[node] = max(over_us, self._disturbed_us.get(node, 0))

    def campaigned(self, origin: str, term: int, *, takes_over: bool) -> None:
        self._taken_over[origin, term] = self._taken_over.get((origin, term), False) or takes_over

    def stepped_down(self, now_us: int, node: str, origin: str, term: int) -> None:
        undisturbed_us = now_us - self._disturbed_us.get(node, 0)
        if undisturbed_us > UNDISTURBED_US and not self._taken_over.get((origin, term), False):
            raise Broken(f"{at(now_us)} {node} lost the lead of {origin}, though it lived and could be reached.")
