"""The verbs of deployments where nothing runs, or nothing can: what is told, and with which exit code."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.deploy.plan import load_plan
from anabranch.deploy.running import registered
from tests.unit.cli.conftest import Cli
from tests.unit.deploy.files import GOOD, with_free_ports, write
from tests.unit.docs.pages import documented_keys


@pytest.fixture(autouse=True)
def _nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on this machine beside the tests is not theirs."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_node_that_the_file_does_not_have(cli: Cli, tmp_path: Path) -> None:
    result = cli("node", str(write(tmp_path)), "e")
    assert result.exit_code == 2
    assert "has no node 'e'. Candidates: a, b, c, d." in result.stderr


@pytest.mark.parametrize("verb", [["up"], ["up", "--embedded"]], ids=" ".join)
def test_all_mistakes_of_a_file_are_told_before_anything_starts(cli: Cli, tmp_path: Path, verb: list[str]) -> None:
    file = write(tmp_path, GOOD.replace('counts = "d"', 'counts = "e"\nnone = "a"'))
    result = cli(*verb, str(file))
    assert result.exit_code == 2
    assert "has 2 mistakes" in result.stderr
    assert not (tmp_path / ".anabranch").exists()


@pytest.mark.parametrize("verb", [["up"], ["up", "--embedded"]], ids=" ".join)
def test_a_port_that_is_taken_is_told_before_anything_starts(cli: Cli, tmp_path: Path, verb: list[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        result = cli(*verb, str(write(tmp_path, GOOD.replace("7003", str(port)))))
    assert result.exit_code == 2
    assert f"nodes.c.address: The port of 127.0.0.1:{port} cannot be used: Address already in use." in result.stderr
    assert not (tmp_path / ".anabranch").exists()
    assert cli("status").exit_code == 3  # it is not left as running


def test_nodes_that_share_a_process_ask_for_one_spark(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace('7002"', '7002", spark = {master = "local[7]"}'))
    result = cli("up", "--embedded", str(file))
    assert result.exit_code == 2
    assert "Nodes b and c have different Spark settings" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["status", "--deployment"], ["fault", "kill", "a"], ["fault", "resume", "a"]],
    ids=" ".join,
)
def test_nothing_runs(cli: Cli, arguments: list[str]) -> None:
    result = cli(*arguments)
    assert result.exit_code == 3
    assert result.stderr == (
        "error[node-unreachable]: No deployment is running on this machine. Start one: anabranch up FILE\n"
    )


def test_a_deployment_that_runs_elsewhere_cannot_be_hurt_from_here(cli: Cli, tmp_path: Path) -> None:
    result = cli("fault", "kill", "a", "--deployment", str(write(tmp_path)))
    assert result.exit_code == 3
    assert "deployment.toml is not running on this machine. Start it: anabranch up" in result.stderr


def test_nodes_that_do_not_answer_are_shown_as_such(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path, with_free_ports())
    address = load_plan(file).nodes["a"].address
    result = cli("status", "--deployment", str(file))
    assert result.exit_code == 0, result.stderr
    words = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert f"a unreachable {address} - takes in ping, load" in words
    assert "counts d unreachable - -" in words
    assert f"node a: No node answers at {address}: nothing listens there." in result.stdout
    assert cli("status", str(file)).stdout == result.stdout
    found = json.loads(cli("status", "--deployment", str(file), "--json").stdout)
    assert found.keys() == documented_keys("status --deployment --json")
    assert found["nodes"]["d"].keys() <= documented_keys("node of a deployment")
    (query,) = found["queries"].values()
    assert query.keys() == documented_keys("query")


def test_the_names_of_running_nodes_are_completed(tmp_path: Path) -> None:
    from anabranch.cli.completing import running_node

    assert running_node("") == []
    with registered(write(tmp_path)):
        assert running_node("") == ["a", "b", "c", "d"]
        assert running_node("c") == ["c"]
    with registered(tmp_path / "deleted.toml"):
        assert running_node("") == []
