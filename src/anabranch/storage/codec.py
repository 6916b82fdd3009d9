"""How rows and punctuations become the bytes of a segment, and back.

A segment's body is one Arrow IPC record batch message without its schema, which the log keeps once. Rows that were
encoded elsewhere (an entry of a shared lane) come with what a log must know of them, and are not looked at. It is not
compressed: LZ4 saved 40 % of the disk on numbers and short names, gained nothing in speed, and made small segments,
of which a live stream consists, many times slower to read. A reader gets arrays that point into the bytes that SQLite
returned. Must not know about SQLite, files or sequences.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import PushRefused, check
from anabranch.limits import SEGMENT_BYTES, SEGMENT_ROWS
from anabranch.model.header import ORIGIN, STIME, TID

HEADER_FIELDS = (
    pa.field(TID, pa.int64(), nullable=False),
    pa.field(STIME, pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field(ORIGIN, pa.int32(), nullable=False),
)


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """The body of a segment, whose rows are all of one origin, and what a log must know of them."""

    body: bytes | memoryview | pa.Buffer
    count: int
    origin: str
    lowest_us: int
    highest_us: int


def stored_schema(data: pa.Schema) -> pa.Schema:
    """The columns of a stored batch: header first, data after."""
    return pa.schema([*HEADER_FIELDS, *(data.field(index) for index in range(len(data)))])


def encode_schema(data: pa.Schema) -> bytes:
    return bytes(data.serialize())


def decode_schema(body: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(body))


def encode_rows(rows: pa.RecordBatch) -> pa.Buffer:
    return rows.serialize()


def decode_rows(body: bytes | memoryview | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(body), schema)


def with_header(
    rows: pa.RecordBatch,
    schema: pa.Schema,
    *,
    numbers: npt.NDArray[np.int64],
    stamps: npt.NDArray[np.int64],
    code: int,
) -> pa.RecordBatch:
    """Rows of one origin with their header, as a batch of ``schema``, which is that of stored rows."""
    count = len(numbers)
    values = numbers, np.ascontiguousarray(stamps), np.full(count, code, dtype=np.int32)
    header = [
        pa.Array.from_buffers(field.type, count, [None, pa.py_buffer(each)])
        for field, each in zip(HEADER_FIELDS, values, strict=True)
    ]
    names = schema.names[len(header) :]
    data = rows.columns if rows.schema.names == names else [rows.column(name) for name in names]
    return pa.RecordBatch.from_arrays([*header, *data], schema=schema)


def encoded(rows: pa.RecordBatch, origin: str) -> tuple[EncodedRows, ...]:
    """Rows of one origin, which have the columns of stored ones and a whole header, as the bodies of segments."""
    if not rows.num_rows:
        return ()
    if rows.num_rows <= SEGMENT_ROWS:
        whole = _encoded(rows, origin)
        if len(whole.body) <= SEGMENT_BYTES:
            return (whole,)
    return tuple(_encoded(piece, origin) for piece in _pieces(rows))


def _encoded(rows: pa.RecordBatch, origin: str) -> EncodedRows:
    column = rows.column(1)
    times = np.frombuffer(column.buffers()[1], np.int64, rows.num_rows, 8 * column.offset)  # ``to_numpy`` loads pandas
    if len(times) == 1:
        return EncodedRows(rows.serialize(), 1, origin, int(times[0]), int(times[0]))
    return EncodedRows(rows.serialize(), len(times), origin, int(times.min()), int(times.max()))


def encode_punctuations(punctuations: Mapping[str, int], codes: Mapping[str, int]) -> bytes:
    """Codes first, times after: twelve bytes for each origin that has promised something."""
    count = len(punctuations)
    return struct.pack(f"<{count}i{count}q", *[codes[origin] for origin in punctuations], *punctuations.values())


def decode_punctuations(body: bytes, origins: tuple[str, ...]) -> dict[str, int]:
    count = len(body) // 12
    numbers = struct.unpack(f"<{count}i{count}q", body)
    return {origins[code]: time for code, time in zip(numbers[:count], numbers[count:], strict=True)}


def split(rows: pa.RecordBatch | pa.Table | None, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The batches of an append, each small enough for one segment, with exactly the log's schema."""
    if rows is None or rows.num_rows == 0:
        return []
    batches = rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]
    return [piece for batch in batches for piece in _pieces(_conform(batch, schema))]


def check_rows(rows: pa.RecordBatch, punctuations: Mapping[str, int], origins: tuple[str, ...]) -> None:
    """Header complete, origins known, and no row below what its origin has already promised."""
    for column in rows.columns[: len(HEADER_FIELDS)]:
        check(column.null_count == 0, "A header column of an appended batch holds NULL.")
    codes = rows.column(2).to_numpy()
    times = rows.column(1).cast(pa.int64()).to_numpy()
    check(int(codes.min()) >= 0 and int(codes.max()) < len(origins), "An appended row has an unknown origin code.")
    floors = np.fromiter((punctuations.get(origin, 0) for origin in origins), np.int64, len(origins))
    below = times < floors[codes]
    if below.any():
        row = int(below.argmax())
        origin = origins[int(codes[row])]
        check(False, f"Row {row} of {origin!r} at {times[row]} lies below its punctuation {punctuations[origin]}.")


def check_encoded(rows: EncodedRows, punctuations: Mapping[str, int], codes: Mapping[str, int]) -> None:
    """The same of rows that were encoded elsewhere, as far as they say it."""
    origin = rows.origin
    check(origin in codes, f"Rows of {origin!r} were appended, which is no origin of the log.")
    floor = punctuations.get(origin, 0)
    if rows.lowest_us < floor:
        check(False, f"A row of {origin!r} at {rows.lowest_us} lies below its punctuation {floor}.")


def largest_times(rows: pa.RecordBatch | None, origins: tuple[str, ...]) -> dict[str, int]:
    """The largest stream time of each origin that has a row here."""
    if rows is None:
        return {}
    tops = np.full(len(origins), -1, dtype=np.int64)
    np.maximum.at(tops, rows.column(2).to_numpy(), rows.column(1).cast(pa.int64()).to_numpy())
    return {origin: int(top) for origin, top in zip(origins, tops, strict=True) if top >= 0}


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    check(batch.schema.names == schema.names, f"Columns {batch.schema.names} were appended, not {schema.names}.")
    for field, wanted in zip(batch.schema, schema, strict=True):
        check(field.type == wanted.type, f"Column {field.name!r} was appended as {field.type}, not {wanted.type}.")
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, SEGMENT_ROWS):
        yield from _halves(batch.slice(start, SEGMENT_ROWS), start)


def _halves(batch: pa.RecordBatch, first_row: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= SEGMENT_BYTES:
        yield batch
        return
    if batch.num_rows == 1:
        raise PushRefused(
            f"A row takes {batch.nbytes} bytes; the limit is {SEGMENT_BYTES}.",
            row=first_row,
            remedy="Store large values elsewhere and send a reference to them.",
        )
    middle = batch.num_rows // 2
    yield from _halves(batch.slice(0, middle), first_row)
    yield from _halves(batch.slice(middle), first_row + middle)
