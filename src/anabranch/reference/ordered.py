"""Boxes whose result depends on order: each tuple waits until no earlier one can come, then they are taken one by one.

The order is the canonical one, by stream time, origin and number, so how tuples arrived never shows. What Spark calls
its watermark decides when a tuple's time has come: the smallest punctuation of all inputs, in whole milliseconds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

from anabranch.query import boxes
from anabranch.reference.box import Columns, Emitted, Group, Groups, Promises, ReferenceBox
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
