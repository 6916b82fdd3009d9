"""What came of a steady flow, and what that says: gaps, latencies, results that are lost or came more than once.

All times are microseconds of one clock, ``now_us``: the wall clock as it was when this process began, moved on by the
clock that never jumps.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from anabranch.errors import InvariantBroken

SECOND_US: Final = 1_000_000
_BEGAN_US: Final = time.time_ns() // 1_000 - time.monotonic_ns() // 1_000


def now_us() -> int:
    return _BEGAN_US + time.monotonic_ns() // 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """Results in the order in which they came: the number of the row of each, when that was made, when it came."""

    n: np.ndarray
    made_us: np.ndarray
    came_us: np.ndarray

    @property
    def latencies_us(self) -> np.ndarray:
        return np.asarray(self.came_us - self.made_us)

    def made_within(self, start_us: int, end_us: int) -> Came:
        return self._chosen((self.made_us >= start_us) & (self.made_us < end_us))

    def came_within(self, start_us: int, end_us: int) -> Came:
        return self._chosen((self.came_us >= start_us) & (self.came_us < end_us))

    def _chosen(self, chosen: np.ndarray) -> Came:
        return Came(n=self.n[chosen], made_us=self.made_us[chosen], came_us=self.came_us[chosen])


class Arrivals:
    """Takes results from the thread that reads them, and tells them to any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: list[Came] = []
        self._last_n = -1

    def add(self, n: np.ndarray, made_us: np.ndarray) -> None:
        """Just now they came."""
        if len(n):
            piece = Came(n=n, made_us=made_us, came_us=np.full(len(n), now_us()))
            with self._lock:
                self._pieces.append(piece)
                self._last_n = max(self._last_n, int(n.max()))

    @property
    def last_n(self) -> int:
        """The largest number of a row whose result has come; -1 before the first."""
        return self._last_n

    def came(self) -> Came:
        with self._lock:
            pieces = list(self._pieces)
        nothing = [np.empty(0, dtype=np.int64)]
        return Came(
            n=np.concatenate([piece.n for piece in pieces] or nothing),
            made_us=np.concatenate([piece.made_us for piece in pieces] or nothing),
            came_us=np.concatenate([piece.came_us for piece in pieces] or nothing),
        )


def largest_gap_us(came_us: np.ndarray, start_us: int, end_us: int) -> int:
    """The longest time without a result that ends in the interval, or is cut off by its end: what follows may have
    another cause. It may begin before the interval, but not before the first result."""
    times = np.unique(came_us[came_us < end_us])
    if not len(times) or times[0] > start_us:
        times = np.concatenate([[start_us], times])
    times = np.concatenate([times, [end_us]])
    before, after = times[:-1], times[1:]
    return int((after - before)[after > start_us].max())


def normal_again_us(came: Came, since_us: int, normal_us: float, steady_us: int) -> int:
    """How long after ``since_us`` rows are made from which on, for ``steady_us``, all results take ``normal_us`` at
    most. If that never lasts as long, it is the time of the last row that took longer."""
    made_us, latencies_us = came.made_us, came.latencies_us
    late_us = np.unique(made_us[(made_us >= since_us) & (latencies_us > normal_us)])
    if not len(late_us):
        return 0
    begins = np.concatenate([[since_us], late_us])
    ends = np.concatenate([late_us, [late_us[-1] + steady_us]])
    return int(begins[ends - begins >= steady_us][0]) - since_us


def accounted(expected: np.ndarray, n: np.ndarray) -> tuple[int, int]:
    """How many of the expected results never came, and how many came again."""
    numbers, counts = np.unique(n, return_counts=True)
    unknown = np.setdiff1d(numbers, expected)
    if len(unknown):
        raise InvariantBroken(f"Row {unknown[0]} has a result, but should have none.")
    return len(expected) - len(numbers), int((counts - 1).sum())
