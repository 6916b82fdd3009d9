"""What is found out before any node is started: ports, machines and state directories, all at once."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.deploy.parts import assigned
from anabranch.deploy.plan import Plan
from anabranch.deploy.preflight import check_start
from anabranch.deploy.states import log_of, state_of
from anabranch.errors import DeploymentError, Mistake
from anabranch.node.state import StateDirectory
from anabranch.node.tables import digests, load_tables
from anabranch.query.parts import parts
from tests.unit.deploy.files import GOOD, QUERY, WITH_TABLE, plan, with_free_ports


def found(made: Plan, folder: Path) -> list[Mistake]:
    try:
        check_start(folder / "deployment.toml", made, {name: folder / name for name in made.nodes})
    except DeploymentError as error:
        return list(error.mistakes)
    return []


def test_a_deployment_that_can_start_has_nothing_to_tell_and_nothing_is_made(tmp_path: Path) -> None:
    assert found(plan(tmp_path, with_free_ports()), tmp_path) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deployment.toml", "paths.yaml"]


def test_ports_that_are_taken_are_told_with_their_nodes(tmp_path: Path) -> None:
    made = plan(tmp_path, with_free_ports())
    with closing(socket.create_server(made.nodes["b"].address)), closing(socket.create_server(made.nodes["d"].address)):
        told = found(made, tmp_path)
    assert [(each.code, each.path) for each in told] == [
        ("port-taken", "nodes.b.address"),
        ("port-taken", "nodes.d.address"),
    ]
    assert str(made.nodes["b"].address) in told[0].message


def test_a_node_of_another_machine_is_not_started_here(tmp_path: Path) -> None:
    made = plan(tmp_path, with_free_ports().replace('c = {address = "127.0.0.1', 'c = {address = "192.0.2.1'))
    (told,) = found(made, tmp_path)
    assert (told.code, told.path) == ("not-here", "nodes.c.address")
    assert told.remedy == "Run it on its machine: anabranch node FILE c"


def test_state_directories_of_others_of_another_query_and_in_use(tmp_path: Path) -> None:
    made = plan(tmp_path, with_free_ports())
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "letter.txt").touch()
    other = plan(tmp_path, with_free_ports(), QUERY.replace("rtt_ms > 100", "rtt_ms > 200"))
    for name, part in (("b", assigned(other, "b", "paths")), ("c", assigned(made, "d", "paths"))):
        directory = StateDirectory(tmp_path / name)
        directory.parts(parts(part))
        directory.close()
    held = StateDirectory(tmp_path / "d")
    told = found(made, tmp_path)
    held.close()
    assert [(each.code, each.path) for each in told] == [("state", f"nodes.{name}.state") for name in "abcd"]
    for mistake, words in zip(told, ("letter.txt", "another query", "another part", "Another node"), strict=True):
        assert words in mistake.message
    assert [each.path for each in found(made, tmp_path)] == ["nodes.a.state", "nodes.b.state", "nodes.c.state"]


def test_tables_that_are_not_there_or_differ(tmp_path: Path) -> None:
    own = with_free_ports().replace("c = {", 'c = {tables = {hosts = "own.csv"}, ')
    made = plan(tmp_path, own, WITH_TABLE)
    assert [(each.code, each.path) for each in found(made, tmp_path)] == [
        ("table", "nodes.b.tables"),
        ("table", "nodes.c.tables"),
    ]
    (tmp_path / "hosts.csv").write_text("host,site\na,east\n")
    (tmp_path / "own.csv").write_text("host,site\na,west\n")
    (told,) = found(made, tmp_path)
    assert (told.code, told.path) == ("table", "nodes.c.tables")
    assert told.message.startswith("The contents of table 'hosts' differ from those on node b: ")
    (tmp_path / "own.csv").write_text("site,host\neast,a\n")
    assert found(made, tmp_path) == []


def test_a_state_directory_belongs_to_the_contents_of_tables(tmp_path: Path) -> None:
    made = plan(tmp_path, with_free_ports(), WITH_TABLE)
    part = assigned(made, "b", "paths")
    (tmp_path / "hosts.csv").write_text("host,site\na,east\n")
    before = digests(load_tables(part, {}))
    for name, of in (("b", before), ("a", {})):
        directory = StateDirectory(tmp_path / name)
        directory.parts(parts(assigned(made, name, "paths")), of)
        directory.close()
    assert found(made, tmp_path) == []
    (tmp_path / "hosts.csv").write_text("host,site\na,west\n")
    after = digests(load_tables(part, {}))
    (told,) = found(made, tmp_path)
    assert (told.code, told.path) == ("state", "nodes.b.state")
    assert told.message == (
        f"{tmp_path}/b/queries/paths/replicas/slow holds the state of a query whose tables had different contents: "
        f"table 'hosts' had {before['hosts'][:16]}, has {after['hosts'][:16]}."
    )
    assert told.remedy.startswith("Put the old contents back, or run with the new ones on a new state directory")


@pytest.mark.parametrize(
    ("below", "given", "where"),
    [
        (None, None, "/etc/x/.anabranch/sites/a"),
        (None, "/var/a", "/var/a"),
        ("/tmp/trial", "/var/a", "/tmp/trial/a"),
    ],
)
def test_where_a_node_keeps_its_state(tmp_path: Path, below: str | None, given: str | None, where: str) -> None:
    state = "" if given is None else f', state = "{given}"'
    made = plan(tmp_path, GOOD.replace('"127.0.0.1:7001"', f'"127.0.0.1:7001"{state}'))
    found = state_of(made.nodes["a"], Path("/etc/x/sites.toml"), None if below is None else Path(below))
    assert found == Path(where)
    assert log_of(found) == Path(f"{where}.log")
