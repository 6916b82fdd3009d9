"""Resample on whole columns: a value at the time of each row of the first input, of those of the second around it.

All is floating point, and every value is a function of the rows around it alone: a mean is exact, as sums are by which
something decides, so it does not depend on where a batch began.

Runs in Spark's Python workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.engine.ordered import NEVER, SIDE, Flags, Ordered, Worked, number_before
from anabranch.engine.packing import GROUP, Integers, numbers
from anabranch.limits import SUM_DIGITS, SUM_SCALE

Values = npt.NDArray[np.float64]
_UNIT = 10**SUM_SCALE


@dataclass(frozen=True, slots=True)
class Resampled:
    """Rows of the first input are kept until none can come that counts for them, those of the second while they can."""

    columns: tuple[str, ...]
    how: str
    within_us: int
    waits_us: int

    def work(self, ordered: Ordered) -> Worked:
        is_second = numbers(ordered.rows, SIDE) == 1
        ready = ordered.times + self.waits_us
        out: Flags = ~is_second & (ordered.is_new if self.waits_us == 0 else ready > ordered.since_us)
        out &= ready <= ordered.watermark_us
        rows = ordered.where(out)
        columns = [
            self._column(ordered, name, is_second, np.flatnonzero(out)) if name in self.columns else rows.column(name)
            for name in rows.schema.names
        ]
        made = pa.record_batch(columns, names=rows.schema.names).drop_columns([*GROUP, SIDE])
        reach_us = self.within_us + self.waits_us
        kept: Flags = np.where(is_second, ordered.times + reach_us, ready) > ordered.watermark_us
        wake_us = min(
            int(ready[kept & ~is_second].min(initial=NEVER)),
            # Not at once: each time costs a trip to the state, for all keys of a part.
            int(ordered.times[kept & is_second].min(initial=NEVER - 2 * reach_us)) + reach_us + reach_us // 4,
        )
        return Worked(made, ordered.where(kept), wake_us if kept.any() else NEVER)

    def _column(self, ordered: Ordered, name: str, is_second: Flags, wanted: Integers) -> pa.Array:
        """The values of one column at the times of the wanted rows."""
        column = ordered.rows.column(name)
        there = is_second & np.asarray(column.is_valid())
        values = np.asarray(column.fill_null(0.0).to_numpy(zero_copy_only=False), dtype=np.float64)
        if self.how == "mean":
            made, is_made = self._means(ordered, values, np.flatnonzero(there), wanted)
        else:
            made, is_made = self._of_neighbours(ordered, values, there, wanted)
        return pa.array(made, pa.float64(), mask=~is_made)

    def _of_neighbours(self, ordered: Ordered, values: Values, there: Flags, wanted: Integers) -> tuple[Values, Flags]:
        """By the last that is not later, and the first that is: of equal times, rows of the second input come first."""
        places, count = np.arange(len(there)), len(there)
        before = np.maximum.accumulate(np.where(there, places, -1))[wanted]
        after = np.minimum.accumulate(np.where(there, places, count)[::-1])[::-1][wanted]
        times, group = np.append(ordered.times, 0), np.append(ordered.group, -1)
        time = ordered.times[wanted]
        since, until = time - times[before], times[after] - time
        has_before: Flags = (before >= 0) & (group[before] == group[wanted]) & (since < self.within_us)
        has_after: Flags = (group[after] == group[wanted]) & (until < self.within_us)
        low, high = np.append(values, 0.0)[before], np.append(values, 0.0)[after]
        if self.how == "previous":
            return low, has_before
        if self.how == "nearest":
            return np.where(has_before & ~(has_after & (until < since)), low, high), has_before | has_after
        with np.errstate(all="ignore"):
            between = low + (high - low) * (since / (since + until))
        is_there = has_before & (since == 0)
        return np.where(is_there, low, between), is_there | (has_before & has_after)

    def _means(self, ordered: Ordered, values: Values, there: Integers, wanted: Integers) -> tuple[Values, Flags]:
        group, times, time = ordered.group[there], ordered.times[there], ordered.times[wanted]
        first = number_before(group, times, ordered.group[wanted], time - self.within_us + 1)
        last = number_before(group, times, ordered.group[wanted], time + self.within_us)
        total = _exact_sums(values[there], first, last)
        with np.errstate(all="ignore"):
            return total / (last - first), last > first


def _exact_sums(values: Values, first: Integers, last: Integers) -> Values:
    """The sums of the values at places from ``first`` up to ``last``, each as the reference defines an exact sum.

    A value is a whole number of units, kept in three parts whose sums cannot overflow: what is added up to a place may,
    but the difference between two such sums does not.
    """
    limit = float(10 ** min(18, SUM_DIGITS - SUM_SCALE))
    is_small = np.abs(values) < limit
    small = np.where(is_small, values, 0.0)
    whole = small.astype(np.int64)
    parts = (whole // _UNIT, whole % _UNIT, np.rint((small - whole) * float(_UNIT)).astype(np.int64))
    high, low, fraction = (_between(part, first, last).astype(object) for part in parts)
    units = (high * _UNIT + low) * _UNIT + fraction  # Python's integers: up to 120 bits, rounded once
    total = units.astype(np.float64) / float(_UNIT)
    ups, downs, others = (
        _between(which.astype(np.int64), first, last) > 0
        for which in (values >= limit, values <= -limit, np.isnan(values))
    )
    total = np.where(ups, np.inf, np.where(downs, -np.inf, total))
    return np.where(others | (ups & downs), np.nan, total)


def _between(values: Integers, first: Integers, last: Integers) -> Integers:
    added: Integers = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return added[last] - added[first]
