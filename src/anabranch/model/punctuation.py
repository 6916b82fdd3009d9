"""Punctuations: per origin, the time below which no later tuple of that origin comes.

A map from origin to time. The functions below are the whole algebra (racing paper, section 3.4): an origin that a map
does not mention has promised nothing yet, which is the time 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Punctuations = Mapping[str, int]


def smallest(punctuations: Punctuations, origins: Iterable[str]) -> int:
    """What a reader of all these origins may rely on: the time of the slowest."""
    return min((punctuations.get(origin, 0) for origin in origins), default=0)


def merge_min(inputs: Iterable[Punctuations]) -> dict[str, int]:
    """A Union: per origin, the smallest over the inputs that carry it."""
    merged: dict[str, int] = {}
    for punctuations in inputs:
        for origin, time in punctuations.items():
            merged[origin] = min(time, merged.get(origin, time))
    return merged
