"""What a node asks of a writer: where it has come to, and to make tuples durable.

A batch has the columns ``_id``, ``_tid``, ``_stime``, ``_origin`` and the data; ids are without holes. A writer finds
its place in what it has written, so a crash between its last sync and the acknowledgement costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from anabranch.model.header import ID, ORIGIN, STIME, TID

WRITTEN_HEADER = (
    pa.field(ID, pa.int64()),
    pa.field(TID, pa.int64()),
    pa.field(STIME, pa.timestamp("us", tz="UTC")),
    pa.field(ORIGIN, pa.string()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a writer has written so far: the last id (0 for nothing), and how to tell whether it was this stream.

    ``identity`` is (_tid, _stime in microseconds, _origin) of that last tuple; ``incarnation`` that of the log.
    """

    last_id: int = 0
    identity: tuple[int, int, str] | None = None
    incarnation: str | None = None


class TupleWriter(Protocol):
    """Tuples to one place. Not thread-safe. Errors of files are ``OSError``: trying again may help."""

    rows: int
    """Tuples that one call of ``write`` gets at most."""
    every_us: int
    """How long tuples may wait for others to be written with."""
    durable: bool
    """Whether what is written stays, so that the log may forget it."""

    def recover(self) -> Found:
        """Repair what a crash may have left, and say how far it goes. Called before the first write."""
        ...

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Returns when the tuples are durable."""
        ...

    def close(self) -> None: ...


def written_schema(data: pa.Schema) -> pa.Schema:
    return pa.schema([*WRITTEN_HEADER, *data])
