"""What a database answers to a query, as Arrow: SQLite, DuckDB and PostgreSQL. Nothing is written to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from anabranch.connectors.databases import in_one_line, module
from anabranch.errors import ConfigError
from anabranch.query.connectors import database_engine, without_password
from anabranch.transport.rows import from_database

FETCH_ROWS: Final = 65_536


def query_database(url: str, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Its rows, in batches with the columns of ``schema``; PushRefused for values that are not of its types."""
    ways = {"sqlite": _sqlite, "duckdb": _duckdb}
    first = 0
    for batch in ways.get(database_engine(url), _postgres)(url, sql):
        yield from_database(batch, schema, first_row=first)
        first += batch.num_rows


def _sqlite(url: str, sql: str) -> Iterator[pa.RecordBatch]:
    path = _existing(url)
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            found = connection.execute(sql)
            names = [column[0] for column in found.description or ()]
            while rows := found.fetchmany(FETCH_ROWS):
                columns = [_array(values) for values in zip(*rows, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=names)
    except (sqlite3.Error, pa.ArrowException) as error:
        raise _refuses(url, error) from error


def _duckdb(url: str, sql: str) -> Iterator[pa.RecordBatch]:
    duckdb = module("duckdb", "duckdb")
    path = _existing(url)
    try:
        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.sql(sql)
            if found is None:
                raise duckdb.Error("it has no rows")
            yield from found.to_arrow_table().to_batches(FETCH_ROWS)
    except duckdb.Error as error:
        raise _refuses(url, error) from error


def _postgres(url: str, sql: str) -> Iterator[pa.RecordBatch]:
    dbapi = module("adbc_driver_postgresql.dbapi", "postgres")
    manager = module("adbc_driver_manager", "postgres")
    try:
        with closing(dbapi.connect(url)) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(sql)
            yield from cursor.fetch_arrow_table().to_batches(FETCH_ROWS)
    except manager.Error as error:
        raise _refuses(url, error) from error


def _existing(url: str) -> Path:
    path = Path(url.partition(":")[2])
    if not path.is_file():
        raise ConfigError(f"{url}: there is no such file.", remedy="Check the path of the database.")
    return path


def _array(values: Sequence[Any]) -> pa.Array:
    """Values of SQLite, which has no types of columns; whole numbers among fractions are fractions."""
    if any(isinstance(value, float) for value in values):
        values = [float(value) if isinstance(value, int) else value for value in values]
    return pa.array(values)


def _refuses(url: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{without_password(url)} rejects the query for a table: {in_one_line(error)}.",
        remedy="Correct the sql or the address of the database.",
    )
