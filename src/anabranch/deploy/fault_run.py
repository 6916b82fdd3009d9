"""Carries out a fault script: each step at its time, told as it is done.

A step that fails is told, too, and the rest goes on. Nothing here runs by itself: whoever has it calls ``advance`` now
and then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from anabranch.deploy.control import Request
from anabranch.deploy.fault_script import FaultStep, NodeFault
from anabranch.deploy.link_faults import fault_links, unheard
from anabranch.deploy.plan import Plan
from anabranch.errors import AnabranchError
from anabranch.model.times import SECOND


class FaultRun:
    """``hurt_node`` does what is asked to a node, ``tell`` is given a line for each step. Times count from now."""

    def __init__(
        self,
        steps: Iterable[FaultStep],
        plan: Plan,
        *,
        hurt_node: Callable[[Request], object],
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps: Final = deque(steps)
        self._plan: Final = plan
        self._hurt_node: Final = hurt_node
        self._tell: Final = tell
        self._clock: Final = clock
        self._begun_s: Final = clock()
        self.failed = 0

    @property
    def is_over(self) -> bool:
        return not self._steps

    @property
    def wait_s(self) -> float:
        """How long until the next step."""
        return max(0.0, self._begun_s + self._steps[0].at_us / SECOND - self._clock()) if self._steps else 0.0

    def advance(self) -> None:
        """Does what is due."""
        while self._steps and self.wait_s == 0:
            step = self._steps.popleft()
            self._tell(str(step))
            try:
                self._do(step)
            except AnabranchError as error:
                self.failed += 1
                self._tell(f"  failed: {error}")

    def _do(self, step: FaultStep) -> None:
        if isinstance(step.what, NodeFault):
            self._hurt_node(step.what.request)
            return
        for sentence in unheard(fault_links(self._plan, step.what.one, step.what.other, step.what.fault)):
            self._tell(f"  {sentence}")
