"""What can be wrong with one box, given the schemas that reach it.

An input schema of None is unknown because of a mistake further up: everything about it is passed over, but what can be
judged without it (durations, names, functions) still is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.errors import ConfigError
from anabranch.limits import LARGEST_SUM_SCALE, WINDOW_ROWS, WINDOWS
from anabranch.model.header import HEADER, RESERVED_PREFIX, STIME
from anabranch.model.names import is_name
from anabranch.model.times import CLOSED_US, MS, format_duration
from anabranch.query.boxes import Aggregate, Box, Drop, Filter, Join, Map, Schema, Source, Union
from anabranch.query.connector_checks import check_feed
from anabranch.query.infer import PLAIN_TYPES, canonical_type, infer
from anabranch.query.problems import Report, candidates
from anabranch.query.schema import COLUMN_NAME, format_schema, lookup, same_columns
from anabranch.query.sql import (
    Expression,
    columns_outside_aggregates,
    is_aggregate,
    parse_expression,
    parse_list,
    refusals,
    select_items,
)
from anabranch.query.summations import summations

_TYPE_REMEDY = f"Types are {', '.join(PLAIN_TYPES)} and decimal(p,s)."
_COLUMN_REMEDY = "Columns begin with a letter and have letters, digits and _."
_WRITTEN_BY_OTHERS = {
    "text": "string",
    "varchar": "string",
    "char": "string",
    "uuid": "string",
    "json": "string",
    "number": "double",
    "datetime": "timestamp",
    "timestamp_ntz": "timestamp",
}


def check_box(box: Box, inputs: Sequence[Schema | None], report: Report) -> None:
    match box:
        case Source():
            _check_source(box, report)
        case Filter():
            _check_filter(box, inputs[0], report)
        case Map():
            _check_map(box, inputs[0], report)
        case Drop():
            _check_drop(box, inputs[0], report)
        case Union():
            _check_union(box, inputs, report)
        case Aggregate():
            _check_aggregate(box, inputs[0], report)
        case Join():
            _check_join(box, inputs[0], inputs[1], report)


def _check_source(box: Source, report: Report) -> None:
    if not box.schema:
        report.add("unsupported-type", box.name, "schema", "The schema has no columns.", 'Write "name type, ...".')
    _check_columns(box.name, "schema", [column.name for column in box.schema], report)
    for column in box.schema:
        _check_type(box.name, column.name, column.type or "", report)
    for field in ("disorder", "idle", "silence"):
        _check_duration(box.name, field, getattr(box, f"{field}_us"), report)
    _check_time(box, report)
    for producer in box.producers:
        if not is_name(producer):
            report.add("bad-name", box.name, "producers", f"A producer cannot be called {producer!r}.", _COLUMN_REMEDY)
    _check_unique(box.name, "producers", "producer", box.producers, report)
    if box.feed is not None:
        check_feed(box, box.feed, report)


def _check_time(box: Source, report: Report) -> None:
    def meaningless(field: str, why: str, remedy: str) -> None:
        report.add("meaningless-option", box.name, field, f"{field}: {why}.", remedy)

    if box.time is not None:
        _check_time_column(box, box.time, report)
    else:
        if box.disorder_us:
            meaningless("disorder", "rows that are stamped on arrival are never late", "Name a time column.")
        if box.idle_us is not None:
            meaningless("idle", "a source that stamps its rows follows the clock anyway", "Name a time column.")
        if box.silence_us is not None and not box.producers:
            meaningless("silence", "a source that stamps its rows is never silent", "Name its producers.")
    if box.idle_us is not None and box.producers:
        meaningless(
            "idle", "only a producer itself can say that it has nothing", "Use silence, or leave producers out."
        )


def _check_time_column(box: Source, time: str, report: Report) -> None:
    column = lookup(box.schema, time)
    if column is None:
        remedy = candidates(time, (column.name for column in box.schema))
        report.add("unknown-column", box.name, "time", f"time: there is no column {time!r}.", remedy)
    elif column.type not in ("timestamp", None) and canonical_type(column.type) is not None:
        message = f"time: column {column.name!r} is a {column.type}."
        timestamps = [other.name for other in box.schema if other.type == "timestamp"]
        remedy = candidates(time, timestamps) or "Declare it as timestamp."
        report.add("bad-time-column", box.name, "time", message, remedy)


def _check_type(box: str, column: str, type_: str, report: Report) -> None:
    if canonical_type(type_) is not None:
        return
    if " collate" in type_:
        remedy = "Declare it as string; compare lower(column), for example."
        report.add("collation", box, "schema", f"Column {column!r} has a collation.", remedy)
    elif not type_:
        report.add("unsupported-type", box, "schema", f"Column {column!r} has no type.", _TYPE_REMEDY)
    else:
        meant = _WRITTEN_BY_OTHERS.get(type_.split("(")[0])
        remedy = f"Use {meant}." if meant else candidates(type_, (*PLAIN_TYPES, "decimal(p,s)"))
        report.add("unsupported-type", box, "schema", f"Column {column!r} is a {type_!r}.", remedy)


def _check_filter(box: Filter, schema: Schema | None, report: Report) -> None:
    if not box.predicates:
        report.add("bad-sql", box.name, "where", "There is no predicate.", "Give at least one.")
    for predicate in box.predicates:
        _check_condition(box.name, "where", predicate, schema, report, stime=True)


def _check_map(box: Map, schema: Schema | None, report: Report) -> None:
    expressions = _parsed(box.name, "columns", box.columns, report)
    for expression in expressions:
        _check_expression(box.name, "columns", expression, schema, report, stime=True)
        if not expression.is_star and expression.alias is None and expression.column is None:
            _report_missing_alias(box.name, expression, report)
    _check_made(box, expressions, (), schema, report)


def _check_drop(box: Drop, schema: Schema | None, report: Report) -> None:
    if box.predicate is not None:
        _check_condition(box.name, "where", box.predicate, schema, report, stime=True)
        for field, given in (("fraction", box.fraction is not None), ("seed", box.seed != 0)):
            if given:
                message = f"{field}: a predicate decides which tuples are dropped."
                report.add("meaningless-option", box.name, field, message, f"Leave {field} or the predicate out.")
    elif box.fraction is None:
        message = "Nothing says which tuples to drop."
        report.add("bad-drop", box.name, "fraction", message, "Give a fraction such as 0.1, or a predicate.")
    elif not 0 < box.fraction < 1:
        message = f"fraction: {box.fraction:g} is not between 0 and 1."
        report.add("bad-drop", box.name, "fraction", message, "Write 0.1 to drop every tenth tuple, more or less.")
    if not -(1 << 63) <= box.seed < 1 << 63:
        message = f"seed: {box.seed} does not fit into 64 bits."
        report.add("bad-drop", box.name, "seed", message, "Write a smaller number.")


def _check_union(box: Union, inputs: Sequence[Schema | None], report: Report) -> None:
    if not box.inputs:
        report.add("no-input", box.name, "inputs", "The union has no inputs.", "Name at least one stream.")
    known = [(arrow, schema) for arrow, schema in zip(box.inputs, inputs, strict=True) if schema is not None]
    for arrow, schema in known[1:]:
        first_arrow, first = known[0]
        if not same_columns(first, schema):
            one = f"{str(first_arrow)!r} has ({format_schema(first)})"
            other = f"{str(arrow)!r} has ({format_schema(schema)})"
            message = f"{one}, but {other}: {_difference(first, schema)}."
            report.add("union-type-clash", box.name, "inputs", message, "Make them equal with a map.")


def _difference(first: Schema, second: Schema) -> str:
    for one, other in zip(first, second, strict=False):
        if one.name.lower() != other.name.lower():
            return f"column {one.name!r} meets {other.name!r}"
        if one.type != other.type and None not in (one.type, other.type):
            return f"column {one.name!r} is {one.type} and {other.type}"
    return f"{len(first)} columns meet {len(second)}"


def _check_aggregate(box: Aggregate, schema: Schema | None, report: Report) -> None:
    for key in box.by:
        _check_column(box.name, "by", key, schema, report)
    _check_unique(box.name, "by", "group column", box.by, report)
    _check_kind_of_window(box, report)
    if box.window_us is not None and box.every_us is not None:
        _check_time_windows(box.name, box.window_us, box.every_us, report)
    if box.rows is not None and box.every_rows is not None:
        _check_count_windows(box.name, box.rows, box.every_rows, report)
    expressions = _parsed(box.name, "columns", box.columns, report)
    for expression in expressions:
        _check_aggregate_column(box, expression, schema, report)
    _check_scale(box, expressions, report)
    _check_made(box, expressions, box.by, schema, report)


def _check_kind_of_window(box: Aggregate, report: Report) -> None:
    """Windows are of a time, with ``every``, or of a number of tuples, with ``every_rows``."""
    if box.window_us is None and box.rows is None:
        message = "Nothing says what a window is."
        report.add(
            "bad-window", box.name, "window", message, "Give `window`, a duration, or `rows`, a number of tuples."
        )
        return
    if box.window_us is not None:
        meant, others = "window", {"rows": box.rows, "every_rows": box.every_rows}
    else:
        meant, others = "rows", {"every": box.every_us}
    for field, value in others.items():
        if value is not None:
            message = f"{field}: windows are made by `{meant}` here."
            report.add("meaningless-option", box.name, field, message, f"Leave `{meant}` or `{field}` out.")
            return


def _check_time_windows(box: str, window_us: int, every_us: int, report: Report) -> None:
    _check_window(box, "window", window_us, report)
    if every_us != window_us:
        _check_window(box, "every", every_us, report)
    if every_us > window_us > 0:
        message = f"every: {format_duration(every_us)} is longer than the window of {format_duration(window_us)}."
        report.add("bad-window", box, "every", message, "Tuples between two windows would be lost: shorten it.")
    elif every_us >= MS and window_us > every_us * WINDOWS:
        _report_many_windows(box, "every", -(-window_us // every_us), report)


def _check_count_windows(box: str, rows: int, every_rows: int, report: Report) -> None:
    for field, count in (("rows", rows), ("every_rows", every_rows)):
        if count < 1 and (field == "rows" or every_rows != rows):
            message = f"{field}: {count} is not a number of tuples."
            report.add("bad-window", box, field, message, "Write 1 or more.")
    if rows > WINDOW_ROWS:
        message = f"rows: a window of {rows:,} tuples is too large; {WINDOW_ROWS:,} are possible."
        report.add("bad-window", box, "rows", message, "Use a window of time, or a smaller one.")
    elif every_rows > rows > 0:
        message = f"every_rows: {every_rows} is more than the {rows} of the window."
        report.add("bad-window", box, "every_rows", message, "Tuples between two windows would be lost: lessen it.")
    elif every_rows > 0 and rows > every_rows * WINDOWS:
        _report_many_windows(box, "every_rows", -(-rows // every_rows), report)


def _report_many_windows(box: str, field: str, windows: int, report: Report) -> None:
    message = f"{field}: a tuple would lie in {windows:,} windows; {WINDOWS:,} are possible."
    report.add("bad-window", box, field, message, "Let windows begin less often, or make them shorter.")


def _check_aggregate_column(box: Aggregate, expression: Expression, schema: Schema | None, report: Report) -> None:
    fine = _check_expression(box.name, "columns", expression, schema, report, aggregates=True)
    if fine and not any(is_aggregate(node) for node in expression.tree.walk()):
        message = f"`{expression.sql}` is not an aggregate."
        report.add("bad-aggregate", box.name, "columns", message, "Use an aggregate function, or name it in `by`.")
    elif fine and (outside := columns_outside_aggregates(expression)):
        message = f"`{expression.sql}` reads {', '.join(map(repr, outside))} outside an aggregate function."
        report.add("bad-aggregate", box.name, "columns", message, "Every column must be an argument of an aggregate.")
    elif expression.alias is None:
        _report_missing_alias(box.name, expression, report)


def _check_scale(box: Aggregate, expressions: Sequence[Expression], report: Report) -> None:
    if box.scale is None:
        return
    if not 0 <= box.scale <= LARGEST_SUM_SCALE:
        message = f"scale: {box.scale} is not a number of digits from 0 to {LARGEST_SUM_SCALE}."
        report.add("bad-scale", box.name, "scale", message, "Write how many digits after the point exact sums have.")
    elif expressions and not any(True for each in expressions for _ in summations(each.sql)):
        message = "scale: there is no sum and no average that could have so many digits."
        report.add("meaningless-option", box.name, "scale", message, "Leave `scale` out.")


def _check_join(box: Join, left: Schema | None, right: Schema | None, report: Report) -> None:
    _check_window(box.name, "within", box.within_us, report)
    if left is None or right is None:
        _check_condition(box.name, "on", box.on, None, report)
        return
    shared = {column.name.lower(): column.name for column in left if lookup(right, column.name) is not None}
    if shared:
        first = next(iter(shared.values()))
        message = f"Both {str(box.left)!r} and {str(box.right)!r} have {', '.join(map(repr, shared.values()))}."
        remedy = f'Rename the columns of one side: .map("{first} AS other_{first}, ...").'
        report.add("duplicate-name", box.name, "inputs", message, remedy)
    for name in _columns_read(box.on):
        if name.lower() in shared:
            message = f"on: {name!r} could be the column of {str(box.left)!r} or of {str(box.right)!r}."
            report.add("ambiguous-column", box.name, "on", message, "Rename one of them with a map.")
    _check_condition(box.name, "on", box.on, (*left, *right), report)


def _columns_read(sql: str) -> tuple[str, ...]:
    try:
        return parse_expression(sql).columns
    except ConfigError:
        return ()


def _check_condition(
    box: str, field: str, sql: str, schema: Schema | None, report: Report, *, stime: bool = False
) -> None:
    try:
        expression = parse_expression(sql)
    except ConfigError as error:
        report.add("bad-sql", box, field, f"{field}: {error.message}", error.remedy)
        return
    if not _check_expression(box, field, expression, schema, report, stime=stime) or schema is None:
        return
    type_ = infer(expression.tree, schema)
    if type_ not in (None, "boolean"):
        report.add("not-boolean", box, field, f"{field}: `{sql}` is a {type_}.", "Write a condition.")


def _parsed(box: str, field: str, sql: str, report: Report) -> tuple[Expression, ...]:
    try:
        return parse_list(sql)
    except ConfigError as error:
        report.add("bad-sql", box, field, f"{field}: {error.message}", error.remedy)
        return ()


def _check_expression(
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
    found = [_check_column(box, field, name, schema, report, stime=stime) for name in expression.columns]
    return not refused and all(found)


def _check_column(
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


def _check_made(
    box: Map | Aggregate, expressions: Sequence[Expression], by: Sequence[str], schema: Schema | None, report: Report
) -> None:
    """The columns that a box makes: their names, and those of their types that are known."""
    if not expressions:
        return
    input_names = [column.name for column in schema or ()]
    items = [(name, sql) for name, sql in select_items(box.columns, input_names) if name]
    given = {expression.alias or expression.column for expression in expressions if not expression.is_star}
    _check_columns(box.name, "columns", [name for name, _ in items if name in given], report, unique=False)
    groups = {name.lower(): name for name in by}  # a group column that comes twice was told as such
    _check_unique(box.name, "columns", "column", [*groups.values(), *(name for name, _ in items)], report)
    for name, sql in items if schema is not None else ():
        type_ = infer(parse_expression(sql).tree, schema or ())
        if type_ is not None and canonical_type(type_) is None and " collate " not in type_:  # told as a collation
            message = f"columns: {name!r} is of type {type_}."
            report.add("unsupported-type", box.name, "columns", message, _TYPE_REMEDY)


def _check_columns(box: str, field: str, names: Sequence[str], report: Report, *, unique: bool = True) -> None:
    for name in names:
        if name.startswith(RESERVED_PREFIX):
            report.add("reserved-column", box, field, f"{field}: column {name!r} begins with `_`.", "Rename it.")
        elif COLUMN_NAME.fullmatch(name) is None:
            report.add("bad-name", box, field, f"{field}: a column cannot be called {name!r}.", _COLUMN_REMEDY)
    if unique:
        _check_unique(box, field, "column", names, report)


def _check_unique(box: str, field: str, what: str, names: Iterable[str], report: Report) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            report.add(
                "duplicate-name", box, field, f"{field}: the {what} {name!r} comes twice.", "Rename one of them."
            )
        seen.add(name.lower())


def _report_missing_alias(box: str, expression: Expression, report: Report) -> None:
    message = f"columns: `{expression.sql}` has no name."
    report.add("missing-alias", box, "columns", message, f"Write `{expression.sql} AS name`.")


def _check_duration(box: str, field: str, us: int | None, report: Report) -> None:
    if us is not None and us < 0:
        report.add("bad-duration", box, field, f"{field}: the duration is negative.", "Write a duration such as 10s.")


def _check_window(box: str, field: str, us: int, report: Report) -> None:
    if us < 0:
        _check_duration(box, field, us, report)
    elif us >= CLOSED_US:
        message = f"{field}: {format_duration(us)} is longer than the years 1970 to 9998."
        report.add("bad-window", box, field, message, "Shorten it.")
    elif us < MS or us % MS:
        message = f"{field}: {format_duration(us)} is not a positive number of whole milliseconds."
        report.add("bad-window", box, field, message, "Spark keeps time in milliseconds: use 1ms or more.")
