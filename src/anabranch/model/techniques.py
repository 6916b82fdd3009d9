"""Techniques that racing is compared with: they hold tuples back that a race would let pass (racing paper, 2.2).

They are for experiments. No guarantee rests on them.
"""

from __future__ import annotations

from enum import StrEnum


class Technique(StrEnum):
    """What the replicas of a query do beside racing."""

    RACE = ""
    """Nothing: whoever is first wins."""

    SYNCHRONIZATION = "synchronization"
    """Output is held until the other replicas have its determinants."""

    DETERMINISTIC = "deterministic"
    """Input is held until no other input can bring anything earlier."""


COMPARED = (Technique.SYNCHRONIZATION, Technique.DETERMINISTIC)
