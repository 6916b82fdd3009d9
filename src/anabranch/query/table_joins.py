"""JOIN with a static table: equalities become a Lookup, all else that is asked a Filter behind it.

What a table has no column for (``ON mod(b.auction, 10) = t.key``) is computed by a Map before it; columns of the stream
that are called like one of the table have another name from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.query.boxes import Table
from anabranch.query.builder import Stream
from anabranch.query.readings import Reading, check_as_of, check_side, free_name, select_list
from anabranch.query.scope import Scope, Side, column_sql
from anabranch.query.sql import parse_expression, split_join
from anabranch.query.statements import Joined, Name, Refused, Text

At = Callable[[Stream, int], Stream]
"""Remembers where in the text the box of a stream is."""


def look_up(left: Reading, scope: Scope, join: Joined, table: Table, at: At) -> tuple[Reading, Scope]:
    """Each row of the left with those of a table: equalities are looked up, what else is asked is a Filter."""
    name = (join.relation.alias or Name(table.name, 0)).text
    check_side(name, scope, join)
    left, scope = _apart(left, scope, table, join.at, at)
    both = Scope((*scope.sides, Side(name, {column: column for column in table.columns})))
    on = _table_condition(join, both, left)
    equalities, rest = split_join(both.rewrite(on), left.columns, table.columns)
    computed: list[tuple[str, str]] = []
    pairs: list[str] = []
    for one, other in equalities:
        if parse_expression(other).column is None:
            message = f"`{other}` is not a column of the table {table.name!r}."
            raise Refused(on.at, message, "Compare a column of the table as it is.", code="not-an-equality")
        if parse_expression(one).column is None:
            taken = {each.lower() for each in (*left.columns, *table.columns, *(new for new, _ in computed))}
            computed.append((free_name("looked_up", name, taken), one))
            one = computed[-1][0]
        pairs.append(f"{one} = {other}")
    if not pairs or (rest is not None and join.outer):
        message = f"`{on.sql}` is more than equalities between the left side and columns of {table.name!r}."
        message = message if pairs else f"Nothing in `{on.sql}` equals a column of {table.name!r}."
        remedy = "Write ON left.x = table.y, with AND between several."
        raise Refused(on.at, message, remedy, code="not-an-equality")
    stream = left.stream
    if computed:
        stream = at(stream.map(select_list([("", "*"), *computed])), on.at)
    stream = at(stream.lookup(table, on=" AND ".join(pairs), outer=join.outer), join.at)
    if rest is not None:
        stream = at(stream.filter(rest), on.at)
    columns = (*left.columns, *(new for new, _ in computed), *table.columns)
    return Reading(stream=stream, columns=columns, times=left.times), both


def _apart(left: Reading, scope: Scope, table: Table, offset: int, at: At) -> tuple[Reading, Scope]:
    """The left side without a column that is called like one of the table."""
    taken = {column.lower() for column in (*left.columns, *table.columns)}
    theirs = {column.lower() for column in table.columns}
    names: dict[str, str] = {}
    for column in left.columns:
        names[column] = free_name(column, "left", taken) if column.lower() in theirs else column
        taken.add(names[column].lower())
    if all(old == new for old, new in names.items()):
        return left, scope
    stream = at(left.stream.map(select_list([(new, column_sql(old)) for old, new in names.items()])), offset)
    made = {old.lower(): new for old, new in names.items()}
    sides = [
        Side(side.name, {shown: made.get(column.lower(), column) for shown, column in side.columns.items()})
        for side in scope.sides
    ]
    times = {made.get(column, column).lower(): us for column, us in left.times.columns.items()}
    moved = replace(left, stream=stream, columns=tuple(names.values()), times=replace(left.times, columns=times))
    return moved, Scope(tuple(sides))


def _table_condition(join: Joined, scope: Scope, left: Reading) -> Text:
    """The condition of a join with a table, which has no time that could be asked for."""
    if join.as_of is not None:
        check_as_of(join.as_of, scope, left)
    elif join.newest:
        raise Refused(join.at, "ASOF JOIN: the rows of a table have no time.", "Write JOIN or LEFT JOIN.")
    if join.within_us is not None:
        raise Refused(join.at, "WITHIN: the rows of a table have no time.", "Leave it out.")
    if join.on is None:
        raise Refused(join.at, "No condition given to join the table on.", "Write ON and the condition.")
    return join.on
