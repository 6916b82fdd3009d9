"""A query handed to nodes that wait for one: to all of them or to none, and kept across their restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from anabranch.deploy.awaiting import Awaiting, await_role, role_directory
from anabranch.deploy.handing import hand_over
from anabranch.deploy.parts import part_of
from anabranch.deploy.plan import NodePlan, load_plan
from anabranch.deploy.tables import load_tables
from anabranch.errors import ConfigError, DeploymentError, NodeUnreachable, StateError, StreamNotFound
from anabranch.query.text import diagram_to_dict
from anabranch.transport.client import Client
from anabranch.transport.ports import Role
from anabranch.transport.server import FlightServer
from tests.unit.cli.conftest import Cli
from tests.unit.deploy.files import WITH_TABLE, with_free_ports, write


class Waiting:
    """The nodes of a file, which wait; and the file that has something for them."""

    def __init__(self, folder: Path) -> None:
        self.file = write(folder, with_free_ports())
        self.folder = folder
        (folder / "nodes.toml").write_text(self.file.read_text().partition("[queries")[0])
        self.nodes = load_plan(folder / "nodes.toml").nodes
        self.awaiting: dict[str, Awaiting] = {}
        self.opened = ExitStack()

    def start(self, name: str, node: NodePlan | None = None) -> None:
        node = node or self.nodes[name]
        waiting = self.awaiting[name] = Awaiting(node, role_directory(self.folder / name))
        self.opened.enter_context(FlightServer(waiting, node.address.host, node.address.port, roles=waiting))

    def given(self) -> list[str]:
        return [name for name, waiting in self.awaiting.items() if waiting.given.is_set()]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(tmp_path)
    with made.opened:
        yield made


def test_every_node_gets_the_part_that_the_file_says(waiting: Waiting) -> None:
    for name in waiting.nodes:
        waiting.start(name)
    hand_over(waiting.file)
    wanted = load_plan(waiting.file)
    for name, node in waiting.awaiting.items():
        assert node.plan is not None
        assert part_of(node.plan, name) == part_of(wanted, name)
        assert node.plan.queries["paths"].diagram == wanted.queries["paths"].diagram


def test_a_node_that_is_started_again_has_its_part(waiting: Waiting) -> None:
    for name in waiting.nodes:
        waiting.start(name)
    hand_over(waiting.file)
    waiting.file.unlink()  # it needs nothing of whoever gave it
    (waiting.folder / "paths.yaml").unlink()

    def never() -> None:
        raise AssertionError("it waits again")

    again = await_role(waiting.nodes["d"], waiting.folder / "d", never)
    assert again == waiting.awaiting["d"].plan


def test_a_node_reads_no_table_that_its_own_file_does_not_name(tmp_path: Path) -> None:
    """Whoever hands over a query says nothing of the files of other machines."""
    text = with_free_ports()
    file = write(tmp_path, text.replace("b = {", 'b = {tables = {hosts = "/etc/passwd"}, '), WITH_TABLE)
    own = tmp_path / "own.toml"
    own.write_text(text.partition("[queries")[0])
    diagram = load_plan(file).queries["paths"].diagram
    role = Role(node="b", tables=load_tables(file), queries={"paths": diagram_to_dict(diagram)})
    waiting = Awaiting(load_plan(own).nodes["b"], tmp_path / "b.deployment")
    with pytest.raises(ConfigError, match="The file of the node b does not say where its table 'hosts' is"):
        waiting.take_role(role)
    assert not waiting.given.is_set()
    own.write_text(own.read_text().replace("b = {", 'b = {tables = {hosts = "here.csv"}, '))
    waiting = Awaiting(load_plan(own).nodes["b"], tmp_path / "b.deployment")
    waiting.take_role(role)
    assert waiting.plan is not None
    assert waiting.plan.nodes["b"].tables == {"hosts": str(tmp_path / "here.csv")}


def test_a_node_waits_until_it_is_given_something(waiting: Waiting) -> None:
    for name in "abc":
        waiting.start(name)
    looks = []

    def between() -> None:
        looks.append(1)
        if len(looks) == 2:
            hand_over(waiting.file)

    plan = await_role(waiting.nodes["d"], waiting.folder / "d", between)
    assert [stage.name for stage in part_of(plan, "d").stages] == ["counts"]
    assert waiting.given() == ["a", "b", "c"]


def test_none_is_given_anything_if_one_does_not_wait(waiting: Waiting) -> None:
    for name in "abc":
        waiting.start(name)
    with pytest.raises(NodeUnreachable) as caught:
        hand_over(waiting.file)
    assert "Nothing was handed over" in str(caught.value)
    assert "d: No node answers" in str(caught.value)
    assert "anabranch node FILE d" in str(caught.value)
    assert waiting.given() == []


def test_a_node_that_has_a_query_is_not_given_another(waiting: Waiting) -> None:
    for name in waiting.nodes:
        waiting.start(name)
    role = Role(node="a", tables={}, queries={})
    hand_over(waiting.file)
    with Client(str(waiting.nodes["a"].address)) as client, pytest.raises(ConfigError, match="has just got a query"):
        client.take_role(role)


def test_a_node_that_does_not_wait_refuses(waiting: Waiting) -> None:
    waiting.start("a")
    with (
        FlightServer(waiting.awaiting["a"]) as running,
        Client(running.address) as client,
        pytest.raises(ConfigError, match="This node has a query already"),
    ):
        client.take_role(Role(node="a", tables={}, queries={}))


def test_what_a_node_cannot_use_is_refused_and_it_waits_on(waiting: Waiting) -> None:
    waiting.start("a")
    with Client(str(waiting.nodes["a"].address)) as client:
        with pytest.raises(ConfigError, match="is called a, not b"):
            client.take_role(Role(node="b", tables={}, queries={}))
        with pytest.raises(ConfigError, match="There are no nodes"):
            client.take_role(Role(node="a", tables={}, queries={}))
        elsewhere = {"nodes": {"a": {"address": "127.0.0.1:1"}}}
        with pytest.raises(ConfigError, match="No query names the node a"):
            client.take_role(Role(node="a", tables=elsewhere, queries={}))
        assert client.status()["state"] == "waiting"
        with pytest.raises(StreamNotFound, match="has no query yet"):
            client.stream("ping")
        with pytest.raises(NodeUnreachable, match="waits for a query"):  # others that have theirs already try again
            client.places("b")
    assert waiting.given() == []


@pytest.mark.parametrize(
    ("file", "name"),
    [("/etc/query.py", "q"), ("../q.yaml", "q"), ("../q.yaml", "../q"), ("q.py", "q"), (None, "q")],
)
def test_whoever_sends_a_role_names_no_files_of_this_machine(waiting: Waiting, file: str | None, name: str) -> None:
    waiting.start("a")
    tables = {"nodes": {"a": {"address": str(waiting.nodes["a"].address)}}, "queries": {name: {"file": file}}}
    with Client(str(waiting.nodes["a"].address)) as client, pytest.raises(ConfigError, match="brings its queries"):
        client.take_role(Role(node="a", tables=tables, queries={name: {}}))
    assert not role_directory(waiting.folder / "a").exists()


def test_a_role_that_cannot_be_kept_is_refused(waiting: Waiting) -> None:
    waiting.start("a")
    role_directory(waiting.folder / "a").touch()
    role = Role(node="a", tables=_tables(waiting.file), queries=_queries(waiting.file))
    with Client(str(waiting.nodes["a"].address)) as client, pytest.raises(StateError, match="cannot keep"):
        client.take_role(role)
    assert waiting.given() == []


def test_a_damaged_role_is_told(waiting: Waiting) -> None:
    directory = role_directory(waiting.folder / "a")
    directory.mkdir()
    (directory / "deployment.json").write_text("{")
    with pytest.raises(StateError, match="is damaged"):
        await_role(waiting.nodes["a"], waiting.folder / "a", lambda: None)


def test_another_address_than_its_own_is_refused(waiting: Waiting) -> None:
    moved = waiting.file.read_text().replace(str(waiting.nodes["a"].address.port), "1")
    waiting.file.write_text(moved)
    waiting.start("a")
    checked = Role(node="a", tables=_tables(waiting.file), queries=_queries(waiting.file))
    with (
        Client(str(waiting.nodes["a"].address)) as client,
        pytest.raises(ConfigError, match=r"and not at 127\.0\.0\.1:1"),
    ):
        client.take_role(checked)


def test_mistakes_are_told_before_anybody_is_asked(waiting: Waiting) -> None:
    waiting.file.write_text(waiting.file.read_text().replace('counts = "d"', 'counts = "e"'))
    with pytest.raises(DeploymentError):
        hand_over(waiting.file)


def test_the_verb(waiting: Waiting, cli: Cli) -> None:
    for name in waiting.nodes:
        waiting.start(name)
    shown = cli("status", "--deployment", str(waiting.folder / "nodes.toml")).stdout
    assert shown.count("waits for a query") == 4
    address = waiting.nodes["a"].address
    assert cli("status", str(address)).stdout == f"node a at {address} waits for a query: anabranch deploy FILE\n"
    result = cli("deploy", str(waiting.file))
    assert result.exit_code == 0, result.output
    assert "d: starts its part of paths" in result.stdout
    assert f"anabranch status {waiting.file}" in result.stdout
    assert waiting.given() == ["a", "b", "c", "d"]


def _tables(file: Path) -> dict[str, object]:
    from anabranch.deploy.handing import _tables as tables

    return tables(file)


def _queries(file: Path) -> dict[str, object]:
    from anabranch.query.text import diagram_to_dict

    return {name: diagram_to_dict(query.diagram) for name, query in load_plan(file).queries.items()}
