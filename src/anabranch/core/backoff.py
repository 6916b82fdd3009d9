"""When to try again what has failed, and when trying is of no use: one rule for stages, feeds, writers, Spark, and for
whoever looks for another node.

A failure is followed by a wait that grows with every further one. Progress makes all of them forgotten. What counts as
progress is known to whoever tries: a stage has logged a batch, Spark has run a batch of every stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from anabranch import limits


@dataclass(frozen=True, slots=True)
class Backoff:
    """``failures`` is how many there were since the last progress; the last of ``waits_s`` repeats."""

    failures: int = 0
    waits_s: tuple[float, ...] = field(default_factory=lambda: limits.RESTART_BACKOFF_S)

    def failed(self) -> Backoff:
        return Backoff(self.failures + 1, self.waits_s)

    @property
    def wait_s(self) -> float:
        """How long to wait before the next try; not at all if nothing has failed."""
        return self.waits_s[min(self.failures, len(self.waits_s)) - 1] if self.failures else 0.0

    @property
    def is_exhausted(self) -> bool:
        """Whether it has failed again after the longest wait. Who cannot give up goes on with that wait."""
        return self.failures > len(self.waits_s)


RECONNECT: Final = Backoff(waits_s=limits.RECONNECT_BACKOFF_S)
"""For whoever asks another node, which may be away for a moment or for long."""
