"""From measured latencies to the numbers and curves that the figures show. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

MEDIAN: Final = 50.0
SHARES: Final = (0.0, 5.0, 25.0, MEDIAN, 75.0, 95.0, 99.0)
"""The percentiles of the table; 0 is the smallest."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When each tuple of a stream came, counted from the start of the measured time, and how late it was then."""

    at_s: np.ndarray
    latency_s: np.ndarray

    def __len__(self) -> int:
        return len(self.at_s)

    def between(self, begin_s: float, end_s: float) -> Arrivals:
        kept = (self.at_s >= begin_s) & (self.at_s < end_s)
        return Arrivals(self.at_s[kept], self.latency_s[kept])

    def percentile(self, share: float) -> float | None:
        """The smallest latency that so many percent do not exceed; None if nothing came."""
        if not len(self):
            return None
        return float(np.percentile(self.latency_s, share, method="inverted_cdf"))

    def longest_gap_s(self, begin_s: float, end_s: float) -> float:
        """The longest time without a tuple from ``begin_s`` to ``end_s``; both count as if one had come there."""
        times = np.sort(self.between(begin_s, end_s).at_s)
        return float(np.diff(np.concatenate([[begin_s], times, [end_s]])).max())


def percentile_curve(latencies_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As figure 8 has it: latencies in their order, and the percentage of tuples that are not later than each."""
    ordered = np.sort(latencies_s)
    return ordered, np.arange(1, len(ordered) + 1) * 100.0 / max(len(ordered), 1)


def curve_over_time(arrivals: Arrivals, every_s: float) -> tuple[Sequence[float], Sequence[float]]:
    """As figure 9 has it: the middle of each interval in which tuples came, and their median latency."""
    numbers = (arrivals.at_s // every_s).astype(np.int64)
    found = [(number, np.median(arrivals.latency_s[numbers == number])) for number in np.unique(numbers)]
    return [(int(number) + 0.5) * every_s for number, _ in found], [float(value) for _, value in found]
