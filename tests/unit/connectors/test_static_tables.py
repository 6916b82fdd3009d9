"""Static tables: read from files and databases, known by what is in them, refused with what is wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import limits
from anabranch.columns import arrow_schema
from anabranch.connectors.static_tables import StaticTable, digest, load_table
from anabranch.errors import ConfigError
from anabranch.query.boxes import Table
from anabranch.query.schema import parse_schema
from tests import postgres

HOSTS = "host string, site string, racks int"
CSV = "host,site,racks\na,east,1\nb,,2\n"
ALL = (
    "k bigint, b boolean, ti tinyint, si smallint, i int, f float, d double, s string, bin binary, da date, "
    "at timestamp, de decimal(9,2)"
)
ROW: dict[str, Any] = {
    "k": 1,
    "b": True,
    "ti": 1,
    "si": -2,
    "i": 3,
    "f": 0.5,
    "d": 0.1,
    "s": "é",
    "bin": b"\x00\xff",
    "da": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
    "de": Decimal("1.25"),
}
NULLS: dict[str, Any] = {**dict.fromkeys(ROW), "k": 2}


def declared(schema: str = HOSTS, key: tuple[str, ...] = ("host",), **place: Any) -> Table:
    return Table(name="hosts", schema=parse_schema(schema), key=key, **place)


def arrow(schema: str, rows: list[dict[str, Any]]) -> pa.Table:
    types = arrow_schema((column.name, column.type or "") for column in parse_schema(schema))
    return pa.Table.from_pylist(rows, types)


def loaded(path: Path, text: str, **options: Any) -> StaticTable:
    (path / "hosts.csv").write_text(text)
    return load_table(declared(file="hosts.csv", **options), path)


def refusal(path: Path, text: str, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(path, text, **options)
    assert caught.value.remedy
    return str(caught.value)


# --- reading -------------------------------------------------------------------------------------------------------


def test_a_csv_file(tmp_path: Path) -> None:
    found = loaded(tmp_path, CSV)
    assert found.rows.to_pylist() == [
        {"host": "a", "site": "east", "racks": 1},
        {"host": "b", "site": None, "racks": 2},
    ]


def test_every_way_to_read_a_table_has_the_same_digest(tmp_path: Path) -> None:
    rows = [ROW, NULLS]
    table = arrow(ALL, rows)
    pq.write_table(table, tmp_path / "t.parquet")
    with closing(duckdb.connect(str(tmp_path / "t.duckdb"))) as connection:
        connection.register("given", table)
        connection.execute("SET TimeZone = 'UTC'; CREATE TABLE t AS SELECT * FROM given")
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection:
        connection.execute(f"CREATE TABLE t ({', '.join(ROW)})")
        stored = [
            [str(value) if isinstance(value, date | Decimal) else value for value in row.values()] for row in rows
        ]
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(ROW))})", stored)
        connection.commit()
    (tmp_path / "t.csv").write_text(
        ",".join(ROW) + '\n2,,,,,,,,,,,\n1,true,1,-2,3,0.5,0.1,"é",AP8=,2026-01-31,2026-01-31T12:00:00.123456Z,1.25\n'
    )
    places: list[dict[str, Any]] = [
        {"file": "t.parquet"},
        {"file": "t.csv"},
        {"database": "duckdb:t.duckdb", "sql": "SELECT * FROM t"},
        {"database": f"sqlite:{tmp_path / 't.sqlite'}", "sql": "SELECT * FROM t ORDER BY k DESC"},
    ]
    found = [load_table(declared(ALL, ("k",), **place), tmp_path) for place in places]
    assert [each.rows.to_pylist() for each in found] == [rows] * len(places)
    assert len({each.digest for each in found}) == 1


def test_rows_of_the_query_itself(tmp_path: Path) -> None:
    given = declared(rows=(("b", None, 2), ("a", "east", 1)))
    assert load_table(given, tmp_path).digest == loaded(tmp_path, CSV).digest
    assert load_table(declared(rows=()), tmp_path).rows.num_rows == 0


def test_a_node_may_have_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.csv").write_text(CSV)
    found = load_table(declared(file="hosts.csv"), tmp_path / "not there", str(tmp_path / "elsewhere.csv"))
    assert found.rows.num_rows == 2
    with pytest.raises(ConfigError, match=r"is a file in the query, but 'sqlite:x.db' is not"):
        load_table(declared(file="hosts.csv"), tmp_path, "sqlite:x.db")
    with pytest.raises(ConfigError, match=r"is a query to a database in the query, but 'x.csv' is not"):
        load_table(declared(database="sqlite:x.db", sql="SELECT 1"), tmp_path, "x.csv")


# --- the digest ----------------------------------------------------------------------------------------------------


@given(st.permutations(range(6)), st.integers(1, 6))
def test_the_order_and_the_cuts_of_a_file_do_not_matter(order: list[int], size: int) -> None:
    rows = [{**(ROW if n % 2 else NULLS), "k": n} for n in range(6)]
    table = arrow(ALL, [rows[n] for n in order])
    batches = pa.Table.from_batches(table.to_batches(max_chunksize=size))
    assert digest(batches.sort_by("k")) == digest(arrow(ALL, rows))


@pytest.mark.parametrize("column", [name for name in ROW if name != "k"])
def test_every_column_counts(column: str) -> None:
    assert digest(arrow(ALL, [ROW])) != digest(arrow(ALL, [{**ROW, column: None}]))


def test_names_types_and_nulls_count() -> None:
    plain = digest(arrow("a string, b string", [{"a": "x", "b": ""}]))
    assert plain != digest(arrow("a string, b string", [{"a": "x", "b": None}]))
    assert plain != digest(arrow("a string, c string", [{"a": "x", "c": ""}]))
    assert plain != digest(arrow("a string, b string", [{"a": "", "b": "x"}]))
    numbers = [digest(arrow(f"a {type_}", [{"a": 1}])) for type_ in ("int", "bigint", "tinyint", "double")]
    assert len(set(numbers)) == len(numbers)


def test_where_one_text_ends_and_the_next_begins_counts() -> None:
    one, other = ([{"k": 1, "s": a}, {"k": 2, "s": b}] for a, b in (("ab", "c"), ("a", "bc")))
    assert digest(arrow("k int, s string", one)) != digest(arrow("k int, s string", other))


# --- what is refused -----------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_table(declared(file="hosts.csv"), tmp_path)
    assert str(caught.value) == (
        f"The table 'hosts' ({tmp_path}/hosts.csv) cannot be read: No such file or directory. "
        "Check the path and the file."
    )
    (tmp_path / "hosts.parquet").write_text("not Parquet")
    with pytest.raises(ConfigError, match="cannot be read: "):
        load_table(declared(file="hosts.parquet"), tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "It has no header. Write the names of the columns: host,site,racks."),
        ("host,site\na,b\n", "Columns: missing 'racks'. The table has: host, site, racks."),
        (
            "host,site,rack\na,b,1\n",
            "Columns: unknown 'rack'; missing 'racks'. Did you mean 'racks'? The table has: host, site, racks.",
        ),
        ("host,site,racks\na,b,x\n", "Row 1: column 'racks': 'x' is not a int32. Correct the value and start again."),
        ("host,site,racks\na,b\n", "Row 1: it has 2 fields, the header 3. Quote fields that contain commas."),
        (
            "host,site,racks\na,b,1\n,c,2\n",
            "row 2 has NULL in 'host', a column of its key. Correct the row, or name other columns as the key.",
        ),
        (
            "host,site,racks\na,b,1\nz,c,2\na,d,3\n",
            "two rows have the key host = 'a'. Remove one of them, or name more columns as the key.",
        ),
    ],
)
def test_a_file_with_something_wrong_in_it(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path, text) == f"The table 'hosts' ({tmp_path}/hosts.csv): {message}"


def test_a_key_of_two_columns(tmp_path: Path) -> None:
    text = "host,site,racks\na,east,1\na,west,2\n"
    assert loaded(tmp_path, text, key=("SITE", "host")).rows.column("racks").to_pylist() == [1, 2]
    assert "two rows have the key host = 'a', racks = 1." in refusal(
        tmp_path, "host,site,racks\na,x,1\na,y,1\n", key=("host", "racks")
    )


def test_a_table_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TABLE_ROWS", 1)
    assert refusal(tmp_path, CSV) == (
        f"The table 'hosts' ({tmp_path}/hosts.csv) has more than 1 rows or 256 MiB. Leave out rows and columns that "
        "the query does not need, or send the rows as a source and use `latest`."
    )
    monkeypatch.undo()
    monkeypatch.setattr(limits, "TABLE_BYTES", 10)
    assert "has more than 1,000,000 rows or 0 MiB." in refusal(tmp_path, CSV)


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_database_that_refuses(tmp_path: Path, engine: str) -> None:
    def load(sql: str, name: str = "t.db") -> None:
        load_table(declared(database=f"{engine}:{name}", sql=sql), tmp_path)

    connection: Any = {"sqlite": sqlite3, "duckdb": duckdb}[engine].connect(str(tmp_path / "t.db"))
    connection.execute("CREATE TABLE t (host VARCHAR, site VARCHAR, racks INTEGER)")
    connection.commit()
    connection.close()
    with pytest.raises(ConfigError, match=r"there is no such file. Check the path of the database."):
        load("SELECT 1", "no.db")
    with pytest.raises(ConfigError, match=r"rejects the query for a table: .*nothing"):
        load("SELECT * FROM nothing")
    with pytest.raises(ConfigError, match="rejects the query for a table"):
        load("INSERT INTO t VALUES ('a', 'b', 1) RETURNING *")
    with pytest.raises(ConfigError, match="missing 'racks'"):
        load("SELECT host, site FROM (SELECT 'a' AS host, 'b' AS site) AS x")
    load("SELECT * FROM t")


def test_a_query_to_postgresql(tmp_path: Path) -> None:
    types = "bigint, boolean, smallint, smallint, int, real, double precision, text, bytea, date, timestamptz"
    names = [name for name in ROW if name != "de"]
    columns = [f'"{name}" {type_}' for name, type_ in zip(names, types.split(", "), strict=True)]
    values = r"1, true, 1, -2, 3, 0.5, 0.1, 'é', '\x00ff', '2026-01-31', '2026-01-31 12:00:00.123456+00', 1.25"
    with postgres.server() as server:
        with postgres.dbapi.connect(server.url) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE t ({', '.join(columns)}, de numeric(9, 2))")
            cursor.execute(f"INSERT INTO t VALUES ({values})")
            cursor.execute("INSERT INTO t (k) VALUES (2)")
            connection.commit()

        def load(sql: str) -> StaticTable:
            return load_table(declared(ALL, ("k",), database=server.url, sql=sql), tmp_path)

        found = load("SELECT * FROM t ORDER BY k DESC")
        with pytest.raises(ConfigError, match=r"rejects the query for a table: .*nothing"):
            load("SELECT * FROM nothing")
        with pytest.raises(ConfigError, match=r"rejects the query for a table: .*read-only"):
            load("DELETE FROM t RETURNING *")
    assert found.rows.to_pylist() == [ROW, NULLS]
    assert found.digest == digest(arrow(ALL, [ROW, NULLS]))
