"""Copies of a stream on two nodes, read into the inlet of a third: each tuple once, whoever comes and goes.

One contract for the simulated network, disk and nodes, and for real stores behind Flight servers. What only the real
ones can do follows after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.core.inlet import InletState
from anabranch.core.readers import ReaderSubscribed
from anabranch.limits import DIGEST_INTERVAL_US
from anabranch.model.position import Position
from anabranch.node import inlet
from anabranch.node.acknowledger import Acknowledger
from anabranch.node.copying import Copies
from anabranch.node.dialer import Route, direct
from anabranch.node.following import CopyFollower
from anabranch.node.inlet import JournalInlet
from anabranch.node.serving import ServedLog
from anabranch.query.builder import Query
from anabranch.reference.tuples import Tuple
from anabranch.sim.checkers.steady import Steady
from anabranch.sim.checkers.undisturbed import Undisturbed
from anabranch.sim.network import Network
from anabranch.sim.node import Node
from anabranch.sim.observer import Observer
from anabranch.sim.role import Protocol, Role
from anabranch.sim.tape import Tape
from anabranch.sim.world import SECOND, World
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.transport.client import Client
from anabranch.transport.server import FlightServer
from tests.unit.transport.fake_node import FakeNode
from tests.waiting import HANG_S, wait_for

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
        self.served = ServedLog(self.store, self.log, self._readers, clock=lambda: 0)
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

    def __init__(
        self,
        path: Path,
        upstream: dict[str, Upstream],
        origins: tuple[str, ...] = ORIGINS,
        route: Route = direct,
    ) -> None:
        self._path = path
        self._route = route
        self._upstream = upstream
        self._origins = origins
        self.reasons: list[str] = []
        self.open()

    def open(self) -> None:
        self.store, self.journal = open_log(self._path, "journal", self._origins)
        self.inlet = JournalInlet(self.store, self.journal, clock=lambda: 0)
        self._clients = {name: Client(self._route(name, each.server.address)) for name, each in self._upstream.items()}
        self._acknowledgers = {name: Acknowledger(name, client) for name, client in self._clients.items()}
        self.followers = {
            name: CopyFollower(
                self.inlet,
                client,
                self._acknowledgers[name],
                copy=name,
                reader="r",
                life="1",
                rebuild=self.reasons.append,
            )
            for name, client in self._clients.items()
        }
        self._running: list[Acknowledger | CopyFollower] = [*self._acknowledgers.values(), *self.followers.values()]
        for each in self._running:
            each.start()

    def close(self) -> None:
        for each in self._running:
            each.close()
            each.join()
        for client in self._clients.values():
            client.close()
        self.store.close()


class Copied(ABC):
    """Two nodes, m and n, with a copy of one stream, and a third that reads both."""

    @abstractmethod
    def append(self, copy: str, entries: list[Entry], **promises: int) -> None: ...

    @abstractmethod
    def crash(self, node: str) -> None:
        """One of the three goes, and keeps its disk. The third is ``r``."""

    @abstractmethod
    def start(self, node: str) -> None: ...

    @abstractmethod
    def trim(self) -> None:
        """The copies forget what the reader has acknowledged."""

    @abstractmethod
    def wait_for(self, condition: Callable[[], bool]) -> None: ...

    @abstractmethod
    def inlet(self) -> InletState: ...

    @abstractmethod
    def passed(self) -> list[Entry]:
        """What the reader's journal has, in its order."""

    @abstractmethod
    def held(self, copy: str) -> int:
        """How many tuples a copy keeps."""

    @abstractmethod
    def is_read(self, copy: str) -> bool: ...


class OverFlight(Copied):
    def __init__(self, directory: Path) -> None:
        self._pair = {name: Upstream(directory / f"{name}.db") for name in ("m", "n")}
        self._reader = Downstream(directory / "r.db", self._pair)
        self._gone: set[str] = set()

    def append(self, copy: str, entries: list[Entry], **promises: int) -> None:
        self._pair[copy].append(entries, **promises)

    def crash(self, node: str) -> None:
        self._gone.add(node)
        (self._reader if node == "r" else self._pair[node]).close()

    def start(self, node: str) -> None:
        (self._reader if node == "r" else self._pair[node]).open()
        self._gone.remove(node)

    def trim(self) -> None:
        for name in self._pair.keys() - self._gone:
            self._pair[name].copies.trim()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        wait_for(condition)

    def inlet(self) -> InletState:
        return self._reader.inlet.state

    def passed(self) -> list[Entry]:
        return entries_of(self._reader.journal)

    def held(self, copy: str) -> int:
        return self._pair[copy].log.last_id() - self._pair[copy].log.first_id() + 1

    def is_read(self, copy: str) -> bool:
        return self._reader.followers[copy].is_live

    def close(self) -> None:
        for node in {"r", *self._pair} - self._gone:
            self.crash(node)
        assert self._reader.reasons == []


class Simulated(Copied):
    def __init__(self) -> None:
        query = Query("q")
        query.output("o", query.source("s", "x bigint"))
        self._world = World(1)
        network = Network(self._world)
        observer = Observer(self._world, [], Steady(), Undisturbed())
        roles = {name: Role(diagram=query.checked(), readers={"s": ("r",)}) for name in ("m", "n")}
        roles["r"] = Role(diagram=query.checked(), upstream={"s": ("m", "n")}, origins={"s": ORIGINS})
        self._nodes = {
            name: Node(name, role, self._world, network, observer, Protocol()) for name, role in roles.items()
        }
        for name in ("m", "n"):
            process = self._nodes[name].process
            process.disk = process.disk.with_tape(Tape.new("s", process.disk.life, ["r"]))
        for node in self._nodes.values():
            node.start()

    def append(self, copy: str, entries: list[Entry], **promises: int) -> None:
        process = self._nodes[copy].process
        tuples = [Tuple(origin=ORIGINS[code], stime=time, tid=number, values={}) for code, time, number in entries]
        process.transact(process.memory.with_tape(process.memory.tapes["s"].append(tuples, promises)), lambda: None)
        self._world.run_until(self._world.now_us + SECOND // 20)

    def crash(self, node: str) -> None:
        self._nodes[node].crash()

    def start(self, node: str) -> None:
        self._nodes[node].start()

    def trim(self) -> None:
        """They do it by themselves."""

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = self._world.now_us + int(HANG_S) * SECOND
        while not condition():
            assert self._world.now_us < deadline
            self._world.run_until(self._world.now_us + SECOND // 100)

    def inlet(self) -> InletState:
        return self._nodes["r"].process.disk.inlets["s"]

    def passed(self) -> list[Entry]:
        segments = self._nodes["r"].process.disk.tapes["s"].segments
        return [(ORIGINS.index(each.origin), each.stime, each.tid) for segment in segments for each in segment.tuples]

    def held(self, copy: str) -> int:
        return self._nodes[copy].process.disk.tapes["s"].held

    def is_read(self, copy: str) -> bool:
        return self._nodes["r"].reads("s", copy)


@pytest.fixture(params=["simulated", "over Flight"])
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copied]:
    if request.param == "simulated":
        yield Simulated()
        return
    real = OverFlight(tmp_path)
    try:
        yield real
    finally:
        real.close()


def test_the_first_copy_of_each_tuple_is_taken_and_all_is_acknowledged(copied: Copied) -> None:
    copied.append("m", [(0, 10, 1), (0, 12, 2)])
    copied.wait_for(lambda: len(copied.passed()) == 2)
    copied.append("n", [(0, 12, 2), (1, 11, 1), (0, 10, 1)], a=13)
    copied.wait_for(lambda: copied.inlet().punctuations == {"a": 13})
    assert copied.passed() == [(0, 10, 1), (0, 12, 2), (1, 11, 1)]
    for copy in ("m", "n"):
        copied.wait_for(lambda copy=copy: (copied.trim(), copied.held(copy) == 0)[1])  # type: ignore[misc]


def test_nothing_is_lost_or_repeated_when_copies_and_the_reader_come_and_go(copied: Copied) -> None:
    entries = [(number % 2, number // 3, number) for number in range(120)]
    for step in range(0, 120, 10):
        piece = entries[step : step + 10]
        promises = {"a": step // 3, "b": step // 3}
        copied.append("m", piece, **promises)
        copied.append("n", piece[::-1], **promises)
        for node in {30: "m", 50: "r", 70: "n", 90: "r"}.get(step, ""):
            copied.crash(node)
            copied.start(node)
        copied.trim()
    copied.wait_for(
        lambda: (
            len(copied.inlet().copies) == 2 and all(each.position.id == 120 for each in copied.inlet().copies.values())
        )
    )
    assert sorted(copied.passed()) == sorted(entries)
    assert copied.inlet().punctuations == {"a": 36, "b": 36}


def test_a_copy_that_is_gone_holds_up_nobody(copied: Copied) -> None:
    copied.wait_for(lambda: copied.is_read("m") and copied.is_read("n"))
    copied.crash("n")
    copied.append("m", [(0, 10, 1)], a=11)
    copied.wait_for(lambda: copied.inlet().punctuations == {"a": 11})
    copied.wait_for(lambda: not copied.is_read("n"))
    copied.start("n")
    copied.wait_for(lambda: copied.is_read("n"))
    copied.append("n", [(0, 10, 1), (0, 20, 2)], a=21)
    copied.wait_for(lambda: copied.inlet().punctuations == {"a": 21})
    assert copied.passed() == [(0, 10, 1), (0, 20, 2)]


# --- over Flight only ----------------------------------------------------------------------------------------------


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


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


def test_copies_that_differ_raise_an_alarm(tmp_path: Path, opened: ExitStack) -> None:
    pair = {name: Upstream(tmp_path / f"{name}.db") for name in ("m", "n")}
    for each in pair.values():
        opened.callback(each.close)
    down = Downstream(tmp_path / "d.db", pair)
    opened.callback(down.close)
    wait_for(lambda: len(down.inlet.state.copies) == 2)
    end = 2 * DIGEST_INTERVAL_US
    pair["m"].append([(0, 10, 1), (0, DIGEST_INTERVAL_US, 2)], a=end)
    pair["n"].append([(0, DIGEST_INTERVAL_US, 3), (0, 10, 1)], a=end)
    wait_for(lambda: bool(down.inlet.alarms().count))
    (alarm,) = down.inlet.alarms().latest
    assert (alarm.stream, alarm.start) == ("s", "1970-01-01 00:00:10.000000")
    assert set(alarm.copies) == {"m", "n"}


def test_a_bug_is_shown_and_does_not_end_the_reading(
    tmp_path: Path, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = Upstream(tmp_path / "m.db")
    opened.callback(up.close)
    down = Downstream(tmp_path / "d.db", {"m": up})
    opened.callback(down.close)
    follower = down.followers["m"]
    with monkeypatch.context() as patch:
        patch.setattr(inlet, "header_of", lambda *_: 1 / 0)
        up.append([(0, 10, 1)], a=10)
        wait_for(lambda: "ZeroDivisionError" in str(follower.statistics().error))
    wait_for(lambda: entries_of(down.journal) == [(0, 10, 1)])
    wait_for(lambda: (follower.statistics().state, follower.statistics().error) == ("read", None))


def test_another_query_is_refused(tmp_path: Path, opened: ExitStack) -> None:
    up = Upstream(tmp_path / "m.db")
    opened.callback(up.close)
    up.append([(0, 10, 1)], a=10)
    down = Downstream(tmp_path / "d.db", {"m": up}, origins=("a", "c"))
    opened.callback(down.close)
    wait_for(lambda: down.followers["m"].failure is not None)
    assert "runs a different query" in str(down.followers["m"].failure)
    assert entries_of(down.journal) == []
