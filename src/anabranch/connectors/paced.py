"""Rows that can be made from their numbers, handed out at a pace: what generators share.

A block of rows is made at once; a feed that is behind its pace by more than a moment does not catch up. Time is an
argument, as for every feed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import pyarrow as pa

from anabranch.connectors.feed import COALESCE_US, Over, Rows, Taken, Wait
from anabranch.model.times import SECOND

BLOCK_ROWS: Final = 16_384
"""Rows that are made at once: one push, and about a megabyte."""

BEHIND_US: Final = SECOND
"""A generator that is further behind its rate than this does not catch up: it goes on at its rate from now."""


class PacedRows(ABC):
    """``rate`` is in rows/s, None for as fast as possible; ``limit`` is how many there are in all, None for no end."""

    def __init__(self, *, rate: float | None, limit: int | None, close: bool, name: str) -> None:
        self._rate: Final = rate
        self._limit: Final = limit
        self._close: Final = close
        self._name: Final = name
        self._next = 0
        self._base_row = 0
        self._base_us = 0

    @abstractmethod
    def made(self, first: int, count: int, now_us: int) -> pa.RecordBatch:
        """Rows ``first`` (from 0) and following, all of one block."""

    def begin(self, number: int, now_us: int) -> None:
        self._next = self._base_row = number - 1
        self._base_us = now_us

    def take(self, now_us: int) -> Taken:
        left = BLOCK_ROWS - self._next % BLOCK_ROWS
        if self._limit is not None:
            left = min(left, self._limit - self._next)
        if left <= 0:
            return Over(close=self._close)
        count = left if self._rate is None else min(left, self._due(self._rate, now_us))
        if count <= 0:
            return Wait(self._wait_us(now_us) / SECOND)
        first = self._next
        batch = self.made(first, count, now_us)
        self._next += count
        return Rows(batch, lambda index: f"row {first + index + 1} of {self._name}")

    def position(self) -> str:
        return f"row {self._next}"

    def lag_us(self, now_us: int) -> int:
        return max(0, int(self._ahead_us(now_us)))

    def _due(self, rate: float, now_us: int) -> int:
        """Rows whose time has come; 0 while more of them will be due in a moment."""
        if self.lag_us(now_us) > BEHIND_US:
            self._base_row, self._base_us = self._next, now_us
        due = int((now_us - self._base_us) * rate / SECOND) + 1 - (self._next - self._base_row)
        is_first = self._next == self._base_row
        return due if is_first or due * SECOND >= min(COALESCE_US * rate, SECOND) else 0

    def _wait_us(self, now_us: int) -> float:
        return max(float(COALESCE_US), -self._ahead_us(now_us))

    def _ahead_us(self, now_us: int) -> float:
        """How long the next row is due already; negative while it is not."""
        rate = self._rate
        return 0.0 if rate is None else now_us - self._base_us - (self._next - self._base_row) * SECOND / rate
