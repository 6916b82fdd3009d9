"""The nodes of a deployment as processes: hurt and healed one by one, and gone when whoever runs them is gone.

Entry points only: they need no Spark, and start in a second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.cli.scene import Scene
from anabranch.deploy.faults import Faults
from anabranch.deploy.sessions import members
from anabranch.deploy.supervisor import Supervisor
from tests.integration.deployments import write
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    with Supervisor(write(tmp_path_factory.mktemp("deployment")), environment={"FLAVOUR": "sour"}) as supervisor:
        supervisor.start(["a", "b"])
        yield supervisor


@pytest.fixture
def nodes(started: Supervisor) -> Supervisor:
    """Two that run, whatever the last test did to them."""
    for name in ("a", "b"):
        if not started.child(name).is_alive:
            started.restart(name)
    started.wait_running(["a", "b"])
    return started


def push(nodes: Supervisor, name: str, count: int) -> None:
    with ab.connect(str(nodes.plan.nodes[name].address)) as connection:
        connection.push({"a": "numbers", "b": "others"}[name], [{"n": n} for n in range(count)])


def rows(nodes: Supervisor, name: str) -> int:
    """Rows that the node has, of all its lives."""
    with ab.connect(str(nodes.plan.nodes[name].address)) as connection:
        (info,) = [each for each in connection.streams() if each.kind == "source"]
        return info.last_id


def answers(nodes: Supervisor, name: str, within_s: float = HANG_S) -> bool:
    with ab.connect(str(nodes.plan.nodes[name].address), timeout_s=within_s) as connection:
        try:
            return bool(connection.status())
        except ab.NodeUnreachable:
            return False


def test_a_node_is_killed_and_comes_back_with_its_rows_or_without(nodes: Supervisor) -> None:
    before = {name: rows(nodes, name) for name in ("a", "b")}
    starts = nodes.statistics()["a"]["starts"]
    push(nodes, "a", 10)
    push(nodes, "b", 5)
    session = nodes.child("a").session
    nodes.kill("a")
    assert members(session) == {}
    assert not answers(nodes, "a")
    assert answers(nodes, "b")
    assert nodes.look() == []  # it was asked for
    nodes.restart("a")
    nodes.wait_running(["a"])
    assert rows(nodes, "a") == before["a"] + 10
    nodes.restart("a", lose_disk=True)
    nodes.wait_running(["a"])
    assert rows(nodes, "a") == 0
    assert rows(nodes, "b") == before["b"] + 5
    assert nodes.statistics()["a"]["starts"] == starts + 2


def test_nodes_have_the_environment_that_was_given_beside_that_of_the_supervisor(nodes: Supervisor) -> None:
    found = Path("/proc", str(nodes.child("a").session), "environ").read_bytes().split(b"\0")
    assert {b"FLAVOUR=sour", f"PATH={os.environ['PATH']}".encode()} <= set(found)


def test_waiting_for_a_node_can_be_ended(nodes: Supervisor) -> None:
    def enough() -> None:
        raise TimeoutError("enough")

    nodes.pause("a")
    with pytest.raises(TimeoutError, match="enough"):
        nodes.wait_running(["a"], between=enough)
    nodes.resume("a")


def test_a_paused_node_is_silent_and_goes_on(nodes: Supervisor) -> None:
    before = rows(nodes, "a")
    nodes.pause("a")
    assert set(members(nodes.child("a").session).values()) == {"T"}
    assert not answers(nodes, "a", within_s=1.0)
    nodes.resume("a")
    wait_for(lambda: answers(nodes, "a"))
    assert nodes.child("a").state == "running"
    assert rows(nodes, "a") == before


def test_what_cannot_be_done_is_told(nodes: Supervisor) -> None:
    with pytest.raises(ab.ConfigError, match=r"The node a is running. Only a paused node can be resumed."):
        nodes.resume("a")
    with pytest.raises(ab.ConfigError, match=r"There is no node 'd'. Candidates: a, b, c."):
        nodes.kill("d")
    with pytest.raises(ab.ConfigError, match="The node a is running"):
        nodes.start(["a"])
    nodes.kill("a")
    for fault in (nodes.kill, nodes.pause):
        with pytest.raises(ab.ConfigError, match="The node a is killed"):
            fault("a")


def test_a_node_that_ends_by_itself_is_told_and_the_others_go_on(
    nodes: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    os.kill(nodes.child("a").session, signal.SIGKILL)
    found = []
    wait_for(lambda: found.extend(nodes.look()) or found)
    (change,) = found
    assert (change.node, change.state, change.code) == ("a", "ended", -signal.SIGKILL)
    with Scene(nodes) as scene:
        scene.update(found)
    shown = capsys.readouterr().out
    assert f"a ended unexpectedly: it was killed by SIGKILL. Full log: {nodes.child('a').log}. Last lines:\n" in shown
    assert "running\n" in shown.partition("Last lines:")[2]
    assert nodes.child("b").state == "running"
    with pytest.raises(ab.OperatorError, match="The node a was killed by SIGKILL"):
        nodes.wait_running(["a"])


def test_faults_need_the_word_of_the_file(tmp_path: Path) -> None:
    with Supervisor(write(tmp_path, faults=False)) as supervisor:
        supervisor.start(["a"])
        faults = Faults(supervisor)
        with pytest.raises(ab.ConfigError, match="Write faults = true at its top, and restart it"):
            faults.handle({"do": "kill", "node": "a"})
        assert faults.handle({"do": "look"})["nodes"]["a"]["state"] == "starting"


def test_a_clean_stop_ends_all_also_one_that_is_paused(tmp_path: Path) -> None:
    with Supervisor(write(tmp_path)) as supervisor:
        supervisor.start(["a", "b"])
        supervisor.wait_running(["a", "b"])
        sessions = [supervisor.child(name).session for name in "ab"]
        supervisor.pause("b")
    assert [members(session) for session in sessions] == [{}, {}]
    assert {supervisor.child(name).code for name in "ab"} == {0}


def test_no_node_outlives_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import time; from anabranch.deploy.supervisor import Supervisor\n"
        f"nodes = Supervisor({str(write(tmp_path))!r}); nodes.start(['a', 'b']); nodes.wait_running(['a', 'b'])\n"
        "nodes.pause('b')\n"
        "print(nodes.child('a').session, nodes.child('b').session, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as supervising:
        assert supervising.stdout is not None
        a, b = map(int, supervising.stdout.readline().split())
        assert all(members(session) for session in (a, b))
        supervising.kill()
    wait_for(lambda: members(a) == members(b) == {}, lambda: (members(a), members(b)))
