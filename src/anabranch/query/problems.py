"""How a mistake in a query is told: its code, its place, and what would be right there.

Every code a user can meet is listed here with its meaning, so that documentation and tests have one place to look.
Knows nothing of boxes or SQL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

from anabranch.errors import Problem, check

CODES: Final = {
    "ambiguous-column": "a join condition reads a column that both sides have",
    "arbitrary-function": "replicas would call a Python function that is not declared deterministic",
    "bad-aggregate": "an aggregate column is not built from aggregate functions alone",
    "bad-connector": "a feed or a writer that cannot do what it is asked to",
    "bad-drop": "a Drop that does not say what to drop, or with a fraction that is none",
    "bad-duration": "a text that is no duration, or a negative one",
    "bad-function": "a Python function that has no name, is not there, or cannot be called",
    "bad-name": "a name with characters that names cannot have",
    "bad-resample": "a way to make values between others that is none, or values that have none between",
    "bad-scale": "a number of digits that exact sums cannot have",
    "bad-sql": "an expression that Spark's SQL could not read",
    "bad-table": "a table that does not say where its rows are, or which of its columns tell them apart",
    "bad-time-column": "the time column of a source is not a timestamp",
    "bad-window": "a window, advance or join distance that Spark cannot keep",
    "collation": "a string with a collation: equal values would not be identical ones",
    "cycle": "boxes that read each other in a circle",
    "duplicate-name": "two things with one name",
    "inexact-decision": "something decides by a floating-point value that replicas may compute differently",
    "meaningless-option": "an option that has no effect next to the others",
    "missing-alias": "a computed column without a name",
    "missing-key": "the text form lacks a key",
    "no-input": "a union without inputs",
    "no-output": "a query that nobody could read from",
    "not-an-equality": "a condition that should be equalities between columns of the two sides",
    "not-boolean": "a condition that is not true or false",
    "refused-function": "a function whose result would differ between replicas, or that a stream cannot have",
    "refused-sql": "a statement, or a part of one, that has no translation into boxes",
    "reserved-column": "a column name that begins with an underscore",
    "spark": "a function, type or expression that only Spark could judge, and refused",
    "too-many-origins": "more producers and boxes than a stream can keep apart",
    "too-many-scans": "a stage that would read its streams in more places than Spark can start",
    "union-type-clash": "inputs of a union that have different columns",
    "unknown-arrow": "a box or a port that is not there",
    "unknown-column": "a column that is not there",
    "unknown-key": "the text form has a key that means nothing",
    "unknown-table": "a table that is not there",
    "unsupported-type": "a column type that streams do not have",
    "unused-box": "a box from which nothing reaches an output",
    "wrong-type": "a value of the text form that should be of another kind",
}

Place = tuple[str, str]
"""A box (or output) and the parameter of it that is wrong."""

_SHOWN: Final = 12  # candidates that still fit on two lines


class Report:
    """Collects problems. A place that was told before, by whoever built the diagram, is not told again."""

    def __init__(self, told: Collection[Place] = ()) -> None:
        self._told: Final = frozenset(told)
        self.problems: Final[list[Problem]] = []

    def add(self, code: str, box: str, field: str, message: str, remedy: str = "") -> None:
        check(code in CODES, f"There is no problem code {code!r}.")
        problem = Problem(code=code, box=box, message=message, remedy=remedy)
        if (box, field) not in self._told and problem not in self.problems:
            self.problems.append(problem)


def candidates(wanted: str, options: Iterable[str]) -> str:
    """``Candidates: b, c.``, the most similar ones first; empty when there are none."""
    names = list(dict.fromkeys(options))
    if not names:
        return ""
    folded = {name.casefold(): name for name in reversed(names)}
    close = [folded[name] for name in get_close_matches(wanted.casefold(), folded, n=3, cutoff=0.5)]
    ordered = [*close, *(name for name in names if name not in close)]
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return f"Candidates: {', '.join(ordered[:_SHOWN])}{more}."
