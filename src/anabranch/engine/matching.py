"""Latest on whole columns: which tuple of the second input each of the first finds, for many keys at once.

Runs in Spark's Python workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.engine.ordered import NEVER, SIDE, Flags, Ordered, Worked
from anabranch.engine.packing import GROUP, Integers, numbers


@dataclass(frozen=True, slots=True)
class LatestMatched:
    """Of each key the newest tuple of the second input is kept, while it can be found. ``right`` names its columns."""

    right: tuple[str, ...]
    outer: bool
    within_us: int | None

    def work(self, ordered: Ordered) -> Worked:
        is_right = numbers(ordered.rows, SIDE) == 1
        newest = np.maximum.accumulate(np.where(is_right, np.arange(len(is_right)), -1))
        found = newest >= np.repeat(ordered.starts, ordered.sizes)
        if self.within_us is not None:
            found &= ordered.times - ordered.times[newest] < self.within_us
        out = ~is_right & ordered.is_new
        if not self.outer:
            out &= found
        return self._kept(ordered, newest, self._made(ordered, out, np.where(found, newest, -1)))

    def _made(self, ordered: Ordered, out: Flags, partner: Integers) -> pa.RecordBatch:
        """The chosen rows of the first input, with the columns of their partners."""
        rows = ordered.where(out)
        places = pa.array(partner[out], mask=partner[out] < 0)
        columns = [
            ordered.rows.column(name).take(places) if name in self.right else rows.column(name)
            for name in rows.schema.names
        ]
        return pa.record_batch(columns, schema=rows.schema).drop_columns([*GROUP, SIDE])

    def _kept(self, ordered: Ordered, newest: Integers, made: pa.RecordBatch) -> Worked:
        last = newest[ordered.starts + ordered.sizes - 1]
        last = last[last >= ordered.starts]
        if self.within_us is None:
            return Worked(made, ordered.rows.take(last))
        last = last[ordered.times[last] + self.within_us > ordered.watermark_us]
        times = ordered.times[last]
        # Not at once: each time costs a trip to the state, for all keys of a part.
        wake_us = int(times.min()) + self.within_us + self.within_us // 4 if len(times) else NEVER
        return Worked(made, ordered.rows.take(last), wake_us)
