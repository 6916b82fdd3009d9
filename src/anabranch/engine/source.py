"""The Spark data source that reads a journal.

Spark asks for the latest offset and for the rows between two offsets; an offset is the number of a segment, so a batch
that runs again reads exactly the same rows. Every range ends with one control row (a BOUNDARY whose time is the
smallest punctuation at its end), which the compiler turns into Spark's watermark.

Runs in Spark's Python workers: it must be picklable, and clients are kept per process, not per reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from anabranch.model.selection import from_text
from anabranch.transport.client import Client

if TYPE_CHECKING:
    import pyarrow as pa


class JournalSource(DataSource):
    """``spark.readStream.format("anabranch_journal")``."""

    @classmethod
    def name(cls) -> str:
        return "anabranch_journal"

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.options["schema"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return JournalReader(
            address=self.options["address"],
            stream=self.options["stream"],
            stage=self.options["stage"],
            scan=int(self.options["scan"]),
            max_rows=int(self.options["max_rows"]),
            partitions=int(self.options["partitions"]),
            columns=schema.names,
            rows=self.options["rows"],
        )


class Range(InputPartition):
    """The segments ``(after, to]`` of one journal."""

    def __init__(self, after: int, to: int) -> None:
        self.after = after
        self.to = to


class JournalReader(DataSourceStreamReader):
    """One scan of a journal. An offset names its stream, because Spark's checkpoint only lists offsets by position."""

    def __init__(
        self,
        *,
        address: str,
        stream: str,
        stage: str,
        scan: int,
        max_rows: int,
        partitions: int,
        columns: Sequence[str],
        rows: str,
    ) -> None:
        self._address = address
        self._stream = stream
        self._stage = stage
        self._scan = scan
        self._max_rows = max_rows
        self._partitions = partitions
        self._columns = tuple(columns)
        self._rows = rows

    def initialOffset(self) -> dict[str, Any]:
        return self._offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._max_rows
        client = client_of(self._address)
        return self._offset(client.journal_latest(self._stream, self._stage, self._scan, start["seq"], rows))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """At most ``partitions`` ranges of about equal length."""
        after, to = start["seq"], end["seq"]
        count = min(self._partitions, to - after)
        cuts = [after + (to - after) * index // count for index in range(count + 1)] if count else []
        return [Range(low, high) for low, high in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        client = client_of(self._address)
        span = partition.after, partition.to
        yield from client.journal_read(self._stream, *span, self._columns, from_text(self._rows))

    def _offset(self, seq: int) -> dict[str, Any]:
        return {"stream": self._stream, "seq": seq}  # Spark compares offsets as text: the order of keys matters


@cache
def client_of(address: str) -> Client:
    """The one client of this worker process for a node."""
    return Client(address)
