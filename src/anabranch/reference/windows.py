"""Aggregate, Session, Tumble, Slide and XSection: windows of time and of tuples, in all their kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from anabranch.errors import check
from anabranch.model.identity import Part, identity_hash
from anabranch.query import boxes
from anabranch.reference.aggregates import ROWS, compile_aggregate
from anabranch.reference.box import Columns, Emitted, Group, Groups, Promises, ReferenceBox, row_of, scope_of, spelling
from anabranch.reference.expressions import parse_select
from anabranch.reference.ordered import OrderedBox
from anabranch.reference.tuples import Tuple

NO_SCALES: Mapping[str, int] = {}


class Summaries:
    """What all boxes with aggregate functions share: groups, and the tuple that sums up a window of one."""

    def __init__(self, box: boxes.Summing, columns: Columns, scales: Mapping[str, int] = NO_SCALES) -> None:
        """``scales`` has the columns whose sums are exact, in lower case, and their digits after the point."""
        self.groups = Groups(box.by, columns)
        groups = {name.lower(): type_ for name, type_ in self.groups.types.items()}
        self._made = {
            name: compile_aggregate(node.unalias(), groups, scope_of(columns), scales.get(name.lower()))
            for name, node in ((spelling(node, columns), node) for node in parse_select(box.columns))
        }
        self.columns = {**self.groups.types, **{name: made.type for name, made in self._made.items()}}
        self._name = box.name

    def summary(self, kind: str, group: Group, window: Sequence[Part], stime: int, tuples: Sequence[Tuple]) -> Tuple:
        """The tuple of a window, whose identity is that of its group and what ``window`` says of it."""
        return self.named(kind, group, [*self.groups.parts(group), *window], stime, tuples)

    def early(self, group: Group, tuples: Sequence[Tuple]) -> Tuple:
        """The tuple of a window of tuples, or of another one as far as it has come: known by its first and its last."""
        ends = [*tuples[0].identity_parts, *tuples[-1].identity_parts]
        return self.summary("count", group, ends, tuples[-1].stime, tuples)

    def named(self, kind: str, group: Group, identity: Sequence[Part], stime: int, tuples: Sequence[Tuple]) -> Tuple:
        """The tuple of a window, whose identity is made of these parts."""
        keys = self.groups.columns(group)
        row = {name.lower(): value for name, value in keys.items()} | {ROWS: [row_of(each) for each in tuples]}
        return Tuple(
            origin=self._name,
            stime=stime,
            tid=identity_hash(kind, self._name, identity),
            values={**keys, **{name: made.of(row) for name, made in self._made.items()}},
        )


def shows_early(box: boxes.Early, tuples: Sequence[Tuple]) -> bool:
    """Whether a window under way has a result now."""
    return box.emit_rows is not None and len(tuples) % box.emit_rows == 0


class AggregateBox(ReferenceBox):
    """Figure 3: collect each group's tuples by window; a window is put out when nothing can be missing from it."""

    def __init__(
        self, box: boxes.Aggregate, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__([origins])
        self._summaries = Summaries(box, columns, scales)
        self.columns = self._summaries.columns
        self._box = box
        self._windows: dict[tuple[int, int], dict[Group, list[Tuple]]] = {}
        self.watermark_us = 0

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        for each in tuples:
            group = self._summaries.groups.of(each)
            for window in self._windows_of(each.stime):
                check(window[1] > self.watermark_us, f"{each} belongs to a window that is closed.")
                self._windows.setdefault(window, {}).setdefault(group, []).append(each)
        return {}

    def _windows_of(self, time: int) -> list[tuple[int, int]]:
        """All windows ``[k * every, k * every + size)`` that hold the time."""
        size, every = self._box.time_window
        first, last = (time - size) // every + 1, time // every
        return [(k * every, k * every + size) for k in range(first, last + 1)]

    def punctuate(self, port: int, promises: Mapping[str, int]) -> Emitted:
        super().punctuate(port, promises)
        return self.close(self._smallest(port) // 1_000 * 1_000)

    def close(self, watermark_us: int) -> Emitted:
        """Put out every window that the watermark completes."""
        self.watermark_us = max(self.watermark_us, watermark_us)
        closed = sorted(window for window in self._windows if window[1] <= self.watermark_us)
        return {
            0: [
                self._summaries.summary("window", group, [("bigint", start), ("bigint", end)], end, tuples)
                for start, end in closed
                for group, tuples in self._windows.pop((start, end)).items()
            ]
        }

    def promises(self) -> Promises:
        """Every window that ends at the watermark is out, so the next one ends later."""
        return {self._box.name: self.watermark_us + 1 if self.watermark_us else 0}


class EarlyAggregateBox(OrderedBox):
    """Windows of time that do not overlap, and have results after every so many of their tuples, too."""

    def __init__(
        self, box: boxes.Aggregate, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__([origins])
        self._summaries = Summaries(box, columns, scales)
        self.columns = self._summaries.columns
        self._box = box
        self._open: dict[Group, list[Tuple]] = {}

    def _take(self, port: int, each: Tuple) -> Iterator[Tuple]:
        group = self._summaries.groups.of(each)
        tuples = self._open.setdefault(group, [])
        tuples.append(each)
        if shows_early(self._box, tuples):
            yield self._summaries.early(group, tuples)

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        size, _ = self._box.time_window
        for group, tuples in list(self._open.items()):
            start = tuples[0].stime // size * size
            if start + size <= time_us:
                del self._open[group]
                parts: list[Part] = [("bigint", start), ("bigint", start + size)]
                yield self._summaries.summary("window", group, parts, start + size, tuples)

    def promises(self) -> Promises:
        """The next result has the time of a tuple that is not taken yet, or of an end that has not come."""
        return {self._box.name: self.watermark_us}


class CountAggregateBox(OrderedBox):
    """Figure 4: collect each group's tuples until all before them are known, then count them in canonical order."""

    def __init__(
        self, box: boxes.Aggregate, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__([origins])
        self._summaries = Summaries(box, columns, scales)
        self.columns = self._summaries.columns
        self._box = box
        self._counts: Counter[Group] = Counter()
        self._windows: dict[Group, dict[int, list[Tuple]]] = {}

    def _take(self, port: int, each: Tuple) -> Iterator[Tuple]:
        """Put the next tuple of a group into its windows; one of them may be full then."""
        size, every = self._box.count_window
        group = self._summaries.groups.of(each)
        windows = self._windows.setdefault(group, {})
        number = self._counts[group]
        self._counts[group] += 1
        for first in range(max(0, -((size - 1 - number) // every)) * every, number + 1, every):
            windows.setdefault(first, []).append(each)
        if len(windows.get(number - size + 1, ())) == size:
            yield self._summaries.early(group, windows.pop(number - size + 1))
        elif shows_early(self._box, tuples := next(iter(windows.values()))):
            yield self._summaries.early(group, tuples)

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        """Put out the windows that last too long; the next tuple of their group begins another."""
        if self._box.timeout_us is None:
            return
        for group, windows in self._windows.items():
            for first, tuples in list(windows.items()):
                end = tuples[0].stime + self._box.timeout_us
                if end <= time_us:
                    del windows[first]
                    self._counts[group] = 0
                    yield replace(self._summaries.early(group, tuples), stime=end)

    def promises(self) -> Promises:
        """Every tuple before the watermark is counted, so the next window ends with one at or after it, or later."""
        return {self._box.name: self.watermark_us}


class SessionBox(OrderedBox):
    """Collect each group's tuples until a gap follows them: no tuple came for as long as the gap is."""

    def __init__(
        self, box: boxes.Session, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__([origins])
        self._summaries = Summaries(box, columns, scales)
        self.columns = self._summaries.columns
        self._box = box
        self._open: dict[Group, list[Tuple]] = {}

    def _take(self, port: int, each: Tuple) -> Iterator[Tuple]:
        group = self._summaries.groups.of(each)
        tuples = self._open.setdefault(group, [])
        tuples.append(each)
        if shows_early(self._box, tuples):
            yield self._summaries.early(group, tuples)

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        ends = {group: tuples[-1].stime + self._box.gap_us for group, tuples in self._open.items()}
        for group, end in ends.items():
            if end <= time_us:
                tuples = self._open.pop(group)
                yield self._summaries.summary("session", group, tuples[0].identity_parts, end, tuples)

    def promises(self) -> Promises:
        """Every session whose gap ends at the watermark is out, so the next one ends later; a result before the end has
        the time of a tuple."""
        after = 1 if self._box.emit_rows is None and self.watermark_us else 0
        return {self._box.name: self.watermark_us + after}


class TumbleBox(OrderedBox):
    """Collect tuples while their value is the same; put them out when another comes, or when it takes too long."""

    def __init__(
        self, box: boxes.Tumble, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__([origins])
        self._summaries = Summaries(box, columns, scales)
        self.columns = self._summaries.columns
        self._box = box
        self._run: list[Tuple] = []

    def _take(self, port: int, each: Tuple) -> Iterator[Tuple]:
        value = self._summaries.groups.of
        if self._run and value(self._run[0]) != value(each):
            yield self._close(each.stime)
        self._run.append(each)
        if shows_early(self._box, self._run):
            yield self._summaries.early(value(each), self._run)

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        if self._run and self._box.timeout_us is not None:
            end = self._run[0].stime + self._box.timeout_us
            if end <= time_us:
                yield self._close(end)

    def _close(self, stime: int) -> Tuple:
        run, self._run = self._run, []
        group = self._summaries.groups.of(run[0])
        return self._summaries.summary("tumble", group, run[0].identity_parts, stime, run)

    def promises(self) -> Promises:
        """A run ends with a tuple, and all before the watermark are taken; or by a timeout, and all up to it are."""
        return {self._box.name: self.watermark_us}


class SlideBox(OrderedBox):
    """Remember each group's tuples; sum up the last of them for a tuple, or at a moment."""

    def __init__(
        self, box: boxes.Slide, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__([origins])
        self._summaries = Summaries(box, columns, scales)
        self.columns = self._summaries.columns
        self._box = box
        self._tuples: dict[Group, list[Tuple]] = {}
        self._moments: dict[Group, int] = {}
        """Of groups that had a tuple since their last result, the moment of the next."""

    def _take(self, port: int, each: Tuple) -> Iterator[Tuple]:
        group = self._summaries.groups.of(each)
        tuples = self._tuples.setdefault(group, [])
        tuples.append(each)
        if self._box.every_us is not None:
            self._moments[group] = (each.stime // self._box.every_us + 1) * self._box.every_us
        elif len(tuples) % self._box.step == 0:
            yield self._summary(group, each.identity_parts, each.stime)

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        for group, moment in list(self._moments.items()):
            if moment <= time_us:
                del self._moments[group]
                parts = [*self._summaries.groups.parts(group), ("bigint", moment)]
                yield self._summary(group, parts, moment)

    def _summary(self, group: Group, identity: Sequence[Part], stime: int) -> Tuple:
        tuples = self._tuples[group]
        if self._box.rows is not None:
            last = tuples[-self._box.rows :]
        else:  # a moment is after its window, a tuple is in it
            first = stime - (self._box.window_us or 0) + (self._box.every_us is None)
            last = [each for each in tuples if each.stime >= first]
        return self._summaries.named("slide", group, identity, stime, last)

    def promises(self) -> Promises:
        """Tuples before the watermark have their results, moments up to it, too."""
        after = 1 if self._box.every_us is not None and self.watermark_us else 0
        return {self._box.name: self.watermark_us + after}


class XSectionBox(OrderedBox):
    """Remember each group's tuples while it lives; at each moment sum up those of the window that ends there."""

    def __init__(
        self, box: boxes.XSection, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__([origins])
        self._summaries = Summaries(box, columns, scales)
        self.columns = self._summaries.columns
        self._box = box
        self._tuples: dict[Group, list[Tuple]] = {}
        self._reached_us = 0

    def _take(self, port: int, each: Tuple) -> Iterable[Tuple]:
        self._tuples.setdefault(self._summaries.groups.of(each), []).append(each)
        return ()

    def _reach(self, time_us: int) -> Iterator[Tuple]:
        for group, tuples in self._tuples.items():
            for moment in self._moments(tuples, time_us):
                window = [each for each in tuples if each.stime >= moment - self._box.window_us]
                yield self._summaries.summary("xsection", group, [("bigint", moment)], moment, window)
        self._reached_us = time_us

    def _moments(self, tuples: Sequence[Tuple], time_us: int) -> list[int]:
        """Those since the last time at which the group lives: it has a tuple, and that is not too old."""
        every = self._box.every_us
        after, until = max(self._reached_us, tuples[0].stime), min(time_us, tuples[-1].stime + self._box.expire_us)
        return [k * every for k in range(after // every + 1, until // every + 1)]

    def promises(self) -> Promises:
        """Every moment up to the watermark is out, so the next is later."""
        return {self._box.name: self.watermark_us + 1 if self.watermark_us else 0}
