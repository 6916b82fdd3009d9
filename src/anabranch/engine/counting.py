"""Windows of tuples on whole columns: which rows go into which windows, for many groups at once.

Runs in Spark's Python workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch.engine.ordered import Flags, Ordered, Worked
from anabranch.engine.packing import GROUP, Integers

FROM: Final = "_from"
TO: Final = "_to"
"""The first and the last window of its group, counted within the batch, that a row goes into."""


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
        made = with_windows(ordered, first, last, first <= last)
        return Worked(made, ordered.where(ordered.places >= full * self.every))


def with_windows(ordered: Ordered, first: Integers, last: Integers, out: Flags) -> pa.RecordBatch:
    """The chosen rows, each with the first and the last of its windows."""
    made = ordered.where(out).drop_columns(list(GROUP))
    return made.add_column(0, TO, pa.array(last[out])).add_column(0, FROM, pa.array(first[out]))
