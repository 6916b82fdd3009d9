"""Tables of real databases: each key has its newest tuple, however often and in whatever order tuples come."""

from __future__ import annotations

import random
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.columns import arrow_schema
from anabranch.connectors import databases
from anabranch.connectors.table_writer import KeyedTable
from anabranch.connectors.writer import Found, written_schema
from anabranch.errors import StateError
from anabranch.node.writing import WriterRunner, tuple_writer
from anabranch.query.connectors import TableWriter, writer_key
from anabranch.query.specs import writer_from
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from tests import postgres

SCHEMA = arrow_schema([("k", "string"), ("x", "bigint")])
ENGINES = ("sqlite", "duckdb", "postgresql")
Read = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.server() as server:
        yield server


class Place:
    """A database, and how a test looks into it."""

    def __init__(self, engine: str, path: Path, server: postgres.Server | None) -> None:
        self.url = f"{engine}:{path / 'tables.db'}" if server is None else server.url
        self._engine = engine
        self._path = path / "tables.db"
        self._server = server
        if server is not None:
            with postgres.dbapi.connect(server.url) as connection, connection.cursor() as cursor:
                cursor.execute("DROP SCHEMA public CASCADE")
                cursor.execute("CREATE SCHEMA public")
                connection.commit()

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        if self._server is not None:
            return [tuple(row) for row in self._server.rows(sql)]
        if self._engine == "duckdb":
            with duckdb.connect(str(self._path)) as connection:
                return connection.execute(sql).fetchall()
        with closing(sqlite3.connect(self._path)) as opened:
            return opened.execute(sql).fetchall()


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    engine: str = request.param
    return Place(engine, tmp_path, request.getfixturevalue("server") if engine == "postgresql" else None)


def table(place: Place, key: str | None = "k", schema: pa.Schema = SCHEMA, name: str = "latest") -> KeyedTable:
    spec = ab.writers.table(place.url, name, key=key)
    assert isinstance(spec, TableWriter)
    return KeyedTable(spec, schema=written_schema(schema), incarnation="i1")


Row = tuple[int, int, str, str | None, int]
"""Id, microseconds, origin, key and value; the id is the tid, too."""


def batch(*rows: Row) -> Iterator[pa.RecordBatch]:
    columns = list(zip(*rows, strict=True))
    arrays = [
        pa.array(columns[0], pa.int64()),
        pa.array(columns[0], pa.int64()),
        pa.array(columns[1], pa.timestamp("us", "UTC")),
        pa.array(columns[2], pa.string()),
        pa.array(columns[3], pa.string()),
        pa.array(columns[4], pa.int64()),
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=written_schema(SCHEMA))


LATEST = "SELECT k, x FROM latest ORDER BY k"


def test_each_key_has_its_newest_tuple(place: Place) -> None:
    writer = table(place)
    assert writer.recover() == Found()
    writer.write(batch((1, 10, "s/a", "a", 1), (2, 20, "s/a", "b", 2), (3, 30, "s/a", "a", 3), (4, 15, "s/a", "a", 4)))
    writer.write(batch((5, 25, "s/a", "a", 5), (6, 40, "s/a", "b", 6)))
    writer.close()
    assert place.read(LATEST) == [("a", 3), ("b", 6)]


def test_equal_times_are_ordered_by_origin_and_then_by_number(place: Place) -> None:
    writer = table(place)
    writer.recover()
    writer.write(batch((1, 10, "s/b", "a", 1), (2, 10, "s/B", "a", 2), (3, 10, "s/a", "b", 3)))
    writer.write(batch((4, 10, "s/a", "a", 4), (5, 10, "s/a", "b", 5)))
    writer.close()
    assert place.read(LATEST) == [("a", 1), ("b", 5)], "B is before a is before b"


@pytest.mark.parametrize("seed", range(5))
def test_neither_order_nor_repetition_changes_what_is_there(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    rows = [(n, chance.randrange(1, 30), chance.choice("ab"), chance.choice("kl"), n) for n in range(1, 60)]
    newest = {key: max((us, origin, n) for n, us, origin, k, _ in rows if k == key)[2] for key in "kl"}
    writer = table(place)
    writer.recover()
    for _ in range(3):
        chance.shuffle(rows)
        for first in range(0, len(rows), 20):
            writer.write(batch(*rows[first : first + 20]))
    writer.close()
    assert place.read(LATEST) == sorted(newest.items())


def test_without_a_key_every_tuple_is_a_row_once(place: Place) -> None:
    writer = table(place, key=None)
    writer.recover()
    for _ in range(2):
        writer.write(batch((1, 10, "s/a", "a", 1), (2, 10, "s/a", "a", 1)))
    writer.close()
    assert place.read(LATEST) == [("a", 1), ("a", 1)]


def test_it_goes_on_where_the_database_is(place: Place) -> None:
    writer = table(place)
    writer.recover()
    writer.write(batch((1, 10, "s/a", "a", 1), (2, 20, "s/a", "b", 2)))
    writer.close()
    writer = table(place)
    assert writer.recover() == Found(last_id=2, incarnation="i1")
    writer.write(batch((3, 30, "s/a", "a", 3)))
    writer.close()
    assert place.read(LATEST) == [("a", 3), ("b", 2)]


def test_rows_and_progress_are_one_transaction(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = table(place)
    writer.recover()
    writer.write(batch((1, 10, "s/a", "a", 1)))
    monkeypatch.setattr(databases.Database, "_insert_progress", lambda self, mark: "INSERT INTO nowhere VALUES (1)")
    with pytest.raises((StateError, OSError)):
        writer.write(batch((2, 20, "s/a", "a", 2)))
    monkeypatch.undo()
    assert writer.recover() == Found(last_id=1, incarnation="i1")
    writer.close()
    assert place.read(LATEST) == [("a", 1)]


def test_a_key_that_is_null_is_told_with_its_tuple(place: Place) -> None:
    writer = table(place)
    writer.recover()
    with pytest.raises(StateError, match=r"'k' is part of the key, and is NULL in tuple 2. Filter") as caught:
        writer.write(batch((1, 10, "s/a", "a", 1), (2, 20, "s/a", None, 2)))
    assert "coalesce(k" in caught.value.remedy
    writer.close()


def test_a_table_of_another_shape_is_refused_and_not_touched(place: Place) -> None:
    other = table(place, schema=arrow_schema([("k", "string")]))
    other.recover()
    other.close()
    writer = table(place)
    with pytest.raises(StateError, match="has no column x"):
        writer.recover()
    writer.close()
    assert place.read("SELECT count(*) FROM latest") == [(0,)]


def test_two_tables_of_one_database_are_apart(place: Place) -> None:
    for name in ("latest", "other"):
        writer = table(place, name=name)
        assert writer.recover() == Found()
        writer.write(batch((1, 10, "s/a", name, 1)))
        writer.close()
    assert place.read(LATEST) == [("latest", 1)]
    assert place.read("SELECT k FROM other") == [("other",)]


ALL_TYPES = {
    "b": ("boolean", True),
    "i1": ("tinyint", -128),
    "i2": ("smallint", 32767),
    "i4": ("int", 2**31 - 1),
    "i8": ("bigint", -(2**63)),
    "f4": ("float", 0.5),
    "f8": ("double", 0.1),
    "s": ("string", "grün 'x'"),
    "x": ("binary", b"\x00\xff"),
    "d": ("date", date(2026, 2, 28)),
    "t": ("timestamp", datetime(2026, 2, 28, 1, 2, 3, 4, tzinfo=UTC)),
    "m": ("decimal(20,2)", Decimal("123456789012345678.90")),
    "dateTime": ("int", 7),
}
IN_SQLITE = {"d": "2026-02-28", "t": "2026-02-28 01:02:03.000004", "m": "123456789012345678.90", "b": 1}


def test_every_type_is_kept(place: Place) -> None:
    schema = arrow_schema([(name, type_) for name, (type_, _) in ALL_TYPES.items()])
    writer = table(place, key="s, i4", schema=schema)
    writer.recover()
    header = [pa.array([1, 2]), pa.array([1, 2]), pa.array([10, 20], pa.timestamp("us", "UTC")), pa.array(["o", "o"])]
    data = [
        pa.array([value, None if name not in ("s", "i4") else f"{value}2" if name == "s" else 1], field.type)
        for (name, (_, value)), field in zip(ALL_TYPES.items(), schema, strict=True)
    ]
    writer.write(iter([pa.RecordBatch.from_arrays([*header, *data], schema=written_schema(schema))]))
    writer.close()
    names = ", ".join(f'"{name}"' for name in ALL_TYPES)
    first, second = place.read(f"SELECT {names} FROM latest ORDER BY i4 DESC")
    expected = {name: value for name, (_, value) in ALL_TYPES.items()}
    if place.url.startswith("sqlite"):
        expected |= IN_SQLITE
    found = {name: _plain(value) for name, value in zip(ALL_TYPES, first, strict=True)}
    if place.url.startswith("postgresql"):
        assert place.read("SELECT pg_typeof(m)::text FROM latest LIMIT 1") == [("numeric",)]
        found["m"] = Decimal(found["m"])  # ADBC reads it as text
    assert found == expected
    assert [value is None for value in second] == [name not in ("s", "i4") for name in ALL_TYPES]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


# --- on a log ---------------------------------------------------------------------------------------------------------


class Bench:
    """A log of rows that go round some keys, and a writer on it."""

    KEYS = 7

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path)
        spec = LogSpec(name="o", schema=SCHEMA, origins=("s/a",), kind="output", retention_us=1, limit_bytes=1 << 30)
        self.log: Log = self.store.create_log(spec)
        self.stopping = threading.Event()

    def append(self, count: int) -> None:
        numbers = range(self.log.last_id(), self.log.last_id() + count)
        rows = pa.table(
            {
                "_tid": pa.array(numbers, pa.int64()),
                "_stime": pa.array([number + 1 for number in numbers], pa.timestamp("us", "UTC")),
                "_origin": pa.array([0 for _ in numbers], pa.int32()),
                "k": pa.array([f"k{number % self.KEYS}" for number in numbers]),
                "x": pa.array(numbers, pa.int64()),
            }
        )
        with self.store.transaction() as transaction:
            transaction.append("o", rows, {}, now_us=1)

    def runner(self, spec: str) -> WriterRunner:
        writer = writer_from(spec)
        assert writer is not None
        made = tuple_writer(writer, self.store, self.log)
        return WriterRunner("o", writer, made, self.store, self.log, self.stopping)


def test_a_table_of_another_stream_is_refused(place: Place, tmp_path: Path) -> None:
    spec = f"table:{place.url},table=latest,key=k"
    for name in ("one.db", "two.db"):
        bench = Bench(tmp_path / name)
        bench.append(3)
        runner = bench.runner(spec)
        if name == "two.db":
            with pytest.raises(StateError, match="holds tuples of a different stream"):
                runner.open()
        else:
            runner.open()
            while bench.log.rows_after(runner._seq):
                runner._step()
            runner.stop(0)
        bench.store.close()


# --- what it is called ------------------------------------------------------------------------------------------------


def test_a_password_is_not_shown() -> None:
    for url in (
        "postgresql://me:secret@h/db",
        "postgresql://h/db?user=me&password=secret",
        "postgresql://h/db?password=secret&user=me",
    ):
        writer = ab.writers.table(url, "t")
        assert "secret" not in writer_key(writer)
        assert writer_key(writer).endswith(":t")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    spec = ab.writers.table("postgresql://h/db", "t")
    assert isinstance(spec, TableWriter)
    with pytest.raises(ab.ConfigError, match=r"pip install 'anabranch\[postgres\]'"):
        KeyedTable(spec, schema=written_schema(SCHEMA), incarnation="i").recover()


def test_a_key_that_the_output_does_not_have_is_told_with_candidates() -> None:
    query = ab.Query("q")
    to = ab.writers.table("sqlite:x.db", "t", key="host")
    query.output("o", query.source("s", "hosts string, x int"), to=to)
    (problem,) = query.validate()
    assert (problem.code, problem.box, problem.message) == ("unknown-column", "o", "to: there is no column 'host'.")
    assert problem.remedy.startswith("Candidates: hosts")


def test_a_writer_reads_back_as_it_was_written() -> None:
    text = "table:sqlite:out/x.db,table=latest,key=host,port,every=1s"
    writer = writer_from(text)
    assert writer == ab.writers.table("sqlite:out/x.db", "latest", key=["host", "port"], every="1s")
    query = ab.Query("q")
    query.output("o", query.source("s", "host string, port int"), to=text)
    assert ab.Query.from_yaml(query.to_yaml()).checked() == query.checked()
