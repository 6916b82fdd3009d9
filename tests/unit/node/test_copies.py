"""Copies of a stream on several servers, read over Flight into one inlet: each tuple once, whoever comes and goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.core.readers import ReaderSubscribed
from anabranch.model.position import Position
from anabranch.node.copying import Copies
from anabranch.node.following import CopyFollower
from anabranch.node.inlet import JournalInlet
from anabranch.node.serving import ServedLog
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.transport.client import Client
from anabranch.transport.server import FlightServer
from tests.unit.transport.fake_node import FakeNode

ORIGINS = ("a", "b")
Entry = tuple[int, int, int]
"""Code of the origin, stream time, number."""


def open_log(
    path: Path, kind: str, origins: tuple[str, ...] = ORIGINS, limit_bytes: int = 1 << 30
) -> tuple[Store, Log]:
    store = Store.open(path)
    schema = pa.schema([("x", pa.int64())])
    log = store.create_log(
        LogSpec(name="s", schema=schema, origins=origins, kind=kind, retention_us=1 << 60, limit_bytes=limit_bytes)
    )
    return store, log


def rows(entries: list[Entry]) -> pa.RecordBatch:
    codes, times, numbers = zip(*entries, strict=True)
    return pa.record_batch(
        {
            "_tid": pa.array(numbers, pa.int64()),
            "_stime": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "_origin": pa.array(codes, pa.int32()),
            "x": pa.array(numbers, pa.int64()),
        }
    )


def entries_of(log: Log) -> list[Entry]:
    found: list[Entry] = []
    for segment in log.read(log.first_seq() - 1, log.end_seq()):
        if segment.rows is not None:
            times = segment.rows.column("_stime").cast(pa.int64()).to_pylist()
            columns = segment.rows.select(["_origin", "_tid"]).to_pydict()
            found += zip(columns["_origin"], times, columns["_tid"], strict=True)
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Upstream:
    """A node with a copy of the stream. It can go and come back, with its disk."""

    def __init__(self, path: Path, readers: tuple[str, ...] = ("r",), **spec: int) -> None:
        self._path = path
        self._readers = readers
        self._spec = spec
        self._port = 0
        self.open()

    def open(self) -> None:
        self.store, self.log = open_log(self._path, "output", **self._spec)  # type: ignore[arg-type]
        self.served = ServedLog(self.store, self.log, self._readers)
        self.copies = Copies({"s": self.served})
        self.server = FlightServer(FakeNode(), port=self._port, copies=self.copies)
        self._port = self.server.port

    def close(self) -> None:
        self.server.stop()
        self.store.close()

    def append(self, entries: list[Entry], **promises: int) -> None:
        with self.store.transaction() as transaction:
            transaction.append("s", rows(entries) if entries else None, promises, now_us=0)


class Downstream:
    """A node with an inlet that follows some copies. It can stop and start, with its disk."""

    def __init__(self, path: Path, upstream: dict[str, Upstream], origins: tuple[str, ...] = ORIGINS) -> None:
        self._path = path
        self._upstream = upstream
        self._origins = origins
        self.reasons: list[str] = []
        self.open()

    def open(self) -> None:
        self.store, self.journal = open_log(self._path, "journal", self._origins)
        self.inlet = JournalInlet(self.store, self.journal, clock=lambda: 0)
        self._clients = {name: Client(each.server.address) for name, each in self._upstream.items()}
        self.followers = {
            name: CopyFollower(self.inlet, client, copy=name, reader="r", life="1", rebuild=self.reasons.append)
            for name, client in self._clients.items()
        }
        for follower in self.followers.values():
            follower.start()

    def close(self) -> None:
        for follower in self.followers.values():
            follower.stop()
        for client in self._clients.values():
            client.close()
        self.store.close()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def pair(tmp_path: Path, opened: ExitStack) -> dict[str, Upstream]:
    pair = {name: Upstream(tmp_path / f"{name}.db") for name in ("m", "n")}
    for each in pair.values():
        opened.callback(each.close)
    return pair


def test_the_first_copy_of_each_tuple_is_taken_and_all_is_acknowledged(
    tmp_path: Path, opened: ExitStack, pair: dict[str, Upstream]
) -> None:
    pair["m"].append([(0, 10, 1), (0, 12, 2)])
    down = Downstream(tmp_path / "d.db", pair)
    opened.callback(down.close)
    wait_for(lambda: len(entries_of(down.journal)) == 2)
    pair["n"].append([(0, 12, 2), (1, 11, 1), (0, 10, 1)], a=13)
    wait_for(lambda: down.inlet.state.punctuations == {"a": 13})
    assert entries_of(down.journal) == [(0, 10, 1), (0, 12, 2), (1, 11, 1)]
    for each in pair.values():
        wait_for(lambda each=each: (each.copies.trim(), each.log.first_id() > each.log.last_id())[1])  # type: ignore[misc]


def test_nothing_is_lost_or_repeated_when_copies_and_the_reader_come_and_go(
    tmp_path: Path, opened: ExitStack, pair: dict[str, Upstream]
) -> None:
    down = Downstream(tmp_path / "d.db", pair)
    opened.callback(lambda: down.close())
    entries = [(number % 2, number // 3, number) for number in range(120)]
    for step in range(0, 120, 10):
        piece = entries[step : step + 10]
        promises = {"a": step // 3, "b": step // 3}
        pair["m"].append(piece, **promises)
        pair["n"].append(piece[::-1], **promises)
        if step in (30, 70):
            name = "m" if step == 30 else "n"
            pair[name].close()
            pair[name].open()
        if step in (50, 90):
            down.close()
            down.open()
        for each in pair.values():
            each.copies.trim()
    wait_for(lambda: len(down.inlet.state.copies) == 2 and down.inlet.state.punctuations.get("a") == 36)
    wait_for(lambda: all(copy.position.id == 120 for copy in down.inlet.state.copies.values()))
    assert sorted(entries_of(down.journal)) == sorted(entries)
    assert down.reasons == []


def test_a_copy_that_is_gone_holds_up_nobody(tmp_path: Path, opened: ExitStack, pair: dict[str, Upstream]) -> None:
    down = Downstream(tmp_path / "d.db", pair)
    opened.callback(down.close)
    wait_for(lambda: all(each.is_live for each in down.followers.values()))
    pair["n"].close()
    pair["m"].append([(0, 10, 1)], a=11)
    wait_for(lambda: down.inlet.state.punctuations == {"a": 11}, seconds=3)
    wait_for(lambda: not down.followers["n"].is_live and down.followers["n"].failure is not None)
    pair["n"].open()
    wait_for(lambda: down.followers["n"].is_live and down.followers["n"].failure is None)


def test_a_reader_that_was_cut_off_is_told_and_gets_the_rest_from_the_other_copy(
    tmp_path: Path, opened: ExitStack
) -> None:
    """At its limit a log waits for the faster reader only. What the slow one missed there, the other copy has."""
    pair = {
        "m": Upstream(tmp_path / "m.db", ("r", "fast"), limit_bytes=2_000),
        "n": Upstream(tmp_path / "n.db", ("r",)),
    }
    for each in pair.values():
        opened.callback(each.close)
    served = pair["m"].served
    down = Downstream(tmp_path / "d.db", pair)
    wait_for(lambda: len(down.inlet.state.copies) == 2)
    down.close()
    entries = [(0, number, number) for number in range(1, 41)]
    for entry in entries:
        for each in pair.values():
            each.append([entry], a=entry[1])
    last = Position(pair["m"].log.incarnation, 40)
    served.subscribed(ReaderSubscribed(reader="fast", life="1", position=last, punctuations={"a": 40}))
    assert pair["m"].copies.trim() == [("s", "r")]
    assert pair["m"].log.first_id() == 41
    down.open()
    opened.callback(down.close)
    wait_for(lambda: down.inlet.state.punctuations == {"a": 40})
    wait_for(lambda: down.inlet.state.copies["m"].floors == {"a": 41})
    assert entries_of(down.journal) == entries
    for each in pair.values():  # now it has reached the floor of the other, too
        each.append([(0, 50, 50)], a=50)
    wait_for(lambda: not served.is_cut_off("r"))
    assert down.reasons == []


def test_a_reader_without_its_state_asks_to_be_rebuilt(tmp_path: Path, opened: ExitStack) -> None:
    up = Upstream(tmp_path / "m.db", ("r",))
    opened.callback(up.close)
    up.append([(0, 10, 1)], a=10)
    up.served.subscribed(
        ReaderSubscribed(reader="r", life="0", position=Position(up.log.incarnation, 1), punctuations={"a": 10})
    )
    up.copies.trim()
    down = Downstream(tmp_path / "d.db", {"m": up})
    opened.callback(down.close)
    wait_for(lambda: bool(down.reasons))
    assert "its state was lost" in down.reasons[0]
    assert entries_of(down.journal) == []


def test_another_query_is_refused(tmp_path: Path, opened: ExitStack) -> None:
    up = Upstream(tmp_path / "m.db")
    opened.callback(up.close)
    up.append([(0, 10, 1)], a=10)
    down = Downstream(tmp_path / "d.db", {"m": up}, origins=("a", "c"))
    opened.callback(down.close)
    wait_for(lambda: down.followers["m"].failure is not None)
    assert "has another query" in str(down.followers["m"].failure)
    assert entries_of(down.journal) == []
