"""A node of lists: what ``NodePorts`` promises, in memory, without lanes' finer rules. It outlives its servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import Overloaded, PushRefused, SessionExpired, StreamNotFound
from anabranch.model.header import STIME, Kind
from anabranch.model.links import LinkFault
from anabranch.model.names import OWNED_LANE
from anabranch.model.position import Position
from anabranch.runtime.status import HostStatus
from anabranch.transport.ports import Push, PushAnswer, ReadRequest, Registration, StreamInfo
from anabranch.transport.wire import TIMESTAMP, wire_schema
from tests.statuses import host_status

PING = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("rtt_ms", pa.float64()),
        ("hops", pa.int32()),
        ("sent", pa.timestamp("us", "UTC")),
    ]
)
POLL_S = 0.02  # far below FOLLOW_WAIT_S, so that no test waits for a heartbeat


@dataclass
class FakeNode:
    """One source ``ping`` with the stream of its rows, a closed-schema ``late``, and counters per producer."""

    incarnation: str = "a1"
    first_id: int = 1
    producers: tuple[str, ...] = ()
    time: str | None = None
    batches: list[pa.RecordBatch] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, int] = field(default_factory=dict)
    pushes: list[Push] = field(default_factory=list)
    readers: dict[tuple[str, str], Position] = field(default_factory=dict)
    closed: list[tuple[str, str | None]] = field(default_factory=list)
    faults: list[tuple[str, LinkFault]] = field(default_factory=list)
    overloaded_times: int = 0
    reads: int = 0

    def __post_init__(self) -> None:
        self.changed = threading.Condition()

    # --- reading ---------------------------------------------------------------------------------------------------

    def streams(self) -> list[StreamInfo]:
        schema = wire_schema(PING)
        common = {"schema": schema, "incarnation": self.incarnation}
        return [
            StreamInfo(name="ping", kind="source", first_id=self.first_id, last_id=self.last_id, **common),
            StreamInfo(name="ping.late", kind="late", first_id=1, last_id=0, **common),
        ]

    def stream(self, name: str) -> StreamInfo:
        known = {info.name: info for info in self.streams()}
        if name not in known:
            raise StreamNotFound(f"This node has no stream {name!r}.", remedy=f"It has: {', '.join(known)}.")
        return known[name]

    @property
    def last_id(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def read(self, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        if request.start == "start":
            at = self.first_id - 1
        elif request.start == "end":
            at = self.last_id
        else:
            at = self._after(request.start)
        self.reads += 1
        return self._batches(request, at, cancelled)

    def _batches(self, request: ReadRequest, at: int, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        while not cancelled():
            with self.changed:
                news = self._from(at) if request.stream == "ping" else []
                if not news and request.follow:
                    self.changed.wait(POLL_S)
            yield from news
            at += sum(batch.num_rows for batch in news)
            if not request.follow:
                return
            if not news:
                yield _empty()

    def _after(self, position: Position) -> int:
        if position.incarnation != self.incarnation or position.id < self.first_id - 1:
            raise StreamNotFound(f"Position {position} of 'ping' is not kept.", remedy="Subscribe again from start.")
        return position.id

    def _from(self, at: int) -> list[pa.RecordBatch]:
        news, end = [], 0
        for batch in self.batches:
            start, end = end, end + batch.num_rows
            if end > at:
                news.append(batch.slice(max(0, at - start)))
        return news

    def acknowledge(self, stream: str, reader: str, position: Position) -> None:
        self.readers[stream, reader] = position

    def forget_reader(self, stream: str, reader: str) -> None:
        del self.readers[stream, reader]

    # --- pushing ---------------------------------------------------------------------------------------------------

    def register(self, source: str, producer: str, session: int | None = None) -> Registration:
        if source != "ping":
            raise StreamNotFound(f"There is no source {source!r}.", remedy="There is: ping.")
        self.sessions[producer] = self.sessions.get(producer, 0) + 1
        return Registration(
            session=self.sessions[producer],
            next=self.counters.get(producer, 0) + 1,
            lane=producer if self.producers else OWNED_LANE,
            schema=PING,
            time=self.time,
            stamp_us=0,
        )

    def push(self, push: Push) -> PushAnswer:
        if self.overloaded_times:
            self.overloaded_times -= 1
            raise Overloaded("Log 'ping' is full.", remedy="Try again later.")
        if push.producer is not None and push.session != self.sessions.get(push.producer):
            raise SessionExpired(f"Another {push.producer!r} took over.", remedy="Stop one of them.")
        with self.changed:
            self.pushes.append(push)
            through, skip = self._count(push)
            rows = self._append(push, skip) if push.rows is not None else 0
            self.changed.notify_all()
        return PushAnswer(through=through, rows=rows, repeated=skip)

    def _count(self, push: Push) -> tuple[int | None, int]:
        if push.producer is None or push.first is None:
            return None, 0
        known = self.counters.get(push.producer, 0)
        last = push.first + push.count - 1
        self.counters[push.producer] = max(known, last)
        return max(known, last), max(0, min(push.count, known - push.first + 1))

    def _append(self, push: Push, skip: int) -> int:
        rows = push.rows.slice(skip)
        bad = pc.index(pc.less(rows.column("hops"), 0), True).as_py()
        if bad >= 0:
            raise PushRefused(f"Row {bad + 1}: hops is negative.", row=bad, remedy="Count hops from 0.")
        if rows.num_rows:
            self.batches.append(tuples(rows, self.last_id + 1))
        return int(rows.num_rows)

    def close_lane(self, source: str, lane: str | None) -> None:
        self.closed.append((source, lane))

    # --- node ------------------------------------------------------------------------------------------------------

    def status(self) -> HostStatus:
        return host_status({"node": "fake"})

    def fault_link(self, node: str, fault: LinkFault) -> None:
        self.faults.append((node, fault))


def tuples(rows: pa.RecordBatch, first_id: int, kind: Kind = Kind.INSERTION) -> pa.RecordBatch:
    """Rows as a batch of the stream, with ids from ``first_id``."""
    count = rows.num_rows
    ids = pa.array(np.arange(first_id, first_id + count))
    data = rows.drop_columns([STIME]) if STIME in rows.schema.names else rows
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), count)
    header = [kinds, ids, ids, ids.cast(TIMESTAMP), pa.repeat("ping/0", count)]
    return pa.RecordBatch.from_arrays([*header, *data.columns], schema=wire_schema(PING))


def pings(*rtts_ms: float, hops: int = 3) -> pa.RecordBatch:
    """One row per round trip time."""
    return pa.RecordBatch.from_pylist(
        [{"source": "a", "target": "b", "rtt_ms": rtt, "hops": hops, "sent": None} for rtt in rtts_ms], schema=PING
    )


def _empty() -> pa.RecordBatch:
    return tuples(pings(), 1)
