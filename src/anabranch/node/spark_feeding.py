"""A streaming source of Spark on this node: its batches into the lanes of a source, each row once.

With a lane and a number for every row the lanes do all of it: numbers that they have are repetitions, numbers that
never came are voids. Without, the rows of a batch are one push, taken whole or not at all, and before it a note says
which batch it is and at which number it begins: a batch that comes again was taken if the lane has passed that number.
Such a source has one lane and one entry point, so it cannot race.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch import failpoints, limits
from anabranch.core.backoff import Backoff
from anabranch.core.runs import runs
from anabranch.engine.feed import LANE, NUMBER, FeedBatch, SparkFeedRun
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    EngineError,
    InvariantBroken,
    NodeUnreachable,
    PushRefused,
    StateError,
    UserError,
)
from anabranch.node.entry import EntryPoint
from anabranch.node.pushing import Pushing, producer_of
from anabranch.node.spark_host import SparkHost
from anabranch.query.connectors import SparkFeed
from anabranch.runtime.status import FeedState, FeedStatus

_log: Final = logging.getLogger("anabranch.feed")

LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNote:
    """The batch that is pushed, or was pushed last, and the number at which it begins; 0 for rows with numbers."""

    lineage: str
    batch_id: int
    offsets: str
    first: int

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> BatchNote:
        return cls(**json.loads(data))


class Intake:
    """What becomes of a batch: called by Spark's thread, one batch at a time."""

    def __init__(self, entry: EntryPoint, feed: SparkFeed, key: str, stopping: threading.Event) -> None:
        self._entry = entry
        self._by_lane = feed.lane is not None
        self._key = key
        names = entry.source.producers if self._by_lane else (producer_of(entry.source),)
        self.pushing = {name: Pushing(entry, name, stopping) for name in names}
        self.last_batch = -1

    @property
    def rows(self) -> int:
        return sum(pushing.rows for pushing in self.pushing.values())

    def taken(self) -> int | None:
        """The last batch that is durable here, as far as is known: Spark may forget what it wrote after it."""
        note = self._note()
        if note is None:
            return None
        is_taken = self._by_lane or next(iter(self.pushing.values())).next > note.first
        last = note.batch_id if is_taken else note.batch_id - 1
        return last if last >= 0 else None

    def take(self, batch: FeedBatch) -> None:
        if self._by_lane:
            if batch.rows.num_rows:
                self._take_lanes(batch.rows)
            self._keep(batch, first=0)
        else:
            self._take_whole(batch)
        self.last_batch = batch.batch_id

    def _note(self) -> BatchNote | None:
        stored = self._entry.store.get(self._key)
        return None if stored is None else BatchNote.from_bytes(stored)

    def _keep(self, batch: FeedBatch, *, first: int) -> None:
        note = BatchNote(lineage=batch.lineage, batch_id=batch.batch_id, offsets=batch.offsets, first=first)
        with self._entry.store.transaction() as transaction:
            transaction.put(self._key, note.to_bytes())

    # --- rows with numbers -----------------------------------------------------------------------------------------

    def _take_lanes(self, rows: pa.Table) -> None:
        self._check_lanes(rows)
        rows = rows.sort_by([(LANE, "ascending"), (NUMBER, "ascending")]).combine_chunks()
        counts = pc.value_counts(rows.column(LANE).combine_chunks())
        first = 0
        for lane, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
            self._take_lane(lane, rows.slice(first, count))
            first += count

    def _check_lanes(self, rows: pa.Table) -> None:
        for name in (LANE, NUMBER):
            if rows.column(name).null_count:
                raise PushRefused(f"A row of Spark's source has no {name.strip('_')}.", remedy="Filter out such rows.")
        if pc.min(rows.column(NUMBER)).as_py() < 0:
            raise PushRefused("A row of Spark's source has a number below 0.", remedy="Numbers count from 0.")
        unknown = sorted(set(pc.unique(rows.column(LANE)).to_pylist()) - set(self.pushing))
        if unknown:
            raise PushRefused(
                f"Source {self._entry.source.name!r} has no lane {unknown[0]!r}.",
                remedy=f"List it as a producer of the source; it has {', '.join(self.pushing)}.",
            )

    def _take_lane(self, lane: str, rows: pa.Table) -> None:
        """Numbers count from 0 in Kafka, and from 1 in a lane."""
        pushing = self.pushing[lane]
        numbers, chosen = np.unique(rows.column(NUMBER).to_numpy() + 1, return_index=True)
        if len(numbers) < rows.num_rows:
            rows = rows.take(pa.array(chosen))
        batch = _one_batch(rows.drop_columns([LANE, NUMBER]))
        for run in runs(numbers, pushing.next):
            for start in range(0, run.voids, limits.VOIDS):
                _sent(pushing.void(min(limits.VOIDS, run.voids - start)))
            for start in range(run.start, run.start + run.rows, limits.SEGMENT_ROWS):
                count = min(limits.SEGMENT_ROWS, run.start + run.rows - start)
                _sent(pushing.rows_in(batch.slice(start, count)))

    # --- rows without ----------------------------------------------------------------------------------------------

    def _take_whole(self, batch: FeedBatch) -> None:
        (pushing,) = self.pushing.values()
        note = self._note()
        if note is not None and self._was_taken(batch, note, pushing.next):
            return
        self._keep(batch, first=pushing.next)
        failpoints.reach("feed.noted")
        if batch.rows.num_rows:
            _sent(pushing.rows_in(_one_batch(batch.rows)))

    def _was_taken(self, batch: FeedBatch, note: BatchNote, next_number: int) -> bool:
        if batch.lineage == note.lineage and batch.batch_id > note.batch_id:
            return False
        if batch.lineage != note.lineage or batch.batch_id < note.batch_id or batch.offsets != note.offsets:
            if next_number == note.first and batch.lineage == note.lineage and batch.batch_id == note.batch_id:
                return False  # noted, never pushed, and planned anew
            raise StateError(
                f"Batch {batch.batch_id} of the feed of {self._entry.source.name!r} differs from the one already "
                "accepted: Spark's checkpoint is older than the source's log.",
                remedy="Restore the state directory as a whole.",
            )
        return next_number > note.first


class SparkFeedRunner:
    """Starts the Spark query of a feed, and starts it again when it fails."""

    def __init__(
        self,
        entry: EntryPoint,
        feed: SparkFeed,
        run: SparkFeedRun,
        spark: SparkHost,
        key: str,
        stopping: threading.Event,
    ) -> None:
        self._entry = entry
        self._feed = feed
        self._run = run
        self._spark = spark
        self._key = key
        self._stopping = stopping
        self._taking = threading.Lock()
        self._intake: Intake | None = None
        self._brought = 0
        """Rows of queries that were started before."""
        self._error: AnabranchError | None = None
        self._failed = False
        self._thread = threading.Thread(target=self._watch, name=f"feed {entry.source.name}", daemon=True)

    def start(self) -> None:
        """The first start of the query is here: what Spark refuses is told at once."""
        try:
            self._begin()
        except EngineError as error:
            if not self._spark.has_died():
                raise
            self._error = error
        self._thread.start()

    def stop(self, deadline: float) -> None:
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - time.monotonic()))
        self._run.stop()

    def statistics(self) -> FeedStatus:
        intake = self._intake
        waits = next((p.waits_for for p in intake.pushing.values() if p.waits_for), None) if intake else None
        error = self._error or waits
        is_away = self._error is not None or not self._spark.is_up
        state: FeedState = "failed" if self._failed else "waiting" if waits else "restarting" if is_away else "running"
        return FeedStatus(
            kind="spark",
            state=state,
            speaks=not self._failed,
            rows=self._brought + (intake.rows if intake else 0),
            position=f"batch {intake.last_batch}" if intake and intake.last_batch >= 0 else "the beginning",
            lag_us=0,
            error=str(error) if error else None,
        )

    def _begin(self) -> None:
        """What comes from a query that was started before does not count any more. A batch that is just being taken is
        taken: Spark's thread for it may outlive the Spark that it came from."""
        before, self._intake = self._intake, None
        with self._taking:
            self._brought += before.rows if before else 0
            intake = self._intake = Intake(self._entry, self._feed, self._key, self._stopping)
        self._run.start(partial(self._take, intake), intake.taken())

    def _take(self, intake: Intake, batch: FeedBatch) -> None:
        with self._taking:
            if intake is not self._intake:
                raise EngineError("A batch of the feed came from a Spark that no longer runs.")
            intake.take(batch)

    def _watch(self) -> None:
        backoff = Backoff()
        seen = -1
        while not self._stopping.wait(LOOK_S) and not self._failed:
            batch = self._intake.last_batch if self._intake else -1
            if batch > seen:
                seen, backoff, self._error = batch, Backoff(), None
            if self._run.running or not self._spark.is_up:  # who started Spark starts another one
                continue
            try:
                if not self._run.is_lost:
                    error = self._run.failure() or EngineError("The Spark query of the feed stopped unexpectedly.")
                    backoff = backoff.failed()
                    if self._note(error) or self._stopping.wait(backoff.wait_s):
                        return
                self._begin()
                seen = -1
            except AnabranchError as error:
                self._note(error)

    def _note(self, error: AnabranchError) -> bool:
        """Whether it is of no use to try again: what the user or the operator must change."""
        self._error = error
        self._failed = isinstance(error, UserError | StateError | InvariantBroken) and not isinstance(
            error, ConfigError
        )
        if not self._stopping.is_set():
            _log.warning("The feed of source %r: %s", self._entry.source.name, error)
        return self._failed


def feed_checkpoint(checkpoints: Path, source: str, digest: str) -> Path:
    """Beside those of the stages; no box has a dot in its name. Another feed has another checkpoint."""
    return checkpoints / f"feed.{source}.{digest}"


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return pa.concat_batches(rows.to_batches())


def _sent(accepted: bool) -> None:
    if not accepted:
        raise NodeUnreachable("The node is stopping.")
