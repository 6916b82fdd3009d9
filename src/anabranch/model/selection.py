"""Which rows of a stream a reader can have a use for, as ranges of columns.

A selection is a promise about what is *not* needed: a row outside of it changes nothing for the reader. It may let rows
through that are not needed either, so it can be simpler than the predicates it comes from, never stricter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

Bound = int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A column between two values, both included; None is no bound. NULL is outside, NaN inside of every range."""

    column: str
    low: Bound | None = None
    high: Bound | None = None


Selection = tuple[tuple[Range, ...], ...]
"""Rows that are in all ranges of at least one of these. A selection that has an empty one of them selects all rows."""

ALL_ROWS: Selection = ((),)


def to_text(selection: Selection) -> str:
    """As JSON."""
    return json.dumps([[(each.column, each.low, each.high) for each in ranges] for ranges in selection])


def from_text(text: str) -> Selection:
    return tuple(
        tuple(Range(column=column, low=low, high=high) for column, low, high in ranges) for ranges in json.loads(text)
    )
