"""WSort on whole columns: when each tuple leaves, and which of them are late.

The tuples that take others along are those that sort behind all before them, in canonical order. Each leaves when its
timeout is over, and takes along what sorts before it and is there; so a tuple leaves with the first of them that sorts
behind it. If that one left before the tuple came, the tuple is late.

Runs in Spark's Python workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.engine.ordered import NEVER, Ordered, Worked
from anabranch.engine.packing import GROUP, Integers, numbers
from anabranch.model.header import ORIGIN, STIME, TID


class Counter(Protocol):
    """What workers add to, and the node reads."""

    def add(self, term: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Sorted:
    """``late`` says which of the two streams is wanted; ``counter`` counts what is late, whichever is. Kept are the
    rows that wait, and the last that took others along when it left: by it others are late."""

    by: tuple[str, ...]
    timeout_us: int
    late: bool
    counter: Counter

    def work(self, ordered: Ordered) -> Worked:
        if not ordered.rows.num_rows:
            return Worked(ordered.rows.drop_columns(list(GROUP)), ordered.rows)
        place = self._places(ordered.rows)
        highest = np.maximum.accumulate(place)
        takers = np.flatnonzero(place == highest)
        taker = takers[np.searchsorted(place[takers], place)]
        leaves = ordered.times[taker] + self.timeout_us
        is_late = (leaves <= ordered.times) & (taker < np.arange(len(place)))
        has_left = ~is_late & (leaves <= ordered.watermark_us)
        newly_late = is_late & ordered.is_new
        self.counter.add(int(newly_late.sum()))
        made = self._made(ordered, place, leaves, has_left & (leaves > ordered.since_us), newly_late)
        gone = takers[leaves[takers] <= ordered.watermark_us]
        kept = ~is_late & ~has_left
        kept[gone[-1:]] = True
        wake_us = int(leaves[~is_late & ~has_left].min(initial=NEVER))
        return Worked(made, ordered.where(kept), wake_us)

    def _made(
        self, ordered: Ordered, place: Integers, leaves: Integers, out: np.ndarray, late: np.ndarray
    ) -> pa.RecordBatch:
        if self.late:
            return ordered.where(late).drop_columns(list(GROUP))
        chosen = np.flatnonzero(out)
        chosen = chosen[np.lexsort((place[chosen], leaves[chosen]))]
        rows = ordered.rows.take(pa.array(chosen)).drop_columns(list(GROUP))
        index = rows.schema.get_field_index(STIME)
        field = rows.schema.field(STIME)
        return rows.set_column(index, field, pa.array(leaves[chosen]).cast(field.type))

    def _places(self, rows: pa.RecordBatch) -> Integers:
        """The place of each row in the order of the columns, then in canonical order."""
        ties = [numbers(rows, name) for name in (TID, ORIGIN, STIME)]
        order = np.lexsort([*ties, *(ranks(rows.column(name)) for name in reversed(self.by))])
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return place


def ranks(column: pa.Array) -> Integers:
    """Numbers in the order of the values, equal for equal ones: NULL first, NaN last, as Spark has it."""
    there = np.asarray(column.is_valid())
    found = np.full(len(column), -1, dtype=np.int64)
    values = column.drop_null()
    if pa.types.is_floating(values.type):
        found[there] = np.unique(values.to_numpy(zero_copy_only=False), return_inverse=True)[1]
        return found
    encoded = values.dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    found[there] = rank[np.asarray(encoded.indices)] if len(order) else 0
    return found
