"""What a box gets to see whose result depends on order: the rows that the punctuation has passed, in canonical order.

Rows wait until no earlier one can come. Then they are handed over together, by group and in canonical order within each
group, after what the box kept of the rows before them. Arrival never shows. A box is one function on whole columns of
Arrow and NumPy, in Spark's Python workers; where the rows wait, and when it is called, is the business of ``shards``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.engine.packing import GROUP, Integers, numbers
from anabranch.model.header import ORIGIN, STIME, TID

NEVER: Final = int(np.iinfo(np.int64).max)

SIDE: Final = "_side"
"""0 for rows of the first input, 1 for those of the second, where a box has two."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ordered:
    """Rows below the watermark, by group, in canonical order. Those before ``since_us`` were handed over before, and
    kept."""

    rows: pa.RecordBatch
    since_us: int
    watermark_us: int

    @cached_property
    def times(self) -> Integers:
        return numbers(self.rows, STIME)

    @cached_property
    def is_new(self) -> Flags:
        return self.times >= self.since_us

    @cached_property
    def begins(self) -> Flags:
        """Whether a row is the first of its group."""
        return changes([numbers(self.rows, name) for name in GROUP])

    @cached_property
    def starts(self) -> Integers:
        """Where each group begins."""
        return np.flatnonzero(self.begins)

    @cached_property
    def sizes(self) -> Integers:
        """How many rows each group has."""
        return np.diff(np.append(self.starts, len(self.times)))

    @cached_property
    def group(self) -> Integers:
        """For each row, the number of its group, from 0."""
        return np.cumsum(self.begins) - 1

    @cached_property
    def places(self) -> Integers:
        """For each row, its place in its group, from 0."""
        return np.arange(len(self.times)) - np.repeat(self.starts, self.sizes)

    def where(self, chosen: Flags) -> pa.RecordBatch:
        return self.rows.filter(pa.array(chosen))


@dataclass(frozen=True, slots=True)
class Worked:
    """What comes out, which rows are kept, and the smallest watermark that gives the box something to do by itself."""

    made: pa.RecordBatch
    kept: pa.RecordBatch
    wake_us: int = NEVER


class OrderedBox(Protocol):
    """A box that works on rows in order. It is sent to Spark's workers, and keeps nothing in itself."""

    def work(self, ordered: Ordered) -> Worked: ...


def work_off(
    box: OrderedBox, rows: pa.RecordBatch, since_us: int, watermark_us: int
) -> tuple[pa.RecordBatch, pa.RecordBatch, int]:
    """Hands the box what the watermark has passed: what comes out, what is kept, and when there is more to do."""
    times = numbers(rows, STIME)
    waits = times >= watermark_us
    ready = in_order(rows.filter(pa.array(~waits)))
    worked = box.work(Ordered(ready, since_us, watermark_us))
    waiting = rows.filter(pa.array(waits))
    passed_us = int(times[waits].min(initial=NEVER - 1)) + 1  # when the first of those that wait is below the watermark
    return worked.made, pa.concat_batches([worked.kept, waiting]), min(worked.wake_us, passed_us)


def in_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """By group, then in canonical order: the codes of origins are in the order of their names.

    Of equal times, those of the second input come first: what is compared with them is known then.
    """
    side = [-numbers(rows, SIDE)] if SIDE in rows.schema.names else []
    keys = [numbers(rows, TID), numbers(rows, ORIGIN), *side, *(numbers(rows, name) for name in (STIME, *GROUP))]
    return rows.take(pa.array(np.lexsort(keys)))


def first_at_or_after(times: Integers, group: Integers, wanted: Integers) -> Integers:
    """For each row, the place of the first row of its group whose time is at or after a wanted one; if there is none,
    the number of rows. Rows are sorted by group and time."""
    found = number_before(group, times, group, wanted)
    return np.where(np.append(group, -1)[found] == group, found, len(times))


def number_before(group: Integers, times: Integers, wanted_group: Integers, wanted: Integers) -> Integers:
    """For each wanted group and time, how many of the sorted ones are of an earlier group, or of it and earlier."""
    is_there = np.repeat([False, True], [len(wanted), len(times)])  # those that look come before what they look for
    keys = (is_there, np.concatenate([wanted, times]), np.concatenate([wanted_group, group]))
    order = np.lexsort(keys)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(is_there[order])
    return place[: len(wanted)]


def chained(starts: Integers, following: Integers) -> Flags:
    """The places that are reached from the starts, each leading to one behind it, or to the number of all places.

    All chains are followed together, in steps of one, two, four … links.
    """
    count = len(following)
    jump = np.append(following, count)
    reached = np.zeros(count + 1, dtype=bool)
    reached[starts] = True
    for _ in range(count.bit_length()):
        reached[jump[reached]] = True
        jump = jump[jump]
    return reached[:count]


def blanked(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of which nothing is wanted any more but their group, time and identity: their columns are NULL."""
    kept = (*GROUP, STIME, ORIGIN, TID)
    columns = [
        rows.column(field.name) if field.name in kept else pa.nulls(rows.num_rows, field.type) for field in rows.schema
    ]
    return pa.record_batch(columns, schema=rows.schema)


def changes(columns: Sequence[Integers]) -> Flags:
    """Whether a row differs from the one before it in any of these columns; the first always does."""
    count = len(columns[0])
    found = np.zeros(count, dtype=bool)
    found[:1] = True
    for values in columns:
        found[1:] |= values[1:] != values[:-1]
    return found
