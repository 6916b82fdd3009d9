"""Every bad parameter of every box, with its message and what to do: in YAML, and in Python where that can say it.

The parameters are those that the kinds of boxes declare, and the arguments that the methods of the builder have: one
that is new and has no case here fails. What is wrong with several parameters together, with names and with diagrams is
in ``test_validate`` and ``test_validate_boxes``; what SQL refuses is in ``test_sql_refusals``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from anabranch.errors import ConfigError, Problem, QueryError
from anabranch.query import arguments, keys, specs
from anabranch.query.builder import Query, Stream
from anabranch.query.catalog import KINDS
from anabranch.query.checks import COLUMN_REMEDY, CONDITION_REMEDY, NAME_REMEDY, TYPE_REMEDY
from anabranch.query.keys import ARROW, ARROWS, FLAG, TABLE, Form, Key

PING: Final = "source string, target string, rtt_ms double, at timestamp"
LOAD: Final = "server string, cpu double, up boolean"
HOSTS: Final = "host string, site string"
COLUMNS: Final = "Candidates: source, target, rtt_ms, at."
BOTH: Final = "Candidates: source, target, rtt_ms, at, server, cpu, up."
DURATION: Final = "Write a number and a unit: 500ms, 10s, 5m, 1.5h or 2d."
MS: Final = "Spark keeps time in milliseconds: write 1ms or a multiple of it."
EQUALITIES: Final = "Write left_column = right_column, with AND between several; filter or map before or after."

GOOD: Final[Mapping[str, Mapping[str, object]]] = {
    "source": {"schema": PING},
    "filter": {"input": "ping", "where": "rtt_ms > 1"},
    "map": {"input": "ping", "columns": "source"},
    "python": {"input": "ping", "function": "scoring:fare", "columns": "fare double"},
    "drop": {"input": "ping", "fraction": 0.5},
    "union": {"inputs": ["ping", "ping"]},
    "lookup": {"input": "ping", "table": "hosts", "on": "source = host"},
    "aggregate": {"input": "ping", "columns": "count(*) AS n", "window": "10s"},
    "session": {"input": "ping", "columns": "count(*) AS n", "gap": "10s"},
    "tumble": {"input": "ping", "columns": "count(*) AS n", "by": "source"},
    "slide": {"input": "ping", "columns": "count(*) AS n", "rows": 3},
    "xsection": {"input": "ping", "columns": "count(*) AS n", "window": "10s"},
    "join": {"left": "ping", "right": "load", "on": "source = server", "within": "1s"},
    "latest": {"left": "ping", "right": "load", "on": "source = server"},
    "resample": {"left": "ping", "right": "load", "columns": "cpu", "how": "mean", "within": "1s"},
    "dedup": {"input": "ping", "by": "source", "horizon": "1s"},
    "wsort": {"input": "ping", "by": "source", "timeout": "1s"},
}
"""A box of each kind with nothing wrong. Every case changes one parameter of it, or leaves others out, too."""

Told = tuple[str, str, str]
"""Code, message, remedy."""
Cases = list[tuple[object, Told]]


def duration(field: str, broken: str = "1500us") -> Cases:
    """What is wrong with any duration that Spark has to keep."""
    return [
        ("0s", ("bad-window", f"{field}: 0us is not a positive number of whole milliseconds.", MS)),
        (broken, ("bad-window", f"{field}: {broken} is not a positive number of whole milliseconds.", MS)),
        ("soon", ("bad-duration", f"{field}: 'soon' is not a duration.", DURATION)),
        ("-1s", ("bad-duration", f"{field}: '-1s' is not a duration.", DURATION)),
    ]


def long_duration(field: str) -> Cases:
    message = f"{field}: 3000000d is longer than the years 1970 to 9998."
    return [*duration(field), ("3000000d", ("bad-window", message, "Shorten it."))]


def arrow(field: str) -> Cases:
    candidates = "Candidates: ping, box, load."
    return [
        ("pong", ("unknown-arrow", f"{field}: there is no box 'pong'.", candidates)),
        ("ping.1", ("unknown-arrow", f"{field}: 'ping' has no port 1.", "Candidates: ping.")),
    ]


def columns_of(field: str) -> Cases:
    return [
        ("sorce", ("unknown-column", f"{field}: there is no column 'sorce'.", COLUMNS)),
        ("source, Source", ("duplicate-name", f"{field}: the column 'Source' appears twice.", "Name it once.")),
    ]


def condition(field: str) -> Cases:
    return [
        ("rtt_ms", ("not-boolean", f"{field}: `rtt_ms` is a double.", CONDITION_REMEDY)),
        (
            "rtt_ms >",
            ("bad-sql", f"{field}: `rtt_ms >` cannot be read near `>`.", "Complete or correct the SQL there."),
        ),
    ]


def made(field: str) -> Cases:
    """Names and types of columns that a schema declares."""
    return [
        ("x", ("unsupported-type", "Column 'x' has no type.", TYPE_REMEDY)),
        ("x text", ("unsupported-type", "Column 'x' has the type 'text'.", "Use string.")),
        ("9x int", ("bad-name", f"{field}: a column cannot be called '9x'.", COLUMN_REMEDY)),
        ("_x int", ("reserved-column", f"{field}: column '_x' begins with `_`.", "Rename it.")),
        ("x int, X int", ("duplicate-name", f"{field}: the column 'X' appears twice.", "Rename one of them.")),
    ]


INPUT: Final = {"input": arrow("input")}
SIDES: Final = {"left": arrow("left"), "right": arrow("right")}
EMIT: Final[Mapping[str, Cases]] = {
    "emit_rows": [(0, ("bad-window", "emit_rows: 0 is not a number of tuples.", "Write 1 or more."))]
}
SUMMING: Final[Mapping[str, Cases]] = {
    **INPUT,
    "columns": [
        ("", ("bad-sql", "columns: There is no expression.", "Write at least one.")),
        ("count(*)", ("missing-alias", "columns: `count(*)` has no name.", "Write `count(*) AS name`.")),
        (
            "rtt_ms AS r",
            ("bad-aggregate", "`rtt_ms` is not an aggregate.", "Use an aggregate function, or name it in `by`."),
        ),
        (
            "max(rtt) AS m",
            ("unknown-column", "columns: there is no column 'rtt'.", "Candidates: rtt_ms, source, target, at."),
        ),
        ("count(*) AS _n", ("reserved-column", "columns: column '_n' begins with `_`.", "Rename it.")),
    ],
    "by": columns_of("by"),
    "scale": [
        (
            19,
            (
                "bad-scale",
                "scale: 19 is not a number of digits from 0 to 18.",
                "Write how many digits after the point exact sums have.",
            ),
        ),
        (
            2,
            (
                "meaningless-option",
                "scale: there is no sum and no average that could have so many digits.",
                "Leave `scale` out.",
            ),
        ),
    ],
}

BAD: Final[Mapping[str, Mapping[str, Cases]]] = {
    "source": {
        "schema": [("", ("unsupported-type", "schema: no columns given.", 'Write "name type, ...".')), *made("schema")],
        "time": [
            ("att", ("unknown-column", "time: there is no column 'att'.", "Candidates: at, source, target, rtt_ms.")),
            ("source", ("bad-time-column", "time: column 'source' is a string.", "Candidates: at.")),
        ],
        "disorder": [
            ("soon", ("bad-duration", "disorder: 'soon' is not a duration.", DURATION)),
            (
                "1s",
                (
                    "meaningless-option",
                    "disorder: rows that are stamped on arrival are never late.",
                    "Name a time column.",
                ),
            ),
        ],
        "idle": [
            ("5", ("bad-duration", "idle: '5' is not a duration.", DURATION)),
            (
                "1s",
                (
                    "meaningless-option",
                    "idle: a source that stamps its rows follows the clock anyway.",
                    "Name a time column.",
                ),
            ),
        ],
        "silence": [
            ("soon", ("bad-duration", "silence: 'soon' is not a duration.", DURATION)),
            (
                "1s",
                (
                    "meaningless-option",
                    "silence: a source that stamps its rows is never silent.",
                    "Name its producers.",
                ),
            ),
        ],
        "horizon": [("soon", ("bad-duration", "horizon: 'soon' is not a duration.", DURATION))],
        "producers": [
            ("9 x", ("bad-name", "producers: a producer cannot be called '9 x'.", NAME_REMEDY)),
            ("a, a", ("duplicate-name", "producers: the producer 'a' appears twice.", "Name it once.")),
        ],
        "feed": [
            (
                "genrator:rate=1",
                (
                    "bad-connector",
                    "feed: There is no feed or writer 'genrator' here.",
                    "Candidates: generator, file, nexmark, spark, push.",
                ),
            )
        ],
    },
    "filter": {
        **INPUT,
        "where": [
            ([], ("bad-sql", "where: no condition given.", "Write at least one, such as rtt_ms > 1000.")),
            *condition("where"),
        ],
    },
    "map": {
        **INPUT,
        "columns": [
            ("", ("bad-sql", "columns: There is no expression.", "Write at least one.")),
            ("rtt_ms + 1", ("missing-alias", "columns: `rtt_ms + 1` has no name.", "Write `rtt_ms + 1 AS name`.")),
            ("array(1) AS a", ("unsupported-type", "columns: 'a' is of type array.", TYPE_REMEDY)),
            (
                "rand() AS r",
                (
                    "refused-function",
                    "columns: rand() in `rand()` would give a different value on every replica.",
                    "Read _stime, or send the value as a column.",
                ),
            ),
        ],
    },
    "python": {
        **INPUT,
        "function": [
            (
                "fare",
                (
                    "bad-function",
                    "function: 'fare' is not the name of a function.",
                    "Write module:function, such as scoring:score.",
                ),
            )
        ],
        "columns": [
            (
                "",
                (
                    "unsupported-type",
                    "columns: no columns given that the function computes.",
                    'Write "name type, ...".',
                ),
            ),
            *made("columns"),
            (
                "at timestamp",
                (
                    "duplicate-name",
                    "columns: the input has a column 'at' already.",
                    "Rename one of them, with a map before it.",
                ),
            ),
        ],
        "reads": columns_of("reads"),
    },
    "drop": {
        **INPUT,
        "fraction": [
            (
                1.5,
                (
                    "bad-drop",
                    "fraction: 1.5 is not between 0 and 1.",
                    "Write 0.1 to drop every tenth tuple, more or less.",
                ),
            )
        ],
        "seed": [
            (
                1 << 63,
                (
                    "bad-drop",
                    "seed: 9223372036854775808 does not fit into 64 bits.",
                    "Write a number from -2**63 to 2**63 - 1.",
                ),
            )
        ],
        "where": condition("where"),
    },
    "union": {
        "inputs": [
            ([], ("no-input", "inputs: no inputs given.", "Name at least one stream.")),
            *(("ping, " + str(value), told) for value, told in arrow("inputs")),
            (
                "ping, load",
                (
                    "union-type-clash",
                    f"'ping' has ({PING}), but 'load' has ({LOAD}): column 'source' meets 'server'.",
                    "Make them equal with a map.",
                ),
            ),
        ]
    },
    "lookup": {
        **INPUT,
        "table": [("host", ("unknown-table", "table: there is no table 'host'.", "Candidates: hosts."))],
        "on": [
            *condition("on"),
            (
                "source < host",
                (
                    "not-an-equality",
                    "on: `source < host` is more than equalities between a column of either side.",
                    EQUALITIES,
                ),
            ),
        ],
    },
    "aggregate": {
        **SUMMING,
        **EMIT,
        "window": long_duration("window"),
        "every": [
            *duration("every", "9000500us"),
            (
                "20s",
                (
                    "bad-window",
                    "every: 20s is longer than the window of 10s.",
                    "Tuples between two windows would be lost: shorten it.",
                ),
            ),
        ],
        "rows": [
            (3, ("meaningless-option", "rows: windows are made by `window` here.", "Leave `window` or `rows` out.")),
        ],
        "every_rows": [
            (
                3,
                (
                    "meaningless-option",
                    "every_rows: windows are made by `window` here.",
                    "Leave `window` or `every_rows` out.",
                ),
            )
        ],
        "timeout": [
            ("soon", ("bad-duration", "timeout: 'soon' is not a duration.", DURATION)),
            (
                "1s",
                (
                    "meaningless-option",
                    "timeout: a window of time is over at its end.",
                    "Leave `timeout` out, or use `rows`.",
                ),
            ),
        ],
    },
    "session": {**SUMMING, **EMIT, "gap": long_duration("gap")},
    "tumble": {
        **SUMMING,
        **EMIT,
        "by": [
            ("", ("missing-key", "by: no columns given whose change ends a run.", COLUMNS)),
            *columns_of("by"),
        ],
        "timeout": long_duration("timeout"),
    },
    "slide": {
        **SUMMING,
        "rows": [
            (
                rows,
                (
                    "bad-window",
                    f"rows: {rows:,} is not a number of tuples from 1 to 1,000,000.",
                    "Write another number, or use `window`, a duration.",
                ),
            )
            for rows in (0, 1_000_001)
        ],
        "window": [
            (
                "1s",
                (
                    "meaningless-option",
                    "window: results are over the last `rows` here.",
                    "Leave `rows` or `window` out.",
                ),
            ),
        ],
        "every_rows": [(0, ("bad-window", "every_rows: 0 is not a number of tuples.", "Write 1 or more."))],
        "every": long_duration("every"),
    },
    "xsection": {
        **SUMMING,
        "window": long_duration("window"),
        "every": [
            *duration("every", "9000500us"),
            (
                "1ms",
                (
                    "bad-window",
                    "every: a tuple would lie in 10,000 windows; the limit is 1,000.",
                    "Let windows begin less often, or make them shorter.",
                ),
            ),
        ],
        "expire": [
            *duration("expire", "19000500us"),
            (
                "1s",
                (
                    "bad-window",
                    "expire: 1s is shorter than the window of 10s.",
                    "A group would expire while the window still has its tuples: make it at least as long.",
                ),
            ),
        ],
    },
    "join": {
        **SIDES,
        "on": [
            *condition("on"),
            ("source = hst", ("unknown-column", "on: there is no column 'hst'.", BOTH)),
        ],
        "within": long_duration("within"),
    },
    "latest": {
        **SIDES,
        "on": [
            *condition("on"),
            (
                "rtt_ms = server",
                ("not-an-equality", "on: 'rtt_ms' is double and 'server' is string.", "Cast one of them with a map."),
            ),
        ],
        "within": long_duration("within"),
    },
    "resample": {
        **SIDES,
        "columns": [
            ("", ("missing-key", "columns: no columns given to resample.", "Candidates: server, cpu, up.")),
            ("cup", ("unknown-column", "columns: there is no column 'cup'.", "Candidates: up, cpu, server.")),
            ("up", ("bad-resample", "columns: 'up' is a boolean, which has no values in between.", "Choose numbers.")),
            ("cpu, CPU", ("duplicate-name", "columns: the column 'CPU' appears twice.", "Name it once.")),
        ],
        "how": [
            ("cubic", ("bad-resample", "how: there is no 'cubic'.", "Candidates: linear, previous, nearest, mean."))
        ],
        "within": long_duration("within"),
        "on": condition("on"),
    },
    "dedup": {
        **INPUT,
        "by": [
            ("", ("missing-key", "by: no columns given that identify duplicates.", COLUMNS)),
            *columns_of("by"),
        ],
        "horizon": long_duration("horizon"),
    },
    "wsort": {
        **INPUT,
        "by": [("", ("missing-key", "by: no columns given to sort by.", COLUMNS)), *columns_of("by")],
        "timeout": long_duration("timeout"),
    },
}
"""Of each kind and key the values that are wrong. A flag has none but those of a wrong type."""

WITHOUT: Final = {("drop", "where"): "fraction"}
"""What has to be left out to have nothing but this parameter wrong."""

WRONG_TYPE: Final[list[tuple[Form, object, str, str]]] = [
    (keys.TEXT, 5, "5 is an int.", "Write text."),
    (keys.SCHEMA, 5, "5 is an int.", "Write text."),
    (keys.TEXTS, 5, "5 is an int.", "Write SQL as text, or a list of such texts."),
    (keys.NAMES, 5, "5 is an int.", "Write names with commas between them, or a list."),
    (keys.FLAG, "yes", "'yes' is a str.", "Write true or false."),
    (keys.WHOLE, 1.5, "1.5 is a float.", "Write a whole number."),
    (keys.NUMBER, "x", "'x' is a str.", "Write a number such as 0.1."),
    (keys.DURATION, 5, "5 is an int.", DURATION),
    (keys.ARROW, 5, "5 is an int.", "Write the name of a box, or box.1 for its second output."),
    (keys.ARROWS, 5, "5 is an int.", "Write names of boxes with commas between them, or a list."),
    (keys.TABLE, 5, "5 is an int.", "Write the name of a table."),
    (keys.FEED, 5, "5 is not one connector.", "Write {KIND: {OPTION: VALUE}} or KIND:OPTION=VALUE,..."),
]


def told(problem: Problem) -> Told:
    return problem.code, problem.message, problem.remedy


def changed(kind: str, key: str, value: object) -> dict[str, object]:
    without = WITHOUT.get((kind, key))
    return {name: each for name, each in {**GOOD[kind], key: value}.items() if name != without}


def from_text(kind: str, options: Mapping[str, object]) -> list[Problem]:
    """What is wrong with a query that has one box of interest, as YAML would be read."""
    boxes = [
        {"source": {"name": "ping", "schema": PING}},
        {"source": {"name": "load", "schema": LOAD}},
        {kind: {"name": "box", **options}},
    ]
    outputs = {"out": "box", "pings": "ping", "loads": "load"}
    tables = {"hosts": {"schema": HOSTS, "key": "host", "file": "hosts.csv"}} if kind == "lookup" else {}
    return Query.from_dict({"query": "q", "boxes": boxes, "outputs": outputs, "tables": tables}).validate()


def from_python(kind: str, options: Mapping[str, Any]) -> list[Problem]:
    """The same, by the method of the builder."""
    query = Query("q")
    ping, load = query.source("ping", PING), query.source("load", LOAD)
    try:
        made = built(query, kind, {"ping": ping, "load": load}, dict(options))
    except QueryError as error:
        return list(error.problems)
    except ConfigError as error:  # of a feed, which is read when it is given
        return [Problem(code="bad-connector", box="", message=f"feed: {error.message}", remedy=error.remedy)]
    for name, stream in (("out", made), ("pings", ping), ("loads", load)):
        query.output(name, stream)
    return query.validate()


def built(query: Query, kind: str, streams: Mapping[str, Stream], options: dict[str, Any]) -> Stream:
    if kind == "source":
        return query.source("box", **options)
    if kind == "union":
        return query.union(*(streams[name.strip()] for name in options["inputs"]), name="box")
    reader = streams[options.pop("input", None) or options.pop("left")]
    if "right" in options:
        options["other"] = streams[options.pop("right")]
    if kind == "lookup":
        options["table"] = query.table(options["table"], HOSTS, key="host", file="hosts.csv")
    if kind == "drop":
        options["which"] = options.pop("where", None) or options.pop("fraction")
    where = options.pop("where", []) if kind == "filter" else []
    made = getattr(reader, kind)(*([where] if isinstance(where, str) else where), name="box", **options)
    return made[0] if isinstance(made, tuple) else made


def parameters() -> Iterator[tuple[str, Key]]:
    yield from ((kind, key) for kind, each in KINDS.items() for key in each.keys)


def cases() -> Iterator[Any]:
    for kind, by_key in BAD.items():
        for key, wrong in by_key.items():
            for value, expected in wrong:
                yield pytest.param(kind, key, value, expected, id=f"{kind}-{key}-{value}")


def test_every_parameter_of_every_box_has_a_value_that_is_wrong() -> None:
    declared = {(kind, key.name) for kind, key in parameters() if key.form is not FLAG}
    assert declared == {(kind, key) for kind, by_key in BAD.items() for key in by_key}
    assert GOOD.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", GOOD)
def test_nothing_else_is_wrong_with_the_boxes_of_these_tests(kind: str) -> None:
    assert from_text(kind, GOOD[kind]) == []
    assert from_python(kind, GOOD[kind]) == []


@pytest.mark.parametrize(("kind", "key", "value", "expected"), list(cases()))
def test_a_wrong_value_is_told_in_yaml(kind: str, key: str, value: object, expected: Told) -> None:
    (problem,) = from_text(kind, changed(kind, key, value))
    code, message, remedy = told(problem)
    assert (code, message.removeprefix(f"boxes[2].{kind}."), remedy) == expected
    assert problem.box == "box"


def in_python() -> Iterator[Any]:
    """An arrow or a table that is not there cannot be given to a method."""
    unsayable = {(kind, key.name) for kind, key in parameters() if key.form in (ARROW, ARROWS, TABLE)}
    for case in cases():
        if (case.values[0], case.values[1]) not in unsayable:
            yield case


@pytest.mark.parametrize(("kind", "key", "value", "expected"), list(in_python()))
def test_a_wrong_value_is_told_in_python(kind: str, key: str, value: object, expected: Told) -> None:
    (problem,) = from_python(kind, changed(kind, key, value))
    assert told(problem) == expected


@pytest.mark.parametrize(
    ("kind", "key"), [pytest.param(*each, id=f"{each[0]}-{each[1].name}") for each in parameters()]
)
def test_a_value_of_a_wrong_type_is_told_in_yaml(kind: str, key: Key) -> None:
    ((value, message, remedy),) = [tuple(rest) for form, *rest in WRONG_TYPE if form is key.form]
    (problem,) = from_text(kind, changed(kind, key.name, value))
    code = "bad-connector" if key.form is keys.FEED else "wrong-type"
    assert told(problem) == (code, f"boxes[2].{kind}.{key.name}: {message}", remedy)


@pytest.mark.parametrize(
    ("kind", "key"), [pytest.param(*each, id=f"{each[0]}-{each[1].name}") for each in parameters()]
)
def test_a_parameter_that_is_left_out_is_told_in_yaml(kind: str, key: Key) -> None:
    options = {name: value for name, value in GOOD[kind].items() if name != key.name}
    problems = [told(problem) for problem in from_text(kind, options)]
    needed = key.name in GOOD[kind] and ((key.default is keys.REQUIRED and not key.default_from) or key.unless)
    instead = f"Add `{key.name}` or `{key.unless}`." if key.unless else f"Add `{key.name}`."
    message = f"boxes[2].{kind} has no key `{key.name}`."
    assert problems == ([("missing-key", message, instead)] if needed else [])


# --- tables, feeds and writers -------------------------------------------------------------------------------------

TABLE_COLUMNS: Final = "Candidates: host, site."
BAD_TABLE: Final[Mapping[str, Cases]] = {
    "schema": made("schema"),
    "key": [
        ("", ("bad-table", "key: no key columns given.", TABLE_COLUMNS)),
        ("hst", ("unknown-column", "key: there is no column 'hst'.", TABLE_COLUMNS)),
        ("host, HOST", ("duplicate-name", "key: the column 'HOST' appears twice.", "Name it once.")),
    ],
    "file": [
        (
            "h.xlsx",
            (
                "bad-table",
                "file: 'h.xlsx' does not have the suffix of a readable file.",
                "Candidates: .csv, .parquet, .pq.",
            ),
        )
    ],
    "database": [
        (
            "sqlite:h.db",
            ("bad-table", "database: its rows are given by file already.", "Leave one of them out: file, database."),
        )
    ],
    "sql": [
        (
            "SELECT 1",
            ("meaningless-option", "sql: no database given to query.", "Name the database, or leave sql out."),
        )
    ],
    "rows": [
        (
            [["a", "b"]],
            ("bad-table", "rows: its rows are given by file already.", "Leave one of them out: file, rows."),
        )
    ],
}
"""Of a table of two columns from a file."""


def of_table(key: str, value: object) -> list[Problem]:
    table = {"schema": HOSTS, "key": "host", "file": "hosts.csv", key: value}
    if key == "schema":
        table["key"] = str(value).split()[0]
    lookup = {"name": "box", "input": "ping", "table": "hosts", "on": f"source = {str(table['key']).split(',')[0]}"}
    boxes = [{"source": {"name": "ping", "schema": PING}}, {"lookup": lookup}]
    form = {"query": "q", "boxes": boxes, "outputs": {"out": "box"}, "tables": {"hosts": table}}
    return [problem for problem in Query.from_dict(form).validate() if problem.box == "hosts"]


def test_every_parameter_of_a_table_has_a_value_that_is_wrong() -> None:
    assert BAD_TABLE.keys() == {key.name for key in keys.TABLE_KEYS}


@pytest.mark.parametrize(
    ("key", "value", "expected"), [(key, *each) for key, wrong in BAD_TABLE.items() for each in wrong]
)
def test_a_wrong_value_of_a_table_is_told(key: str, value: object, expected: Told) -> None:
    assert expected in [told(problem) for problem in of_table(key, value)]


@pytest.mark.parametrize("key", keys.TABLE_KEYS, ids=lambda key: key.name)
def test_a_value_of_a_wrong_type_in_a_table_is_told(key: Key) -> None:
    (problem,) = [problem for problem in of_table(key.name, 5) if problem.code == "wrong-type"]
    assert problem.message == f"tables.hosts.{key.name}: 5 is an int."
    assert problem.remedy.startswith("Write ")


CONNECTORS: Final = {
    "feed": {"generator": {}, "file": {"path": "a.csv"}, "nexmark": {"stream": "bid"}, "spark": {"format": "rate"}},
    "writer": {
        "jsonl": {"path": "a"},
        "parquet": {"path": "a"},
        "console": {},
        "spark": {"format": "noop"},
        "table": {"database": "sqlite:a.db", "table": "t"},
    },
}
"""One of each kind with nothing wrong."""
READERS: Final[Mapping[str, Callable[[object], Any]]] = {"feed": specs.feed_from, "writer": specs.writer_from}


def connector_options() -> Iterator[tuple[str, str, str]]:
    for sort, kinds in CONNECTORS.items():
        for kind, good in kinds.items():
            yield from ((sort, kind, name) for name in specs.option_names(READERS[sort]({kind: good})))


def test_every_kind_of_feed_and_writer_is_tested() -> None:
    assert CONNECTORS["feed"].keys() == specs._FEEDS.keys()
    assert CONNECTORS["writer"].keys() == specs._WRITERS.keys()


@pytest.mark.parametrize(("sort", "kind", "name"), list(connector_options()))
def test_a_wrong_option_of_a_feed_or_writer_is_told_by_name(sort: str, kind: str, name: str) -> None:
    good: Mapping[str, object] = CONNECTORS[sort][kind]
    with pytest.raises(ConfigError) as caught:
        READERS[sort]({kind: {**good, name: []}})
    assert name in caught.value.message
    assert "[]" in caught.value.message
    assert caught.value.remedy


# --- arguments of a wrong type, in Python --------------------------------------------------------------------------

METHODS: Final[Mapping[str, Callable[..., object]]] = {
    **{kind: getattr(Stream, kind) for kind in KINDS if kind not in ("source", "union")},
    "source": Query.source,
    "table": Query.table,
    "output": Query.output,
}
STREAMS: Final = ("self", "other", "stream")
WRONG: Final = {1.5}
"""A set is nothing that any parameter could be."""


def method_arguments() -> Iterator[tuple[str, str]]:
    for method, call in METHODS.items():
        yield from ((method, name) for name in inspect.signature(call).parameters if name not in STREAMS)


def call_with(method: str, name: str, value: Any) -> list[Problem]:
    query = Query("q")
    ping, load = query.source("ping", PING), query.source("load", LOAD)
    hosts = query.table("hosts", HOSTS, key="host", file="hosts.csv")
    if method == "table":
        given: dict[str, Any] = {"name": "hosts", "schema": HOSTS, "key": "host", name: value}
        query.table(**given)
    elif method == "output":
        query.output(**{"name": "out", "stream": ping, name: value})
    elif method == "source":
        query.source(**{"name": "box", "schema": PING, name: value})
    elif name == "predicates":
        ping.filter(value)
    else:
        good = {
            key: each
            for key, each in GOOD[method].items()
            if key not in ("input", "left", "right", "where", "fraction")
        }
        if "right" in GOOD[method]:
            good["other"] = load
        if method == "lookup":
            good["table"] = hosts
        if method == "drop":
            good["which"] = 0.5
        positional = ["rtt_ms > 1"] if method == "filter" else []
        getattr(ping, method)(*positional, **{**good, name: value})
    return query.validate()


@pytest.mark.parametrize(("method", "name"), list(method_arguments()))
def test_an_argument_of_a_wrong_type_is_told_by_name(method: str, name: str) -> None:
    """At once, but for durations, which ``validate`` tells with the rest."""
    try:
        problems = call_with(method, name, WRONG)
    except QueryError as error:
        problems = list(error.problems)
    wrong = [problem for problem in problems if problem.code in ("wrong-type", "bad-duration")]
    (problem,) = wrong
    assert problem.message.startswith(f"{name.removesuffix('s') if name == 'predicates' else name}: ")
    assert repr(WRONG) in problem.message
    assert problem.remedy


def test_something_else_than_a_stream_is_refused_at_once() -> None:
    query = Query("q")
    ping = query.source("ping", PING)
    calls: list[Callable[[Any], object]] = [
        lambda other: query.union(other),
        lambda other: ping.union(other),
        lambda other: ping.join(other, on="a = b", within="1s"),
        lambda other: ping.latest(other),
        lambda other: ping.resample(other, "cpu", how="mean", within="1s"),
        lambda other: query.output("out", other),
    ]
    for call in calls:
        with pytest.raises(QueryError, match=r"'load' is not a stream. Pass what a builder method returned."):
            call("load")


def test_writers_of_a_wrong_type_are_told_one_by_one() -> None:
    with pytest.raises(QueryError, match=r"to: 5 is an int. Use ab.writers, or write a writer as text"):
        arguments.writers("to", ["jsonl:path=x.jsonl", 5])
