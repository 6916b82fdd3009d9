"""The program as its users call it, against a fake node behind a real Flight server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from typer.testing import CliRunner, Result

from anabranch.cli.app import app
from anabranch.errors import PushRefused
from anabranch.runtime.status import HostStatus
from anabranch.transport.ports import Push, PushAnswer
from anabranch.transport.server import FlightServer
from tests.statuses import host_status
from tests.unit.docs import commands
from tests.unit.transport.fake_node import FakeNode

Cli = Callable[..., Result]


@dataclass
class TalkingNode(FakeNode):
    """A fake node whose status is what the test says, and that does not count the rows it refuses."""

    told: dict[str, object] = field(default_factory=dict)

    def push(self, push: Push) -> PushAnswer:
        counters = dict(self.counters)
        try:
            return super().push(push)
        except PushRefused:
            self.counters = counters
            raise

    def status(self) -> HostStatus:
        return host_status(self.told)


@pytest.fixture
def node() -> TalkingNode:
    return TalkingNode()


@pytest.fixture
def address(node: TalkingNode) -> Iterator[str]:
    with FlightServer(node) as server:
        yield server.address


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs the program in this process."""
    monkeypatch.setattr("typer.testing._get_command", lambda _: commands.program())

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    return run


@pytest.fixture
def program() -> Callable[..., subprocess.Popen[bytes]]:
    """Starts the program as a process of its own, with pipes."""

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "anabranch.cli", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ),
        )

    return start
