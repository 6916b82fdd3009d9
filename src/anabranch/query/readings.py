"""Streams as a FROM clause sees them, and what a JOIN asks of them, whatever it joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.model.header import STIME
from anabranch.query.bounds import Times
from anabranch.query.builder import Stream
from anabranch.query.scope import Scope, bare, column_sql
from anabranch.query.statements import Joined, Refused, Text, Windowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A stream as a FROM clause sees it: its columns, and those that are its time.

    ``window`` is one that no GROUP BY has closed yet.
    """

    stream: Stream
    columns: tuple[str, ...]
    times: Times = field(default_factory=Times)
    window: Windowed | None = None


def check_side(name: str, scope: Scope, join: Joined) -> None:
    if any(side.name.lower() == name.lower() for side in scope.sides):
        message = f"Two streams are called {name!r} here." if name else "A query in parentheses has no name."
        raise Refused(join.relation.at, message, "Write AS and another name.", code="duplicate-name")


def check_as_of(text: Text, scope: Scope, left: Reading) -> None:
    reference = bare(text)
    made = None if reference is None else Scope(scope.sides[:-1]).resolve(reference)
    if made is None or (made != STIME and left.times.of(made) != 0):
        known = [name for name, us in left.times.columns.items() if us == 0]
        remedy = f"Write {known[0]}." if known else "Write ASOF JOIN, which needs no time."
        message = f"FOR SYSTEM_TIME AS OF {text.sql}: this is not the time of the left side."
        raise Refused(text.at, message, remedy, code="bad-time-column")


def select_list(made: Sequence[tuple[str, str]]) -> str:
    """Names and SQL as a select list; an empty name is none."""
    return ", ".join(
        each if name in ("", each) or each == column_sql(name) else f"{each} AS {column_sql(name)}"
        for name, each in made
    )


def free_name(column: str, side: str, taken: set[str]) -> str:
    name = column
    number = 1
    while name.lower() in taken:
        name = f"{side or 'other'}_{column}" if number == 1 else f"{side or 'other'}_{column}_{number}"
        number += 1
    return name
