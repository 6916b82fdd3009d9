"""Plain Spark, to measure against: a diagram as its author would write it without Anabranch.

Parquet files in, the time column as the watermark, ``foreachBatch`` and ``toArrow`` out, or Parquet files again:
Spark's own file source in the place of inlet and journal, and nothing of ours around it. It runs in the session of the
engine, with the same settings, so that what differs is what Anabranch adds. Knows the few diagrams that a benchmark
needs: one box that Spark has, too, between sources and each output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.columns import arrow_schema
from anabranch.engine.checkpoint import location
from anabranch.engine.query import CheckpointedQuery
from anabranch.errors import ConfigError
from anabranch.model.header import STIME
from anabranch.model.times import MS
from anabranch.query.boxes import Aggregate, Arrow, Dedup, Diagram, Drop, Filter, Join, Map, Session, Source, Union
from anabranch.query.sql import quote, select_items

PlainSink = Callable[[pa.Table], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """Where the milliseconds of one micro-batch went, as Spark tells it."""

    batch_id: int
    rows: int
    parts_ms: Mapping[str, int]

    @property
    def total_ms(self) -> int:
        return self.parts_ms["triggerExecution"]

    @property
    def asking_ms(self) -> int:
        """The question for new rows. A node without news holds it, which is no work."""
        return self.parts_ms.get("latestOffset", 0)


def batch_times(session: SparkSession) -> list[BatchTimes]:
    """The batches with rows of all running queries, as far back as Spark keeps them."""
    return [
        BatchTimes(batch_id=progress.batchId, rows=progress.numInputRows, parts_ms=dict(progress.durationMs))
        for query in session.streams.active
        for progress in query.recentProgress
        if progress.numInputRows > 0 and "addBatch" in progress.durationMs
    ]


class PlainQuery:
    """An output of the diagram as one query of Spark on directories of Parquet files, one for each source.

    ``output`` says which, if there are several.
    """

    def __init__(
        self,
        session: SparkSession,
        diagram: Diagram,
        files: Mapping[str, Path],
        checkpoint: Path,
        *,
        files_per_batch: int,
        output: str | None = None,
    ) -> None:
        self._session = session
        self._diagram = diagram
        self._files = files
        self._files_per_batch = files_per_batch
        self._query = CheckpointedQuery(session, checkpoint, pool="plain")
        self._frame = self._made(output)
        fields = [field for field in self._frame.schema.fields if field.name != STIME]
        self.schema: Final = arrow_schema((field.name, field.dataType.simpleString()) for field in fields)
        """The data columns that come out; ``_stime`` comes before them."""

    def start(self, sink: PlainSink) -> None:
        def hand_over(frame: DataFrame, _: int) -> None:
            sink(frame.toArrow())

        self._query.start(self._frame, hand_over)

    def start_files(self, directory: Path) -> None:
        """Spark's own file sink in the place of ``start``: each batch once, for those who read its list of files."""
        writer = self._frame.writeStream.format("parquet").outputMode("append")
        writer = writer.option("checkpointLocation", location(self._query.checkpoint))
        self._query.handle = writer.start(location(directory))

    def stop(self) -> None:
        self._query.stop()

    def error(self) -> Exception | None:
        return self._query.error()

    def _made(self, output: str | None) -> DataFrame:
        (arrow,) = (each.input for each in self._diagram.outputs if output in (None, each.name))
        box = self._diagram.box(arrow.box)
        match box:
            case Filter():
                source, frame = self._scan(box.input)
                (predicate,) = box.predicates
                return _timed(frame.filter(predicate), source)
            case Drop(predicate=str() as predicate):
                source, frame = self._scan(box.input)
                return _timed(frame.filter(~F.coalesce(F.expr(predicate), F.lit(False))), source)
            case Map():
                source, frame = self._scan(box.input)
                items = select_items(box.columns, frame.columns)
                time = F.col(_time(source)).alias(STIME)
                return frame.select(time, *[F.expr(sql).alias(name) for name, sql in items])
            case Union():
                scans = [self._scan(each) for each in box.inputs]
                return reduce(DataFrame.unionAll, [_timed(frame, source) for source, frame in scans])
            case Dedup():
                source, frame = self._scan(box.input, delay_us=box.horizon_us)
                return _timed(frame.dropDuplicatesWithinWatermark(list(box.by)), source)
            case Aggregate(rows=None) | Session():
                return self._aggregate(box)
            case Join():
                return self._join(box)
        raise _unknown(box.name)

    def _aggregate(self, box: Aggregate | Session) -> DataFrame:
        source, frame = self._scan(box.input, delay_us=0)
        window = _window(box, _time(source))
        items = select_items(box.columns, [])
        grouped = frame.groupBy(window.alias("_window"), *box.by)
        sums = grouped.agg(*[F.expr(sql).alias(name) for name, sql in items])
        return sums.select(F.col("_window.end").alias(STIME), *box.by, *[name for name, _ in items])

    def _join(self, box: Join) -> DataFrame:
        (left_source, left), (right_source, right) = (self._scan(side, delay_us=0) for side in (box.left, box.right))
        mine, other = quote(_time(left_source)), quote(_time(right_source))
        width = f"INTERVAL '{box.within_us / 1_000_000:.6f}' SECOND"
        near = F.expr(f"{mine} > {other} - {width} AND {mine} < {other} + {width}")
        joined = left.join(right, F.expr(box.on) & near, "inner")
        return joined.select(F.greatest(mine, other).alias(STIME), *map(quote, (*left.columns, *right.columns)))

    def _scan(self, arrow: Arrow, *, delay_us: int | None = None) -> tuple[Source, DataFrame]:
        box = self._diagram.box(arrow.box)
        if not isinstance(box, Source):
            raise _unknown(box.name)
        schema = ", ".join(f"{quote(column.name)} {column.type}" for column in box.schema)
        stream = self._session.readStream.schema(schema).option("maxFilesPerTrigger", self._files_per_batch)
        frame = stream.parquet(f"file:{self._files[box.name].absolute()}")
        return box, frame if delay_us is None else frame.withWatermark(_time(box), _milliseconds(delay_us))


class PlainSql:
    """A query in Spark's own SQL over directories of Parquet files, each a view with its time column as watermark."""

    def __init__(
        self,
        session: SparkSession,
        sql: str,
        sources: Sequence[Source],
        files: Mapping[str, Path],
        checkpoint: Path,
        *,
        files_per_batch: int,
    ) -> None:
        for source in sources:
            schema = ", ".join(f"{quote(column.name)} {column.type}" for column in source.schema)
            stream = session.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch)
            frame = stream.parquet(f"file:{files[source.name].absolute()}")
            frame.withWatermark(_time(source), "0 seconds").createOrReplaceTempView(source.name)
        self._query = CheckpointedQuery(session, checkpoint, pool="plain")
        self._frame = session.sql(sql)
        self.schema: Final = arrow_schema(
            (field.name, field.dataType.simpleString()) for field in self._frame.schema.fields
        )

    def start(self, sink: PlainSink) -> None:
        def hand_over(frame: DataFrame, _: int) -> None:
            sink(frame.toArrow())

        self._query.start(self._frame, hand_over)

    def stop(self) -> None:
        self._query.stop()

    def error(self) -> Exception | None:
        return self._query.error()


def _timed(frame: DataFrame, source: Source) -> DataFrame:
    return frame.select(F.col(_time(source)).alias(STIME), *map(quote, frame.columns))


def _window(box: Aggregate | Session, time: str) -> Column:
    if isinstance(box, Session):
        return F.session_window(time, _milliseconds(box.gap_us))
    window_us, every_us = box.time_window
    return F.window(time, _milliseconds(window_us), _milliseconds(every_us))


def _milliseconds(us: int) -> str:
    return f"{us // MS} milliseconds"


def _time(source: Source) -> str:
    if source.time is None:
        raise ConfigError(f"Source {source.name!r} has no time column.", remedy="Plain Spark needs one.")
    return source.time


def _unknown(box: str) -> ConfigError:
    return ConfigError(
        f"Box {box!r} has no form in plain Spark here.", remedy="Use one box above sources that Spark has, too."
    )
