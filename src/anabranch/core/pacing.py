"""When the next micro-batch of a stage may begin: a trickle of rows is collected, and nothing else waits.

A micro-batch costs Spark about the same whether it reads one row or a thousand. Rows that come one by one, each with a
batch of its own, keep a core busy with next to nothing. So a stage has a *pace*: a batch for a few rows begins no
sooner after the last such batch than a multiple of what a batch of each stage of the host takes, and never later than
the setting allows. So it is the host that a trickle keeps busy for a small part of the time, however many stages it
runs. Four things are not held back by the pace: the first row after quiet, many rows, the last ones behind many, and
results that only a batch can show.

What a batch waits for is told apart by what it would bring:

    rows        results, now. They wait for the pace after a batch for a few rows.
    kept rows   nothing yet: a window of time keeps them until it ends. A few of them wait as upkeep; and the boundaries
                beside them, which show nothing either, wait as long as between two boundaries of a quiet source.
    results     of windows that a punctuation has closed: Spark shows them in the batch after it. At once; but after a
                batch that began for this alone, for the pace: rows that close a window each must not undo it.
    boundaries  punctuations. They wait for the pace after any batch, and after others that the host passed on without
                one (``core.passing``). Where nobody reads what the stage makes, they are further apart.
    upkeep      what Spark has to know of and nobody waits for: boundaries that were passed on, state to free. It waits
                for whatever comes next, and does not wait for ever.

Stages of a host that look around without a batch do so at the same moments: what is taken from an inlet for one of them
is there for all. So what waits after a look is due at the next multiple of its interval, never later than without this.

Pure: the time is an argument. Must not know Spark or journals; ``node.stages`` asks before each batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from anabranch import limits
from anabranch.query import catalog
from anabranch.query.boxes import Aggregate, Box

NEVER: Final = math.inf
_SMOOTHING: Final = 0.2
"""What the last batch counts: a single slow one does not change the pace much, and ten of them do."""

_BOUNDARIES_S: Final = limits.BOUNDARY_INTERVAL_US / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a batch that began now would have to do."""

    rows: int = 0
    kept: bool = False
    """Whether the rows show nothing before a boundary does."""
    choosy: bool = False
    """Whether the stage may have no use for any of the rows."""
    boundaries: bool = False
    awaited: bool = True
    """Whether somebody reads what the boundaries allow to promise, or they allow to show something."""
    results: bool = False
    upkeep: bool = False

    @property
    def is_something(self) -> bool:
        return self.rows > 0 or self.boundaries or self.results or self.upkeep

    @property
    def is_much(self) -> bool:
        return self.rows >= limits.PACE_ROWS

    @property
    def keeps(self) -> bool:
        """Whether there are rows, and nobody waits for them."""
        return self.rows > 0 and self.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace of one stage. ``most_s`` is the setting: 0 lets every batch begin at once.

    ``batch_s`` is what a batch takes, smoothed, and ``beside_s`` what one of each other stage of the host does
    (``HostLoad``); the times are when the last batch began, and the last for a few rows,
    if none for many came after it, and when boundaries were passed on last without a batch.
    """

    most_s: float
    batch_s: float = 0.0
    beside_s: float = 0.0
    began_s: float = -math.inf
    few_began_s: float = -math.inf
    passed_s: float = -math.inf
    began_for_results: bool = False

    @property
    def interval_s(self) -> float:
        return min(self.most_s, limits.PACE_BATCHES * (self.batch_s + self.beside_s))

    @property
    def hold_s(self) -> float:
        """How long whoever sends a few rows may collect them: they would wait here for longer than this, on average,
        and wait here still after it."""
        return self.interval_s / 2

    def wait_s(self, waiting: Waiting, now_s: float) -> float:
        """How long from now until a batch may begin, if nothing else comes; ``NEVER`` if nothing waits for one."""
        if not waiting.is_something:
            return NEVER
        if waiting.is_much or self.most_s <= 0:
            return 0.0
        due_s = [NEVER]
        if waiting.rows and not waiting.kept:
            due_s.append(self.few_began_s + self.interval_s)
        if waiting.results:
            due_s.append(self.began_s + self.interval_s if self.began_for_results else now_s)
        if waiting.boundaries:
            due_s.append(self._boundaries_due_s(waiting))
        if waiting.upkeep:
            due_s.append(self.began_s + max(self.interval_s, limits.UPKEEP_WAIT_S))
        return max(0.0, min(due_s) - now_s)

    def may_pass(self, waiting: Waiting, now_s: float) -> bool:
        """Whether the boundaries that wait are due."""
        return waiting.boundaries and self._boundaries_due_s(waiting) <= now_s

    def _boundaries_due_s(self, waiting: Waiting) -> float:
        slow = waiting.keeps or (waiting.rows > 0 and waiting.choosy)
        least_s = limits.UNREAD_BOUNDARIES_S if not waiting.awaited else _BOUNDARIES_S if slow else 0.0
        apart_s = max(self.interval_s, least_s)
        return max(self.began_s + apart_s, _next_multiple(self.passed_s, apart_s))

    def began(self, waiting: Waiting, now_s: float) -> Pace:
        """A batch for what waits has begun."""
        without = replace(waiting, results=False)
        few_s = now_s if waiting.rows else self.few_began_s
        return replace(
            self,
            began_s=now_s,
            few_began_s=-math.inf if waiting.is_much else few_s,
            began_for_results=waiting.results and self.wait_s(without, now_s) > 0,
        )

    def passed(self, now_s: float) -> Pace:
        """The boundaries that waited were passed on without a batch."""
        return replace(self, passed_s=now_s)

    def looked(self, now_s: float) -> Pace:
        """The few rows that waited are of no use to the stage."""
        return replace(self, few_began_s=_next_multiple(now_s, self.interval_s) - self.interval_s)

    def ended(self, now_s: float, *, beside_s: float = 0.0) -> Pace:
        """The batch that began last is over."""
        took_s = max(0.0, now_s - self.began_s)
        known = self.batch_s > 0
        batch_s = self.batch_s + _SMOOTHING * (took_s - self.batch_s) if known else took_s
        return replace(self, batch_s=batch_s, beside_s=beside_s)


class HostLoad:
    """What a batch takes of each stage that shares a host."""

    def __init__(self) -> None:
        self._batches_s: dict[object, float] = {}

    def took(self, stage: object, batch_s: float) -> None:
        self._batches_s[stage] = batch_s

    def forget(self, stage: object) -> None:
        self._batches_s.pop(stage, None)

    def beside_s(self, stage: object) -> float:
        """One batch of each other stage, together."""
        return sum([batch_s for other, batch_s in list(self._batches_s.items()) if other != stage])


def _next_multiple(after_s: float, interval_s: float) -> float:
    """The first multiple of the interval after a time; the time itself if there is no interval."""
    return after_s if interval_s <= 0 or math.isinf(after_s) else (after_s // interval_s + 1) * interval_s


def keeps_rows(root: Box) -> bool:
    """Whether a stage with this root shows nothing of a row before its watermark goes on: a window of time, without
    early results."""
    return isinstance(root, Aggregate) and not root.counts and root.emit_rows is None


def shows_results(root: Box, before_us: int, now_us: int) -> bool:
    """Whether a stage with this root may have results to show when its watermark goes from one time to another.

    A window of time is shown when its end is reached. What other boxes that wait show, and windows with early results,
    is known to Spark alone. A Join has shown all its pairs when their tuples came.
    """
    if now_us <= before_us or catalog.waits_us(root) is None:
        return False
    if not isinstance(root, Aggregate) or not keeps_rows(root):
        return True
    window_us, every_us = root.time_window
    return (now_us - window_us) // every_us > (before_us - window_us) // every_us
