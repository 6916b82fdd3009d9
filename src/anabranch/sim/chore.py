"""What a simulated process does from time to time, as a node's housekeeper does it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from anabranch.sim.process import Process
from anabranch.sim.world import SECOND

NEVER: Final = math.inf
SOONEST_S: Final = 1 / SECOND
"""Time goes on between two times that the same is done."""


class Chore:
    """``do`` does what is due, and returns the seconds after which it is due again. A crash forgets it."""

    def __init__(self, process: Process, do: Callable[[], float]) -> None:
        self._process = process
        self._do = do
        self._due_us = NEVER

    def within(self, seconds: float) -> None:
        """It is due after so many seconds, or sooner if it was due sooner."""
        now_us = self._process.world.now_us
        due_us = now_us + max(0, math.ceil(seconds * SECOND)) if seconds < NEVER else NEVER
        if due_us < self._due_us:
            self._due_us = due_us
            self._process.later(int(due_us) - now_us, lambda: self._is_due(due_us))

    def _is_due(self, due_us: float) -> None:
        if due_us == self._due_us:
            self._due_us = NEVER
            self.within(max(self._do(), SOONEST_S))
