"""Replicas without Spark, on real stores and Flight: an upstream node, and nodes that read it and work through it.

The stages of a replica are played by hand, in Spark's order: offsets, rows and batch in one transaction, commit. Each
stage passes its rows on unchanged, so that what belongs together can be told by counting.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import anabranch as ab
from anabranch.model.ids import QueryId, query_of
from anabranch.model.names import replica_reader
from anabranch.node.acknowledger import Acknowledger
from anabranch.node.copying import Copies
from anabranch.node.dialer import Dialer, direct
from anabranch.node.following import CopyFollower
from anabranch.node.inlet import JournalInlet
from anabranch.node.rebuilding import Rebuilding
from anabranch.node.serving import ServedLog
from anabranch.node.snapshot import Snapshots
from anabranch.node.stages import stage_reader
from anabranch.node.state import QueryDirectory
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.graph import Stage, stages
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.storage.transaction import BatchRecord
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyReservation, PeerPlaces, SnapshotPiece
from anabranch.transport.server import FlightServer
from tests.assigning import assigned
from tests.unit.transport.fake_node import FakeNode

SOURCE = "events"
ORIGIN = "events/0"
LARGE = 1 << 17
"""Numbers in one segment whose body is a file of its own."""


def diagram(window: str = "10s") -> Diagram:
    query = ab.Query("layers")
    totals = query.source(SOURCE, "x bigint").aggregate("sum(x) AS x", window="1s", name="totals")
    query.output("sums", totals.aggregate("sum(x) AS x", window=window, name="sums"))
    return query.checked()


def create(store: Store, name: str) -> Log:
    schema = pa.schema([("x", pa.int64())])
    return store.create_log(
        LogSpec(name=name, schema=schema, origins=(ORIGIN,), kind="internal", retention_us=1 << 60, limit_bytes=1 << 40)
    )


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + count), pa.int64())
    return pa.record_batch(
        {
            "_tid": numbers,
            "_stime": numbers.cast(pa.timestamp("us", "UTC")),
            "_origin": pa.array([0] * count, pa.int32()),
            "x": numbers,
        }
    )


def numbers_in(log: Log) -> list[int]:
    """What the log still holds."""
    segments = log.read(log.first_seq() - 1, log.end_seq())
    return [number for each in segments if each.rows is not None for number in each.rows.column("x").to_pylist()]


class Upstream:
    """A node with a copy of the source, and the replicas that read it."""

    def __init__(self, path: Path, readers: tuple[str, ...]) -> None:
        self.store = Store.open(path)
        self.log = create(self.store, SOURCE)
        self.served = ServedLog(self.store, self.log, [replica_reader(name) for name in readers], clock=lambda: 0)
        self.copies = NamedCopies({SOURCE: self.served})
        self.server = FlightServer(FakeNode(), copies=self.copies)

    def append(self, count: int) -> None:
        first = self.log.last_id() + 1
        with self.store.transaction() as transaction:
            transaction.append(SOURCE, rows(first, count), {ORIGIN: first + count - 1}, now_us=0)

    def close(self) -> None:
        self.server.stop()
        self.store.close()


class PlayedStage:
    """A stage as Spark would run it: one batch at a time, from its checkpoint."""

    def __init__(self, stage: Stage, directory: QueryDirectory, inputs: Log, source: Store, store: Store) -> None:
        self.stage = stage
        self.inputs = inputs
        self.source = source
        self.store = store
        self.output = create(store, stage.targets[0].stream)
        self.checkpoint = directory.checkpoint(stage.name)
        self.reader = stage_reader(stage.name)
        with source.transaction() as transaction:
            transaction.add_reader(inputs.name, self.reader, at_seq=inputs.first_seq() - 1)
        for name in ("offsets", "commits", "state/0/0"):
            (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
        metadata = self.checkpoint / "metadata"
        if not metadata.exists():
            metadata.write_text(json.dumps({"id": str(uuid.uuid4())}))
        self.lineage = json.loads(metadata.read_text())["id"]

    def run_batch(self) -> None:
        last = self.store.last_batch()
        batch_id = 0 if last is None else last.batch_id + 1
        start = 0 if last is None else json.loads(last.ranges)[self.inputs.name][1]
        end = self.inputs.end_seq()
        if end == start:
            return
        offset = json.dumps({"seq": end, "stream": self.inputs.name})
        self._write("offsets", batch_id, f'v1\n{{"batchWatermarkMs":0}}\n{offset}')
        read = [each.rows for each in self.inputs.read(start, end) if each.rows is not None]
        self._write("state/0/0", batch_id, f"state after {batch_id}")
        with self.store.transaction() as transaction:
            if read:
                transaction.append(self.output.name, pa.Table.from_batches(read), {}, now_us=0)
            ranges = json.dumps({self.inputs.name: (start, end)})
            transaction.record_batch(
                BatchRecord(lineage=self.lineage, batch_id=batch_id, ranges=ranges, watermark_us=0)
            )
        self._write("commits", batch_id, "v1\n{}")
        with self.source.transaction() as transaction:
            transaction.acknowledge(self.inputs.name, self.reader, start)
            transaction.trim(self.inputs.name, now_us=0)

    def _write(self, directory: str, batch_id: int, text: str) -> None:
        new = self.checkpoint / directory / f".{batch_id}.tmp"
        new.write_text(text)
        new.rename(self.checkpoint / directory / str(batch_id))


class Replica:
    """A node that reads the source into its inlet, plays two stages, and helps its siblings."""

    def __init__(
        self, path: Path, upstream: Upstream, siblings: dict[str, str], readers: tuple[str, ...] = ("end",)
    ) -> None:
        self.name = path.name
        self.path = path
        self.upstream = upstream
        self.part = assigned(
            diagram(),
            self.name,
            stages=[stage.name for stage in stages(diagram())],
            upstream={SOURCE: {"u": upstream.server.address}},
            readers={"sums": readers},
            siblings=siblings,
        )
        self.writers: list[str] = []
        self.said: list[str] = []
        self.reasons: list[str] = []
        self.failing: ab.AnabranchError | None = None
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    def directory_of(self, query: Diagram | None = None) -> QueryDirectory:
        return QueryDirectory(self.path, AssignedQuery(query or diagram(), self.part.assignment))

    def rebuilding(self, directory: QueryDirectory, *, stopped: Callable[[], bool] = lambda: False) -> Rebuilding:
        return Rebuilding(
            directory,
            self.part,
            writers=self.writers,
            dialer=Dialer(direct).about(self.part.query),
            progress=self.said.append,
            wait=lambda seconds: stopped(),
        )

    def open(self, *, work: bool = False, gather: Callable[[], None] = lambda: None) -> None:
        """``gather`` is called before the state is gathered for a peer."""
        self.directory = self.directory_of()
        path = self.directory.inlet_file(SOURCE)
        store = Store.open(path)
        self.stores = {path: store}
        self.journal = create(store, SOURCE)
        self.inlet = JournalInlet(store, self.journal, clock=lambda: 0)
        self.stages: list[PlayedStage] = []
        source, inputs = store, self.journal
        for stage in self.part.stages:
            made = self.stores[self.directory.stage_file(stage.name)] = Store.open(
                self.directory.stage_file(stage.name)
            )
            played = PlayedStage(stage, self.directory, inputs, source, made)
            self.stages.append(played)
            source, inputs = made, played.output
        self.output = inputs
        self.served = ServedLog(source, inputs, [replica_reader("end")], clock=lambda: 0)
        self._client = Client(self.upstream.server.address)
        self._acknowledger = Acknowledger("u", self._client)
        self._acknowledger.start()
        self.follower = CopyFollower(
            self.inlet,
            self._client,
            self._acknowledger,
            copy="u",
            reader=replica_reader(self.name),
            life=self.directory.life,
            rebuild=self.reasons.append,
        )
        self.follower.start()
        self.snapshots = _Hooked(self.directory, self.part, self.stores, reserve_bytes=0, failure=lambda: self.failing)
        self.snapshots.hook = gather
        self.server = FlightServer(FakeNode(), copies=Copies({"sums": self.served}), peers=_Peer(self.snapshots))
        if work:
            self._over.clear()
            self._threads = [threading.Thread(target=self._work, args=(stage,)) for stage in self.stages]
            for thread in self._threads:
                thread.start()

    def _work(self, stage: PlayedStage) -> None:
        while not self._over.is_set():
            stage.run_batch()

    def run_batches(self) -> None:
        for stage in self.stages:
            stage.run_batch()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self.follower.stop()
        self._acknowledger.close()
        self._acknowledger.join()
        self._client.close()
        self.server.stop()
        for store in self.stores.values():
            store.close()


class _Peer:
    """The door of a host that runs one query."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def places(self, query: QueryId, asker: str) -> PeerPlaces:
        return self._snapshots.places(asker)

    def snapshot(self, query: QueryId, asker: str) -> tuple[str, Iterator[SnapshotPiece]]:
        return self._snapshots.snapshot(asker)


class NamedCopies(Copies):
    """Copies whose readers say of which query the streams are."""

    def reserve_copy(self, reservation: CopyReservation) -> None:
        super().reserve_copy(replace(reservation, stream=query_of(reservation.stream)[1]))


class _Hooked(Snapshots):
    hook: Callable[[], None]

    def gather(self, target: Path) -> None:
        self.hook()
        super().gather(target)
