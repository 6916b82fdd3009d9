"""Stream time in SQL: which columns hold it, and how far apart the two sides of a JOIN can be.

A column *is the time* of a stream if the stream time is that column plus a constant: the time column of a source, the
``window_end`` of a window, and ``window_start`` with the length of the window. From conditions between such columns
follows a bound on the difference of the two times, which is what a Join box needs to forget what it has. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.model.times import MS
from anabranch.query.statements import Text

_INTERVALS = {
    "microsecond": 1,
    "millisecond": MS,
    "second": 1_000 * MS,
    "minute": 60_000 * MS,
    "hour": 3_600_000 * MS,
    "day": 86_400_000 * MS,
    "week": 7 * 86_400_000 * MS,
}


@dataclass(frozen=True, slots=True)
class Times:
    """``columns`` maps a column, in lower case, to the microseconds to add to it for the stream time.

    ``aligned`` says that all stream times are whole milliseconds, as the ends of windows are.
    """

    columns: Mapping[str, int] = field(default_factory=dict)
    aligned: bool = False

    def of(self, column: str) -> int | None:
        return self.columns.get(column.lower())


@dataclass(frozen=True, slots=True)
class Gap:
    """How much later the left side may be than the right one, in microseconds: at least, and at most."""

    least: float = -math.inf
    most: float = math.inf

    def narrowed(self, least: float, most: float) -> Gap:
        return Gap(max(self.least, least), min(self.most, most))

    @property
    def within_us(self) -> int | None:
        """The smallest distance for a Join that loses no pair of this gap: whole milliseconds, never equal to it."""
        if math.isinf(self.least) or math.isinf(self.most):
            return None
        furthest = int(max(abs(self.least), abs(self.most)))
        return (furthest // MS + 1) * MS


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time column of one side, plus a constant: ``is_left`` and what to add to the side's time to have it."""

    is_left: bool
    less_than_time: int


Find = Callable[[exp.Column], tuple[bool, int] | None]
"""Of a column: whether it is of the left side, and what to add to it for that side's time; None if it is no time."""


def gap(conditions: Sequence[Text], find: Find) -> Gap:
    """What the conditions, all of which hold, say about the difference of the times."""
    found = Gap()
    for condition in conditions:
        for part in _conjuncts(condition.tree):
            found = _narrow(found, part, find)
    return found


def joined_times(left: Times, right: Times, between: Gap, names: tuple[Mapping[str, str], Mapping[str, str]]) -> Times:
    """The time columns of a Join, under the names that they have behind it. Its time is the later of the two."""
    columns: dict[str, int] = {}
    exact = between.least == between.most
    if between.least >= 0 or exact:
        later = max(0, -int(between.least)) if exact else 0
        columns |= {names[0][name].lower(): us + later for name, us in left.columns.items() if name in names[0]}
    if between.most <= 0 or exact:
        later = max(0, int(between.least)) if exact else 0
        columns |= {names[1][name].lower(): us + later for name, us in right.columns.items() if name in names[1]}
    return Times(columns, left.aligned and right.aligned)


def _conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    if isinstance(tree, exp.Paren):
        return _conjuncts(tree.this)
    if isinstance(tree, exp.And):
        return [*_conjuncts(tree.this), *_conjuncts(tree.expression)]
    return [tree]


def _narrow(found: Gap, tree: exp.Expr, find: Find) -> Gap:
    if isinstance(tree, exp.Between):
        found = _compare(found, tree.this, tree.args["low"], find, at_least=True)
        return _compare(found, tree.this, tree.args["high"], find, at_least=False)
    if isinstance(tree, exp.EQ):
        found = _compare(found, tree.this, tree.expression, find, at_least=True)
        return _compare(found, tree.this, tree.expression, find, at_least=False)
    if isinstance(tree, (exp.GT, exp.GTE)):
        return _compare(found, tree.this, tree.expression, find, at_least=True)
    if isinstance(tree, (exp.LT, exp.LTE)):
        return _compare(found, tree.this, tree.expression, find, at_least=False)
    return found


def _compare(found: Gap, one: exp.Expr, other: exp.Expr, find: Find, *, at_least: bool) -> Gap:
    """What follows if the first moment is at least (or at most) the second."""
    first, second = _moment(one, find), _moment(other, find)
    if first is None or second is None or first.is_left == second.is_left:
        return found
    if not first.is_left:
        first, second, at_least = second, first, not at_least
    least = first.less_than_time - second.less_than_time
    return found.narrowed(least, math.inf) if at_least else found.narrowed(-math.inf, least)


def _moment(tree: exp.Expr, find: Find) -> _Moment | None:
    if isinstance(tree, exp.Paren):
        return _moment(tree.this, find)
    if isinstance(tree, exp.Column):
        found = find(tree)
        return None if found is None else _Moment(*found)
    if not isinstance(tree, (exp.Add, exp.Sub)):
        return None
    moment, us = _moment(tree.this, find), interval_us(tree.expression)
    if moment is None or us is None:
        return None
    return _Moment(moment.is_left, moment.less_than_time - (us if isinstance(tree, exp.Add) else -us))


def interval_us(tree: exp.Expr) -> int | None:
    """The microseconds of ``INTERVAL '10' SECOND``; None if it is none, or not of one length."""
    if isinstance(tree, exp.Paren):
        return interval_us(tree.this)
    if not isinstance(tree, exp.Interval) or not isinstance(tree.this, exp.Literal) or tree.args.get("unit") is None:
        return None
    unit = _INTERVALS.get(tree.args["unit"].name.lower().removesuffix("s"))
    try:
        return None if unit is None else round(float(tree.this.name) * unit)
    except ValueError:
        return None
