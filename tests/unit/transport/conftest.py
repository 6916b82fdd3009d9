"""A fake node behind a real Flight server on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.transport.client import Client
from anabranch.transport.server import FlightServer
from anabranch.transport.session import Connection, connect
from tests.unit.transport.fake_node import FakeNode
from tests.waiting import HANG_S


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def server(node: FakeNode) -> Iterator[FlightServer]:
    with FlightServer(node) as server:
        yield server


@pytest.fixture
def client(server: FlightServer) -> Iterator[Client]:
    with Client(server.address, timeout_s=HANG_S) as client:
        yield client


@pytest.fixture
def connection(server: FlightServer) -> Iterator[Connection]:
    with connect(server.address, timeout_s=HANG_S) as connection:
        yield connection
