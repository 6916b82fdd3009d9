"""Simulated time: what happens next, and a trace of what happened.

Everything random in a run is drawn here, in the order in which it is needed, so a seed decides all of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Final

MS: Final = 1_000
SECOND: Final = 1_000_000

Happening = Callable[[], None]


class World:
    """A clock in microseconds, and what is going to happen."""

    def __init__(self, seed: int) -> None:
        self.seed: Final = seed
        self.random: Final = Random(seed)
        self.now_us = 0
        self.trace: Final[list[str]] = []
        self._queue: list[tuple[int, int, Happening]] = []
        self._count = 0

    def after(self, delay_us: int, happening: Happening) -> None:
        """Lets it happen so much later; of two at the same time, the one that was planned first comes first."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_us + max(0, delay_us), self._count, happening))

    def run_until(self, time_us: int) -> None:
        queue = self._queue
        while queue and queue[0][0] <= time_us:
            self.now_us, _, happening = heapq.heappop(queue)
            happening()
        self.now_us = time_us

    def tell(self, who: str, what: str) -> None:
        self.trace.append(f"{self.now_us / SECOND:12.6f}  {who:<8} {what}")
