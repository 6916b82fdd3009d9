"""Static tables: read whole from a file or a database, checked, and known by a digest of what is in them.

The digest is that of the names and types of the columns and of the rows in the order of their key, which no two of them
share: so it does not depend on the order of rows, on the format of a file, on how it is cut, or on where it lies. Nodes
whose tables have the same digest compute the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from anabranch import limits
from anabranch.columns import arrow_schema, spark_type
from anabranch.connectors.database_queries import query_database
from anabranch.errors import ConfigError, PushRefused
from anabranch.query.boxes import Table
from anabranch.query.connectors import is_database, without_password
from anabranch.query.problems import candidates
from anabranch.query.table_checks import TABLE_FILES
from anabranch.transport import rows as text_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTable:
    """A table as it was read: its rows, in the order of their key, and the digest of them."""

    name: str
    rows: pa.Table
    digest: str


def load_table(table: Table, directory: Path, place: str | None = None) -> StaticTable:
    """The rows of a table; ConfigError, if they are not there or not as they should be.

    ``directory`` is what relative paths begin at. ``place`` is another file or database than the query names.
    """
    if place is not None and is_database(place) != (table.sql is not None):
        raise ConfigError(
            f"The table {table.name!r} is {_kind(table)} in the query, but {place!r} is not.",
            remedy="Give a file for a file, and a database for a database.",
        )
    schema = arrow_schema((column.name, column.type or "") for column in table.schema)
    where = _where(table, directory, place)
    try:
        rows = _gathered(table, where, _batches(table, schema, directory, place), schema)
    except PushRefused as error:
        raise ConfigError(
            f"{where}: {_of_a_table(error.message)}", remedy=_of_a_table(error.remedy) or "Correct it."
        ) from error
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{where} cannot be read: {reason}.", remedy="Check the path and the file.") from error
    ordered = _by_key(table, where, rows)
    return StaticTable(name=table.name, rows=ordered, digest=digest(ordered))


def digest(rows: pa.Table) -> str:
    """Of rows that are in the order of their key."""
    found = hashlib.sha256()
    for field, column in zip(rows.schema, rows.columns, strict=True):
        found.update(f"{field.name} {spark_type(field.type)}\n".encode())
        for buffer in _plain(pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], field.type)):
            found.update(len(buffer).to_bytes(8, "big"))
            found.update(buffer)
    return found.hexdigest()


# --- reading -------------------------------------------------------------------------------------------------------


def _batches(table: Table, schema: pa.Schema, directory: Path, place: str | None) -> Iterator[pa.RecordBatch]:
    if table.rows is not None and place is None:
        dicts = [dict(zip(schema.names, row, strict=True)) for row in table.rows]
        return iter(text_rows.to_batches(dicts, schema))
    if table.sql is not None:
        return query_database(_database(table, directory, place), table.sql, schema)
    path = directory / (place or table.file or "")
    suffix = path.suffix.lower()
    if suffix not in TABLE_FILES:
        raise ConfigError(
            f"Cannot tell the row format from the name of {path}, a table.", remedy=candidates("", TABLE_FILES)
        )
    return _csv(path, schema) if suffix == ".csv" else _parquet(path, schema)


def _csv(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    names: list[str] | None = None
    first = 0
    with path.open("rb") as file:
        for chunk in text_rows.whole_rows(file, quoted=True):
            if names is None:
                names, chunk = text_rows.csv_header(chunk)
            batch = text_rows.from_csv(chunk, schema, names=names, first_row=first)
            yield batch
            first += batch.num_rows
    if names is None:
        raise PushRefused("It has no header.", remedy=f"Write the names of the columns: {','.join(schema.names)}.")


def _parquet(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    first = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=limits.SEGMENT_ROWS):
            yield text_rows.conform(batch, schema, first_row=first)
            first += batch.num_rows


def _gathered(table: Table, where: str, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """All rows, if they are no more than a table may have."""
    found: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > limits.TABLE_ROWS or size > limits.TABLE_BYTES:
            raise ConfigError(
                f"{where} has more than {limits.TABLE_ROWS:,} rows or {limits.TABLE_BYTES >> 20} MiB.",
                remedy="Leave out rows and columns that the query does not need, or send the rows as a source and use "
                "`latest`.",
            )
        found.append(batch)
    return pa.Table.from_batches(found, schema)


# --- key and digest ------------------------------------------------------------------------------------------------


def _by_key(table: Table, where: str, rows: pa.Table) -> pa.Table:
    """The rows in the order of their key; ConfigError, if it does not tell them apart."""
    spelled = {name.lower(): name for name in rows.column_names}
    key = [spelled[name.lower()] for name in table.key]
    for name in key:
        if rows.column(name).null_count:
            row = pc.index(pc.is_null(rows.column(name)), True).as_py()
            message = f"{where}: row {row + 1} has NULL in {name!r}, a column of its key."
            raise ConfigError(message, remedy="Correct the row, or name other columns as the key.")
    ordered = rows.sort_by([(name, "ascending") for name in key])
    for row in _repeated(ordered, key):
        shown = ", ".join(f"{name} = {ordered.column(name)[row].as_py()!r}" for name in key)
        message = f"{where}: two rows have the key {shown}."
        raise ConfigError(message, remedy="Remove one of them, or name more columns as the key.")
    return ordered


def _repeated(ordered: pa.Table, key: list[str]) -> Iterator[int]:
    """The first row whose key the next one has, too."""
    if ordered.num_rows < 2:
        return
    same = None
    for name in key:
        column = ordered.column(name).combine_chunks()
        equal = pc.equal(column.slice(0, len(column) - 1), column.slice(1))
        same = equal if same is None else pc.and_(same, equal)
    row = pc.index(same, True).as_py()
    if row >= 0:
        yield row


def _plain(column: pa.Array) -> Iterator[bytes]:
    """The contents of a column as bytes that are the same however Arrow holds them."""
    yield pc.is_valid(column).cast(pa.uint8()).to_numpy(zero_copy_only=False).tobytes()
    if pt.is_string(column.type) or pt.is_binary(column.type):
        texts = pc.fill_null(column.cast(pa.binary()), b"")
        yield pc.binary_length(texts).to_numpy(zero_copy_only=False).tobytes()
        yield b"".join(texts.to_pylist())
    elif pt.is_decimal(column.type):
        yield b",".join(str(value).encode() for value in column.to_pylist())
    else:
        if pt.is_floating(column.type):  # every NaN is the same one
            column = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
        whole = {"timestamp": pa.int64(), "date": pa.int32(), "boolean": pa.uint8()}.get(spark_type(column.type))
        column = column if whole is None else column.cast(whole)
        yield pc.fill_null(column, 0).to_numpy(zero_copy_only=False).tobytes()


# --- words ---------------------------------------------------------------------------------------------------------


def _database(table: Table, directory: Path, place: str | None) -> str:
    """The address of a database; a relative path in it begins at the directory."""
    url = place or table.database or ""
    engine, _, path = url.partition(":")
    return url if engine not in ("sqlite", "duckdb") else f"{engine}:{directory / path}"


def _where(table: Table, directory: Path, place: str | None) -> str:
    if table.rows is not None and place is None:
        return f"The table {table.name!r}"
    if table.sql is not None:
        return f"The table {table.name!r} ({without_password(_database(table, directory, place))})"
    return f"The table {table.name!r} ({directory / (place or table.file or '')})"


def _kind(table: Table) -> str:
    return "a query to a database" if table.sql is not None else "a file"


def _of_a_table(text: str) -> str:
    """Rows of tables are read as those of sources are, and told as what they are."""
    changed = text.replace("The source", "The table").replace("the source", "the table")
    return changed.replace("push again", "start again")
