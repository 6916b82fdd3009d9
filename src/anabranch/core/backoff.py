"""When to try again what has failed, and when trying is of no use: one rule for stages, feeds, writers and Spark.

A failure is followed by a wait that grows with every further one. Progress makes all of them forgotten. What counts as
progress is known to whoever tries: a stage has logged a batch, Spark has run a batch of every stage.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch import limits


@dataclass(frozen=True, slots=True)
class Backoff:
    """``failures`` is how many there were since the last progress."""

    failures: int = 0

    def failed(self) -> Backoff:
        return Backoff(self.failures + 1)

    @property
    def wait_s(self) -> float:
        """How long to wait before the next try; not at all if nothing has failed."""
        waits = limits.RESTART_BACKOFF_S
        return waits[min(self.failures, len(waits)) - 1] if self.failures else 0.0

    @property
    def is_exhausted(self) -> bool:
        """Whether it has failed again after the longest wait. Who cannot give up goes on with that wait."""
        return self.failures > len(limits.RESTART_BACKOFF_S)
