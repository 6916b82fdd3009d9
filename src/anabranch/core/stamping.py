"""Stamps, lateness and bad rows of one batch: the arithmetic of a lane, over whole columns.

Everything is a function of the entries before a row, never of how they were cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anabranch.core.lane_messages import Mask, RowsArrived, Times
from anabranch.core.lane_state import LaneRules, LaneState
from anabranch.errors import check
from anabranch.model.times import CLOSED_US, MIN_TIME_US, format_time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stamped:
    """The stream time of each new row, which of them were late, and what the lane remembers after them."""

    stamps: Times
    late: Mask
    state: LaneState


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """``row`` is its index in the batch that arrived."""

    row: int
    code: str
    reason: str


def stamp_rows(rules: LaneRules, state: LaneState, rows: RowsArrived, skip: int) -> Stamped | BadRow:
    """The rows of the batch from ``skip`` on, or the first of them that must not enter. There is at least one."""
    if rules.producer is None and not rules.timed:
        check(rows.times is None, "Rows with times arrived in a lane that its entry point stamps.")
        return _stamp_on_arrival(state, rows.count - skip, rows.now_us)
    if rows.times is None:
        return BadRow(row=skip, code="null-time", reason="it has no time: the producer of this lane stamps its rows")
    check(len(rows.times) == rows.count, f"{rows.count} rows arrived with {len(rows.times)} times.")
    times, nulls = rows.times[skip:], None if rows.nulls is None else rows.nulls[skip:]
    bad = _bad_time(times, nulls) or (None if rules.timed else _decreasing_stamp(times, state.last_stamp_us))
    if bad is not None:
        return replace(bad, row=bad.row + skip)
    return _stamp_by_column(rules, state, times) if rules.timed else _stamp_by_producer(state, times)


def _stamp_on_arrival(state: LaneState, count: int, now_us: int) -> Stamped:
    """One stamp for the batch: the clock, but never back."""
    return _stamp_by_producer(state, np.full(count, max(state.last_stamp_us, now_us), dtype=np.int64))


def _stamp_by_producer(state: LaneState, stamps: Times) -> Stamped:
    late = np.zeros(len(stamps), dtype=np.bool_)
    return Stamped(stamps=stamps, late=late, state=state.stamped(int(stamps[-1])))


def _stamp_by_column(rules: LaneRules, state: LaneState, times: Times) -> Stamped:
    """A row is late iff it is below an earlier boundary, or below the largest earlier time less the disorder."""
    largest = np.maximum.accumulate(np.concatenate((np.array([state.max_time_us], dtype=np.int64), times)))
    punctuations = np.maximum(largest[:-1] - rules.disorder_us, state.boundary_us)
    late = times < punctuations
    return Stamped(
        stamps=np.where(late, punctuations, times), late=late, state=replace(state, max_time_us=int(largest[-1]))
    )


def _bad_time(times: Times, nulls: Mask | None) -> BadRow | None:
    """The first row whose time is NULL, or not between 1970 and the time that a closed lane counts as."""
    null = np.zeros(len(times), dtype=np.bool_) if nulls is None else nulls
    row = _first(null | (times < MIN_TIME_US) | (times >= CLOSED_US))
    if row is None:
        return None
    if null[row]:
        return BadRow(row=row, code="null-time", reason="its time is NULL")
    return BadRow(
        row=row, code="time-range", reason=f"its time, {int(times[row])} us, is not in the years 1970 to 9998"
    )


def _decreasing_stamp(stamps: Times, last_stamp_us: int) -> BadRow | None:
    """The first row whose stamp is below the one before it, or below what the lane has promised."""
    before = np.concatenate((np.array([last_stamp_us], dtype=np.int64), stamps[:-1]))
    row = _first(stamps < before)
    if row is None:
        return None
    reason = f"its stamp {format_time(int(stamps[row]))} is below the last one, {format_time(int(before[row]))}"
    return BadRow(row=row, code="stamp-decreases", reason=reason)


def _first(mask: Mask) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None
