"""Dedup on whole columns: which tuples pass, for many keys at once.

Whether a tuple passes depends on the last one that passed, so a key's tuples form chains: from one that passes, the
next is the first that is a horizon later.

Runs in Spark's Python workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.engine.ordered import NEVER, Ordered, Worked, blanked, chained, first_at_or_after
from anabranch.engine.packing import GROUP, Integers


@dataclass(frozen=True, slots=True)
class Deduped:
    """Of each key the last tuple that passed is kept, without its columns, while another could be dropped for it."""

    horizon_us: int

    def work(self, ordered: Ordered) -> Worked:
        passed = chained(
            ordered.starts, first_at_or_after(ordered.times, ordered.group, ordered.times + self.horizon_us)
        )
        made = ordered.where(passed & ordered.is_new).drop_columns(list(GROUP))
        last = np.maximum.reduceat(np.where(passed, np.arange(len(passed)), -1), ordered.starts)
        last = last[ordered.times[last] + self.horizon_us > ordered.watermark_us]
        kept = blanked(ordered.rows.take(last))
        return Worked(made, kept, self._wake_us(ordered.times[last]))

    def _wake_us(self, times: Integers) -> int:
        """When to forget the oldest. Not at once: each time costs a trip to the state, for all keys of a part."""
        return int(times.min()) + self.horizon_us + self.horizon_us // 4 if len(times) else NEVER
