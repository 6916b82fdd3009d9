"""Windows of tuples that may overlap, slides and cross sections, on whole columns: which rows go into which windows.

Runs in Spark's Python workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.engine.ordered import NEVER, Flags, Ordered, Worked, first_at_or_after, number_before
from anabranch.engine.packing import GROUP, Integers, numbers
from anabranch.model.header import STIME

FROM: Final = "_from"
TO: Final = "_to"
"""The first and the last window of its group, counted within the batch, that a row goes into."""
AFTER: Final = "_after"
BEFORE: Final = "_before"
"""A row is the first one of its windows after the one number, and the last one of those before the other."""

CLOSES: Final = "_closes"
"""The time at which the window of a row is closed."""
MOMENT: Final = "_moment"
"""The moment of a result, in the row that stands for it; NULL in others."""
NUMBER: Final = "_number"
"""The number of a row in its group, from 0; known of rows that were kept."""
VALUE: Final = ("_value", "_value2")
"""Two hashes of the values that a run has in common: together they are as good as the values."""


@dataclass(frozen=True, slots=True)
class CountWindows:
    """Figure 4 for many groups at once: each row of a full window comes out with the numbers of its windows.

    What is kept of a group always begins with the first row of a window, so a row's place in its window follows from
    the rows themselves. ``every`` is at most ``size``, so each row is in a window, full or under way.
    """

    size: int
    every: int

    def work(self, ordered: Ordered) -> Worked:
        full = np.repeat(np.maximum((ordered.sizes - self.size) // self.every + 1, 0), ordered.sizes)
        first = np.maximum(-((self.size - 1 - ordered.places) // self.every), 0)
        last = np.minimum(ordered.places // self.every, full - 1)
        made = with_ends(ordered, first, last, first <= last)
        return Worked(made, ordered.where(ordered.places >= full * self.every))


def with_windows(ordered: Ordered, first: Integers, last: Integers, out: Flags) -> pa.RecordBatch:
    """The chosen rows, each with the first and the last of its windows."""
    made = ordered.where(out).drop_columns(list(GROUP))
    return made.add_column(0, TO, pa.array(last[out])).add_column(0, FROM, pa.array(first[out]))


def with_ends(ordered: Ordered, first: Integers, last: Integers, out: Flags) -> pa.RecordBatch:
    """The same, and of which of its windows each row is the first and the last one.

    From row to row of a group neither the first nor the last window goes back. So a row is the first one of the windows
    that the row before it is not in, and the last one of those that the next is not in.
    """
    group = ordered.group[out]
    is_next = group[1:] == group[:-1]
    after, before = np.full(len(group), -1, np.int64), np.full(len(group), NEVER)
    after[1:] = np.where(is_next, last[out][:-1], -1)
    before[:-1] = np.where(is_next, first[out][1:], NEVER)
    made = with_windows(ordered, first, last, out)
    return made.add_column(0, BEFORE, pa.array(before)).add_column(0, AFTER, pa.array(after))


@dataclass(frozen=True, slots=True)
class Slides:
    """Slide: a result for a row, or for a moment, over the last rows of its group.

    The results of a group are numbered, and each row comes out with the first and the last that it counts in. What is
    kept of a group are its last rows, each with its number in the group, of which the next ones follow.
    """

    rows: int | None
    window_us: int | None
    step: int
    every_us: int | None

    def work(self, ordered: Ordered) -> Worked:
        number = ordered.places + np.repeat(self._first_numbers(ordered), ordered.sizes)
        end = np.repeat(ordered.starts + ordered.sizes, ordered.sizes) - 1  # the last row of the group
        has_result = self._has_result(ordered, number, end)
        results: Integers = np.cumsum(has_result)
        before: Integers = results - has_result
        last = results[self._last_counted(ordered, end)] - 1
        made = with_ends(ordered, before, last, before <= last).drop_columns([NUMBER])
        kept = self._is_needed(ordered, end)
        place = ordered.rows.schema.get_field_index(NUMBER)
        rows = ordered.rows.set_column(place, ordered.rows.schema.field(NUMBER), pa.array(number))
        return Worked(made, rows.filter(pa.array(kept)), self._wake_us(ordered, end, kept))

    def _first_numbers(self, ordered: Ordered) -> Integers:
        """Of each group, the number of the first row that is there."""
        return np.where(ordered.is_new[ordered.starts], 0, numbers(ordered.rows, NUMBER)[ordered.starts])

    def _has_result(self, ordered: Ordered, number: Integers, end: Integers) -> Flags:
        if self.every_us is None:
            has_result: Flags = ordered.is_new & ((number + 1) % self.step == 0)
            return has_result
        moments = self._moments(ordered)
        following = np.append(moments[1:], 0)
        is_last: Flags = (np.arange(len(end)) == end) | (following != moments)
        has_come: Flags = (moments > ordered.since_us) & (moments <= ordered.watermark_us)
        return is_last & has_come

    def _moments(self, ordered: Ordered) -> Integers:
        assert self.every_us is not None
        return (ordered.times // self.every_us + 1) * self.every_us

    def _last_counted(self, ordered: Ordered, end: Integers) -> Integers:
        """For each row, the place of the last row of its group whose result it would count in."""
        if self.rows is not None:
            return np.minimum(np.arange(len(end)) + self.rows - 1, end)
        assert self.window_us is not None
        after = ordered.times + self.window_us
        if self.every_us is not None:  # the last moment in whose window it is, and what belongs to later ones
            after = after // self.every_us * self.every_us
        too_late = first_at_or_after(ordered.times, ordered.group, after)
        return np.where(too_late == len(end), end, too_late - 1)

    def _is_needed(self, ordered: Ordered, end: Integers) -> Flags:
        """By results to come, or for the numbers of the next rows."""
        from_end = end - np.arange(len(end))
        if self.rows is None:
            assert self.window_us is not None
            counts = ordered.times + self.window_us > ordered.watermark_us
            return counts | (from_end == 0) if self.step > 1 else counts
        # A moment that has not come takes the last rows as they are; a row to come is one of them itself.
        return from_end < (self.rows if self.every_us is not None else max(self.rows - 1, self.step > 1))

    def _wake_us(self, ordered: Ordered, end: Integers, kept: Flags) -> int:
        if self.every_us is not None:
            moments = self._moments(ordered)
            moment_us = int(moments[moments > ordered.watermark_us].min(initial=NEVER))
            return min(moment_us, self._too_old_us(ordered, kept))
        return self._too_old_us(ordered, kept & (np.arange(len(end)) < end) if self.step > 1 else kept)

    def _too_old_us(self, ordered: Ordered, passing: Flags) -> int:
        """When rows are to be forgotten that no result to come will count."""
        if self.window_us is None:
            return NEVER
        times = ordered.times[passing]
        # Not at once: each time costs a trip to the state, for all groups of a part.
        return int(times.min()) + self.window_us + self.window_us // 4 if len(times) else NEVER


@dataclass(frozen=True, slots=True)
class CrossSections:
    """XSection: at each moment a result for every live group.

    Each row comes out with the results that it counts in, and each result has a row of its own, which counts for
    nothing, so that it is there without others, too.
    """

    window_us: int
    every_us: int
    expire_us: int

    def work(self, ordered: Ordered) -> Worked:
        last, moments = self._results(ordered)
        group = ordered.group[last]
        first = number_before(group, moments, ordered.group, ordered.times + 1)
        after = number_before(group, moments, ordered.group, ordered.times + self.window_us + 1)
        begin = np.repeat(number_before(group, moments, np.arange(len(ordered.starts)), np.zeros_like(ordered.starts)),
                          ordered.sizes)  # fmt: skip
        counted = with_windows(ordered, first - begin, after - begin - 1, first < after)
        places = pa.array(np.arange(len(last)) - begin[last])
        results = ordered.rows.take(last).drop_columns(list(GROUP))
        results = results.add_column(0, TO, places).add_column(0, FROM, places)
        time = ordered.rows.schema.field(STIME).type
        made = pa.concat_batches(
            [
                counted.add_column(0, MOMENT, pa.nulls(counted.num_rows, time)),
                results.add_column(0, MOMENT, pa.array(moments).cast(time)),
            ]
        )
        return self._kept(ordered, made)

    def _results(self, ordered: Ordered) -> tuple[Integers, Integers]:
        """For each result the last row of its group before it, and its moment; by group and time."""
        following = np.append(ordered.times[1:], NEVER)
        following[ordered.starts + ordered.sizes - 1] = NEVER
        until = np.minimum(np.minimum(following, ordered.times + self.expire_us), ordered.watermark_us)
        first = np.maximum(ordered.times, ordered.since_us) // self.every_us + 1
        counts = np.maximum(until // self.every_us + 1 - first, 0)
        last = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(last)) - np.repeat(np.cumsum(counts) - counts, counts)
        return last, (first[last] + place) * self.every_us

    def _kept(self, ordered: Ordered, made: pa.RecordBatch) -> Worked:
        following = (ordered.watermark_us // self.every_us + 1) * self.every_us
        kept: Flags = ordered.times + self.window_us >= following
        ends = ordered.starts + ordered.sizes - 1
        kept[ends] |= ordered.times[ends] + self.expire_us >= following
        return Worked(made, ordered.where(kept), following if kept.any() else NEVER)
