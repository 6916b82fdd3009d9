"""A node that was not there is found by the first call after its start, whichever call that is.

gRPC would refuse these calls until its own attempts to connect come round again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from anabranch.bench.processes import free_ports
from anabranch.errors import NodeUnreachable
from anabranch.transport.client import Client
from anabranch.transport.ports import Push, ReadRequest
from anabranch.transport.server import FlightServer
from tests.unit.transport.fake_node import PING, FakeNode
from tests.waiting import HANG_S

ROWS = pa.RecordBatch.from_pylist([{"source": "a", "target": "b", "rtt_ms": 1.0, "hops": 3}], schema=PING)


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def early(port: int) -> Iterator[Client]:
    """A client that has asked before the node was there."""
    with Client(f"127.0.0.1:{port}", timeout_s=HANG_S) as client:
        with pytest.raises(NodeUnreachable, match="nothing listens there"):
            client.streams()
        yield client


def test_a_question_finds_the_node(early: Client, node: FakeNode, port: int) -> None:
    with FlightServer(node, port=port):
        assert early.streams()


def test_a_read_finds_the_node(early: Client, node: FakeNode, port: int) -> None:
    with FlightServer(node, port=port), early.read(ReadRequest(stream="ping", follow=False)) as batches:
        assert list(batches) == []


def test_an_open_call_finds_the_node(early: Client, node: FakeNode, port: int) -> None:
    call = early.push_call("ping")
    with pytest.raises(NodeUnreachable):
        call.push(Push(source="ping", rows=ROWS))
    with FlightServer(node, port=port):
        call.push(Push(source="ping", rows=ROWS))
    call.close()


def test_a_node_that_was_started_again_is_found(node: FakeNode, port: int) -> None:
    with Client(f"127.0.0.1:{port}", timeout_s=HANG_S) as client:
        for _ in range(3):
            with FlightServer(node, port=port):
                assert client.streams()
            with pytest.raises(NodeUnreachable):
                client.streams()


def test_a_closed_client_opens_no_connection(early: Client, node: FakeNode, port: int) -> None:
    early.close()
    with FlightServer(node, port=port), pytest.raises(NodeUnreachable, match="closed"):
        early.streams()
