"""The two that run a workload in this process, one after the other: a node, and plain Spark.

Both take the same pieces, write their results to a log of the same kind (SQLite, every commit synced), and tell when
results came. A node takes pushes over Flight; plain Spark finds Parquet files that are renamed into its directory.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch import limits
from anabranch.bench.workloads import OUTPUT, Piece, Workload
from anabranch.engine.baseline import BatchTimes, PlainQuery, batch_times
from anabranch.engine.session import JAVA_OPTIONS, SparkSettings, open_session
from anabranch.errors import EngineError
from anabranch.model.header import KIND, ORIGIN, STIME, TID, Kind
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store
from anabranch.transport.session import Connection, Producer, connect

CONF: Final[Mapping[str, str]] = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
"""So that no batch of a measurement is forgotten before it is read. All else is as a node has it."""

QUICK_CONF: Final[Mapping[str, str]] = {
    **CONF,
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1",
}
"""For a short run: the JVM's optimising compiler would take much of it, and be done when it is over."""

LOOK_S: Final = 0.002
WAIT_S: Final = 300.0

FILES_PER_BATCH: Final = limits.BATCH_ROWS // limits.SEGMENT_ROWS
"""Files of a segment's rows each, so that a batch of plain Spark has as many rows as one of ours."""

Digest = tuple[int, int]
Arrival = tuple[float, np.ndarray]
"""When some results came, by the clock of ``time.monotonic``, and their stream times in microseconds."""


def digest(rows: pa.Table) -> Digest:
    """How many rows, and a number that is the same for the same rows in any order."""
    hashes = pd.util.hash_pandas_object(rows.to_pandas(), index=False).to_numpy()
    return rows.num_rows, int(hashes.sum(dtype=np.uint64))


class Side(ABC):
    """A workload on one side. Use it as a context manager: it starts and stops what it needs. A second time it goes on
    from what it has on disk."""

    name: str

    def __init__(self, workload: Workload, directory: Path, conf: Mapping[str, str]) -> None:
        self.conf: Final = conf
        self.workload: Final = workload
        self.directory: Final = directory
        self.arrivals: Final[list[Arrival]] = []

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop()

    def prepare(self, pieces: list[Piece]) -> list[Any]:
        """Whatever this side needs of the rows before time is taken."""
        return pieces

    @abstractmethod
    def feed(self, prepared: list[Any]) -> None:
        """Hands over the rows. A node has them durably when this returns."""

    @abstractmethod
    def rows_out(self) -> int:
        """How many results are logged."""

    @abstractmethod
    def output(self) -> pa.Table:
        """The data columns of all results."""

    @abstractmethod
    def check_alive(self) -> None:
        """Raises what made it fail, if it did."""

    @abstractmethod
    def follow(self) -> None:
        """From now on ``arrivals`` tells when results come."""

    def batches(self) -> list[BatchTimes]:
        """The micro-batches with rows, oldest first."""
        return batch_times(open_session(SparkSettings(conf=self.conf)))

    def held_ms(self) -> float:
        """How long questions for news were held so far: in Spark's account that is part of a batch."""
        return 0.0

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _stop(self) -> None: ...


class Ours(Side):
    """A node with its journal and log, pushed to by a producer and read by a subscriber, both over Flight."""

    name = "anabranch"

    _node: Node | None = None
    _connection: Connection | None = None
    _reader: threading.Thread | None = None

    def feed(self, prepared: list[Any]) -> None:
        for source, batch in prepared:
            self._producers[source].push(batch)

    def rows_out(self) -> int:
        return self._running().stream(OUTPUT).last_id

    def caught_up(self) -> bool:
        """Whether all results of what was fed are logged; waits a moment for it."""
        return self._running().wait_caught_up(1.0)

    def output(self) -> pa.Table:
        assert self._connection is not None
        with self._connection.subscribe(OUTPUT, start="start", follow=False) as subscription:
            read = [batch for batch in subscription if batch.num_rows]
        rows = pa.Table.from_batches(read, subscription.schema)
        rows = rows.filter(pa.compute.equal(rows[KIND], int(Kind.INSERTION)))
        return rows.select([name for name in rows.column_names if not name.startswith("_")])

    def check_alive(self) -> None:
        failure = self._running().failure()
        if failure is not None:
            raise failure

    def follow(self) -> None:
        assert self._connection is not None
        self._subscription = self._connection.subscribe(OUTPUT, start="end")
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)
        self._reader.start()

    def held_ms(self) -> float:
        (stage,) = self._running().statistics().stages.values()
        return float(stage.held_ms)

    def _start(self) -> None:
        self._node = Node(self.workload.diagram, self.directory / "state", NodeSettings(conf=self.conf))
        self._node.start()
        self._connection = connect(self._node.address)
        names = [source.name for source in self.workload.diagram.sources]
        self._producers: Mapping[str, Producer] = {n: self._connection.producer(n, "bench") for n in names}

    def _stop(self) -> None:
        if self._reader is not None:
            self._subscription.close()
            self._reader.join()
        if self._connection is not None:
            self._connection.close()
        if self._node is not None:
            self._node.stop()

    def _running(self) -> Node:
        assert self._node is not None
        return self._node

    def _read(self) -> None:
        for batch in self._subscription:
            now = time.monotonic()
            rows = batch.filter(pa.compute.equal(batch.column(KIND), int(Kind.INSERTION)))
            self.arrivals.append((now, _micros(rows.column(STIME))))


class Plain(Side):
    """Spark's own Parquet source, the same query, and the same bytes in a log at the end."""

    name = "plain Spark"

    _query: PlainQuery | None = None
    _store: Store | None = None
    _files = 0

    def prepare(self, pieces: list[Piece]) -> list[Any]:
        return [self._write(source, batch) for source, batch in pieces]

    def feed(self, prepared: list[Any]) -> None:
        for staged, final in prepared:
            staged.rename(final)

    def rows_out(self) -> int:
        assert self._store is not None
        return self._store.log(OUTPUT).last_id()

    def output(self) -> pa.Table:
        assert self._store is not None
        log = self._store.log(OUTPUT)
        batches = [segment.rows for segment in log.read(0, log.end_seq()) if segment.rows is not None]
        rows = pa.Table.from_batches(batches) if batches else log.spec.schema.empty_table()
        return rows.select(log.spec.schema.names)

    def check_alive(self) -> None:
        assert self._query is not None
        error = self._query.error()
        if error is not None:
            raise EngineError(f"Plain Spark failed: {error}")

    def follow(self) -> None:
        self.arrivals.clear()

    def _start(self) -> None:
        self._staging = self.directory / "staging"
        folders = {source.name: self.directory / source.name for source in self.workload.diagram.sources}
        for folder in (self._staging, *folders.values()):
            folder.mkdir(exist_ok=True)
        session = open_session(SparkSettings(conf=self.conf))
        self._query = PlainQuery(
            session, self.workload.diagram, folders, self.directory / "checkpoint", files_per_batch=FILES_PER_BATCH
        )
        self._store = open_results(self.directory / "out.db", self._query.schema)
        self._query.start(self._log)

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        if self._store is not None:
            self._store.close()

    def _write(self, source: str, batch: pa.RecordBatch) -> tuple[Path, Path]:
        """A file in the staging directory, and where it shall be. Spark takes files in the order of their times."""
        self._files += 1
        name = f"{self._files:06d}.parquet"
        staged = self._staging / name
        pq.write_table(pa.Table.from_batches([batch]), staged)
        os.utime(staged, (self._files, self._files))
        return staged, self.directory / source / name

    def _log(self, table: pa.Table) -> None:
        assert self._store is not None
        log_results(self._store, table)
        self.arrivals.append((time.monotonic(), _micros(table[STIME])))


def wait_until(side: Side, condition: Callable[[], bool], check: Callable[[], None]) -> None:
    """``check`` may end the wait by raising."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        time.sleep(LOOK_S)
        check()
        side.check_alive()
        if time.monotonic() > deadline:
            raise EngineError(f"{side.name} has only {side.rows_out()} of its results after {WAIT_S:.0f} s.")


def wait_for_results(side: Side, results: int, check: Callable[[], None]) -> None:
    wait_until(side, lambda: side.rows_out() >= results, check)


def log_results(store: Store, table: pa.Table) -> None:
    """The results of a batch of plain Spark with a header of the size that ours have, in a transaction as ours is."""
    rows = table.num_rows
    header = {
        TID: pa.array(np.zeros(rows, dtype=np.int64)),
        STIME: table[STIME],
        ORIGIN: pa.array(np.zeros(rows, dtype=np.int32)),
    }
    data = {name: table[name] for name in table.column_names if name != STIME}
    with store.transaction() as transaction:
        transaction.append(OUTPUT, pa.table({**header, **data}), {}, now_us=time.time_ns() // 1_000, force=True)


def open_results(path: Path, schema: pa.Schema) -> Store:
    """A store with the log that plain Spark's results go to."""
    store = Store.open(path)
    store.create_log(
        LogSpec(
            name=OUTPUT,
            schema=schema,
            origins=("plain",),
            kind="output",
            retention_us=limits.LOG_RETENTION_US,
            limit_bytes=limits.LOG_BYTES,
        )
    )
    return store


def _micros(times: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return np.asarray(times.cast(pa.int64()))
