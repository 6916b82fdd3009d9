"""Boxes whose result depends on order: each tuple waits until no earlier one can come, then they are taken one by one.

The order is the canonical one, by stream time, origin and number, so how tuples arrived never shows. What Spark calls
its watermark decides when a tuple's time has come: the smallest punctuation of all inputs, in whole milliseconds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

from anabranch.query import boxes
from anabranch.reference.box import Columns, Emitted, Group, Groups, Promises, ReferenceBox
from anabranch.reference.expressions import compare
from anabranch.reference.tuples import Tuple


class OrderedBox(ReferenceBox):
    """``_take`` gets the tuples in order. ``_reach`` hears of every moment up to which all tuples are known."""

    def __init__(self, inputs: Sequence[Iterable[str]]) -> None:
        super().__init__(inputs)
        self._waiting: list[tuple[int, Tuple]] = []
        self.watermark_us = 0

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        self._waiting += [(port, each) for each in tuples]
        return {}

    def punctuate(self, port: int, promises: Mapping[str, int]) -> Emitted:
        super().punctuate(port, promises)
        smallest = min(self._smallest(each) for each in range(len(self._promised)))
        return self.close(smallest // 1_000 * 1_000)

    def close(self, watermark_us: int) -> Emitted:
        """Take all tuples below the watermark."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        complete = [each for each in self._waiting if each[1].stime < self.watermark_us]
        self._waiting = [each for each in self._waiting if each[1].stime >= self.watermark_us]
        made: list[Tuple] = []
        for port, each in sorted(complete, key=_canonical):
            made += self._reach(each.stime)
            made += self._take(port, each)
        return {0: [*made, *self._reach(self.watermark_us)]}

    @abstractmethod
    def _take(self, port: int, each: Tuple) -> Iterable[Tuple]:
        """The next tuple in order, and what comes out because of it."""

    def _reach(self, time_us: int) -> Iterable[Tuple]:
        """All tuples before this time have been taken; what comes out because of that."""
        return ()

    @abstractmethod
    def promises(self) -> Promises: ...


def _canonical(waiting: tuple[int, Tuple]) -> tuple[int, int, str, int]:
    """Of equal times, those of a later input come first: what is compared with them is known then."""
    port, each = waiting
    return each.stime, -port, each.origin, each.tid


class DedupBox(OrderedBox):
    """A tuple passes if no tuple of its key passed less than the horizon before it."""

    def __init__(self, box: boxes.Dedup, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        self.columns = columns
        self._horizon_us = box.horizon_us
        self._groups = Groups(box.by, columns)
        self._passed: dict[Group, int] = {}

    def _take(self, port: int, each: Tuple) -> Iterator[Tuple]:
        key = self._groups.of(each)
        passed = self._passed.get(key)
        if passed is None or each.stime - passed >= self._horizon_us:
            self._passed[key] = each.stime
            yield each

    def promises(self) -> Promises:
        """All before the watermark have passed or not, so the next one that passes is at or after it."""
        return dict.fromkeys(self._promised[0], self.watermark_us)


class WSortBox(OrderedBox):
    """Tuples wait for those that sort before them; the one that has waited longest takes all these along."""

    def __init__(self, box: boxes.WSort, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        self.columns = columns
        spelled = {name.lower(): name for name in columns}
        self._by = [spelled[name.lower()] for name in box.by]
        self._timeout_us = box.timeout_us
        self._buffer: list[Tuple] = []
        self._left: tuple[object, ...] | None = None
        self._late: list[Tuple] = []

    def _place(self, each: Tuple) -> tuple[Any, ...]:
        """NULL comes first; equal ones in canonical order."""
        values = [each.values[name] for name in self._by]
        keys = [(value is not None, 0 if value is None else cmp_to_key(compare)(value)) for value in values]
        return *keys, each.stime, each.origin, each.tid

    def _take(self, port: int, each: Tuple) -> Iterable[Tuple]:
        if self._left is not None and self._place(each) < self._left:
            self._late.append(each)
        else:
            self._buffer.append(each)
        return ()

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        while self._buffer and (release := self._buffer[0].stime + self._timeout_us) <= time_us:
            self._left = self._place(self._buffer[0])
            leaving = [each for each in self._buffer if self._place(each) <= self._left]
            self._buffer = [each for each in self._buffer if self._place(each) > self._left]
            for each in sorted(leaving, key=self._place):
                yield Tuple(origin=each.origin, stime=release, tid=each.tid, values=each.values)

    def close(self, watermark_us: int) -> Emitted:
        made = super().close(watermark_us)
        late, self._late = self._late, []
        return {**made, 1: late}

    def promises(self) -> Promises:
        """What leaves later leaves after the watermark, and what is late later is at or after it."""
        return dict.fromkeys(self._promised[0], self.watermark_us)
