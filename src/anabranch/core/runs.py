"""Rows that bring their own numbers, as what a lane takes: runs without holes, and voids for the holes between them.

A Kafka partition numbers its messages, and a number that is missing (compacted, or the mark of a transaction) never
comes. The lane wants every number once, in order; numbers below the one it expects are repetitions. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Run:
    """Give up ``voids`` numbers, then send ``rows`` rows, those from ``start`` on of the ones that were given."""

    voids: int
    start: int
    rows: int


def runs(numbers: npt.NDArray[np.int64], expected: int) -> list[Run]:
    """What to send of rows with these numbers, sorted and each once, to a lane that expects number ``expected``."""
    begin = int(np.searchsorted(numbers, expected))
    fresh = numbers[begin:]
    if len(fresh) == 0:
        return []
    starts = np.concatenate(([0], np.flatnonzero(np.diff(fresh) != 1) + 1))
    ends = np.concatenate((starts[1:], [len(fresh)]))
    before = np.concatenate(([expected - 1], fresh[ends[:-1] - 1]))
    return [
        Run(int(fresh[start] - last - 1), begin + int(start), int(end - start))
        for start, end, last in zip(starts, ends, before, strict=True)
    ]
