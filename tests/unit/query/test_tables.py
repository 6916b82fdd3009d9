"""Static tables and Lookups: how they are written, every bad parameter with its message, and what a stage needs."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch import limits
from anabranch.errors import Problem, QueryError
from anabranch.query.boxes import Arrow, Lookup
from anabranch.query.builder import Query, Stream
from anabranch.query.draw import as_text
from anabranch.query.files import load
from anabranch.query.floats import exact_scales
from anabranch.query.graph import stages
from anabranch.query.needs import Needs, needs
from anabranch.query.schemas import schemas
from anabranch.query.selecting import selections

HOSTS = "host string, site string, racks int"


def ping_query() -> tuple[Query, Stream]:
    query = Query("q")
    return query, query.source("ping", "target string, rtt_ms double")


def problems(on: str = "target = host", schema: str = HOSTS, **options: Any) -> list[tuple[str, str, str]]:
    """Of a Lookup in a table that is right but for these options."""
    query, ping = ping_query()
    table = query.table("hosts", schema, **{"key": "host", "file": "hosts.csv", **options})
    query.output("out", ping.lookup(table, on=on, name="box"))
    return [(each.code, each.message, each.remedy) for each in query.validate()]


def only_problem(**options: Any) -> tuple[str, str, str]:
    (problem,) = problems(**options)
    return problem


def test_a_lookup_adds_the_columns_of_its_table() -> None:
    query, ping = ping_query()
    hosts = query.table("hosts", HOSTS, key="host", file="hosts.csv")
    query.output("out", ping.lookup(hosts, on="target = host", outer=True, name="where"))
    diagram = query.checked()
    assert [column.name for column in schemas(diagram)[Arrow("where")]] == [
        "target", "rtt_ms", "host", "site", "racks",
    ]  # fmt: skip
    assert "lookup where <- ping\n  | table hosts\n  | target = host\n  | outer\n" in as_text(diagram)
    assert "table hosts\n  | file hosts.csv\n  | key host\n  -> host string, site string, racks int\n" in as_text(
        diagram
    )
    assert diagram.tables == (hosts,)


def test_a_drawing_shows_no_password() -> None:
    query, ping = ping_query()
    url = "postgresql://me:secret@db/ops"
    hosts = query.table("hosts", HOSTS, key="host", database=url, sql="SELECT * FROM hosts")
    query.output("out", ping.lookup(hosts, on="target = host"))
    assert "  | database postgresql://me@db/ops\n  | SELECT * FROM hosts\n  | key host\n" in as_text(query.checked())


@pytest.mark.parametrize(
    "place",
    [
        {"file": "hosts.parquet"},
        {"database": "sqlite:hosts.db", "sql": "SELECT * FROM hosts"},
        {"rows": [("a", "east", 1), ("b", None, 2)]},
        {"rows": []},
    ],
)
def test_the_text_form_reads_back_as_the_same_query(place: dict[str, Any]) -> None:
    query, ping = ping_query()
    hosts = query.table("hosts", HOSTS, key=("host", "site"), **place)
    query.output("out", ping.lookup(hosts, on="target = host"))
    query.output("again", ping.lookup(hosts, on="target = site", name="again"))
    assert Query.from_yaml(query.to_yaml()).diagram() == query.diagram()


def test_rows_with_nan_read_back_as_the_same_query() -> None:
    query, ping = ping_query()
    table = query.table("t", "a string, f double", key="a", rows=[("x", float("nan"))])
    query.output("out", ping.lookup(table, on="target = a"))
    assert Query.from_yaml(query.to_yaml()).checked() == query.checked()


def test_where_a_table_is_does_not_make_another_query() -> None:
    def made(**place: Any) -> Query:
        query, ping = ping_query()
        query.output("out", ping.lookup(query.table("hosts", HOSTS, key="host", **place), on="target = host", name="b"))
        return query

    first, second = made(file="a.csv"), made(database="sqlite:a.db", sql="SELECT 1")
    assert first.checked() != second.checked()
    assert first.checked().identity() == second.checked().identity()


def test_a_table_may_be_read_in_any_case_of_its_columns() -> None:
    assert problems(on="HOST = Target", key="Host") == []


def test_a_query_remembers_where_its_file_is(tmp_path: Any) -> None:
    query, ping = ping_query()
    query.output("out", ping)
    (tmp_path / "q.yaml").write_text(query.to_yaml())
    assert load(tmp_path / "q.yaml").directory == tmp_path
    assert query.directory is None


# --- what is wrong with a table ------------------------------------------------------------------------------------

WHERE = 'Write file="x.csv" or "x.parquet", database= and sql=, or rows=.'
ROW = ("a", "east", 1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"file": None}, ("bad-table", "No location given for its rows.", WHERE)),
        (
            {"rows": [ROW]},
            ("bad-table", "rows: its rows are given by file already.", "Leave one of them out: file, rows."),
        ),
        (
            {"file": "hosts.xlsx"},
            (
                "bad-table",
                "file: 'hosts.xlsx' does not have the suffix of a readable file.",
                "Candidates: .csv, .parquet, .pq.",
            ),
        ),
        (
            {"file": None, "database": "oracle:x", "sql": "SELECT 1"},
            (
                "bad-table",
                "database: 'oracle:x' is not a database.",
                "Write sqlite:PATH, duckdb:PATH or postgresql://HOST/DATABASE.",
            ),
        ),
        (
            {"file": None, "database": "sqlite:x.db"},
            ("bad-table", "sql: no SQL given to select rows from the database.", 'Write sql="SELECT ...".'),
        ),
        (
            {"sql": "SELECT 1"},
            ("meaningless-option", "sql: no database given to query.", "Name the database, or leave sql out."),
        ),
        (
            {"key": ()},
            (
                "bad-table",
                "key: no key columns given.",
                "Candidates: host, site, racks.",
            ),
        ),
        (
            {"key": "hots"},
            ("unknown-column", "key: there is no column 'hots'.", "Candidates: host, site, racks."),
        ),
        (
            {"key": "host, HOST"},
            ("duplicate-name", "key: the column 'HOST' appears twice.", "Name it once."),
        ),
        (
            {"schema": "host string, load double", "key": "load"},
            (
                "bad-table",
                "key: 'load' is a double, whose values may be rounded.",
                "Declare it as decimal, or choose other columns.",
            ),
        ),
        (
            {"schema": "host string, site text"},
            ("unsupported-type", "Column 'site' has the type 'text'.", "Use string."),
        ),
        (
            {"schema": "host string, _site string"},
            ("reserved-column", "schema: column '_site' begins with `_`.", "Rename it."),
        ),
    ],
)
def test_what_can_be_wrong_with_a_table(options: dict[str, Any], problem: tuple[str, str, str]) -> None:
    assert only_problem(**options) == problem


@pytest.mark.parametrize(
    ("rows", "message", "remedy"),
    [
        ([("a", "east")], "rows: row 1 has 2 values for 3 columns.", "Write one for each column."),
        ([ROW, ("b", 7, 1)], "rows: row 2: 7 is not a string, as 'site' is.", "Correct it."),
        ([("a", "east", 1.5)], "rows: row 1: 1.5 is not an int, as 'racks' is.", "Correct it."),
        ([("a", "east", True)], "rows: row 1: True is not an int, as 'racks' is.", "Correct it."),
        ([("a", "east", 1 << 31)], "rows: row 1: 2147483648 is not an int, as 'racks' is.", "Correct it."),
        (
            [ROW, ("a", "west", 2)],
            "rows: row 2 has the key 'a', like another row.",
            "Correct the row, or name other columns as the key.",
        ),
        ([(None, "west", 2)], "rows: row 1 has NULL in its key.", "Correct the row, or name other columns as the key."),
        (
            [(str(n), "x", n) for n in range(limits.TABLE_INLINE_ROWS + 1)],
            f"rows: {limits.TABLE_INLINE_ROWS + 1:,} rows; the limit in a query is {limits.TABLE_INLINE_ROWS:,}.",
            "Put them into a file.",
        ),
    ],
)
def test_what_can_be_wrong_with_rows_in_a_query(rows: list[Any], message: str, remedy: str) -> None:
    assert only_problem(file=None, rows=rows) == ("bad-table", message, remedy)


def test_rows_in_a_query_have_types_that_can_be_written() -> None:
    problem = only_problem(schema="host string, since date", file=None, rows=[("a", "2026-01-01")])
    assert problem == (
        "bad-table", "rows: 'since' is a date, which cannot be written in a query.", "Put the rows into a file.",
    )  # fmt: skip


def test_a_table_needs_columns_and_a_name() -> None:
    assert [code for code, _, _ in problems(schema="", on="target = target")] == ["unsupported-type", "unknown-column"]
    query, ping = ping_query()
    query.output("out", ping.lookup(query.table("9", HOSTS, key="host", file="x.csv"), on="target = host"))
    assert [problem.code for problem in query.validate()] == ["bad-name"]


def test_two_tables_of_one_name_are_told() -> None:
    query, ping = ping_query()
    one, two = (query.table("hosts", HOSTS, key="host", file=file) for file in ("a.csv", "b.csv"))
    query.output("out", ping.lookup(one, on="target = host"))
    query.output("other", ping.lookup(two, on="target = site", name="other"))
    (problem,) = query.validate()
    assert (problem.code, problem.message) == ("duplicate-name", "Two different tables are called 'hosts'.")


# --- what is wrong with a Lookup -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "code", "message"),
    [
        ("target = hots", "unknown-column", "on: there is no column 'hots'."),
        ("target < host", "not-an-equality", "on: `target < host` is more than equalities between a column of either"),
        ("target = host OR rtt_ms = 1", "not-an-equality", "is more than equalities"),
        ("target = racks", "not-an-equality", "on: 'target' is string and 'racks' is int."),
        ("target", "not-boolean", "on: `target` is a string."),
        ("target = ", "bad-sql", "on: `target =` cannot be read"),
        ("host = site", "not-an-equality", "is more than equalities"),
        ("_stime = host", "reserved-column", "on: '_stime' is a header column."),
    ],
)
def test_the_condition_is_equalities_of_columns(on: str, code: str, message: str) -> None:
    found = only_problem(on=on)
    assert found[0] == code
    assert message in found[1]


def test_the_columns_of_both_must_differ() -> None:
    (problem,) = problems(schema="host string, target string")
    assert problem == (
        "duplicate-name",
        "Both 'ping' and 'hosts' have 'target'.",
        'Rename the columns of one side: .map("target AS other_target, ...").',
    )


@pytest.mark.parametrize(
    ("box", "message", "code"),
    [
        ("{name: box, input: ping, table: hots, on: x}", "table: there is no table 'hots'.", "unknown-table"),
        ("{name: box, input: ping, on: target = host}", "boxes[1].lookup has no key `table`.", "missing-key"),
        ("{name: box, input: ping, table: hosts}", "boxes[1].lookup has no key `on`.", "missing-key"),
        ("{name: box, input: ping, table: 7, on: x}", "boxes[1].lookup.table: 7 is an int.", "wrong-type"),
        (
            "{name: box, input: ping, table: hosts, on: target = host, outer: 1}",
            "boxes[1].lookup.outer: 1 is an int.",
            "wrong-type",
        ),
    ],
)
def test_what_can_be_wrong_in_the_text_form(box: str, message: str, code: str) -> None:
    text = f"""
query: q
boxes:
  - source: {{name: ping, schema: "target string"}}
  - lookup: {box}
outputs: {{out: box}}
tables:
  hosts: {{schema: "host string", key: host, file: hosts.csv}}
"""
    found = Query.from_yaml(text).validate()
    assert (found[0].code, found[0].message) == (code, message)


@pytest.mark.parametrize(
    ("table", "code", "message"),
    [
        ("{schema: host string, file: x.csv}", "missing-key", "tables.hosts has no key `key`."),
        ("{schema: host string, key: host, fil: x.csv}", "unknown-key", "tables.hosts has an unknown key `fil`."),
        ("{schema: host string, key: host, rows: x}", "wrong-type", "tables.hosts.rows: 'x' is a str."),
        ("{schema: host string, key: host, rows: [x]}", "wrong-type", "tables.hosts.rows: 'x' is a str."),
        ("hosts.csv", "wrong-type", "tables.hosts: 'hosts.csv' is a str."),
    ],
)
def test_what_can_be_wrong_with_a_table_in_the_text_form(table: str, code: str, message: str) -> None:
    text = f"""
query: q
boxes:
  - source: {{name: ping, schema: "target string"}}
  - lookup: {{name: box, input: ping, table: hosts, on: target = host}}
outputs: {{out: box}}
tables:
  hosts: {table}
"""
    assert (code, message) in [(each.code, each.message) for each in Query.from_yaml(text).validate()]


def test_a_table_that_nothing_reads_is_told() -> None:
    text = """
query: q
boxes: [{source: {name: ping, schema: target string}}]
outputs: {out: ping}
tables: {hosts: {schema: host string, key: host, file: hosts.csv}}
"""
    (problem,) = Query.from_yaml(text).validate()
    assert problem == Problem(
        code="unused-box", box="hosts", message="No lookup reads this table.", remedy="Read it, or remove it."
    )


def test_something_else_than_a_table_is_refused_at_once() -> None:
    _, ping = ping_query()
    with pytest.raises(QueryError, match="'hosts' is not a table"):
        ping.lookup("hosts", on="target = host")  # type: ignore[arg-type]


# --- stages --------------------------------------------------------------------------------------------------------


def test_a_lookup_costs_no_stage() -> None:
    query, ping = ping_query()
    hosts = query.table("hosts", HOSTS, key="host", file="hosts.csv")
    found = ping.filter("rtt_ms > 1", name="slow").lookup(hosts, on="target = host", name="found")
    sums = found.aggregate("count(*) AS n", by="site", window="1s", name="sums")
    again = sums.map("site AS of, n", name="renamed").lookup(hosts, on="of = site", name="again")
    query.output("found", found)
    query.output("sums", sums)
    query.output("again", again)
    assert [stage.name for stage in stages(query.checked())] == ["ping", "sums"]


def test_a_stage_reads_what_the_lookup_needs_and_not_what_the_table_has() -> None:
    query, ping = ping_query()
    hosts = query.table("hosts", HOSTS, key="host", file="hosts.csv")
    found = ping.lookup(hosts, on="target = host", name="found")
    query.output("sums", found.aggregate("max(racks) AS racks", by="site", window="1s", name="sums"))
    diagram = query.checked()
    (stage,) = stages(diagram)
    assert needs(diagram, stage) == {"ping": Needs(frozenset({"target", "host"}), identity=False)}


def test_rows_are_selected_by_filters_below_a_lookup_only() -> None:
    query, ping = ping_query()
    hosts = query.table("hosts", HOSTS, key="host", file="hosts.csv")
    found = ping.filter("rtt_ms > 1", name="slow").lookup(hosts, on="target = host", name="found")
    query.output("out", found.filter("racks > 3", name="large"))
    diagram = query.checked()
    (stage,) = stages(diagram)
    ((only,),) = selections(diagram, stage)["ping"]
    assert only.column == "rtt_ms"


def test_a_sum_by_which_something_is_looked_up_is_exact() -> None:
    query, ping = ping_query()
    hosts = query.table("limits", "most double, name string", key="name", rows=[(1.5, "a")])
    sums = ping.aggregate("sum(rtt_ms) AS total", by="target", window="1s", name="sums")
    query.output("out", sums.lookup(hosts, on="total = most", name="found"))
    assert exact_scales(query.checked()) == {"sums": {"total": 9}}


def test_the_box_has_what_its_method_was_given() -> None:
    query, ping = ping_query()
    hosts = query.table("hosts", HOSTS, key="host, site", file="hosts.csv")
    query.output("out", ping.lookup(hosts, on="target = host", name="box"))
    assert query.checked().box("box") == Lookup(name="box", input=Arrow("ping"), table=hosts, on="target = host")
    assert hosts.key == ("host", "site")
