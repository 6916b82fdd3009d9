"""What kinds of boxes check alike: expressions, columns, names and durations, given the schemas that reach a box.

An input schema of None is unknown because of a mistake further up: everything about it is passed over, but what can be
judged without it (durations, names, functions) still is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from anabranch.errors import ConfigError, with_article
from anabranch.model.header import HEADER, RESERVED_PREFIX, STIME
from anabranch.model.times import CLOSED_US, MS, format_duration
from anabranch.query.boxes import Map, Schema, Summing
from anabranch.query.infer import PLAIN_TYPES, canonical_type, infer
from anabranch.query.problems import Report, candidates
from anabranch.query.schema import COLUMN_NAME, lookup
from anabranch.query.sql import (
    Expression,
    parse_expression,
    parse_list,
    refusals,
    select_items,
)

CONDITION_REMEDY = "Write a condition, which is true or false: compare it with something."
TYPE_REMEDY = f"Types are {', '.join(PLAIN_TYPES)} and decimal(p,s)."
NAME_REMEDY = "Names begin with a letter and have letters, digits, _ and -, at most 64."
COLUMN_REMEDY = "Columns begin with a letter and have letters, digits and _."
_WRITTEN_BY_OTHERS: Final = {
    "text": "string",
    "varchar": "string",
    "char": "string",
    "uuid": "string",
    "json": "string",
    "number": "double",
    "datetime": "timestamp",
    "timestamp_ntz": "timestamp",
}


def columns_read(sql: str) -> tuple[str, ...]:
    """The columns of a condition; none if it cannot be read, which is told elsewhere."""
    try:
        return parse_expression(sql).columns
    except ConfigError:
        return ()


def is_expression(sql: str) -> bool:
    """Whether it can be read; what cannot is told elsewhere."""
    try:
        parse_expression(sql)
    except ConfigError:
        return False
    return True


def check_condition(
    box: str, field: str, sql: str, schema: Schema | None, report: Report, *, stime: bool = False
) -> None:
    try:
        expression = parse_expression(sql)
    except ConfigError as error:
        report.add("bad-sql", box, field, f"{field}: {error.message}", error.remedy)
        return
    if not check_expression(box, field, expression, schema, report, stime=stime) or schema is None:
        return
    type_ = infer(expression.tree, schema)
    if type_ not in (None, "boolean"):
        report.add("not-boolean", box, field, f"{field}: `{sql}` is {with_article(type_)}.", CONDITION_REMEDY)


def parsed(box: str, field: str, sql: str, report: Report) -> tuple[Expression, ...]:
    try:
        return parse_list(sql)
    except ConfigError as error:
        report.add("bad-sql", box, field, f"{field}: {error.message}", error.remedy)
        return ()


def check_expression(
    box: str,
    field: str,
    expression: Expression,
    schema: Schema | None,
    report: Report,
    *,
    stime: bool = False,
    aggregates: bool = False,
) -> bool:
    """Whether the expression may be used and all its columns are there."""
    refused = list(refusals(expression, aggregates=aggregates))
    for refusal in refused:
        message = f"{field}: {refusal.what} in `{expression.sql}` {refusal.why}."
        report.add(refusal.code, box, field, message, refusal.remedy)
    if any(refusal.code == "collation" for refusal in refused):
        return False  # the name of the collation looks like a column
    found = [check_column(box, field, name, schema, report, stime=stime) for name in expression.columns]
    return not refused and all(found)


def check_column(
    box: str, field: str, name: str, schema: Schema | None, report: Report, *, stime: bool = False
) -> bool:
    if name.lower() in HEADER and (not stime or name.lower() != STIME):
        readable = "Filters and maps may read _stime" + (", no other header column." if stime else ", no other box.")
        report.add("reserved-column", box, field, f"{field}: {name!r} is a header column.", readable)
        return False
    if schema is None or name.lower() == STIME or lookup(schema, name) is not None:
        return True
    remedy = candidates(name.rpartition(".")[2], (column.name for column in schema))
    if "." in name:
        remedy = f"Write columns without a prefix. {remedy}"
    report.add("unknown-column", box, field, f"{field}: there is no column {name!r}.", remedy)
    return False


def check_by(box: str, by: Sequence[str], schema: Schema | None, report: Report) -> None:
    """Columns to group or sort by: they are there, and none comes twice."""
    for key in by:
        check_column(box, "by", key, schema, report)
    check_unique(box, "by", "column", by, report, remedy="Name it once.")


def check_made(
    box: Map | Summing, expressions: Sequence[Expression], by: Sequence[str], schema: Schema | None, report: Report
) -> None:
    """The columns that a box makes: their names, and those of their types that are known."""
    if not expressions:
        return
    input_names = [column.name for column in schema or ()]
    items = [(name, sql) for name, sql in select_items(box.columns, input_names) if name]
    given = {expression.alias or expression.column for expression in expressions if not expression.is_star}
    check_columns(box.name, "columns", [name for name, _ in items if name in given], report, unique=False)
    groups = {name.lower(): name for name in by}  # a group column that comes twice was told as such
    check_unique(box.name, "columns", "column", [*groups.values(), *(name for name, _ in items)], report)
    for name, sql in items if schema is not None else ():
        type_ = infer(parse_expression(sql).tree, schema or ())
        if type_ is not None and canonical_type(type_) is None and " collate " not in type_:  # told as a collation
            message = f"columns: {name!r} is of type {type_}."
            report.add("unsupported-type", box.name, "columns", message, TYPE_REMEDY)


def check_columns(box: str, field: str, names: Sequence[str], report: Report, *, unique: bool = True) -> None:
    for name in names:
        if name.startswith(RESERVED_PREFIX):
            report.add("reserved-column", box, field, f"{field}: column {name!r} begins with `_`.", "Rename it.")
        elif COLUMN_NAME.fullmatch(name) is None:
            report.add("bad-name", box, field, f"{field}: a column cannot be called {name!r}.", COLUMN_REMEDY)
    if unique:
        check_unique(box, field, "column", names, report)


def check_type(box: str, field: str, column: str, type_: str, report: Report) -> None:
    if canonical_type(type_) is not None:
        return
    if " collate" in type_:
        remedy = "Declare it as string; compare lower(column), for example."
        report.add("collation", box, field, f"Column {column!r} has a collation.", remedy)
    elif not type_:
        report.add("unsupported-type", box, field, f"Column {column!r} has no type.", TYPE_REMEDY)
    else:
        meant = _WRITTEN_BY_OTHERS.get(type_.split("(")[0])
        remedy = f"Use {meant}." if meant else candidates(type_, (*PLAIN_TYPES, "decimal(p,s)"))
        report.add("unsupported-type", box, field, f"Column {column!r} has the type {type_!r}.", remedy)


def check_unique(
    box: str, field: str, what: str, names: Iterable[str], report: Report, *, remedy: str = "Rename one of them."
) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            report.add("duplicate-name", box, field, f"{field}: the {what} {name!r} appears twice.", remedy)
        seen.add(name.lower())


def report_missing_alias(box: str, expression: Expression, report: Report) -> None:
    message = f"columns: `{expression.sql}` has no name."
    report.add("missing-alias", box, "columns", message, f"Write `{expression.sql} AS name`.")


def check_duration(box: str, field: str, us: int | None, report: Report) -> None:
    if us is not None and us < 0:
        report.add("bad-duration", box, field, f"{field}: the duration is negative.", "Write a duration such as 10s.")


def check_window(box: str, field: str, us: int, report: Report) -> None:
    if us < 0:
        check_duration(box, field, us, report)
    elif us >= CLOSED_US:
        message = f"{field}: {format_duration(us)} is longer than the years 1970 to 9998."
        report.add("bad-window", box, field, message, "Shorten it.")
    elif us < MS or us % MS:
        message = f"{field}: {format_duration(us)} is not a positive number of whole milliseconds."
        report.add(
            "bad-window", box, field, message, "Spark keeps time in milliseconds: write 1ms or a multiple of it."
        )
