"""Nodes that compare the copies of an output: real logs, and each behind a real Flight server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch import limits
from anabranch.bench.processes import free_ports
from anabranch.core.telling import Range, Telling, Told
from anabranch.errors import NodeUnreachable, StreamNotFound
from anabranch.limits import DIGEST_INTERVAL_US as I
from anabranch.model.times import CLOSED_US
from anabranch.node import telling
from anabranch.node.dialer import Dialer, direct
from anabranch.node.telling import ComparedOutputs
from anabranch.query.boxes import Diagram
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.transport.client import Client
from anabranch.transport.server import FlightServer
from tests.assigning import assigned
from tests.unit.transport.fake_node import FakeNode
from tests.waiting import wait_for

OUTPUT = "sums"
ORIGINS = ("e/0", "e/1")

Entry = tuple[int, int, int]
"""Code of the origin, stream time, value."""


class Replica:
    """A node that makes the output, beside others at these addresses."""

    def __init__(self, path: Path, port: int, others: dict[str, str]) -> None:
        self.path = path
        self.port = port
        self.part = assigned(Diagram(name="q", boxes=(), outputs=()), path.name, compared={OUTPUT: others})

    def open(self) -> Replica:
        self.store = Store.open(self.path)
        schema = pa.schema([("x", pa.int64()), ("text", pa.string())])
        self.log = self.store.create_log(
            LogSpec(name=OUTPUT, schema=schema, origins=ORIGINS, kind="output", retention_us=0, limit_bytes=1 << 40)
        )
        self.dialer = Dialer(direct)
        self.compared = ComparedOutputs(self.part, self.dialer)
        self.server = FlightServer(FakeNode(), port=self.port, outputs=self.compared)
        return self

    def start(self) -> Replica:
        self.compared.open([self.log])
        self.compared.start()
        return self

    def write(self, entries: list[Entry], *, adds: bool = True, **promises: int) -> None:
        """What a stage does with a batch. One column is NULL all over."""
        codes, times, values = zip(*entries, strict=True) if entries else ((), (), ())
        rows = pa.table(
            {
                "_tid": pa.array(times, pa.int64()),
                "_stime": pa.array(times, pa.timestamp("us", "UTC")),
                "_origin": pa.array(codes, pa.int32()),
                "x": pa.array(values, pa.int64()),
                "text": pa.array([None] * len(values), pa.string()),
            }
        )
        said = {f"e/{origin[1:]}": time for origin, time in promises.items()}
        with self.store.transaction() as transaction:
            first_id = transaction.append(OUTPUT, rows, said, now_us=0).first_id
        if adds:
            self.compared.written(OUTPUT, first_id, rows, self.log.punctuations())

    def forget(self) -> None:
        """All of the log."""
        with self.store.transaction() as transaction:
            transaction.trim(OUTPUT, now_us=1)

    def restart(self) -> None:
        self.close()
        self.open().start()

    def compared_with(self, other: str) -> Mapping[str, str]:
        return self.compared.statistics()[OUTPUT][other].compared

    def close(self) -> None:
        self.compared.stop()
        self.dialer.close()
        self.server.stop()
        self.store.close()


Opened = Callable[[str], list[Replica]]


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """One for each letter, by name. None of them has begun to compare."""
    monkeypatch.setattr(limits, "COMPARE_EVERY_S", 0.02)
    with ExitStack() as opened:

        def open_all(names: str) -> list[Replica]:
            ports = dict(zip(names, free_ports(len(names)), strict=True))
            made: list[Replica] = []
            for name, port in ports.items():
                others = {other: f"127.0.0.1:{ports[other]}" for other in names if other != name}
                made.append(Replica(tmp_path / name, port, others).open())
                opened.callback(made[-1].close)
            return made

        yield open_all


def time(interval: int) -> str:
    return f"1970-01-01 00:00:{10 * interval:02}.000000"


def test_equal_copies_are_compared_and_raise_nothing(replicas: Opened) -> None:
    a, b = replicas("ab")
    for each in (a, b):
        each.start()
    a.write([(0, 1, 5), (1, 2, 6)], e0=I, e1=2 * I)
    b.write([(1, 2, 6)], e1=3 * I)
    b.write([(0, 1, 5)], e0=I)
    wait_for(lambda: a.compared_with("b") == {"e/0": time(1), "e/1": time(2)})
    assert a.compared.alarms() == b.compared.alarms() == {}
    assert b.compared.statistics() == {OUTPUT: {}}  # it is asked, and asks nobody


def test_copies_that_differ_raise_an_alarm_with_stream_interval_and_copies(
    replicas: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c = replicas("abc")
    for each in (a, b, c):
        each.start()
        each.write([(0, 1, 5), (0, I, 6 if each is not b else 7)], e0=2 * I)
    with caplog.at_level(logging.ERROR):
        wait_for(lambda: bool(a.compared.alarms()) and bool(b.compared.alarms()))
    wait_for(lambda: a.compared_with("c") == {"e/0": time(2)})
    (found,) = a.compared.alarms()[OUTPUT].latest
    assert (found.stream, found.origin, found.start, found.end) == (OUTPUT, "e/0", time(1), time(2))
    assert {copy: each.rows for copy, each in found.copies.items()} == {"a": 1, "b": 1}
    assert set(b.compared.alarms()[OUTPUT].latest[0].copies) == {"b", "c"}
    assert c.compared.alarms() == {}
    assert f"Copies of {OUTPUT} differ in the tuples of e/0 from {time(1)} to {time(2)}" in caplog.text


def test_one_that_is_away_is_compared_when_it_is_back_also_what_it_wrote_before(replicas: Opened) -> None:
    a, b = replicas("ab")
    a.start()
    b.start()
    b.write([(0, 1, 5)], e0=I)
    b.close()
    a.write([(0, 1, 6)], e0=I)
    wait_for(lambda: a.compared.statistics()[OUTPUT]["b"].error is not None)
    b.open().start()
    wait_for(lambda: bool(a.compared.alarms()))
    wait_for(lambda: a.compared.statistics()[OUTPUT]["b"].error is None)


@pytest.mark.parametrize("who", [["a"], ["b"], ["a", "b"]])
def test_what_was_written_before_a_restart_is_compared_also_if_nothing_follows(
    replicas: Opened, who: list[str]
) -> None:
    """Here the stream is over: its last promise is that of a closed lane."""
    both = dict(zip("ab", replicas("ab"), strict=True))
    for name, each in both.items():
        each.compared.open([each.log])
        each.write([(0, 1, 5), (1, 2 * I, 5 if name == "a" else 6)], e0=CLOSED_US, e1=CLOSED_US)
    for name in who:
        both[name].restart()
    for name in both.keys() - set(who):
        both[name].start()
    wait_for(lambda: both["a"].compared_with("b") == {"e/0": "closed", "e/1": "closed"})
    assert [each.start for each in both["a"].compared.alarms()[OUTPUT].latest] == [time(2)]


def test_one_that_wrote_much_begins_behind_it(replicas: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPARE_BACK_ROWS", 3)
    a, b = replicas("ab")
    for each in (a, b):
        each.start()
        each.write([(0, at, at) for at in range(1, 5)], e0=2)
    b.restart()
    b.write([], e0=I)
    a.write([(0, 5, 5)], e0=I)  # b has not, but does not vouch for its interval
    a.write([(0, I, 6)], e0=2 * I)
    b.write([(0, I, 7)], e0=2 * I)
    wait_for(lambda: bool(a.compared.alarms()))
    assert [each.start for each in a.compared.alarms()[OUTPUT].latest] == [time(1)]


def test_what_was_forgotten_before_a_restart_is_left_out(replicas: Opened) -> None:
    a, b = replicas("ab")
    b.write([(0, 1, 5)], e0=I)
    b.forget()
    b.start()
    a.start()
    a.write([(0, 1, 5)], e0=I)
    b.write([(0, 3 * I, 7)], e0=4 * I)
    a.write([(0, 3 * I, 8)], e0=4 * I)
    wait_for(lambda: bool(a.compared.alarms()))
    assert [each.start for each in a.compared.alarms()[OUTPUT].latest] == [time(3)]


def test_what_is_read_and_forgotten_at_once_is_compared(replicas: Opened) -> None:
    a, b = replicas("ab")
    for each in (a, b):
        each.start()
        for at in range(5):
            each.write([(0, at * I, at if each is a else 9)], e0=(at + 1) * I)
            each.forget()
    wait_for(lambda: a.compared_with("b") == {"e/0": time(5)})
    assert a.compared.alarms()[OUTPUT].count == 5


Breaks = Callable[[Replica, pytest.MonkeyPatch], None]


def cannot_be_added_up(replica: Replica, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(telling, "row_numbers", lambda *_: 1 / 0)
    replica.write([(0, I, 6)], e0=2 * I)


def batch_is_missing(replica: Replica, patch: pytest.MonkeyPatch) -> None:
    """As if its thread had ended between the commit and this."""
    replica.write([(0, I, 6)], e0=2 * I, adds=False)
    replica.write([(0, 2 * I, 6)], e0=2 * I)


def log_cannot_be_read_back(replica: Replica, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "read", lambda *_: 1 / 0)
    replica.restart()


@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize("breaks", [cannot_be_added_up, batch_is_missing, log_cannot_be_read_back])
def test_what_goes_wrong_is_said_by_who_asks_raises_no_alarm_and_holds_up_nobody(
    replicas: Opened,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    breaks: Breaks,
    which: str,
) -> None:
    a, b = replicas("ab")
    for each in (a, b):
        each.start()
        each.write([(0, 1, 5)], e0=I)
    wait_for(lambda: a.compared_with("b") == {"e/0": time(1)})
    with monkeypatch.context() as patch:
        breaks(a if which == "a" else b, patch)
    for each in (a, b):
        each.write([(0, 2 * I, 6)], e0=4 * I)
    wait_for(lambda: "sums is no longer compared" in str(a.compared.statistics()[OUTPUT]["b"].error))
    assert "sums is no longer compared" in caplog.text
    assert a.compared.alarms() == {}


def test_a_bug_in_what_another_says_is_said_and_asked_again(replicas: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = replicas("ab")
    b.start()
    with monkeypatch.context() as patch:
        patch.setattr(Telling, "told", lambda *_: {"e/0": Told(range=Range(begin_us=0, end_us=I), **_NONSENSE)})
        a.start()
        for each in (a, b):
            each.write([(0, 1, 5)], e0=I)
        wait_for(lambda: a.compared.statistics()[OUTPUT]["b"].error is not None)
    wait_for(lambda: a.compared_with("b") == {"e/0": time(1)})
    assert a.compared.statistics()[OUTPUT]["b"].error is None
    assert a.compared.alarms() == {}


_NONSENSE: dict[str, list[int]] = {"starts_us": [1 << 80], "rows": [1], "totals": [1]}


def test_who_has_no_copy_is_refused_and_one_that_starts_says_so(replicas: Opened) -> None:
    _, b = replicas("ab")
    client = Client(b.server.address)
    with pytest.raises(StreamNotFound, match="'x' has no copy of 'sums' to compare"):
        client.digests("x", OUTPUT, {})
    with pytest.raises(StreamNotFound, match="'a' has no copy of 'other' to compare"):
        client.digests("a", "other", {})
    with pytest.raises(NodeUnreachable, match="not available yet"):
        client.digests("a", OUTPUT, {})
    b.start()
    assert client.digests("a", OUTPUT, {}) == {}
    client.close()
