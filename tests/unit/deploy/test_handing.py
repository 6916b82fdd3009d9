"""Queries handed to hosts that run: each to all hosts that it names or to none, and kept across their restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.deploy.handing import hand_over
from anabranch.deploy.parts import assigned, settings_of
from anabranch.deploy.plan import NodePlan, load_plan
from anabranch.deploy.taking import Taking, given_before, given_directory, refuse_twice
from anabranch.errors import ConfigError, DeploymentError, NodeUnreachable, QueryError, StateError
from anabranch.model.ids import QueryId
from anabranch.node.host import Host
from anabranch.node.hosted_part import HostedPart
from anabranch.query.text import diagram_to_dict
from anabranch.transport import calls
from anabranch.transport.client import Client
from anabranch.transport.ports import HandOver
from anabranch.transport.server import FlightServer
from tests.unit.cli.conftest import Cli
from tests.unit.deploy.files import QUERY, WITH_TABLE, with_free_ports, write
from tests.unit.transport.fake_node import FakeNode

PATHS = QueryId("paths")

ANYTHING = calls.Call(calls.TAKE.name, "", dict[str, Any], calls.Nothing)
"""The same call with whatever somebody may say."""


@pytest.fixture(autouse=True)
def _no_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of these tests start no Spark: no stage ever runs."""
    monkeypatch.setattr(HostedPart, "_start_stages", lambda query: query._opened.set())


class Hosts:
    """The hosts of a file, which wait; and the file that has something for them."""

    def __init__(self, folder: Path) -> None:
        self.file = write(folder, with_free_ports())
        self.folder = folder
        self.alone = folder / "nodes.toml"
        self.alone.write_text(self.file.read_text().partition("[queries")[0])
        self.nodes = load_plan(self.alone).nodes
        self.running: dict[str, Host] = {}

    def start(self, name: str) -> None:
        node = self.nodes[name]
        state = self.folder / name
        host = Host(
            name,
            state,
            settings_of(node),
            queries=given_before(state, node.tables),
            assignments=lambda host: Taking(host, name, node.address, state),
        )
        host.start()
        self.running[name] = host

    def start_all(self) -> None:
        for name in self.nodes:
            self.start(name)

    def stop(self) -> None:
        while self.running:
            self.running.popitem()[1].stop()

    def given(self) -> dict[str, list[str]]:
        return {name: list(host.queries) for name, host in self.running.items() if host.queries}

    def add_query(self, name: str, *, limit: int = 100) -> None:
        """Another query in the file, with the same boxes on the same hosts."""
        text = self.file.read_text()
        table = text[text.index("[queries.paths]") :]
        query = QUERY.replace("query: paths", f"query: {name}").replace("rtt_ms > 100", f"rtt_ms > {limit}")
        (self.folder / f"{name}.yaml").write_text(query)
        self.file.write_text(
            text + table.replace("queries.paths", f"queries.{name}").replace("paths.yaml", f"{name}.yaml")
        )


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path)
    with ExitStack() as opened:
        opened.callback(made.stop)
        yield made


def handed(hosts: Hosts, name: str) -> HandOver:
    plan = load_plan(hosts.file)
    diagram = diagram_to_dict(plan.queries["paths"].diagram)
    return HandOver(assignment=plan.nodes[name].assignment.queries[PATHS], query=diagram)


def test_every_host_gets_what_the_file_says(hosts: Hosts) -> None:
    hosts.start_all()
    plan, given = hand_over(hosts.file)
    assert given == {name: ["paths"] for name in "abcd"}
    for name, host in hosts.running.items():
        assert host.queries[PATHS].whole == assigned(plan, name, "paths")


def test_a_host_that_is_started_again_has_its_queries(hosts: Hosts) -> None:
    hosts.start_all()
    hand_over(hosts.file)
    before = hosts.running["d"].queries[PATHS].whole
    hosts.stop()
    hosts.file.unlink()  # it needs nothing of whoever gave it
    (hosts.folder / "paths.yaml").unlink()
    hosts.start("d")
    assert hosts.running["d"].queries[PATHS].whole == before


def test_a_node_reads_no_table_that_its_own_file_does_not_name(hosts: Hosts) -> None:
    """Whoever hands over a query says nothing of the files of other machines."""
    text = hosts.file.read_text().replace("b = {", 'b = {tables = {hosts = "/etc/passwd"}, ')
    write(hosts.folder, text, WITH_TABLE)
    hosts.start("b")
    with Client(str(hosts.nodes["b"].address)) as client:
        with pytest.raises(ConfigError, match="The file of node b has no location for its table 'hosts'"):
            client.take(handed(hosts, "b"))
        assert hosts.given() == {}
    hosts.stop()
    hosts.alone.write_text(hosts.alone.read_text().replace("b = {", 'b = {tables = {hosts = "here.csv"}, '))
    (hosts.folder / "here.csv").write_text("host,site\na,east\n")
    hosts.nodes = load_plan(hosts.alone).nodes
    hosts.start("b")
    with Client(str(hosts.nodes["b"].address)) as client:
        client.take(handed(hosts, "b"))
        queries = client.status().queries
    assert queries["paths"].tables["hosts"].rows == 1
    hosts.stop()
    with pytest.raises(ConfigError, match="has no location for its table"):
        given_before(hosts.folder / "b", {})


def test_a_further_query_is_handed_to_hosts_that_run_one(hosts: Hosts) -> None:
    hosts.start_all()
    hand_over(hosts.file)
    hosts.add_query("others")
    _, given = hand_over(hosts.file)
    assert given == {name: ["others"] for name in "abcd"}, "what they have is left alone"
    assert hosts.given() == {name: ["paths", "others"] for name in "abcd"}
    with pytest.raises(ConfigError, match="all nodes already have all queries of the file"):
        hand_over(hosts.file)


def test_a_hand_over_that_was_interrupted_can_be_repeated(hosts: Hosts) -> None:
    hosts.start_all()
    with Client(str(hosts.nodes["b"].address)) as client:
        client.take(handed(hosts, "b"))
        client.take(handed(hosts, "b"))  # once more changes nothing
    _, given = hand_over(hosts.file)
    assert given == {name: ["paths"] for name in "acd"}


def test_another_query_of_the_same_name_is_refused_and_nobody_is_given_anything(hosts: Hosts) -> None:
    hosts.start_all()
    hand_over(hosts.file)
    (hosts.folder / "paths.yaml").write_text(QUERY.replace("rtt_ms > 100", "rtt_ms > 200"))
    hosts.add_query("others")
    with pytest.raises(NodeUnreachable, match="Nothing was deployed") as caught:
        hand_over(hosts.file)
    assert "d: The node d runs another query, or another part of it, under the name paths." in str(caught.value)
    assert hosts.given() == {name: ["paths"] for name in "abcd"}


def test_none_is_given_anything_if_one_is_not_there(hosts: Hosts) -> None:
    for name in "abc":
        hosts.start(name)
    with pytest.raises(NodeUnreachable) as caught:
        hand_over(hosts.file)
    assert "Nothing was deployed" in str(caught.value)
    assert "d: No node answers" in str(caught.value)
    assert "anabranch node FILE d" in str(caught.value)
    assert hosts.given() == {}


def test_a_host_that_was_not_started_for_it_takes_nothing(hosts: Hosts) -> None:
    with (
        FlightServer(FakeNode()) as running,
        Client(running.address) as client,
        pytest.raises(ConfigError, match="accepts no queries"),
    ):
        client.take(handed(hosts, "a"))


def test_what_a_host_cannot_use_is_refused_and_it_waits_on(hosts: Hosts) -> None:
    hosts.start("a")
    given = handed(hosts, "a")
    with Client(str(hosts.nodes["a"].address)) as client:
        with pytest.raises(ConfigError, match="is called a, not b"):
            client.take(handed(hosts, "b"))
        with pytest.raises(ConfigError, match="cannot be called"):
            client.take(replace(given, assignment=replace(given.assignment, query=QueryId("../q"))))
        with pytest.raises(ConfigError, match="does not match its query"):
            client.take(replace(given, assignment=replace(given.assignment, query=QueryId("q"))))
        with pytest.raises(QueryError):
            client.take(replace(given, query={"query": "paths", "boxes": [{"map": {}}], "outputs": {}}))
        with pytest.raises(ConfigError, match=r"does not hold a HandOver: .* `host` - at `\$.assignment`"):
            client._call(ANYTHING, {"assignment": {"query": "q"}, "query": {}})
        assert client.status().state == "waiting"
        with pytest.raises(NodeUnreachable, match="is waiting for a query"):  # it may have the stream soon: try again
            client.stream("ping")
        with pytest.raises(NodeUnreachable, match="is waiting for a query"):
            client.about(PATHS).places("b")
    assert hosts.given() == {}
    assert not given_directory(hosts.folder / "a").exists()


def test_a_query_that_cannot_be_kept_is_refused(hosts: Hosts) -> None:
    hosts.start("a")
    given_directory(hosts.folder / "a").touch()
    with Client(str(hosts.nodes["a"].address)) as client, pytest.raises(StateError, match="cannot store the query"):
        client.take(handed(hosts, "a"))
    assert hosts.given() == {}


def test_a_damaged_query_is_told_and_so_is_an_old_directory(hosts: Hosts) -> None:
    directory = given_directory(hosts.folder / "a")
    directory.mkdir()
    (directory / "paths.json").write_text("{")
    with pytest.raises(StateError, match="is damaged"):
        given_before(hosts.folder / "a", {})
    (directory / "deployment.json").write_text(json.dumps({}))
    with pytest.raises(StateError, match="written by an earlier version"):
        given_before(hosts.folder / "a", {})


def test_a_query_that_was_handed_over_cannot_be_in_the_file_too(hosts: Hosts) -> None:
    part = assigned(load_plan(hosts.file), "a", "paths")
    refuse_twice(hosts.file, (part,), (), hosts.folder / "a")
    with pytest.raises(DeploymentError, match=r"a\.deployment/paths\.json"):
        refuse_twice(hosts.file, (part,), (part,), hosts.folder / "a")


def test_mistakes_are_told_before_anybody_is_asked(hosts: Hosts) -> None:
    hosts.file.write_text(hosts.file.read_text().replace('counts = "d"', 'counts = "e"'))
    with pytest.raises(DeploymentError):
        hand_over(hosts.file)
    with pytest.raises(ConfigError, match="has no query to deploy"):
        hand_over(hosts.alone)


def test_the_verb(hosts: Hosts, cli: Cli) -> None:
    hosts.start_all()
    shown = cli("status", "--deployment", str(hosts.alone)).stdout
    assert shown.count("waits for a query") == 4
    address = hosts.nodes["a"].address
    assert cli("status", str(address)).stdout == f"node a at {address} is waiting for a query: anabranch deploy FILE\n"
    result = cli("deploy", str(hosts.file))
    assert result.exit_code == 0, result.output
    assert "d: starting its part of paths" in result.stdout
    assert f"anabranch status {hosts.file}" in result.stdout
    shown = cli("status", "--deployment", str(hosts.alone)).stdout
    assert shown.count("paths: not in this file") == 4


def test_addresses_of_a_plan_are_plain(hosts: Hosts) -> None:
    node: NodePlan = load_plan(hosts.file).nodes["d"]
    found = node.assignment.queries[PATHS].addresses
    assert found == {name: str(hosts.nodes[name].address) for name in "bc"}
