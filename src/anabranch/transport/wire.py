"""Rows on the wire: the header columns of a stream, and schemas that carry what is answered beside their rows.

``messages`` has what is said beside rows, ``calls`` which calls there are, ``failures`` the errors.
"""

from __future__ import annotations

from typing import Final, TypeVar

import pyarrow as pa

from anabranch.errors import ConfigError
from anabranch.model.header import HEADER, ID, KIND, ORIGIN, STIME, TID
from anabranch.model.position import Position
from anabranch.transport import messages
from anabranch.transport.calls import SnapshotBegins, SnapshotMark
from anabranch.transport.ports import CopyAnswer, PieceAnswer, SnapshotPiece

T = TypeVar("T")

TIMESTAMP: Final = pa.timestamp("us", "UTC")
INCARNATION: Final = b"anabranch.incarnation"  # key in the metadata of a stream's schema

HEADER_FIELDS: Final = (
    pa.field(KIND, pa.int8(), nullable=False),
    pa.field(ID, pa.int64()),
    pa.field(TID, pa.int64()),
    pa.field(STIME, TIMESTAMP, nullable=False),
    pa.field(ORIGIN, pa.string()),
)

COPY: Final = b"anabranch.copy"  # the same, for what a copy answers to a replica
PIECES: Final = b"anabranch.pieces"  # and to a client

SNAPSHOT: Final = b"anabranch.snapshot"  # the same, for the life of the node whose state is sent
SNAPSHOT_SCHEMA: Final = pa.schema([pa.field("bytes", pa.binary(), nullable=False)])


def wire_schema(data: pa.Schema) -> pa.Schema:
    """The schema of a stream with these data columns, as readers get it."""
    return pa.schema([*HEADER_FIELDS, *data])


def data_schema(wire: pa.Schema) -> pa.Schema:
    """The data columns of a stream."""
    return pa.schema([field for field in wire if field.name not in HEADER])


# --- what a schema carries -----------------------------------------------------------------------------------------


def piece_schema(answer: PieceAnswer) -> pa.Schema:
    """The schema of the rows, which carries the answer."""
    return answer.schema.with_metadata({PIECES: messages.encode(answer)})


def piece_answer(schema: pa.Schema) -> PieceAnswer:
    return _carried(schema, PIECES, PieceAnswer)


def copy_schema(answer: CopyAnswer) -> pa.Schema:
    """The schema of the rows, which carries the answer."""
    return answer.schema.with_metadata({COPY: messages.encode(answer)})


def copy_answer(schema: pa.Schema) -> CopyAnswer:
    return _carried(schema, COPY, CopyAnswer)


def snapshot_schema(life: str) -> pa.Schema:
    return SNAPSHOT_SCHEMA.with_metadata({SNAPSHOT: messages.encode(SnapshotBegins(life=life))})


def snapshot_life(schema: pa.Schema) -> str:
    return _carried(schema, SNAPSHOT, SnapshotBegins).life


def _carried(schema: pa.Schema, key: bytes, kind: type[T]) -> T:
    return messages.decode((schema.metadata or {}).get(key, b""), kind)


# --- snapshots -----------------------------------------------------------------------------------------------------


def snapshot_batch(piece: SnapshotPiece) -> tuple[pa.RecordBatch, bytes]:
    batch = pa.record_batch([pa.array([piece.bytes], pa.binary())], schema=SNAPSHOT_SCHEMA)
    return batch, messages.encode(SnapshotMark(path=piece.path, digest=piece.digest))


def snapshot_end(files: int) -> tuple[pa.RecordBatch, bytes]:
    """What comes last."""
    batch = pa.record_batch([pa.array([], pa.binary())], schema=SNAPSHOT_SCHEMA)
    return batch, messages.encode(SnapshotMark(files=files))


# --- positions -----------------------------------------------------------------------------------------------------


def parse_position(value: str) -> Position:
    """``incarnation:id``, where a reader of a stream is."""
    try:
        return Position.parse(value)
    except ValueError:
        raise ConfigError(
            f"{value!r} is not a position.", remedy="Write start, end, or incarnation:id as `status` shows it."
        ) from None
