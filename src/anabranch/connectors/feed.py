"""What a node asks of a feed, and what it is told: rows, how long to wait, or that there are no more.

The n-th row of a feed is always the same row and has the number n in the lane, so a feed that begins again with the
number that the lane expects next repeats nothing and leaves nothing out. Time is an argument: a feed has no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

COALESCE_US: Final = 20_000
"""Rows that are due within this time are sent together: 50 transactions a second, however high the rate."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are due now; ``place`` says where a row of the batch comes from, for messages."""

    batch: pa.RecordBatch
    place: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is due for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Over:
    """There are no more rows. The lane is closed after them, unless it is to stay open for others."""

    close: bool


Taken = Rows | Wait | Over


class RowFeed(Protocol):
    """Rows by number. Not thread-safe."""

    def begin(self, number: int, now_us: int) -> None:
        """The next row to take is row ``number``; the first is 1."""
        ...

    def take(self, now_us: int) -> Taken:
        """The next rows, if they are due. A row that cannot be is ``PushRefused`` and names its place."""
        ...

    def position(self) -> str:
        """How far it has come, for people."""
        ...

    def lag_us(self, now_us: int) -> int:
        """How far it is behind its own pace."""
        ...
