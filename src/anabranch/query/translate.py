"""SQL statements made boxes: ``ab.sql("…")`` and files that end in .sql.

    CREATE SOURCE ping (source STRING, target STRING, rtt_ms DOUBLE);
    CREATE OUTPUT slow AS SELECT target, rtt_ms FROM ping WHERE rtt_ms > 1000;

A statement is read by ``dialect``, and made boxes here with the same builder that Python programs use. So there is one
data model, one validation and one compiler, whatever a query was written in. What has no box is refused with its line
and column; a statement that is wrong does not hide the next one. Boxes remember where they came from, so that a problem
that ``validate`` finds has its place, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeVar

from sqlglot import exp

from anabranch.errors import ConfigError, Problem
from anabranch.model.header import STIME
from anabranch.model.times import format_duration
from anabranch.query.bounds import Find, Gap, Times, gap, joined_times
from anabranch.query.boxes import Table
from anabranch.query.builder import Query, Stream
from anabranch.query.dialect import parse
from anabranch.query.grouping import Grouping
from anabranch.query.problems import candidates
from anabranch.query.readings import Reading, check_as_of, check_side, free_name, select_list
from anabranch.query.schema import parse_schema
from anabranch.query.scope import Reference, Scope, Side, aggregate_calls, bare, column_sql, references
from anabranch.query.specs import feed_from, writer_from
from anabranch.query.sql import conjuncts, parse_expression
from anabranch.query.statements import (
    CreateOutput,
    CreateSource,
    CreateTable,
    CreateView,
    Distinct,
    Item,
    Joined,
    Name,
    Named,
    Nested,
    Option,
    Refused,
    Relation,
    Select,
    Statement,
    Text,
    UnionAll,
    Windowed,
    WindowKind,
    With,
    place,
)
from anabranch.query.statements import Query as Tree
from anabranch.query.table_joins import look_up

T = TypeVar("T")

RESULT: Final = "result"
"""The output of a SELECT that stands for itself."""
_SOURCE_OPTIONS: Final = ("time", "disorder", "idle", "silence", "horizon", "producers", "feed")
_TABLE_OPTIONS: Final = ("file", "database", "sql")
_OUTPUT_OPTIONS: Final = ("to",)


def sql(text: str, *, name: str = "sql") -> Query:
    """The query that SQL statements describe, not validated yet: whatever is wrong with them ``validate`` tells."""
    return _Translation(text, name).run()


class _Behind(Exception):
    """A statement that reads what could not be translated: it is passed over, one mistake is one problem."""


class _Translation:
    def __init__(self, text: str, name: str) -> None:
        self._text: Final = text
        self._query: Final = Query(name)
        self._views: Final[dict[str, Reading | None]] = {}
        self._tables: Final[dict[str, Table]] = {}
        self._unread: Final[dict[str, Name]] = {}
        self._taken: set[str] = set()
        self._problems: Final[list[Problem]] = []
        self._before: set[str] = set()

    def run(self) -> Query:
        statements = parse(self._text)
        named = (each.name for each in statements if isinstance(each, CreateSource | CreateTable | CreateView))
        self._taken = {name.text.casefold() for name in named}
        for statement in statements:
            try:
                if isinstance(statement, Refused):
                    raise statement
                self._statement(statement)
            except Refused as refused:
                self._note(refused)
                self._forget(statement)
            except _Behind:
                self._forget(statement)
        if not statements:
            self._note(Refused(0, "There is no statement.", "Write CREATE SOURCE … and SELECT … at least."))
        for table in self._unread.values() if not self._problems else ():
            message = f"Nothing reads the table {table.text!r}."
            self._note(Refused(table.at, message, "Join it, or remove it.", code="unused-box"))
        if self._problems:
            self._query._untranslated = tuple(self._problems)
        return self._query

    def _note(self, refused: Refused) -> None:
        self._problems.append(
            Problem(
                code=refused.code,
                box="",
                message=refused.message,
                remedy=refused.remedy,
                place=place(self._text, refused.at),
            )
        )

    def _forget(self, statement: Statement | Refused) -> None:
        if isinstance(statement, CreateSource | CreateTable | CreateView):
            self._views.setdefault(statement.name.text.casefold(), None)

    def _statement(self, statement: Statement) -> None:
        self._before = {box.name for box in self._query.diagram().boxes}
        match statement:
            case CreateSource():
                self._new_name(statement.name)
                self._views[statement.name.text.casefold()] = self._source(statement)
            case CreateTable():
                self._new_name(statement.name)
                self._tables[statement.name.text.casefold()] = self._table(statement)
            case CreateView():
                self._new_name(statement.name)
                found = self._named(self._tree(statement.query, {}), statement.name.text)
                self._views[statement.name.text.casefold()] = found
            case CreateOutput():
                self._output(statement)

    def _new_name(self, name: Name) -> None:
        if name.text.casefold() in {*self._views, *self._tables}:
            raise Refused(name.at, f"{name.text!r} already exists.", "Choose another name.", code="duplicate-name")

    # --- sources and outputs ---------------------------------------------------------------------------------------

    def _source(self, statement: CreateSource) -> Reading:
        given = _options(statement.options, _SOURCE_OPTIONS)
        durations = {name: given[name] for name in ("disorder", "idle", "silence", "horizon") if name in given}
        producers = given.get("producers")
        time = given.get("time")
        stream = self._query.source(
            statement.name.text,
            statement.schema,
            time=None if time is None else _one_text(time),
            **{name: _duration(option) for name, option in durations.items()},
            producers=() if producers is None else _texts(producers, split=True),
            feed=_connector(given["feed"], feed_from) if "feed" in given else None,
        )
        self._at(stream, statement.name.at)
        columns = tuple({column.name.lower(): column.name for column in parse_schema(statement.schema)}.values())
        times = Times({} if time is None else {_one_text(time).lower(): 0})
        return Reading(stream=stream, columns=columns, times=times)

    def _table(self, statement: CreateTable) -> Table:
        given = {name: _one_text(option) for name, option in _options(statement.options, _TABLE_OPTIONS).items()}
        name = statement.name.text
        if not given:
            remedy = "Write WITH (file = 'x.csv') after the columns."
            raise Refused(statement.name.at, f"No location given for the rows of {name!r}.", remedy, code="bad-table")
        if not statement.key:
            message = f"No key given for the rows of {name!r}."
            remedy = "Write PRIMARY KEY after a column, or PRIMARY KEY (a, b) after all columns."
            raise Refused(statement.name.at, message, remedy, code="bad-table")
        self._query._places.setdefault(name, place(self._text, statement.name.at))
        self._unread[name.casefold()] = statement.name
        return self._query.table(name, statement.schema, key=[each.text for each in statement.key], **given)

    def _output(self, statement: CreateOutput) -> None:
        given = _options(statement.options, _OUTPUT_OPTIONS)
        name = RESULT if statement.name is None else statement.name.text
        at = statement.at if statement.name is None else statement.name.at
        if any(output.name == name for output in self._query.diagram().outputs):
            remedy = "Write CREATE OUTPUT name AS SELECT …." if statement.name is None else "Choose another name."
            raise Refused(at, f"There is already an output {name!r}.", remedy, code="duplicate-name")
        found = self._tree(statement.query, {})
        if name.casefold() not in self._taken:
            found = self._named(found, name)
        to = _texts(given["to"]) if "to" in given else ()
        writers = [_connector(replace(given["to"], value=text), writer_from) for text in to]
        self._query.output(name, found.stream, to=[writer for writer in writers if writer is not None])
        self._query._places.setdefault(name, place(self._text, at))

    def _named(self, found: Reading, name: str) -> Reading:
        """Give the last box the name of its view or output, if this statement made it."""
        if found.stream.arrow.box in self._before or found.stream.arrow.port:
            return found
        return replace(found, stream=self._query._rename(found.stream, name))

    # --- queries ---------------------------------------------------------------------------------------------------

    def _tree(self, tree: Tree, local: Mapping[str, Reading]) -> Reading:
        match tree:
            case Select():
                return self._select(tree, local)
            case UnionAll():
                return self._union(tree, local)
            case With():
                known = dict(local)
                for name, query in tree.views:
                    known[name.text.casefold()] = self._tree(query, known)
                return self._tree(tree.query, known)

    def _select(self, select: Select, local: Mapping[str, Reading]) -> Reading:
        for text in _all_texts(select):
            _refuse_structure(text)
        reading, scope = self._from(select, local)
        if select.where is not None:
            reading = self._filter(reading, scope, select.where)
        calls = any(aggregate_calls(item.expression) for item in select.items if item.expression is not None)
        if select.group or calls or select.having is not None or reading.window is not None:
            reading = self._group(select, reading, scope)
        else:
            reading = self._map(select, reading, scope)
        return reading if select.distinct is None else self._distinct(select.distinct, reading)

    def _filter(self, reading: Reading, scope: Scope, where: Text) -> Reading:
        if aggregate_calls(where):
            raise Refused(where.at, "WHERE applies before the rows are grouped.", "Write it as HAVING.")
        if reading.window is not None:
            _refuse_window_columns(where, scope, reading.window)
        return replace(reading, stream=self._at(reading.stream.filter(scope.rewrite(where)), where.at))

    def _map(self, select: Select, reading: Reading, scope: Scope) -> Reading:
        made: list[tuple[str, str]] = []
        times: dict[str, int] = {}
        for item in select.items:
            for name, sql_text, reference in _expanded(item, scope):
                made.append((name, sql_text))
                offset = 0 if reference == STIME else reading.times.of(reference or "")
                if offset is not None:
                    times[name.lower()] = offset
        if made == _as_they_are(reading.columns):
            return reading
        stream = self._at(reading.stream.map(select_list(made)), select.at)
        columns = tuple(name for name, _ in made)
        return Reading(stream=stream, columns=columns, times=replace(reading.times, columns=times))

    def _group(self, select: Select, reading: Reading, scope: Scope) -> Reading:
        grouping = Grouping(select, scope, reading.times, reading.window)
        stream = reading.stream
        at = select.group_at if select.group else select.at
        if grouping.computed:
            stream = self._at(stream.map(select_list([("", "*"), *grouping.computed])), at)
        stream = self._at(grouping.aggregate(stream), at)
        if select.having is not None:
            stream = self._at(stream.filter(grouping.condition(select.having)), select.having.at)
        made = grouping.items()
        if made != _as_they_are(grouping.columns):
            stream = self._at(stream.map(select_list(made)), select.at)
        return Reading(stream=stream, columns=tuple(name for name, _ in made), times=grouping.times())

    def _distinct(self, distinct: Distinct, reading: Reading) -> Reading:
        if distinct.within_us is None:
            message = "DISTINCT needs all rows ever seen."
            raise Refused(distinct.at, message, "Write SELECT DISTINCT WITHIN INTERVAL '1' HOUR ….")
        scope = Scope((Side("", {column: column for column in reading.columns}),))
        by = [_distinct_by(text, scope) for text in distinct.on] or list(reading.columns)
        stream = reading.stream.dedup(by, horizon=timedelta(microseconds=distinct.within_us))
        return replace(reading, stream=self._at(stream, distinct.at))

    def _union(self, union: UnionAll, local: Mapping[str, Reading]) -> Reading:
        first = self._tree(union.parts[0], local)
        parts = [first, *(self._tree(_named_like(first.columns, part), local) for part in union.parts[1:])]
        streams = [first.stream]
        for tree, part in zip(union.parts[1:], parts[1:], strict=True):
            if len(part.columns) != len(first.columns):
                message = f"This has {len(part.columns)} columns, but the SELECT before it has {len(first.columns)}."
                raise Refused(tree.at, message, "Select the same columns.", code="union-type-clash")
            stream = part.stream
            if [name.lower() for name in part.columns] != [name.lower() for name in first.columns]:
                made = [(new, column_sql(old)) for old, new in zip(part.columns, first.columns, strict=True)]
                stream = self._at(stream.map(select_list(made)), tree.at)
            streams.append(stream)
        stream = self._at(self._query.union(*streams), union.at)
        return Reading(stream=stream, columns=first.columns, times=_common_times(parts))

    # --- FROM ------------------------------------------------------------------------------------------------------

    def _from(self, select: Select, local: Mapping[str, Reading]) -> tuple[Reading, Scope]:
        reading, name = self._relation(select.relation, local)
        if not select.joins:
            return reading, Scope((Side(name, {column: column for column in reading.columns}),))
        wanted = _Wanted(select)
        self._refuse_window(reading)
        reading, side = self._side(reading, name, wanted, ())
        scope = Scope((side,))
        for join in select.joins:
            reading, scope = self._join(select, reading, scope, join, local, wanted)
        return reading, scope

    def _relation(self, relation: Relation, local: Mapping[str, Reading]) -> tuple[Reading, str]:
        alias = "" if relation.alias is None else relation.alias.text
        match relation:
            case Named():
                return self._lookup(relation.name, local), alias or relation.name.text
            case Nested():
                found = self._tree(relation.query, local)
                return found, alias
            case Windowed():
                reading, name = self._relation(relation.input, local)
                _check_time(relation, reading, name)
                return replace(reading, window=relation), alias or name

    def _lookup(self, name: Name, local: Mapping[str, Reading]) -> Reading:
        key = name.text.casefold()
        if key in local:
            return local[key]
        if key in self._tables:
            message = f"{name.text!r} is a table, which has no time: it can only be joined to a stream."
            raise Refused(name.at, message, f"Write FROM a source or a view JOIN {name.text} ON ….")
        if key not in self._views:
            remedy = candidates(name.text, [*local, *self._views, *self._tables]) or "Write CREATE SOURCE before it."
            if key in self._taken:
                remedy = "It comes later in the text: put it before this."
            raise Refused(name.at, f"There is no source or view {name.text!r}.", remedy, code="unknown-arrow")
        found = self._views[key]
        if found is None:
            raise _Behind
        return found

    def _join(
        self,
        select: Select,
        left: Reading,
        scope: Scope,
        join: Joined,
        local: Mapping[str, Reading],
        wanted: _Wanted,
    ) -> tuple[Reading, Scope]:
        table = self._table_of(join.relation, local)
        if table is not None:
            return look_up(left, scope, join, table, self._at)
        right, name = self._relation(join.relation, local)
        self._refuse_window(right)
        check_side(name, scope, join)
        original = right
        right, side = self._side(right, name, wanted, left.columns)
        both = Scope((*scope.sides, side))
        columns = (*left.columns, *right.columns)
        if join.newest:
            stream = self._latest(join, left, right, both, original)
            return Reading(stream=self._at(stream, join.at), columns=columns, times=left.times), both
        if join.outer:
            message = "LEFT JOIN would wait for rows that never come."
            raise Refused(join.at, message, "Write LEFT ASOF JOIN: the newest row of the right, or NULL.")
        assert join.on is not None
        conditions = [join.on] if select.where is None else [join.on, select.where]
        between = gap(conditions, _finder(scope, left, side, original))
        within = self._within(join, between)
        stream = left.stream.join(right.stream, on=both.rewrite(join.on), within=timedelta(microseconds=within))
        same = {column.lower(): column for column in left.columns}
        made = {column.lower(): new for column, new in side.columns.items()}
        times = joined_times(left.times, original.times, between, (same, made))
        return Reading(stream=self._at(stream, join.at), columns=columns, times=times), both

    def _table_of(self, relation: Relation, local: Mapping[str, Reading]) -> Table | None:
        """The table that a JOIN names, if it does."""
        if not isinstance(relation, Named) or relation.name.text.casefold() in local:
            return None
        self._unread.pop(relation.name.text.casefold(), None)
        return self._tables.get(relation.name.text.casefold())

    def _latest(self, join: Joined, left: Reading, right: Reading, both: Scope, original: Reading) -> Stream:
        """Each row of the left with the newest of the right; a condition that says just that is not repeated."""
        if join.as_of is not None:
            check_as_of(join.as_of, both, left)
        on = None
        if join.on is not None:
            side = {made.lower(): shown for shown, made in both.sides[-1].columns.items()}
            parts = conjuncts(parse_expression(both.rewrite(join.on)))
            kept = [part.sql for part in parts if not _says_not_later(part.tree, left.times, original.times, side)]
            on = " AND ".join(kept) or None
        within = None if join.within_us is None else timedelta(microseconds=join.within_us)
        return left.stream.latest(right.stream, on=on, outer=join.outer, within=within)

    def _within(self, join: Joined, between: Gap) -> int:
        if join.within_us is not None:
            return join.within_us
        if between.within_us is None:
            message = "No limit given for how far apart in time two joined rows may be."
            remedy = "Write WITHIN INTERVAL '10' SECOND after the condition, or compare their time columns in it."
            raise Refused(join.at, message, remedy)
        return between.within_us

    def _side(self, reading: Reading, name: str, wanted: _Wanted, taken: tuple[str, ...]) -> tuple[Reading, Side]:
        """A side of a join, with the columns that somebody reads, and none that the other side has."""
        used = [column for column in reading.columns if wanted.reads(name, column)] or list(reading.columns[:1])
        names = {each.lower() for each in taken}
        columns: dict[str, str] = {}
        for column in used:
            columns[column] = free_name(column, name, names)
            names.add(columns[column].lower())
        side = Side(name, columns)
        made = tuple(columns.values())
        if made == reading.columns:
            return reading, side
        mapped = reading.stream.map(select_list([(new, column_sql(old)) for old, new in columns.items()]))
        return replace(reading, stream=self._at(mapped, wanted.at), columns=made), side

    def _refuse_window(self, reading: Reading) -> None:
        if reading.window is not None:
            raise Refused(reading.window.at, "A window needs a GROUP BY.", _group_by(reading.window))

    def _at(self, stream: Stream, at: int) -> Stream:
        """Remember where in the text the box of this stream is."""
        self._query._places.setdefault(stream.arrow.box, place(self._text, at))
        return stream


class _Wanted:
    """Which columns of which stream a SELECT names anywhere: a join keeps no others."""

    def __init__(self, select: Select) -> None:
        self.at: Final = select.at
        self._stars: Final = {
            None if item.of is None else item.of.text.lower() for item in select.items if item.expression is None
        }
        self._names: Final = {
            (reference.table and reference.table.lower(), reference.name.lower())
            for text in _all_texts(select)
            for reference in references(text)
        }

    def reads(self, side: str, column: str) -> bool:
        if None in self._stars or side.lower() in self._stars:
            return True
        return (None, column.lower()) in self._names or (side.lower(), column.lower()) in self._names


# --- parts of a SELECT ----------------------------------------------------------------------------------------------


def _all_texts(select: Select) -> list[Text]:
    found = [item.expression for item in select.items if item.expression is not None]
    found += [text for join in select.joins for text in (join.on, join.as_of) if text is not None]
    found += [each for each in (select.where, select.having) if each is not None]
    found += select.group
    return found + (list(select.distinct.on) if select.distinct is not None else [])


def _refuse_structure(text: Text) -> None:
    if text.tree.find(exp.Query):
        remedy = "Make it a view, and write JOIN … WITHIN, or ASOF JOIN."
        raise Refused(text.at, "A subquery in an expression reads a table, not a stream.", remedy)
    if text.tree.find(exp.Window):
        remedy = "Write GROUP BY over TUMBLE, HOP, SESSION or COUNT."
        raise Refused(text.at, "OVER: there are no window functions.", remedy)


def _says_not_later(tree: exp.Expr, left: Times, right: Times, side: Mapping[str, str]) -> bool:
    """Whether a condition is that the row of the right is not later than that of the left."""
    if not isinstance(tree, (exp.LTE, exp.GTE)):
        return False
    older, newer = (tree.this, tree.expression) if isinstance(tree, exp.LTE) else (tree.expression, tree.this)
    if not isinstance(older, exp.Column) or not isinstance(newer, exp.Column):
        return False
    shown = side.get(older.name.lower())
    return shown is not None and right.of(shown) == 0 and left.of(newer.name) == 0


def _distinct_by(text: Text, scope: Scope) -> str:
    reference = bare(text)
    if reference is None:
        raise Refused(text.at, f"`{text.sql}` is not a column of the SELECT.", "Select it AS a name, and write that.")
    return scope.resolve(reference)


def _expanded(item: Item, scope: Scope) -> list[tuple[str, str, str | None]]:
    """The columns that an item stands for: their names, their SQL, and the column that they are, if one."""
    if item.expression is None:
        return _star(item, scope)
    reference = bare(item.expression)
    if item.alias is None and reference is None:
        shown = item.expression.sql
        raise Refused(item.at, f"`{shown}` has no name.", f"Write `{shown} AS name`.", code="missing-alias")
    made = None if reference is None else scope.resolve(reference)
    name = item.alias.text if item.alias is not None else _spelled(scope, reference)
    return [(name, scope.rewrite(item.expression) if made is None else column_sql(made), made)]


def _star(item: Item, scope: Scope) -> list[tuple[str, str, str | None]]:
    sides = scope.sides if item.of is None else (scope.side(item.of.text, item.of.at),)
    found = [(shown, column_sql(made), made) for side in sides for shown, made in side.columns.items()]
    names = [name.lower() for name, _, _ in found]
    twice = next((name for name, _, _ in found if names.count(name.lower()) > 1), None)
    if twice is not None:
        message = f"* has two columns {twice!r}."
        raise Refused(item.at, message, "List the columns, and rename one of the two with AS.", code="duplicate-name")
    return list(found)


def _spelled(scope: Scope, reference: Reference | None) -> str:
    """A column's name as its stream spells it."""
    assert reference is not None
    for side in scope.sides:
        if reference.table in (None, side.name) or (reference.table or "").lower() == side.name.lower():
            for shown in side.columns:
                if shown.lower() == reference.name.lower():
                    return shown
    return reference.name


def _as_they_are(columns: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, column_sql(name)) for name in columns]


def _named_like(columns: Sequence[str], part: Tree) -> Tree:
    """A SELECT behind UNION ALL: what it computes without a name has that of the column at the same place."""
    if not isinstance(part, Select) or len(part.items) != len(columns):
        return part
    items = [
        replace(item, alias=Name(name, item.at))
        if item.expression is not None and item.alias is None and bare(item.expression) is None
        else item
        for item, name in zip(part.items, columns, strict=True)
    ]
    return replace(part, items=tuple(items))


def _common_times(parts: list[Reading]) -> Times:
    """The columns that are the time in every part, by their place."""
    first = parts[0]
    found: dict[str, int] = {}
    for index, name in enumerate(first.columns):
        offsets = {part.times.of(part.columns[index]) for part in parts}
        (offset,) = offsets if len(offsets) == 1 else (None,)
        if offset is not None:
            found[name.lower()] = offset
    return Times(found, all(part.times.aligned for part in parts))


def _finder(scope: Scope, left: Reading, side: Side, right: Reading) -> Find:
    """How ``gap`` finds out of which side a column is, and what its time is less that column."""

    def find(column: exp.Column) -> tuple[bool, int] | None:
        reference = Reference(0, 0, column.table or None, column.name)
        if column.name.lower() == STIME:
            return None
        for is_left, at in ((True, scope), (False, Scope((side,)))):
            try:
                made = at.resolve(reference)
            except Refused:
                continue
            offset = left.times.of(made) if is_left else right.times.of(column.name)
            return None if offset is None else (is_left, offset)
        return None

    return find


# --- windows --------------------------------------------------------------------------------------------------------


def _check_time(window: Windowed, reading: Reading, name: str) -> None:
    """The time column of a window must be the stream time, or the windows would be others than the text says."""
    if window.time is None or window.time.text.lower() == STIME or reading.times.of(window.time.text) == 0:
        return
    known = [column for column in reading.columns if reading.times.of(column) == 0]
    remedy = (
        f"Write {known[0]}." if known else "Write _stime, or name the time column of the source: WITH (time = '…')."
    )
    code = "bad-time-column"
    if window.time.text.lower() not in {column.lower() for column in reading.columns}:
        code = "unknown-column"
    raise Refused(window.time.at, f"{window.time.text!r} is not the time of {name or 'this query'}.", remedy, code=code)


def _refuse_window_columns(text: Text, scope: Scope, window: Windowed) -> None:
    for reference in references(text):
        if reference.name.lower() in ("window_start", "window_end") and scope.sides[0].find(reference.name) is None:
            message = f"{reference.name} is known when the window is over."
            raise Refused(reference.at, message, "Ask for it in HAVING.")


def _group_by(window: Windowed) -> str:
    columns = "the columns of the group" if window.kind is WindowKind.COUNT else "window_start, window_end"
    return f"Write GROUP BY {columns}, and aggregates."


# --- options --------------------------------------------------------------------------------------------------------


def _options(options: tuple[Option, ...], known: tuple[str, ...]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for option in options:
        name = option.name.text.lower()
        if name not in known:
            remedy = candidates(name, known)
            raise Refused(option.name.at, f"There is no option {option.name.text!r}.", remedy, code="unknown-key")
        if name in found:
            raise Refused(option.name.at, f"The option {name!r} appears twice.", "Give it once.", code="duplicate-name")
        found[name] = option
    return found


def _one_text(option: Option) -> str:
    if isinstance(option.value, str):
        return option.value
    raise Refused(
        option.at, f"{option.name.text}: this is not a single text.", "Write text in quotes.", code="wrong-type"
    )


def _texts(option: Option, *, split: bool = False) -> tuple[str, ...]:
    if isinstance(option.value, tuple):
        return option.value
    text = _one_text(option)
    return tuple(each.strip() for each in text.split(",") if each.strip()) if split else (text,)


def _connector(option: Option, read: Callable[[object], T]) -> T:
    try:
        return read(_one_text(option))
    except ConfigError as error:
        message = f"{option.name.text}: {error.message}"
        raise Refused(option.at, message, error.remedy, code="bad-connector") from error


def _duration(option: Option) -> str:
    """A duration as the builder takes it, which tells a bad one with the other problems."""
    return format_duration(option.value) if isinstance(option.value, int) else _one_text(option)
