"""A run: one stage as one Spark query, from its checkpoint on.

Spark's JVM hands every micro-batch to the node, empty ones included, by the sink of the connector (``jvm/``), over the
socket by which it reads journals. Here the batch becomes Arrow tables, one per target, and goes to the node's sink with
the ranges it read and the watermark it ran with; when the sink returns, the batch is durable and Spark may commit it.
What the sink does is the node's business.

No Python runs in a batch, but in Spark's workers, for boxes that work in order and functions of users.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampType,
    _parse_datatype_string,
)

from anabranch import failpoints, limits
from anabranch.columns import spark_type
from anabranch.engine import checkpoint as spark_checkpoint
from anabranch.engine.checkpoint import BatchOffsets
from anabranch.engine.compiler import CompiledStage, compile_stage
from anabranch.engine.connector import MARK, SINK, SOURCE, JournalHost
from anabranch.engine.failures import failed_where, in_short, remedy, root_cause, told_in_short
from anabranch.engine.lookups import Tables
from anabranch.engine.query import CheckpointedQuery
from anabranch.engine.targets import split
from anabranch.engine.watermark import control_rows_pass, has_empty_journal
from anabranch.errors import EngineError, check
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.ids import JournalId, QueryId, ReplicaId, StreamId
from anabranch.model.selection import ALL_ROWS, Selection, to_text
from anabranch.query.boxes import Diagram
from anabranch.query.graph import Stage, is_stateful
from anabranch.query.needs import EVERYTHING, Needs, needs
from anabranch.query.selecting import selections


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBatch:
    """The output of one micro-batch: what a log transaction needs to know."""

    lineage: str
    batch_id: int
    starts: Mapping[str, int]
    ends: Mapping[str, int]
    watermark_us: int
    tables: Mapping[str, pa.Table]


Sink = Callable[[StageBatch], None]


def journal_frame(
    session: SparkSession,
    schema: pa.Schema,
    *,
    journals: JournalHost,
    stream: str,
    stage: str,
    scan: int = 0,
    max_rows: int = limits.BATCH_ROWS,
    waits: bool = True,
    wanted: Needs = EVERYTHING,
    rows: Selection = ALL_ROWS,
) -> DataFrame:
    """The raw journal of a stream as a streaming DataFrame, for one place of the stage's plan.

    ``waits`` says whether the stage waits for punctuations, and so needs the control rows.
    """
    identity = [StructField(ORIGIN, IntegerType()), StructField(TID, LongType())]
    fields = [
        *([StructField(MARK, TimestampType())] if waits else ()),
        StructField(STIME, TimestampType()),
        *(identity if wanted.identity else ()),
        *(
            StructField(field.name, _parse_datatype_string(spark_type(field.type)))
            for field in schema
            if wanted.has(field.name)
        ),
    ]
    options = {
        **journals.options(),
        "stream": stream,
        "stage": stage,
        "scan": str(scan),
        "max_rows": str(max_rows),
        "partitions": str(session.sparkContext.defaultParallelism),
        "rows": to_text(rows),
        "schema": json.dumps(StructType(fields).jsonValue()),
    }
    return session.readStream.format(SOURCE).options(**options).load()


class StageRun:
    """One stage, running or stopped. Not thread-safe: one thread of the node owns it; Spark calls back on its own."""

    def __init__(
        self,
        session: SparkSession,
        diagram: Diagram,
        stage: Stage,
        *,
        journals: JournalHost,
        schemas: Mapping[str, pa.Schema],
        checkpoint: Path,
        max_rows: int = limits.BATCH_ROWS,
        replica: ReplicaId | None = None,
        tables: Mapping[str, pa.Table] | None = None,
    ) -> None:
        self._diagram = diagram
        self._checkpoint = checkpoint
        query = QueryId(diagram.name)
        self._stage = str(StreamId(query, stage.name))
        """What Spark calls it when it asks the node."""
        pool = str(replica or self._stage)
        # A process may run the same query twice, on hosts without names: Spark would refuse the second name.
        name = str(replica) if replica is not None and replica.host else None
        self._query = CheckpointedQuery(session, checkpoint, pool=pool, name=name)
        self._journals = journals
        self._sink: Sink | None = None
        self._life = 0
        self._last: tuple[int, Mapping[str, int]] | None = None
        """The last batch that was handed over, and where it ended."""
        self._plan_checked = self._state_checked = False
        self._batches = 0
        self._batch_ms = 0.0
        self._late_rows = self._late_before = 0

        scans = count()
        waits = is_stateful(diagram, stage)
        needed = needs(diagram, stage)
        rows = selections(diagram, stage)

        def journal(stream: str) -> DataFrame:
            return journal_frame(
                session,
                schemas[stream],
                journals=journals,
                stream=str(JournalId(query, stage.name, stream)),
                stage=self._stage,
                scan=next(scans),
                max_rows=max_rows,
                waits=waits,
                wanted=needed[stream],
                rows=rows.get(stream, ALL_ROWS),
            )

        self._tables = Tables(tables)
        with told_in_short(f"compile stage {stage.name}"):
            self.compiled: CompiledStage = compile_stage(diagram, stage, journal, self._tables)

    def start(self, sink: Sink, logged: int | None, *, life: int) -> None:
        """Starts the query where the log ends: after batch ``logged``, or at the beginning. Its batches say by which
        life of the stage they were made."""
        self._sink = sink
        self._life = life
        self._plan_checked = self._state_checked = False
        self._last = None
        self._late_before = self._late_counted()
        spark_checkpoint.roll_back(self._checkpoint, logged)
        with told_in_short(f"start stage {self.compiled.stage.name}"):
            self._tables.keep()
            self._query.start_into(self.compiled.frame, SINK, self._log_options())

    def has_open_batch(self) -> bool:
        """Whether a batch is under way that Spark has not committed."""
        return self.running and spark_checkpoint.has_open_batch(self._checkpoint)

    def stop(self) -> None:
        self._query.stop()
        with suppress(Py4JError, PySparkException, OSError):  # a JVM that goes takes its cache with it
            self._tables.release()

    @property
    def running(self) -> bool:
        return self._query.running

    def failure(self) -> EngineError | None:
        """Why the query ended by itself, if it did."""
        error = self._query.error()
        if error is None:
            return None
        stage = self.compiled.stage
        where = failed_where(error, self._diagram, stage)
        cause = root_cause(error)
        return EngineError(f"Stage {stage.name} failed in Spark{where}: {in_short(cause)}", remedy=remedy(cause))

    @property
    def batches(self) -> int:
        """Batches that were handed over, since the start."""
        return self._batches

    @property
    def batch_ms(self) -> float:
        """How long the last one took."""
        return self._batch_ms

    @property
    def late_rows(self) -> int:
        """What came too late for the box of the stage, in batches that were handed over, since the start."""
        return self._late_rows

    def hand_over(self, batch_id: int, table: pa.Table, *, lineage: str, dropped: int, took_s: float) -> None:
        """A batch has come, made in so many seconds; returns when the sink has it.

        ``dropped`` is what Spark dropped as late in the batch before.
        """
        started = time.perf_counter()
        failpoints.reach("stage.offsets_written")
        check(dropped == 0, f"Spark dropped {dropped} rows of stage {self.compiled.stage.name} as late.")
        self._check_plan()
        if not self._state_checked:
            spark_checkpoint.check_state_is_shared(self._checkpoint)
            self._state_checked = True
        now = self._offsets(batch_id)
        batch = StageBatch(
            lineage=lineage,
            batch_id=batch_id,
            starts=self._ends_before(batch_id),
            ends=now.ends,
            watermark_us=now.watermark_us,
            tables=split(table, self.compiled.chains),
        )
        spark_checkpoint.make_durable(self._checkpoint)
        assert self._sink is not None
        self._sink(batch)
        self._last = batch_id, now.ends
        self._batches += 1
        self._count_late()
        self._batch_ms = (took_s + time.perf_counter() - started) * 1000
        failpoints.reach("stage.logged")

    def _late_counted(self) -> int:
        counted = self.compiled.late_rows
        return 0 if counted is None else counted.value

    def _count_late(self) -> None:
        """What a batch counted that Spark has to run again is not counted twice."""
        before, self._late_before = self._late_before, self._late_counted()
        self._late_rows += self._late_before - before

    def _ends_before(self, batch_id: int) -> Mapping[str, int]:
        """Where the batch before this one ended."""
        if not batch_id:
            return {}
        if self._last is not None and self._last[0] == batch_id - 1:
            return self._last[1]
        return self._offsets(batch_id - 1).ends

    def _offsets(self, batch_id: int) -> BatchOffsets:
        """Where a batch ended, by the names that its streams have in the query."""
        found = spark_checkpoint.batch_offsets(self._checkpoint, batch_id)
        ends = {JournalId.parse(journal).stream: seq for journal, seq in found.ends.items()}
        return BatchOffsets(ends, found.watermark_us)

    def _log_options(self) -> dict[str, str]:
        return {**self._journals.options(), "stage": self._stage, "life": str(self._life)}

    def _check_plan(self) -> None:
        """Spark is silent when a filter slips below a watermark, and that would cost rows."""
        query = self._query.handle
        if query is None or self._plan_checked:  # the first batch may come before start() returns
            return
        name = self.compiled.stage.name
        with told_in_short(f"show the plan of stage {name}"):
            execution = query._jsq.streamingQuery().lastExecution()
            if execution is not None:
                plan = execution.optimizedPlan()
                check(control_rows_pass(plan), f"A filter stands below a watermark of stage {name}.")
                self._plan_checked = not has_empty_journal(plan)
