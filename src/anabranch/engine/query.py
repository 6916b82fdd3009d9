"""One streaming query of Spark on one checkpoint: what a stage and a feed have in common.

Its batches go to a sink in the JVM, or Spark calls back with each of them on a thread of its own, and buries what that
raises in a page of Java; here it is kept. What becomes of a batch, and which checkpoint is right, is decided by whoever
starts the query.

The JVM may be gone, or about to go, whenever it is asked. Then the query has ended, and that is all there is to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from anabranch.engine.checkpoint import location
from anabranch.engine.failures import ended_by
from anabranch.errors import EngineError

OnBatch = Callable[[DataFrame, int], None]


class CheckpointedQuery:
    """Running or stopped; may be started again. The pools of a session share its cores fairly. ``name`` is what Spark
    shows; no two queries of a session may have the same."""

    def __init__(self, session: SparkSession, checkpoint: Path, *, pool: str, name: str | None = None) -> None:
        self.checkpoint: Final = checkpoint
        self.handle: StreamingQuery | None = None
        """Spark's own query, once there is one. The first batch may come before that."""
        self.session: Final = session
        self._pool = pool
        self._name = name
        self._raised: Exception | None = None

    def start(self, frame: DataFrame, on_batch: OnBatch) -> None:

        def keep_what_is_raised(batch: DataFrame, batch_id: int) -> None:
            try:
                on_batch(batch, batch_id)
            except Exception as error:
                self._raised = error
                raise

        self._start(frame.writeStream.foreachBatch(keep_what_is_raised))

    def start_into(self, frame: DataFrame, sink: str, options: Mapping[str, str]) -> None:
        """``sink`` is a format of Spark."""
        self._start(frame.writeStream.format(sink).options(**options))

    def _start(self, writer: DataStreamWriter) -> None:
        self._raised = None
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        self.session.sparkContext.setLocalProperty("spark.scheduler.pool", self._pool)
        writer = writer.outputMode("append")
        if self._name is not None:
            writer = writer.queryName(self._name)
        self.handle = writer.option("checkpointLocation", location(self.checkpoint)).start()

    def stop(self) -> None:
        """Ends the query; a batch under way may be cut and runs again at the next start."""
        if self.handle is not None:
            with suppress(Py4JError, PySparkException, OSError):  # a JVM that goes takes its queries with it
                self.handle.stop()

    @property
    def running(self) -> bool:
        with suppress(Py4JError, OSError):
            return self.handle is not None and bool(self.handle.isActive)
        return False

    def error(self) -> Exception | None:
        """Why the query ended by itself, if it did: what a batch raised, or what Spark says."""
        if self.handle is None or self.running:
            return None
        with suppress(Py4JError, OSError):
            return self._raised or ended_by(self.handle)
        return EngineError("Spark is not responding.")
