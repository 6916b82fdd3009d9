"""Nodes of different versions: whoever calls is told which version each side speaks, and nothing else happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from anabranch.errors import ConfigError
from anabranch.model.position import Position
from anabranch.transport import messages
from anabranch.transport.client import Client
from anabranch.transport.ports import CopyAcknowledgement, CopyRequest

LATER = messages.VERSION + 1
SERVER = f"""
import sys
from anabranch.transport import messages
messages.VERSION = {LATER}
from anabranch.transport.server import FlightServer
from tests.unit.transport.fake_node import FakeNode
with FlightServer(FakeNode()) as server:
    print(server.address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def later() -> Iterator[Client]:
    """A client of a node that is one version ahead."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        with Client(process.stdout.readline().strip()) as client:
            yield client
        process.kill()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.status(),
        lambda client: client.register("ping", "p"),
        lambda client: client.read_copy(
            CopyRequest(stream="ping", reader="replica:b", life="x", position=None, punctuations={})
        ),
        lambda client: client.acknowledge_copies(
            [
                CopyAcknowledgement(
                    stream="ping", reader="replica:b", life="x", position=Position("i", 1), punctuations={}
                )
            ]
        ),
    ],
    ids=["status", "register", "read a copy", "acknowledge a copy"],
)
def test_a_node_of_another_version_is_refused_with_both_versions(
    later: Client, call: Callable[[Client], object]
) -> None:
    with pytest.raises(ConfigError) as caught:
        call(later)
    assert caught.value.message == (
        f"The node at {later.address}: A message has version {LATER}; this side speaks version {messages.VERSION}."
    )
    assert caught.value.remedy == "Run the same version of Anabranch on both sides."
