"""Feeds on a real state directory, without Spark: every row once, whatever is stopped or refused on the way."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from anabranch.core.feed_lease import FeedLease
from anabranch.errors import ConfigError, DiskFull, NotLeading, Overloaded
from anabranch.node.entry import EntryPoint
from anabranch.node.feeding import Feeding
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query.builder import Query
from anabranch.runtime.status import FeedStatus
from anabranch.transport.ports import Registration
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_stages")


def node_with(
    path: Path, feed: str, *, schema: str = "x bigint", settings: NodeSettings | None = None, **source: Any
) -> Node:
    query = Query("q")
    query.output("o", query.source("s", schema, feed=feed, **source))
    return Node(query, path, settings)


def feed_of(node: Node) -> FeedStatus:
    return node.statistics().feeds["s"]


def rows_of(node: Node, column: str = "x") -> list[Any]:
    log = node.hosted.streams.logs["s"][1]
    segments = log.read(log.first_seq() - 1, log.end_seq())
    return [
        value for segment in segments if segment.rows is not None for value in segment.rows.column(column).to_pylist()
    ]


@pytest.mark.parametrize("producers", [(), ("agent",)])
def test_a_generator_that_is_stopped_again_and_again_leaves_no_row_out(
    tmp_path: Path, producers: tuple[str, ...]
) -> None:
    spec = "generator:rate=20000,rows=5000,x=sequence"
    for wanted in (1_000, 2_000, 3_000, 4_000):
        with node_with(tmp_path / "state", spec, producers=producers) as node:
            wait_for(lambda at_least=wanted: node.hosted.streams.logs["s"][1].last_id() >= at_least, node.statistics)  # type: ignore[misc]
    with node_with(tmp_path / "state", spec, producers=producers) as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)
        assert rows_of(node) == list(range(5000))
        (lane,) = node.statistics().sources["s"].lanes.values()
        assert lane.closed
    with node_with(tmp_path / "state", spec, producers=producers) as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)
        assert node.hosted.streams.logs["s"][1].last_id() == 5000


def test_a_file_is_fed_once_and_the_lane_closed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n" + "".join(f"{number}\n" for number in range(100)))
    for _ in range(2):
        with node_with(tmp_path / "state", f"file:{tmp_path / 'a.csv'}") as node:
            wait_for(lambda: feed_of(node).state == "finished", node.statistics)
            assert rows_of(node) == list(range(100))


def test_a_file_that_is_waited_for_goes_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.connectors.file_feed.LOOK_S", 0.02)
    path = tmp_path / "live.jsonl"
    spec = f"file:{path},then=wait"
    path.write_text('{"x": 1}\n')
    with node_with(tmp_path / "state", spec) as node:
        wait_for(lambda: rows_of(node) == [1], node.statistics)
        path.write_text('{"x": 1}\n{"x": 2}\n')
        wait_for(lambda: rows_of(node) == [1, 2], node.statistics)
    path.write_text('{"x": 1}\n{"x": 2}\n{"x": 3}\n')
    with node_with(tmp_path / "state", spec) as node:
        wait_for(lambda: rows_of(node) == [1, 2, 3], node.statistics)
        assert feed_of(node).state == "running"


def test_a_row_that_is_refused_ends_the_feed_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,at\n1,2026-01-01T00:00:00Z\n2,\n")
    spec = f"file:{tmp_path / 'a.csv'}"
    with node_with(tmp_path / "state", spec, schema="x bigint, at timestamp", time="at") as node:
        wait_for(lambda: feed_of(node).state == "failed", node.statistics)
        error = feed_of(node).error
        assert "a.csv, row 2" in error
        assert "NULL" in error
        assert rows_of(node) == []  # a push is taken whole or not at all
    (tmp_path / "a.csv").write_text("x,at\n1,2026-01-01T00:00:00Z\n2,2026-01-01T00:00:00Z\n")
    with node_with(tmp_path / "state", spec, schema="x bigint, at timestamp", time="at") as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)
        assert rows_of(node) == [1, 2]


def test_a_missing_file_is_told_at_the_start_with_the_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"source 's'.*missing\.csv"), node_with(tmp_path / "s", "file:missing.csv"):
        pass


def test_another_feed_may_go_on_with_an_old_state_directory(tmp_path: Path) -> None:
    with node_with(tmp_path / "state", "generator:rate=max,rows=3,x=sequence,then=wait") as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)
    with node_with(tmp_path / "state", "generator:rate=max,rows=5,x=sequence(100)") as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)
        assert rows_of(node) == [0, 1, 2, 103, 104]


def test_a_full_log_makes_the_feed_wait_and_a_stop_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.limits.PUSH_WAIT_S", 0.05)
    node = node_with(tmp_path / "state", "generator:rate=max,x=sequence", settings=NodeSettings(log_bytes=200_000))
    with node:
        wait_for(lambda: feed_of(node).state == "waiting", node.statistics)
        assert "full" in feed_of(node).error
        store, log = node.hosted.streams.logs["s"]
        before = log.last_id()
        with store.transaction() as transaction:
            transaction.acknowledge("s", "stage:s", log.end_seq())
        wait_for(lambda: log.last_id() > before, node.statistics)
        wait_for(lambda: feed_of(node).state == "waiting", node.statistics)
    assert "feed s" not in {thread.name for thread in threading.enumerate()}


def test_a_closed_lane_is_not_fed_any_more(tmp_path: Path) -> None:
    with node_with(tmp_path / "state", "generator:rate=5") as node:
        wait_for(lambda: node.hosted.streams.logs["s"][1].last_id() > 0, node.statistics)
        node.host.doors.close_lane("s", None)
        wait_for(lambda: feed_of(node).state == "failed", node.statistics)
        assert "closed" in feed_of(node).error
    with node_with(tmp_path / "state", "generator:rate=5") as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)


def test_of_several_producers_the_feed_is_the_one_it_names(tmp_path: Path) -> None:
    spec = "generator:rate=max,rows=10,producer=b"
    with node_with(tmp_path / "state", spec, producers=("a", "b")) as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)
        lanes = node.statistics().sources["s"].lanes
        assert [(lane, facts.closed) for lane, facts in lanes.items()] == [("s/a", False), ("s/b", True)]
        assert len(rows_of(node)) == 10


def test_a_feed_that_cannot_register_because_of_a_full_disk_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = EntryPoint.register
    refusals = [DiskFull("The disk is full."), Overloaded("The log is full.")]

    def refuse(entry: EntryPoint, producer: str, session: int | None = None) -> Registration:
        if refusals:
            raise refusals.pop(0)
        return register(entry, producer, session)

    monkeypatch.setattr(EntryPoint, "register", refuse)
    with node_with(tmp_path / "state", "generator:rate=max,rows=10,x=sequence") as node:
        wait_for(lambda: feed_of(node).state == "finished", node.statistics)
        assert rows_of(node) == list(range(10))


class Other:
    """The same feed on another host, as far as it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
        self.speaks: bool | None = False
        hosts = ("a", "b") if home == "a" else ("b", "a")
        monkeypatch.setattr(Feeding, "_lease", lambda *_: FeedLease("a", hosts, TAKEOVER_US))
        monkeypatch.setattr(Feeding, "_speaks_on", lambda *_: self.speaks)

    def register(self, node: Node) -> None:
        """It takes the feed over."""
        self.speaks = True
        node.hosted.entry("s").register("agent")


TAKEOVER_US = 400_000
FED = "generator:rate=2000,x=sequence"


def test_a_copy_that_is_replaced_goes_on_later_and_counts_all_rows_that_it_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Other(monkeypatch, "a")
    with node_with(tmp_path / "state", FED, producers=("agent",)) as node:
        wait_for(lambda: feed_of(node).rows > 100, node.statistics)
        other.register(node)
        wait_for(lambda: feed_of(node).state == "standby", node.statistics)
        brought = feed_of(node).rows
        assert brought == len(rows_of(node))
        other.speaks = False
        wait_for(lambda: feed_of(node).rows > brought, node.statistics)
        assert (feed_of(node).state, feed_of(node).speaks) == ("running", True)


def test_a_copy_that_cannot_register_lets_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Other(monkeypatch, "a")
    is_stuck = threading.Event()
    register = EntryPoint.register

    def stuck(entry: EntryPoint, producer: str, session: int | None = None) -> Registration:
        if is_stuck.is_set():
            raise NotLeading("Nobody leads the lane.")
        return register(entry, producer, session)

    monkeypatch.setattr(EntryPoint, "register", stuck)
    is_stuck.set()
    with node_with(tmp_path / "state", FED, producers=("agent",)) as node:
        wait_for(lambda: "Nobody leads" in (feed_of(node).error or ""), node.statistics)
        assert not feed_of(node).speaks
        other.speaks = True
        wait_for(lambda: feed_of(node).state == "standby", node.statistics)
        is_stuck.clear()
        other.speaks = False
        wait_for(lambda: feed_of(node).state == "running" and feed_of(node).error is None, node.statistics)
        assert feed_of(node).speaks
