"""A streaming source of Spark as a feed: each micro-batch becomes an Arrow table and goes to a sink.

When the sink returns, the rows are durable and Spark may commit the batch; a batch that was not committed comes again.
The table has the source's columns, after ``_lane`` and ``_number`` where the feed says how a row is identified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from anabranch import limits
from anabranch.columns import spark_type
from anabranch.engine import checkpoint as spark_checkpoint
from anabranch.engine.failures import in_short, refuse_if_gone, root_cause, told_in_short
from anabranch.engine.query import CheckpointedQuery
from anabranch.errors import AnabranchError, ConfigError, EngineError
from anabranch.query.connectors import SparkFeed
from anabranch.query.problems import candidates
from anabranch.query.sql import select_items

LANE: Final = "_lane"
NUMBER: Final = "_number"

FILE_BYTES: Final = 128 << 20
"""Bytes of files in one micro-batch, which passes through the driver; Spark alone would take a thousand files."""

_FILES: Final = frozenset({"csv", "json", "orc", "parquet", "text", "xml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedBatch:
    """One micro-batch. ``offsets`` is Spark's own text of where it ends, to tell it from another of the same number."""

    lineage: str
    batch_id: int
    offsets: str
    rows: pa.Table


Sink = Callable[[FeedBatch], None]


class SparkFeedRun:
    """One streaming source, running or stopped."""

    def __init__(
        self, session: Callable[[], SparkSession], feed: SparkFeed, schema: pa.Schema, checkpoint: Path, *, pool: str
    ) -> None:
        self._session = session
        self._pool = pool
        self._feed = feed
        self._schema = schema
        self._checkpoint = checkpoint
        self._query: CheckpointedQuery | None = None

    def start(self, sink: Sink, taken: int | None) -> None:
        """Starts after batch ``taken``. ConfigError if Spark does not know the source or its columns do not fit.

        While no batch has been taken the checkpoint stays: it holds where a source such as Kafka was begun.
        """
        if taken is not None:
            spark_checkpoint.roll_back(self._checkpoint, taken)
        session = self._session()
        self._query = CheckpointedQuery(session, self._checkpoint, pool=self._pool)
        frame = self._frame(session)
        with told_in_short("start the feed"):
            self._query.start(frame, partial(self._hand_over, sink))

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()

    @property
    def running(self) -> bool:
        return self._query is not None and self._query.running

    @property
    def is_lost(self) -> bool:
        """Whether the Spark in which it was started is gone, and there is another one."""
        return self._query is not None and self._query.session is not self._session()

    def failure(self) -> AnabranchError | None:
        """Why the query ended by itself: what the sink raised, or what Spark says."""
        error = None if self._query is None else self._query.error()
        if error is None or isinstance(error, AnabranchError):
            return error
        return EngineError(f"Spark's source {self._feed.format!r} failed: {in_short(root_cause(error))}")

    def _hand_over(self, sink: Sink, frame: DataFrame, batch_id: int) -> None:
        rows = frame.toArrow()
        spark_checkpoint.make_durable(self._checkpoint)
        sink(
            FeedBatch(
                lineage=spark_checkpoint.lineage(self._checkpoint),
                batch_id=batch_id,
                offsets=_offsets(self._checkpoint, batch_id),
                rows=rows,
            )
        )

    def _frame(self, session: SparkSession) -> DataFrame:
        try:
            return self._selected(self._loaded(session))
        except AnabranchError:
            raise
        except Exception as error:  # py4j and pyspark raise many kinds here
            refuse_if_gone()
            raise ConfigError(
                f"Spark cannot read from {self._feed.format!r} with these options: {in_short(root_cause(error))}",
                remedy="Check format, options, schema and columns; a format may need --conf spark.jars.packages=...",
            ) from error

    def _loaded(self, session: SparkSession) -> DataFrame:
        reader = session.readStream.format(self._feed.format).options(**bounded(self._feed))
        if self._feed.schema is not None:
            reader = reader.schema(self._feed.schema)
        return reader.load()

    def _selected(self, frame: DataFrame) -> DataFrame:
        given = dict(select_items(self._feed.columns, frame.columns)) if self._feed.columns else {}
        names = {name.lower(): F.expr(sql) for name, sql in given.items()}
        if not given:
            names = {name.lower(): F.col(f"`{name}`") for name in frame.columns}
        missing = [field.name for field in self._schema if field.name.lower() not in names]
        if missing:
            raise ConfigError(
                f"Spark's source {self._feed.format!r} has no column {missing[0]!r}.",
                remedy=f"Define it: columns=... AS {missing[0]}. {candidates(missing[0], frame.columns)}",
            )
        columns = [names[f.name.lower()].cast(spark_type(f.type)).alias(f.name) for f in self._schema]
        if self._feed.lane is None or self._feed.number is None:
            return frame.select(*columns)
        lane, number = F.expr(self._feed.lane), F.expr(self._feed.number).cast("bigint")
        if isinstance(frame.select(lane).schema[0].dataType, IntegralType):
            lane = F.concat(F.lit("p"), lane.cast("string"))  # the name of a lane begins with a letter
        return frame.select(lane.cast("string").alias(LANE), number.alias(NUMBER), *columns)


def bounded(feed: SparkFeed) -> Mapping[str, str]:
    """The options of the feed; where Spark would put all that there is into one batch, with a bound."""
    given = dict(feed.options)
    names = {name.lower() for name in given}
    if feed.format == "kafka" and "maxoffsetspertrigger" not in names:
        return {**given, "maxOffsetsPerTrigger": str(limits.BATCH_ROWS // 4)}
    if feed.format in _FILES and not names & {"maxfilespertrigger", "maxbytespertrigger"}:
        return {**given, "maxBytesPerTrigger": str(FILE_BYTES)}
    return given


def _offsets(checkpoint: Path, batch_id: int) -> str:
    """The offsets of a batch as Spark wrote them, without its clock."""
    return "\n".join((checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[2:])
