"""The databases that a table writer knows: SQLite, DuckDB and PostgreSQL.

Each keeps two tables: the one that was asked for, and ``anabranch_progress`` with how far its writer has come, which
changes in the same transaction. Rows reach DuckDB and PostgreSQL as Arrow, and SQLite by one prepared statement. What
may pass (a server that is away, a file that is locked) is an OSError, and is tried again; what will not (a table of
another shape, a value that the database cannot hold) is a StateError.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from anabranch.errors import ConfigError, StateError
from anabranch.query.connectors import TableWriter, without_password

PROGRESS: Final = "anabranch_progress"
_INCOMING: Final = "anabranch_incoming"
"""What rows are called on their way into DuckDB and PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The last tuple that the table has, by its place in the log of this incarnation."""

    incarnation: str
    last_id: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A table: its columns, those of its key, and those by which a row is newer than another."""

    table: str
    fields: pa.Schema
    key: tuple[str, ...]
    version: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        return list(self.fields.names)


def database(writer: TableWriter, layout: Layout) -> Database:
    match writer.engine:
        case "sqlite":
            return Sqlite(writer.database, layout)
        case "duckdb":
            return DuckDb(writer.database, layout)
        case _:
            return Postgres(writer.database, layout)


class Database(ABC):
    """One table and the progress of its writer. Not thread-safe."""

    def __init__(self, url: str, layout: Layout) -> None:
        self._url: Final = url
        self._layout: Final = layout

    @abstractmethod
    def open(self) -> None:
        """Connect, and make both tables if they are not there."""

    @abstractmethod
    def progress(self) -> Progress | None: ...

    @abstractmethod
    def upsert(self, tuples: pa.Table, progress: Progress) -> None:
        """All tuples and the progress, or nothing. Returns when they are durable."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _type(self, type_: pa.DataType) -> str:
        """What the database calls a type."""

    # --- SQL that all of them take -----------------------------------------------------------------------------------

    def _name(self) -> str:
        return ".".join(_quoted(part) for part in self._layout.table.split("."))

    def _create(self) -> str:
        fields = [f"{_quoted(field.name)} {self._type(field.type)}" for field in self._layout.fields]
        keys = ", ".join(map(_quoted, self._layout.key))
        return f"CREATE TABLE IF NOT EXISTS {self._name()} ({', '.join(fields)}, PRIMARY KEY ({keys}))"

    def _create_progress(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {PROGRESS} "
            "(target VARCHAR(500) PRIMARY KEY, incarnation VARCHAR(500) NOT NULL, last_id BIGINT NOT NULL)"
        )

    def _insert(self, rows: str) -> str:
        """Rows, each where its key is new or its version larger than what is there."""
        names = ", ".join(map(_quoted, self._layout.columns))
        keys = ", ".join(map(_quoted, self._layout.key))
        others = [name for name in self._layout.columns if name not in self._layout.key]
        if not others or self._layout.key == self._layout.version:
            return f"INSERT INTO {self._name()} AS old ({names}) {rows} ON CONFLICT ({keys}) DO NOTHING"
        taken = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in others)
        new, old = (", ".join(f"{of}.{_quoted(name)}" for name in self._layout.version) for of in ("excluded", "old"))
        return (
            f"INSERT INTO {self._name()} AS old ({names}) {rows} "
            f"ON CONFLICT ({keys}) DO UPDATE SET {taken} WHERE ({new}) > ({old})"
        )

    def _newest(self) -> str:
        """Of the rows on their way in, the newest of each key: a statement may not change one row twice."""
        names = ", ".join(map(_quoted, self._layout.columns))
        keys = ", ".join(map(_quoted, self._layout.key))
        newest = ", ".join(f"{_quoted(name)} DESC" for name in self._layout.version)
        return f"SELECT DISTINCT ON ({keys}) {names} FROM {_INCOMING} ORDER BY {keys}, {newest}"

    def _insert_progress(self, mark: str) -> str:
        return (
            f"INSERT INTO {PROGRESS} (target, incarnation, last_id) VALUES ({mark.format(1)}, {mark.format(2)}, "
            f"{mark.format(3)}) ON CONFLICT (target) DO UPDATE SET incarnation = excluded.incarnation, "
            "last_id = excluded.last_id"
        )

    def _select_progress(self, mark: str) -> str:
        return f"SELECT incarnation, last_id FROM {PROGRESS} WHERE target = {mark.format(1)}"

    def _progress_of(self, rows: list[Any]) -> Progress | None:
        """Of all rows that were found: a result that is not read to its end keeps DuckDB from going on."""
        return Progress(str(rows[0][0]), int(rows[0][1])) if rows else None

    def _check_columns(self, found: list[str]) -> None:
        missing = [name for name in self._layout.columns if name.lower() not in {each.lower() for each in found}]
        if missing:
            raise StateError(
                f"The table {self._layout.table} of {self._shown()} has no column {', '.join(missing)}.",
                remedy="Give another table; this one was not touched.",
            )

    def _shown(self) -> str:
        return without_password(self._url)


class Sqlite(Database):
    """A file of SQLite, in WAL mode: whoever reads it does not wait for the writer."""

    _connection: sqlite3.Connection | None = None

    def open(self) -> None:
        path = Path(self._url.removeprefix("sqlite:"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._failing():
            connection = self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(self._create())
            connection.execute(self._create_progress())
            found = connection.execute(f"SELECT * FROM {self._name()} LIMIT 0").description
        self._check_columns([column[0] for column in found])

    def progress(self) -> Progress | None:
        with self._failing():
            found = self._open().execute(self._select_progress("?"), [self._layout.table])
            return self._progress_of(found.fetchall())

    def upsert(self, tuples: pa.Table, progress: Progress) -> None:
        marks = ", ".join("?" * len(self._layout.columns))
        columns = [_for_sqlite(column) for column in tuples.columns]
        with self._failing(), self._transaction() as connection:
            connection.executemany(self._insert(f"VALUES ({marks})"), zip(*columns, strict=True))
            target = [self._layout.table, progress.incarnation, progress.last_id]
            connection.execute(self._insert_progress("?"), target)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _type(self, type_: pa.DataType) -> str:
        if pt.is_boolean(type_) or pt.is_integer(type_):
            return "INTEGER"
        if pt.is_floating(type_):
            return "REAL"
        return "BLOB" if pt.is_binary(type_) else "TEXT"

    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(in_one_line(error)) from error
        except sqlite3.Error as error:
            raise _permanent(self._shown(), error) from error


class DuckDb(Database):
    """A file of DuckDB, which only one process may have open."""

    _connection: Any = None

    def open(self) -> None:
        duckdb = module("duckdb", "duckdb")
        path = Path(self._url.removeprefix("duckdb:"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._failing():
            self._connection = duckdb.connect(str(path))
            self._connection.execute("SET TimeZone = 'UTC'")
            self._connection.execute(self._create())
            self._connection.execute(self._create_progress())
            found = self._connection.execute(f"SELECT * FROM {self._name()} LIMIT 0").description
        self._check_columns([column[0] for column in found])

    def progress(self) -> Progress | None:
        with self._failing():
            found = self._connection.execute(self._select_progress("${}"), [self._layout.table])
            return self._progress_of(found.fetchall())

    def upsert(self, tuples: pa.Table, progress: Progress) -> None:
        with self._failing():
            connection = self._connection
            connection.register(_INCOMING, tuples)
            connection.execute("BEGIN")
            try:
                connection.execute(self._insert(self._newest()))
                target = [self._layout.table, progress.incarnation, progress.last_id]
                connection.execute(self._insert_progress("${}"), target)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            finally:
                connection.unregister(_INCOMING)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _type(self, type_: pa.DataType) -> str:
        return _DUCKDB_TYPES.get(str(type_)) or f"DECIMAL({type_.precision}, {type_.scale})"

    @contextmanager
    def _failing(self) -> Iterator[None]:
        duckdb = module("duckdb", "duckdb")
        try:
            yield
        except (duckdb.IOException, duckdb.TransactionException, duckdb.OutOfMemoryException) as error:
            raise OSError(in_one_line(error)) from error
        except duckdb.Error as error:
            raise _permanent(self._shown(), error) from error


class Postgres(Database):
    """A database of PostgreSQL, over ADBC: rows are copied into a temporary table as Arrow, and taken from there."""

    _connection: Any = None

    def open(self) -> None:
        dbapi = module("adbc_driver_postgresql.dbapi", "postgres")
        with self._failing():
            self._connection = dbapi.connect(self._url)
            with self._connection.cursor() as cursor:
                cursor.execute("SET synchronous_commit TO on")  # the log forgets what is acknowledged
                cursor.execute("SET client_min_messages TO warning")
                cursor.execute(self._create())
                cursor.execute(self._create_progress())
                cursor.execute(f"SELECT * FROM {self._name()} LIMIT 0")
                found = [column[0] for column in cursor.description]
            self._connection.commit()
        self._check_columns(found)

    def progress(self) -> Progress | None:
        with self._failing(), self._connection.cursor() as cursor:
            cursor.execute(self._select_progress("${}"), [self._layout.table])
            found = self._progress_of(cursor.fetchall())
            self._connection.rollback()
            return found

    def upsert(self, tuples: pa.Table, progress: Progress) -> None:
        with self._failing():
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(_INCOMING, tuples, mode="create", temporary=True)
                cursor.execute(self._insert(self._newest()))
                cursor.execute(f"DROP TABLE {_INCOMING}")
                target = [self._layout.table, progress.incarnation, progress.last_id]
                cursor.execute(self._insert_progress("${}"), target)
            self._connection.commit()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._failing(quietly=True):
                connection.close()

    def _type(self, type_: pa.DataType) -> str:
        return _POSTGRES_TYPES.get(str(type_)) or f"NUMERIC({type_.precision}, {type_.scale})"

    @contextmanager
    def _failing(self, *, quietly: bool = False) -> Iterator[None]:
        manager = module("adbc_driver_manager", "postgres")
        permanent = (manager.ProgrammingError, manager.DataError, manager.IntegrityError, manager.NotSupportedError)
        try:
            yield
        except manager.Error as error:
            if quietly:
                return
            if isinstance(error, permanent):
                raise _permanent(self._shown(), error) from error
            raise OSError(in_one_line(error)) from error


_DUCKDB_TYPES: Final = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}
_POSTGRES_TYPES: Final = {
    "bool": "BOOLEAN",
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "string": 'TEXT COLLATE "C"',  # origins are ordered by their bytes, as everywhere
    "binary": "BYTEA",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP WITH TIME ZONE",
}


def _for_sqlite(column: pa.ChunkedArray) -> list[Any]:
    """Values as SQLite holds them: times as text in UTC, which sorts as they do, and decimals as text."""
    type_ = column.type
    if pt.is_timestamp(type_):
        column = column.cast(pa.timestamp("us")).cast(pa.string())
    elif pt.is_date(type_) or pt.is_decimal(type_):
        column = column.cast(pa.string())
    values: list[Any] = column.to_pylist()
    return values


def _permanent(place: str, error: Exception) -> StateError:
    return StateError(
        f"{place} rejects the tuples: {in_one_line(error)}.", remedy="Correct the table or the query, and start again."
    )


def in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")


def module(name: str, extra: str) -> Any:
    """A module that is needed for one database only."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"The package for this database is not installed: {error.name}.",
            remedy=f"pip install 'anabranch[{extra}]'.",
        ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
