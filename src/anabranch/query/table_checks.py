"""What can be wrong with a static table, as far as the query says it: columns, key, and where its rows are.

Whether a file is there and its rows are what they should be is found out when a node loads it (``node.tables``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from anabranch import limits
from anabranch.errors import with_article
from anabranch.model.names import is_name
from anabranch.query.boxes import Column, Diagram, Table
from anabranch.query.checks import NAME_REMEDY, check_columns, check_type, check_unique
from anabranch.query.connectors import is_database
from anabranch.query.problems import Report, candidates
from anabranch.query.schema import lookup

TABLE_FILES: Final = (".csv", ".parquet", ".pq")
"""How the name of a file ends that a table may be in."""
_PLACES: Final = ("file", "database", "rows")
_WHERE: Final = 'Write file="x.csv" or "x.parquet", database= and sql=, or rows=.'
_INLINE: Final[dict[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "tinyint": (int,),
    "smallint": (int,),
    "int": (int,),
    "bigint": (int,),
    "double": (float, int),
    "string": (str,),
}
"""Types whose values can be written in a query itself, and what they are there."""
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def check_tables(diagram: Diagram, report: Report) -> None:
    seen: dict[str, Table] = {}
    for table in diagram.tables:
        if not table.schema and not table.key:
            continue  # one that is not there, which was told
        first = seen.setdefault(table.name.casefold(), table)
        if first != table:
            message = f"Two different tables are called {table.name!r}."
            report.add("duplicate-name", table.name, "name", message, "Choose names that differ in more than case.")
        _check(table, report)


def _check(table: Table, report: Report) -> None:
    if not is_name(table.name):
        report.add("bad-name", table.name, "name", f"A table cannot be called {table.name!r}.", NAME_REMEDY)
    if not table.schema:
        message = "The schema has no columns."
        report.add("unsupported-type", table.name, "schema", message, 'Write "name type, ...".')
    check_columns(table.name, "schema", table.columns, report)
    for column in table.schema:
        check_type(table.name, "schema", column.name, column.type or "", report)
    _check_key(table, report)
    _check_place(table, report)


def _check_key(table: Table, report: Report) -> None:
    if not table.key:
        message = "key: no key columns given."
        report.add("bad-table", table.name, "key", message, candidates("", table.columns))
    for name in table.key:
        column = lookup(table.schema, name)
        if column is None:
            remedy = candidates(name, table.columns)
            report.add("unknown-column", table.name, "key", f"key: there is no column {name!r}.", remedy)
        elif column.type in ("float", "double"):
            message = f"key: {column.name!r} is {with_article(column.type)}, whose values may be rounded."
            report.add("bad-table", table.name, "key", message, "Declare it as decimal, or choose other columns.")
    check_unique(table.name, "key", "column", table.key, report, remedy="Name it once.")


def _check_place(table: Table, report: Report) -> None:
    def wrong(field: str, message: str, remedy: str) -> None:
        report.add("bad-table", table.name, field, f"{field}: {message}", remedy)

    given = [name for name in _PLACES if getattr(table, name) is not None]
    if not given:
        report.add("bad-table", table.name, "file", "No location given for its rows.", _WHERE)
    elif len(given) > 1:
        wrong(given[1], f"its rows are given by {given[0]} already.", f"Leave one of them out: {', '.join(given)}.")
    if table.file is not None and PurePath(table.file).suffix.lower() not in TABLE_FILES:
        wrong("file", f"{table.file!r} does not have the suffix of a readable file.", candidates("", TABLE_FILES))
    if table.database is not None and not is_database(table.database):
        remedy = "Write sqlite:PATH, duckdb:PATH or postgresql://HOST/DATABASE."
        wrong("database", f"{table.database!r} is not a database.", remedy)
    if table.database is not None and not (table.sql or "").strip():
        wrong("sql", "no SQL given to select rows from the database.", 'Write sql="SELECT ...".')
    if table.sql is not None and table.database is None:
        message = "sql: no database given to query."
        report.add("meaningless-option", table.name, "sql", message, "Name the database, or leave sql out.")
    for message, remedy in _wrong_rows(table):
        wrong("rows", message, remedy)


def _wrong_rows(table: Table) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong with rows that the query itself has."""
    if table.rows is None:
        return
    if len(table.rows) > limits.TABLE_INLINE_ROWS:
        yield (
            f"{len(table.rows):,} rows; the limit in a query is {limits.TABLE_INLINE_ROWS:,}.",
            "Put them into a file.",
        )
        return
    for column in table.schema:
        if column.type not in _INLINE:
            yield (
                f"{column.name!r} is {with_article(column.type)}, which cannot be written in a query.",
                "Put the rows into a file.",
            )
            return
    seen: set[tuple[object, ...]] = set()
    places = [index for index, name in enumerate(table.columns) if name.lower() in {key.lower() for key in table.key}]
    for number, row in enumerate(table.rows, start=1):
        if len(row) != len(table.schema):
            yield f"row {number} has {len(row)} values for {len(table.schema)} columns.", "Write one for each column."
            return
        for column, value in zip(table.schema, row, strict=True):
            if not _fits(column, value):
                yield (
                    f"row {number}: {value!r} is not {with_article(column.type)}, as {column.name!r} is.",
                    "Correct it.",
                )
                return
        key = tuple(row[place] for place in places)
        if None in key or key in seen:
            what = "has NULL in its key" if None in key else f"has the key {_shown(key)}, like another row"
            yield f"row {number} {what}.", "Correct the row, or name other columns as the key."
            return
        seen.add(key)


def _fits(column: Column, value: object) -> bool:
    if value is None:
        return True
    kinds = _INLINE[column.type or ""]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return False
    bits = _BITS.get(column.type or "")
    return bits is None or (isinstance(value, int) and -(1 << (bits - 1)) <= value < 1 << (bits - 1))


def _shown(key: tuple[object, ...]) -> str:
    return repr(key[0]) if len(key) == 1 else repr(key)
