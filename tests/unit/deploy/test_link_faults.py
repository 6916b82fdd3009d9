"""Links of a running deployment are hurt at both ends; who does not obey is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from anabranch.deploy.link_faults import fault_links, unheard
from anabranch.deploy.plan import Plan
from anabranch.errors import ConfigError, NodeUnreachable
from anabranch.model.links import Cut, LinkFault
from anabranch.node.relays import faults_refused
from anabranch.transport.server import FlightServer
from tests.unit.cli.conftest import Cli
from tests.unit.deploy.files import GOOD, plan, with_free_ports, write
from tests.unit.transport.fake_node import FakeNode

ALLOWED = "faults = true\n" + GOOD.replace('7003"', '7003", site = "west"').replace('7004"', '7004", site = "west"')


class Deployed:
    """Some nodes of a deployment, each of which notes what it is told to do to its links."""

    def __init__(self, folder: Path) -> None:
        self.file = write(folder, with_free_ports(ALLOWED))
        self.plan: Plan = plan(folder, self.file.read_text())
        self.nodes: dict[str, FakeNode] = {}
        self.opened = ExitStack()

    def start(self, *names: str) -> None:
        for name in names:
            self.nodes[name] = FakeNode()
            port = self.plan.nodes[name].address.port
            self.opened.enter_context(FlightServer(self.nodes[name], port=port))

    def faults(self) -> dict[str, list[tuple[str, LinkFault]]]:
        return {name: node.faults for name, node in self.nodes.items()}


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[Deployed]:
    made = Deployed(tmp_path)
    with made.opened:
        yield made


def test_both_ends_are_told(deployed: Deployed) -> None:
    deployed.start("a", "b")
    assert unheard(fault_links(deployed.plan, "b", "a", Cut())) == []
    assert deployed.faults() == {"a": [("b", Cut())], "b": [("a", Cut())]}


def test_sites_mean_all_their_nodes(deployed: Deployed) -> None:
    deployed.start("a", "c", "d")
    assert unheard(fault_links(deployed.plan, "west", "a", Cut())) == []
    assert deployed.faults() == {"a": [("c", Cut()), ("d", Cut())], "c": [("a", Cut())], "d": [("a", Cut())]}


def test_one_end_that_cannot_be_reached_is_named(deployed: Deployed) -> None:
    deployed.start("a")
    (sentence,) = unheard(fault_links(deployed.plan, "a", "b", Cut()))
    assert sentence.startswith("b did not apply the fault (No node answers at ")
    assert sentence.endswith("Its connections to a are unchanged.")
    assert deployed.faults() == {"a": [("b", Cut())]}


def test_nobody_obeyed(deployed: Deployed) -> None:
    with pytest.raises(NodeUnreachable, match="Neither a nor b can be reached"):
        fault_links(deployed.plan, "a", "b", Cut())


def test_nodes_that_refuse_say_why(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their file did not allow faults yet when they were started."""

    def refuse(*_: object) -> None:
        raise faults_refused()

    monkeypatch.setattr(FakeNode, "fault_link", refuse)
    deployed.start("a", "b")
    with pytest.raises(ConfigError, match="restart its nodes"):
        fault_links(deployed.plan, "a", "b", Cut())


def test_a_deployment_that_does_not_allow_faults_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="faults = true"):
        fault_links(plan(tmp_path), "a", "b", Cut())


# --- on the command line -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        ("cut", [], "cut"),
        ("delay", ["200ms", "50ms"], "delay 200ms ± 50ms"),
        ("slow", ["1Mbit/s"], "at most 1 Mbit/s"),
        ("heal", [], "heal"),
    ],
)
def test_the_program_hurts_links(cli: Cli, deployed: Deployed, verb: str, arguments: list[str], said: str) -> None:
    deployed.start("a", "b")
    result = cli("fault", verb, "a", "b", *arguments, "--deployment", str(deployed.file))
    assert (result.exit_code, result.output) == (0, f"a - b: {said}\n")
    assert [str(fault) for _, fault in deployed.nodes["b"].faults] == [said]


def test_the_program_says_who_did_not_obey(cli: Cli, deployed: Deployed) -> None:
    deployed.start("a")
    result = cli("fault", "cut", "a", "b", "--deployment", str(deployed.file))
    assert (result.exit_code, result.stdout) == (0, "a - b: cut\n")
    assert result.stderr.startswith("warning: b did not apply the fault")
    assert cli("fault", "cut", "c", "b", "--deployment", str(deployed.file)).exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cut", "a", "e"], "There is no node or site 'e'. Candidates: a, b, c, d, west."),
        (["cut", "a", "a"], "they are the same node"),
        (["delay", "a", "b", "soon"], "'soon' is not a duration"),
        (["delay", "a", "b", "1ms", "2ms"], "jitter is larger than the delay"),
        (["slow", "a", "b", "1mbit"], "'1mbit' is not a rate"),
    ],
    ids=" ".join,
)
def test_mistakes_are_told(cli: Cli, deployed: Deployed, arguments: list[str], told: str) -> None:
    result = cli("fault", *arguments, "--deployment", str(deployed.file))
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.replace("│", "").split())


def test_the_program_runs_a_script(cli: Cli, deployed: Deployed, tmp_path: Path) -> None:
    deployed.start("a", "b")
    script = tmp_path / "faults.toml"
    script.write_text(
        '[[steps]]\nat = "0s"\ndo = "cut"\nbetween = ["a", "b"]\n'
        '[[steps]]\nat = "100ms"\ndo = "heal"\nbetween = ["a", "b"]\n'
    )
    result = cli("fault", "run", str(script), "--deployment", str(deployed.file))
    assert (result.exit_code, result.stdout) == (0, "at 0us a - b: cut\nat 100ms a - b: heal\n")
    assert [str(fault) for _, fault in deployed.nodes["a"].faults] == ["cut", "heal"]
    script.write_text('[[steps]]\nat = "0s"\ndo = "kill"\nnode = "a"\n')
    result = cli("fault", "run", str(script), "--deployment", str(deployed.file))
    assert result.exit_code == 3
    assert "is not running on this machine" in result.stdout
