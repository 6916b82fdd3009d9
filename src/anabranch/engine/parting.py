"""Windows that do not overlap, on whole columns: each row is in one of them, and they follow each other.

Each row of a window that is over comes out with its window's number and the time when that ended. A box that also has
results of windows under way, after every so many rows, gets the rows of these once more: the windows of such rows have
numbers above all others, and no time when they ended. What is kept of a group begins with the first row of the window
under way. Runs in Spark's Python workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.engine.counting import CLOSES, VALUE, with_ends
from anabranch.engine.ordered import NEVER, Flags, Ordered, Worked, chained, changes, first_at_or_after
from anabranch.engine.packing import Integers, numbers
from anabranch.model.header import STIME


class PartedWindows(ABC):
    """``_parts`` says where windows begin, and when each of them ends; all else is alike."""

    emit_rows: int | None
    """After how many rows of a window there is a result before its end; None if there is none."""

    @abstractmethod
    def _parts(self, ordered: Ordered) -> tuple[Flags, Integers]:
        """Whether a row is the first of a window, and the time when each window ends; one that has come is over."""

    def _completes(self, place: Integers) -> Flags:
        """Whether a row at this place of its window ends it, so that its result is the window's own."""
        return np.zeros(len(place), dtype=bool)

    def work(self, ordered: Ordered) -> Worked:
        begins, ends = self._parts(ordered)
        window: Integers = np.cumsum(begins) - 1
        is_over = ends <= ordered.watermark_us
        out = is_over[window]
        type_ = ordered.rows.schema.field(STIME).type
        made = with_ends(ordered, window, window, out)
        made = made.add_column(0, CLOSES, pa.array(ends[window[out]]).cast(type_))
        if self.emit_rows is not None:
            early = self._early(ordered, np.flatnonzero(begins), window)
            made = pa.concat_batches([made, early.add_column(0, CLOSES, pa.nulls(early.num_rows, type_))])
        hidden = [name for name in VALUE if name in made.schema.names]
        return Worked(made.drop_columns(hidden), ordered.where(~out), int(ends[~is_over].min(initial=NEVER)))

    def _early(self, ordered: Ordered, starts: Integers, window: Integers) -> pa.RecordBatch:
        """The rows of windows that have a result by rows which are new."""
        place: Integers = np.arange(len(window)) - starts[window]
        shows: Flags = ordered.is_new & ((place + 1) % (self.emit_rows or 1) == 0) & ~self._completes(place)
        results: Integers = np.cumsum(shows)
        before: Integers = results - shows
        ends: Integers = np.append(starts[1:], len(window)) - 1
        last: Integers = results[ends[window]] - 1
        beyond = len(window)  # above the numbers of windows that are over
        return with_ends(ordered, beyond + before, beyond + last, before <= last)


@dataclass(frozen=True)
class TimedCountWindows(PartedWindows):
    """Windows of tuples, which are over when they are full or have lasted too long."""

    size: int
    timeout_us: int | None
    emit_rows: int | None = None

    def _parts(self, ordered: Ordered) -> tuple[Flags, Integers]:
        count, times = len(ordered.times), ordered.times
        end = np.repeat(ordered.starts + ordered.sizes, ordered.sizes)
        following = np.arange(count) + self.size
        if self.timeout_us is not None:
            following = np.minimum(following, first_at_or_after(times, ordered.group, times + self.timeout_us))
        begins = chained(ordered.starts, np.where(following < end, following, count))
        starts = np.flatnonzero(begins)
        last = np.minimum(following, end)[starts] - 1  # of each window, the last row that is there
        timed_out = NEVER if self.timeout_us is None else times[starts] + self.timeout_us
        return begins, np.where(last - starts + 1 == self.size, times[last], timed_out)

    def _completes(self, place: Integers) -> Flags:
        is_last: Flags = place + 1 == self.size
        return is_last


@dataclass(frozen=True)
class Runs(PartedWindows):
    """Tumble: runs of equal values, which all rows together form. The first row of the next one ends a run."""

    timeout_us: int | None
    emit_rows: int | None = None

    def _parts(self, ordered: Ordered) -> tuple[Flags, Integers]:
        times = ordered.times
        begins = changes([numbers(ordered.rows, name) for name in VALUE])
        if self.timeout_us is not None:
            value = np.cumsum(begins) - 1
            begins = chained(np.flatnonzero(begins), first_at_or_after(times, value, times + self.timeout_us))
        starts = np.flatnonzero(begins)
        ends = np.append(times[starts[1:]], NEVER)[: len(starts)]
        return begins, ends if self.timeout_us is None else np.minimum(ends, times[starts] + self.timeout_us)


@dataclass(frozen=True)
class SessionWindows(PartedWindows):
    """Rows of a group of which each is less than the gap after the one before."""

    gap_us: int
    emit_rows: int | None = None

    def _parts(self, ordered: Ordered) -> tuple[Flags, Integers]:
        begins = ordered.begins.copy()
        begins[1:] |= np.diff(ordered.times) >= self.gap_us
        starts = np.flatnonzero(begins)
        last = np.append(starts[1:], len(begins))[: len(starts)] - 1
        return begins, ordered.times[last] + self.gap_us


@dataclass(frozen=True)
class TimeWindows(PartedWindows):
    """Windows of time, one after the other."""

    window_us: int
    emit_rows: int | None = None

    def _parts(self, ordered: Ordered) -> tuple[Flags, Integers]:
        number = ordered.times // self.window_us
        begins = ordered.begins | changes([number])
        return begins, (number[begins] + 1) * self.window_us
