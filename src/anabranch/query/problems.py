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
    "bad-drop": "a Drop without a fraction or predicate, or with an invalid fraction",
    "bad-duration": "text that is not a duration, or a negative duration",
    "bad-function": "a Python function that has no name, does not exist, or cannot be called",
    "bad-name": "a name with characters that names cannot contain",
    "bad-resample": "an unknown way to interpolate, or values that cannot be interpolated",
    "bad-scale": "a number of digits that exact sums cannot have",
    "bad-sql": "an expression that Spark's SQL could not read",
    "bad-table": "a table without a location for its rows, or without a key",
    "bad-time-column": "the time column of a source is not a timestamp",
    "bad-window": "a window, advance or join distance that Spark cannot keep",
    "collation": "a string with a collation: equal values would not be identical ones",
    "cycle": "boxes that read each other in a cycle",
    "duplicate-name": "two things with the same name",
    "inexact-decision": "a decision based on a floating-point value that replicas may compute differently",
    "meaningless-option": "an option that has no effect together with the others",
    "missing-alias": "a computed column without a name",
    "missing-key": "a required key missing in the text form",
    "no-input": "a union without inputs",
    "no-output": "a query without outputs",
    "not-an-equality": "a condition that is not a list of equalities between columns of the two sides",
    "not-boolean": "a condition that is not boolean",
    "refused-function": "a function whose result would differ between replicas, or that streams do not support",
    "refused-sql": "a statement, or a part of one, that has no translation into boxes",
    "reserved-column": "a column name that begins with an underscore",
    "spark": "a function, type or expression that only Spark can check, and that Spark rejected",
    "too-many-origins": "more producers and boxes than a stream can tell apart",
    "too-many-scans": "a stage that would read its streams in more places than Spark can start",
    "union-type-clash": "inputs of a union that have different columns",
    "unknown-arrow": "a box or a port that does not exist",
    "unknown-column": "a column that does not exist",
    "unknown-key": "an unknown key in the text form",
    "unknown-table": "a table that does not exist",
    "unsupported-type": "a column type that streams do not support",
    "unused-box": "a box that no output depends on",
    "wrong-type": "a value of the wrong type in the text form",
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
