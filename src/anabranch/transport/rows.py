"""What people have in their hands (tables, data frames, dicts, JSON lines, CSV) into batches of a source's schema.

Vectorised; single rows are looked at only to say which one is wrong. An error carries the row, counted over the whole
input, and says what is wrong with it; nothing is guessed or dropped. An object may leave columns out, which are NULL
then; what it has must be known. A table or CSV file has all columns.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from numbers import Real
from typing import Any, BinaryIO, Final, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.types as pt

from anabranch import limits
from anabranch.errors import PushRefused
from anabranch.model.header import STIME
from anabranch.transport import casting
from anabranch.transport.wire import TIMESTAMP

Format = Literal["json", "csv"]
Rows = Any
"""A pa.Table or RecordBatch, a pandas DataFrame, anything with the Arrow C stream (Polars, DuckDB), or dicts."""

PUSH_BYTES: Final = limits.SEGMENT_BYTES // 2
"""Bytes of one push: with the columns that the node adds it is still one segment."""

_LINE: Final = re.compile(rb"[^\n]*[^\s][^\n]*")
"""A line that is not blank."""

CHUNK_BYTES: Final = 4 << 20
"""Text that is converted at once: about 50,000 short rows, one push."""


def split(
    batch: pa.RecordBatch, *, max_rows: int = limits.SEGMENT_ROWS, max_bytes: int = PUSH_BYTES, first_row: int = 0
) -> Iterator[pa.RecordBatch]:
    """The batch in pieces that each fit. A single row that does not is refused."""
    if batch.num_rows <= max_rows and batch.nbytes <= max_bytes:
        yield batch
        return
    if batch.num_rows == 1:
        raise casting.refused(first_row, f"{batch.nbytes:,} bytes are above the limit of {max_bytes:,}.")
    step = min(max_rows, -(-batch.num_rows // 2)) if batch.nbytes > max_bytes else max_rows
    for start in range(0, batch.num_rows, step):
        piece = batch.slice(start, step)
        yield from split(piece, max_rows=max_rows, max_bytes=max_bytes, first_row=first_row + start)


def conform(batch: pa.RecordBatch, schema: pa.Schema, *, stamped: bool = False, first_row: int = 0) -> pa.RecordBatch:
    """The batch with exactly the columns of ``schema``, after ``_stime`` if it has one and ``stamped`` allows it."""
    if stamped and STIME in batch.schema.names:
        schema = schema.insert(0, pa.field(STIME, TIMESTAMP))
    if batch.schema.equals(schema):
        return batch
    casting.check_names(batch.schema.names, schema)
    return _build([casting.convert for _ in schema], [batch.column(name) for name in schema.names], schema, first_row)


def from_database(batch: pa.RecordBatch, schema: pa.Schema, *, first_row: int = 0) -> pa.RecordBatch:
    """What a database answered. It may have text, or numbers for truth, because it has no better type."""
    casting.check_names(batch.schema.names, schema)
    arrays = [_stored(batch.column(name)) for name in schema.names]
    converts = [_read_stored(array, field) for array, field in zip(arrays, schema, strict=True)]
    return _build(converts, arrays, schema, first_row)


def _stored(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column, pa.ExtensionArray) else column  # a NUMERIC of PostgreSQL: its text


def _read_stored(column: pa.Array, field: pa.Field) -> Any:
    if pt.is_boolean(field.type) and pt.is_integer(column.type):
        return lambda values, _, __: values.cast(pa.bool_())
    is_text = pt.is_string(column.type) and not (pt.is_string(field.type) or pt.is_binary(field.type))
    return casting.parse if is_text else casting.convert


def to_batches(rows: Rows, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Rows in any of the accepted forms as batches that each fit into one push."""
    batches: list[pa.RecordBatch] = []
    first_row = 0
    for batch in _arrow_batches(rows, schema):
        whole = conform(batch, schema, first_row=first_row)
        batches += split(whole, first_row=first_row)
        first_row += batch.num_rows
    return [batch for batch in batches if batch.num_rows]


def _arrow_batches(rows: Rows, schema: pa.Schema) -> list[pa.RecordBatch]:
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, pa.Table):
        return list(rows.to_batches())
    if type(rows).__module__.partition(".")[0] == "pandas":
        return list(pa.Table.from_pandas(rows, preserve_index=False).to_batches())
    if hasattr(rows, "__arrow_c_stream__"):
        return list(pa.table(rows).to_batches())
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        return [_from_dicts(rows, schema)]
    raise PushRefused(
        f"Rows of type {type(rows).__name__} cannot be pushed.",
        remedy="Give a pyarrow Table or RecordBatch, a pandas DataFrame, or a list of dicts.",
    )


def _from_dicts(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.RecordBatch:
    names = set(schema.names)
    for number, row in enumerate(rows):
        if not row.keys() <= names:
            _refuse_names(row, schema, number)
    arrays = [_python_values([row.get(field.name) for row in rows], field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _python_values(values: list[object], field: pa.Field) -> pa.Array:
    """Python values as an Arrow array: of the wanted type, or as text that ``convert`` reads."""
    try:
        if (pt.is_timestamp(field.type) or pt.is_date(field.type)) and any(isinstance(value, str) for value in values):
            return pa.array([value if value is None else str(value) for value in values], pa.string())
        array = pa.array(values, field.type)
        if any(_loses(value, field.type) for value in values):
            raise ValueError
        return array
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        row = next(number for number, value in enumerate(values) if not _fits(value, field.type))
        raise casting.refused(row, f"column {field.name!r}: {values[row]!r} is not a {field.type}.") from None


def _fits(value: object, wanted: pa.DataType) -> bool:
    try:
        pa.array([value], wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return not _loses(value, wanted)


def _loses(value: object, wanted: pa.DataType) -> bool:
    """Whether Arrow would cut something off without a word: the fraction of a number, the time of day of a date."""
    if pt.is_date(wanted):
        return isinstance(value, datetime) and value.time() != time()
    whole = pt.is_integer(wanted) or pt.is_timestamp(wanted)
    return whole and isinstance(value, Real | Decimal) and value % 1 != 0


def _refuse_names(row: Mapping[str, object], schema: pa.Schema, number: int) -> None:
    try:
        casting.check_names(row, schema, some=True)
    except PushRefused as error:
        raise casting.refused(number, error.message, error.remedy) from None


def _build(converts: Sequence[Any], arrays: Sequence[pa.Array], schema: pa.Schema, first_row: int) -> pa.RecordBatch:
    """Every column converted. Where several fail, the first row that does is reported."""
    converted, failures = [], []
    for convert, array, field in zip(converts, arrays, schema, strict=True):
        try:
            converted.append(convert(array, field, first_row))
        except PushRefused as error:
            failures.append(error)
    if failures:
        raise casting.earliest(failures)
    return pa.RecordBatch.from_arrays(converted, schema=schema)


# --- text ----------------------------------------------------------------------------------------------------------


def read_text(file: BinaryIO, form: Format, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of a file or pipe, as soon as whole rows of it are there. CSV begins with a line of column names."""
    names: list[str] | None = None
    first_row = 0
    for chunk in whole_rows(file, quoted=form == "csv"):
        if form == "json":
            batch = from_json_lines(chunk, schema, first_row=first_row)
        elif names is None:
            names, chunk = csv_header(chunk)
            batch = from_csv(chunk, schema, names=names, first_row=first_row)
        else:
            batch = from_csv(chunk, schema, names=names, first_row=first_row)
        if batch.num_rows:
            yield from split(batch, first_row=first_row)
        first_row += batch.num_rows


def whole_rows(file: BinaryIO, quoted: bool) -> Iterator[bytes]:
    """Text cut where a row ends: at a newline, for CSV one with an even number of quotes before it."""
    rest = b""
    read = getattr(file, "read1", file.read)  # what a pipe has now, without waiting for more
    while data := read(CHUNK_BYTES):
        rest += data
        end = rest.rfind(b"\n") + 1
        while quoted and end and rest.count(b'"', 0, end) % 2:
            end = rest.rfind(b"\n", 0, end - 1) + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > 2 * PUSH_BYTES:
            raise PushRefused(f"A row is longer than {PUSH_BYTES:,} bytes.", remedy="Check its quotes and line ends.")
    if rest.strip():
        yield rest


def count_rows(data: bytes, form: Format, names: Sequence[str] | None = None) -> int:
    """How many rows a chunk of whole rows has, bad ones included, without converting any."""
    if form == "json":
        return len(_LINE.findall(data))
    bad: list[pyarrow.csv.InvalidRow] = []
    return int(_read_csv(data, names or [], bad).num_rows) + len(bad)


def from_json_lines(data: bytes, schema: pa.Schema, *, first_row: int = 0) -> pa.RecordBatch:
    """One JSON object per line; blank lines do not count. Times and dates are text, binary is base64."""
    lines = [line for line in data.split(b"\n") if line and not line.isspace()]
    table = _parse_json(lines, schema)
    if table is None:
        bad = _first_bad_line(lines, schema)
        from_json_lines(b"\n".join(lines[:bad]), schema, first_row=first_row)  # an earlier row may be bad otherwise
        raise _json_problem(lines[bad], schema, first_row + bad)
    arrays = [column.combine_chunks() for column in table.columns]
    converts = [casting.parse if _as_text(field.type) else casting.convert for field in schema]
    return _build(converts, arrays, schema, first_row)


def _as_text(kind: pa.DataType) -> bool:
    """Types that JSON writes as text, and that we read from it ourselves."""
    return bool(pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_binary(kind))


def _parse_json(lines: Sequence[bytes], schema: pa.Schema) -> pa.Table | None:
    """None if a line is not an object of these columns, or not exactly one."""
    fields = [pa.field(field.name, pa.string() if _as_text(field.type) else field.type) for field in schema]
    if not lines:
        return pa.schema(fields).empty_table()
    text = b"\n".join(lines) + b"\n"
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="error"
            ),
        )
    except (pa.ArrowException, ValueError):
        return None
    return table if table.num_rows == len(lines) else None


def _first_bad_line(lines: Sequence[bytes], schema: pa.Schema) -> int:
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _parse_json(lines[low:middle], schema) is None else (middle, high)
    return low


def _json_problem(line: bytes, schema: pa.Schema, row: int) -> PushRefused:
    try:
        value = json.loads(line)
    except ValueError as error:
        return casting.refused(row, f"it is not JSON: {error}.", "Write one JSON object per line.")
    if not isinstance(value, dict):
        return casting.refused(row, "it is not a JSON object.", "Write one JSON object per line.")
    try:
        casting.check_names(value, schema, some=True)
    except PushRefused as error:
        return casting.refused(row, error.message, error.remedy)
    for field in schema:
        if field.name not in value:
            continue
        one = json.dumps({field.name: value[field.name]}).encode()
        if _parse_json([one], pa.schema([field])) is None:
            wanted = "text" if _as_text(field.type) or pt.is_string(field.type) else f"a {field.type}"
            return casting.refused(row, f"column {field.name!r}: {json.dumps(value[field.name])} is not {wanted}.")
    return casting.refused(row, "a column is given twice.", "Give each column once.")


def csv_header(data: bytes) -> tuple[list[str], bytes]:
    line, _, rest = data.lstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    try:
        line.decode()
    except UnicodeDecodeError:
        raise PushRefused("The header is not UTF-8.", remedy="Write the text as UTF-8.") from None
    table = pyarrow.csv.read_csv(io.BytesIO(line + b"\n"), pyarrow.csv.ReadOptions(use_threads=False))
    return list(table.column_names), rest


def from_csv(
    data: bytes, schema: pa.Schema, *, names: Sequence[str] | None = None, first_row: int = 0
) -> pa.RecordBatch:
    """CSV whose columns are ``names``, or its first line. An empty field is NULL, ``""`` an empty text."""
    if names is None:
        names, data = csv_header(data)
    casting.check_names(names, schema)
    bad: list[pyarrow.csv.InvalidRow] = []
    table = _read_csv(data, names, bad)
    if bad:
        table = table.slice(0, bad[0].number - 1)
    table, not_utf8 = _as_utf8(table, first_row)
    arrays = [table.column(name).combine_chunks() for name in schema.names]
    batch = _build([casting.parse for _ in schema], arrays, schema, first_row)
    if not_utf8 is not None:
        raise not_utf8
    if bad:
        counts = f"it has {bad[0].actual_columns} fields, the header {bad[0].expected_columns}."
        raise casting.refused(first_row + bad[0].number - 1, counts, "Quote fields that contain commas.")
    return batch


def _as_utf8(table: pa.Table, first_row: int) -> tuple[pa.Table, PushRefused | None]:
    """Bytes as text, up to the first row that is not UTF-8, and the refusal of that one."""
    texts = pa.schema([pa.field(name, pa.string()) for name in table.column_names])
    try:
        return table.cast(texts), None
    except pa.ArrowInvalid:
        row, name = min((_first_not_utf8(table.column(name)), name) for name in table.column_names)
        error = casting.refused(first_row + row, f"column {name!r}: it is not UTF-8.", "Write the text as UTF-8.")
        return table.slice(0, row).cast(texts), error


def _first_not_utf8(column: pa.ChunkedArray) -> int:
    for row, value in enumerate(column.to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return row
    return len(column)


def _read_csv(data: bytes, names: Sequence[str], bad: list[pyarrow.csv.InvalidRow]) -> pa.Table:
    """Every field as its bytes; rows with a wrong number of fields are left out and collected."""
    if not data.strip():
        return pa.schema([pa.field(name, pa.binary()) for name in names]).empty_table()

    def collect(row: pyarrow.csv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    return pyarrow.csv.read_csv(
        io.BytesIO(data),
        read_options=pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=collect),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
