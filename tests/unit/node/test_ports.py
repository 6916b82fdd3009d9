"""What clients may ask of a node, on a real state directory and server, but without Spark: no stage ever runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import ConfigError, NodeUnreachable, StreamNotFound
from anabranch.model.links import Cut, Heal, Link
from anabranch.model.position import Position
from anabranch.node.node import Node
from anabranch.node.relays import Relays
from anabranch.node.settings import NodeSettings
from anabranch.query.builder import Query
from anabranch.storage.log import Log
from anabranch.transport.client import Client
from anabranch.transport.ports import Push, ReadRequest
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_stages")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    query = Query("q")
    query.output("o", query.source("s", "x bigint").filter("x > 1"))
    query.output("two", query.source("t", "x bigint", producers=("a", "b")))
    with Node(query, tmp_path / "state", NodeSettings(log_bytes=50_000)) as node:
        yield node


def push(node: Node, count: int) -> None:
    node.host.doors.push(Push(source="s", count=count, rows=pa.RecordBatch.from_pydict({"x": pa.array(range(count))})))


def log_of(node: Node) -> Log:
    return node.hosted.streams.logs["s"][1]


def read(node: Node, **request: object) -> list[pa.RecordBatch]:
    return list(node.host.doors.read(ReadRequest(stream="s", **request), lambda: False))  # type: ignore[arg-type]


def test_nobody_acknowledges_in_the_name_of_a_stage(node: Node) -> None:
    push(node, 10)
    with pytest.raises(ConfigError, match="not a name for a reader"):
        node.host.doors.acknowledge("s", "stage:s", Position(log_of(node).incarnation, 10))
    assert log_of(node).readers() == {"stage:s": 0}
    assert log_of(node).first_id() == 1


def test_a_reader_of_another_incarnation_is_refused_and_not_remembered(node: Node) -> None:
    push(node, 10)
    with pytest.raises(StreamNotFound, match="incarnation"):
        read(node, start=Position("elsewhere", 5), reader="r")
    assert "r" not in log_of(node).readers()


def test_a_reader_that_was_cut_off_can_be_forgotten_and_begin_anew(node: Node) -> None:
    store, log = node.hosted.streams.logs["s"]
    read(node, reader="slow")
    with store.transaction() as transaction:
        transaction.remove_reader("s", "stage:s")
        transaction.add_reader("s", "fast", at_seq=0)
    while not log.is_full():
        push(node, 1_000)
    with store.transaction() as transaction:
        transaction.acknowledge("s", "fast", log.end_seq())
        transaction.make_room("s", now_us=1)
    with pytest.raises(StreamNotFound, match="cut off"):
        read(node, reader="slow")
    node.host.doors.forget_reader("s", "slow")
    read(node, reader="slow")
    assert "slow" in log.readers()


def test_a_log_that_is_full_at_the_start_is_trimmed_before_the_first_batch_is_through(node: Node) -> None:
    """The first batch waits for room: whoever makes it must not wait for that batch."""
    node.hosted._ready.clear()
    store, log = node.hosted.streams.logs["s"]
    with store.transaction() as transaction:
        transaction.remove_reader("s", "stage:s")
        for reader in ("dead", "fast"):
            transaction.add_reader("s", reader, at_seq=0)
    while not log.is_full():
        push(node, 1_000)
    with store.transaction() as transaction:
        transaction.acknowledge("s", "fast", log.end_seq())
    wait_for(lambda: not log.is_full())
    assert log.cut_off() == {"dead"}


def test_a_push_that_waits_for_room_does_not_hold_up_a_stop(node: Node) -> None:
    while not log_of(node).is_full():
        push(node, 1_000)
    node.hosted._stopping.set()
    with pytest.raises(NodeUnreachable, match="stopping"):
        push(node, 1)


@pytest.mark.parametrize("lane", [None, "", "c"])
def test_of_several_lanes_only_one_that_is_named_is_closed(node: Node, lane: str | None) -> None:
    with pytest.raises(ConfigError, match="lane"):
        node.host.doors.close_lane("t", lane)
    assert not any(state.closed for state in node.statistics().sources["t"].lanes.values())


def test_faults_are_refused_by_a_node_that_was_not_told_to_allow_them(node: Node) -> None:
    with pytest.raises(ConfigError, match="Faults are not allowed"):
        node.host.doors.fault_link("b", Cut())


def test_links_are_shown_hurt_and_closed_with_the_node(tmp_path: Path) -> None:
    query = Query("q")
    query.output("o", query.source("s", "x bigint").filter("x > 1"))
    relays = Relays("a", {"b": Link(delay_us=5_000)}, allow_faults=True)
    with Node(query, tmp_path / "state", relays=relays) as node, Client(node.address) as client:
        client.fault_link("b", Cut())
        links = client.status().links
        assert links["b"].state == "cut"
    with pytest.raises(NodeUnreachable, match="stopping"):
        relays.set("b", Heal())
