"""GROUP BY in a window, made an Aggregate box: its columns before, inside and behind it.

An Aggregate takes columns to group by and aggregates with names; SQL allows expressions of both anywhere. So a key that
is computed becomes a column of a Map before the box, every call of an aggregate a column of the box, and what a SELECT
or HAVING makes of them an expression over these columns behind it. ``window_end`` is the stream time of the result, and
``window_start`` that time less the window.

Rows that have their window's end as a column may be grouped by it again, without a window: all rows of one end have one
stream time, so a window of a millisecond holds exactly them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from sqlglot import exp

from anabranch.model.header import STIME
from anabranch.model.times import MS, SECOND
from anabranch.query.bounds import Times
from anabranch.query.builder import Stream
from anabranch.query.scope import (
    Edit,
    Reference,
    Scope,
    aggregate_calls,
    bare,
    calls_of,
    column_sql,
    edited,
    references,
)
from anabranch.query.statements import Item, Refused, Select, Text, Windowed, WindowKind

START: Final = "window_start"
END: Final = "window_end"
_WINDOW_COLUMNS: Final = (START, END)
_UNUSED: Final = "rows_of_group"
"""The aggregate of a GROUP BY that asks for none."""


@dataclass(frozen=True, slots=True)
class _Key:
    """A column of the group: the expression as written, and what the box calls it."""

    text: Text
    name: str


class Grouping:
    """One GROUP BY over a stream with these columns and times."""

    def __init__(self, select: Select, scope: Scope, times: Times, window: Windowed | None) -> None:
        self._select: Final = select
        self._scope: Final = scope
        self._window: Final = window
        self._before: Final = times
        self._made: Final[dict[str, str]] = {}
        self._taken = {made.lower() for side in scope.sides for made in side.columns.values()}
        self.computed: Final[list[tuple[str, str]]] = []
        """Keys that a Map before the box has to make: name and SQL."""
        self._keys: Final = self._read_keys()
        self._check_window()
        self._began = self._session_time()
        self._taken = {key.name.lower() for key in self._keys}
        for item in select.items:
            if item.expression is None:
                raise Refused(item.at, "* lists columns that are not grouped.", "List the columns of the group.")
            self._add_calls(item.expression, item)
        if select.having is not None:
            self._add_calls(select.having, None)
        if self._began:
            self._made.setdefault(f"min({self._began})", self._name(START))
        if not self._made:
            self._made["count(*)"] = self._name(_UNUSED)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the box."""
        return (*(key.name for key in self._keys), *self._made.values())

    # --- the box ---------------------------------------------------------------------------------------------------

    def aggregate(self, stream: Stream) -> Stream:
        """The Aggregate box behind this stream, which has the computed keys."""
        columns = ", ".join(f"{sql} AS {column_sql(name)}" for sql, name in self._made.items())
        by = [key.name for key in self._keys]
        window = self._window
        if window is None:
            return stream.aggregate(columns, by=by, window=timedelta(microseconds=MS))
        if window.kind is WindowKind.COUNT:
            return stream.aggregate(columns, by=by, rows=window.size, every_rows=window.every)
        if window.kind is WindowKind.SESSION:
            return stream.session(columns, by=by, gap=timedelta(microseconds=window.size))
        size, every = (timedelta(microseconds=us) for us in (window.size, window.every))
        return stream.aggregate(columns, by=by, window=size, every=every)

    def times(self) -> Times:
        """The columns behind it that are the time."""
        found: dict[str, int] = {}
        for item in self._select.items:
            offset = self._offset(item)
            if offset is not None:
                found[self._name_of(item).lower()] = offset
        if self._window is None:
            return Times(found, aligned=True) if self._before.aligned else Times(aligned=True)
        return Times(found, aligned=self._window.kind in (WindowKind.TUMBLE, WindowKind.HOP))

    def items(self) -> list[tuple[str, str]]:
        """The select list behind the box: names and SQL."""
        return [(self._name_of(item), self.outside(item.expression)) for item in self._select.items if item.expression]

    def condition(self, having: Text) -> str:
        """HAVING behind the box: it may name what the SELECT computes."""
        return self.outside(having, names=True)

    def outside(self, text: Text, *, names: bool = False) -> str:
        """An expression behind the box: aggregates are columns there, and other columns must be of the group."""
        key = next((key for key in self._keys if key.text.tree == text.tree), None)
        if key is not None:
            return column_sql(key.name)
        calls = aggregate_calls(text)
        edits = [Edit(at, end, column_sql(self._made[self._call(text, at, end)])) for at, end in calls]
        for key in self._keys:
            repeated = [(at, end) for at, end in calls_of(key.text, text) if not _covered(at, calls)]
            edits += [Edit(at, end, column_sql(key.name)) for at, end in repeated]
            calls += repeated
        around = [each for each in references(text) if not _covered(each.at, calls)]
        edits += [Edit(each.at, each.end, self._outside_column(each, names=names)) for each in around]
        return edited(text, edits)

    # --- keys ------------------------------------------------------------------------------------------------------

    def _read_keys(self) -> tuple[_Key, ...]:
        return tuple(key for text in self._select.group if (key := self._read_key(text)) is not None)

    def _read_key(self, text: Text) -> _Key | None:
        """The key that an entry of GROUP BY is; None for a column of the window."""
        if isinstance(text.tree, exp.Literal):
            raise Refused(text.at, f"GROUP BY {text.sql} does not name a column.", "Write the name of the column.")
        if aggregate_calls(text):
            raise Refused(text.at, "Rows cannot be grouped by an aggregate.", "Group the result once more.")
        called = text.tokens[0].text.upper()
        if len(text.tokens) > 1 and text.tokens[1].text == "(" and called in [kind.value for kind in WindowKind]:
            message = f"{called} belongs in FROM, not in GROUP BY."
            remedy = f"Write FROM {called}(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) … GROUP BY {START}, {END}."
            raise Refused(text.at, message, remedy)
        reference = bare(text)
        if reference is None:
            return self._computed(text, text)
        if self._is_window_column(reference):
            return None
        aliased = self._aliased(reference)
        if aliased is not None:
            return self._computed(text, aliased)
        return _Key(text, self._scope.resolve(reference))

    def _aliased(self, reference: Reference) -> Text | None:
        """What a SELECT calls by this name, where the streams have no such column."""
        if reference.table is not None or any(side.find(reference.name) for side in self._scope.sides):
            return None
        for item in self._select.items:
            if item.alias is not None and item.alias.text.lower() == reference.name.lower() and item.expression:
                return None if aggregate_calls(item.expression) else item.expression
        return None

    def _computed(self, written: Text, text: Text) -> _Key:
        """A key that is an expression: a column of a Map, called as the SELECT calls it where that is free."""
        alias = next((item.alias.text for item in self._select.items if item.alias and _same(item, text)), "key")
        name = self._name(alias)
        self.computed.append((name, self._scope.rewrite(text)))
        return _Key(text, name)

    def _check_window(self) -> None:
        select, window = self._select, self._window
        at = select.group_at if select.group else select.at
        if window is None:
            if not any(self._before.of(key.name) is not None for key in self._keys if bare(key.text)):
                message = "Rows are grouped in windows: a group without one would never be complete."
                remedy = f"Write FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) … GROUP BY {START}, {END}."
                raise Refused(at, message, remedy)
        elif window.kind is not WindowKind.COUNT and not any(map(self._is_window_key, select.group)):
            raise Refused(at, "GROUP BY does not name the window.", f"Write GROUP BY …, {START}, {END}.")
        self._check_partition()

    def _is_window_key(self, text: Text) -> bool:
        reference = bare(text)
        return reference is not None and self._is_window_column(reference)

    def _check_partition(self) -> None:
        if self._window is None:
            return
        for name in self._window.by:
            made = self._scope.resolve(Reference(name.at, name.at, None, name.text))
            if made not in [key.name for key in self._keys]:
                message = f"Sessions are per {name.text}, but GROUP BY does not name it."
                raise Refused(name.at, message, f"Write GROUP BY {name.text}, {START}, {END}.")
        if self._window.by and len(self._keys) != len(self._window.by):
            message = "GROUP BY has columns that PARTITION BY does not: the sessions would differ."
            raise Refused(self._window.by[0].at, message, "Name the same columns in both.")

    def _session_time(self) -> str:
        """The column whose smallest value is the start of a session, if anybody asks for that; SQL."""
        window, select = self._window, self._select
        if window is None or window.kind is not WindowKind.SESSION:
            return ""
        texts = [item.expression for item in select.items] + [select.having]
        asked = [each for text in texts if text is not None for each in references(text) if each.name.lower() == START]
        if not any(map(self._is_window_column, asked)):
            return ""
        assert window.time is not None
        if window.time.text.lower() != STIME:
            return column_sql(self._scope.resolve(Reference(window.time.at, window.time.at, None, window.time.text)))
        name = self._name("began")
        self.computed.append((name, STIME))
        return name

    def _is_window_column(self, reference: Reference) -> bool:
        if self._window is None or reference.name.lower() not in _WINDOW_COLUMNS:
            return False
        if any(side.find(reference.name) for side in self._scope.sides):
            return False
        if self._window.kind is WindowKind.COUNT:
            message = f"A window of tuples has no {reference.name}."
            raise Refused(reference.at, message, "Write min or max of the time column.")
        return True

    # --- aggregates and what stands around them --------------------------------------------------------------------

    def _add_calls(self, text: Text, item: Item | None) -> None:
        for at, end in aggregate_calls(text):
            sql = self._call(text, at, end)
            if sql not in self._made:
                whole = item is not None and (at, end) == (text.at, text.end)
                wanted = item.alias.text if whole and item is not None and item.alias is not None else "value"
                self._made[sql] = self._name(wanted)

    def _call(self, text: Text, at: int, end: int) -> str:
        """A call of an aggregate with the names of the boxes."""
        edits: list[Edit] = []
        for reference in references(text):
            if at <= reference.at < end:
                if self._is_window_column(reference):
                    message = f"{reference.name} is one value for the whole group."
                    raise Refused(reference.at, message, "Write it outside of the aggregate.")
                edits.append(self._scope.edit(reference))
        return edited(text, edits, at, end)

    def _outside_column(self, reference: Reference, *, names: bool) -> str:
        if self._is_window_column(reference):
            return STIME if reference.name.lower() == END else self._start()
        if reference.name.lower() == STIME:
            return STIME
        key = self._key_of(reference)
        if key is not None:
            return column_sql(key.name)
        item = next((each for each in self._select.items if names and _is_called(each, reference)), None)
        if item is not None and item.expression is not None:
            made = self.outside(item.expression)
            return made if made.isidentifier() else f"({made})"
        made = self._scope.resolve(reference)
        message = f"{made!r} is neither in GROUP BY nor in an aggregate."
        remedy = f"Add it to GROUP BY, or write max({reference.name}), for example."
        raise Refused(reference.at, message, remedy, code="bad-aggregate")

    def _key_of(self, reference: Reference) -> _Key | None:
        for key in self._keys:
            of_key = bare(key.text)
            if of_key is None:
                continue
            if of_key.table is None and reference.table is None and of_key.name.lower() == reference.name.lower():
                return key
            try:
                if self._scope.resolve(reference) == self._scope.resolve(of_key):
                    return key
            except Refused:
                continue
        return None

    def _start(self) -> str:
        assert self._window is not None
        if self._window.kind is WindowKind.SESSION:
            return column_sql(self._made[f"min({self._began})"])
        return f"{STIME} - INTERVAL '{Decimal(self._window.size) / SECOND:f}' SECOND"

    def _offset(self, item: Item) -> int | None:
        """What to add to this column for the stream time behind the box; None if it is no time."""
        reference = None if item.expression is None else bare(item.expression)
        if reference is None:
            return None
        if reference.name.lower() == STIME:
            return 0
        if self._is_window_column(reference):
            assert self._window is not None
            if reference.name.lower() == END:
                return 0
            return None if self._window.kind is WindowKind.SESSION else self._window.size
        key = self._key_of(reference)
        before = None if key is None or self._window is not None else self._before.of(key.name)
        return None if before is None else before + MS

    def _name_of(self, item: Item) -> str:
        if item.alias is not None:
            return item.alias.text
        reference = None if item.expression is None else bare(item.expression)
        if reference is not None:
            return reference.name
        shown = "" if item.expression is None else item.expression.sql
        raise Refused(item.at, f"`{shown}` has no name.", f"Write `{shown} AS name`.", code="missing-alias")

    def _name(self, wanted: str) -> str:
        """A column name that is still free."""
        name, number = wanted, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name.lower())
        return name


def _covered(at: int, ranges: list[tuple[int, int]]) -> bool:
    return any(start <= at < end for start, end in ranges)


def _same(item: Item, text: Text) -> bool:
    return item.expression is not None and item.expression.tree == text.tree


def _is_called(item: Item, reference: Reference) -> bool:
    named = item.alias is not None and item.alias.text.lower() == reference.name.lower()
    return named and reference.table is None and item.expression is not None and bare(item.expression) != reference
