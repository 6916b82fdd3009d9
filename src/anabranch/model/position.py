"""Where a reader is in a log.

A log has an incarnation: a new one begins when its contents cannot be continued exactly. Within one, stable tuples are
numbered from 1 without holes, so a position is the incarnation and the number of the last tuple that was read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The last tuple that a reader has: number ``id`` of an incarnation; 0 is before the first."""

    incarnation: str
    id: int

    def __str__(self) -> str:
        return f"{self.incarnation}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> Position:
        incarnation, _, number = text.rpartition(":")
        return cls(incarnation, int(number))
