"""Sums of floating-point numbers by their definition: each a whole number of units, added exactly, rounded once.

A value that is too large for its digits counts as infinite. What comes out depends on the multiset of values alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from anabranch.limits import SUM_DIGITS


def exact_sum(values: Sequence[float], scale: int) -> float:
    """The sum of at least one value, with ``scale`` digits after the point."""
    limit = float(10 ** min(18, SUM_DIGITS - scale))
    beyond = [value * math.inf for value in values if not abs(value) < limit]
    if beyond:
        return sum(beyond)
    return float(sum(_units(value, scale) for value in values)) / float(10**scale)


def _units(value: float, scale: int) -> int:
    """The value as a whole number of units of 10^-scale: what is behind the point is rounded, halves to even."""
    whole = int(value)
    return int(whole * 10**scale + round((value - whole) * float(10**scale)))
