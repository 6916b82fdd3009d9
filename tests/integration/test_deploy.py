"""``anabranch deploy``: a node that waits as a process of its own gets its part, runs it, and keeps it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from anabranch.deploy.handing import hand_over
from anabranch.deploy.plan import load_plan
from anabranch.errors import NodeUnreachable
from anabranch.transport.client import Client
from anabranch.transport.ports import HandOver
from anabranch.transport.server import FlightServer
from tests.integration.deployments import write
from tests.unit.transport.fake_node import FakeNode
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.processes


class TakesAll:
    def may_take(self, given: HandOver) -> bool:
        return True

    def take(self, given: HandOver) -> None:
        pass


@contextmanager
def node(file: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "anabranch.cli", "node", str(file), name, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def state(client: Client) -> object:
    try:
        return client.status().state
    except NodeUnreachable:
        return None


def test_a_waiting_node_starts_when_it_is_given_a_query_and_again_by_itself(tmp_path: Path) -> None:
    file = write(tmp_path)
    alone = tmp_path / "nodes.toml"
    alone.write_text(file.read_text().partition("[queries")[0])
    nodes = load_plan(alone).nodes
    with ExitStack() as others, Client(str(nodes["a"].address), timeout_s=HANG_S) as client:
        for name in ("b", "c"):  # only their doors
            others.enter_context(FlightServer(FakeNode(), *nodes[name].address, assignments=TakesAll()))
        with node(alone, "a") as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["queries"] == []
            assert state(client) == "waiting"
            hand_over(file)
            wait_for(lambda: state(client) == "running")
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        with node(alone, "a") as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert (told["queries"], told["address"]) == (["numbers"], str(nodes["a"].address))


def test_a_waiting_node_stops_when_it_is_told(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().partition("[queries")[0])
    with node(file, "a") as process, Client(str(load_plan(file).nodes["a"].address), timeout_s=HANG_S) as client:
        wait_for(lambda: state(client) == "waiting")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr is not None
        assert "waiting for a query" in process.stderr.read()
