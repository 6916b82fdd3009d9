"""The tables of a node: which it loads, from where, and that nodes with other contents do not run together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.connectors.static_tables import StaticTable, digest
from anabranch.errors import ConfigError, StateError
from anabranch.node import tables
from anabranch.node.dialer import Dialer, direct
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.node.tables import Agreement, load_tables
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.files import load
from anabranch.query.graph import stages, tables_read
from anabranch.runtime.status import HostStatus
from anabranch.transport.server import FlightServer
from tests.assigning import assigned
from tests.statuses import host_status
from tests.unit.transport.fake_node import FakeNode
from tests.waiting import wait_for

CSV = "host,site\na,east\n"


def placed() -> ab.Query:
    query = ab.Query("placed")
    ping = query.source("ping", "target string")
    hosts = query.table("hosts", "host string, site string", key="host", file="hosts.csv")
    query.output("placed", ping.lookup(hosts, on="target = host", name="placed"))
    query.output("counts", ping.aggregate("count(*) AS n", window="1s", name="counts"))
    return query


def part(diagram: Diagram) -> AssignedQuery:
    return AssignedQuery.whole(diagram)


def test_a_node_loads_what_its_stages_read(tmp_path: Path) -> None:
    diagram = placed().checked()
    first, second = stages(diagram)
    assert [table.name for table in tables_read(diagram, [first])] == ["hosts"]
    assert tables_read(diagram, [second]) == ()
    assert load_tables(assigned(diagram, "b", stages=[second.name]), {}) == {}


def test_where_a_table_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file of the query is; here, for a query without one; or where the settings say."""
    query = placed()
    (tmp_path / "query").mkdir()
    (tmp_path / "query" / "placed.yaml").write_text(query.to_yaml())
    with pytest.raises(ConfigError, match=r"query/hosts\.csv\) cannot be read"):
        Node(load(tmp_path / "query" / "placed.yaml"), tmp_path / "state")
    assert not (tmp_path / "state").exists()
    (tmp_path / "query" / "hosts.csv").write_text(CSV)
    _make(load(tmp_path / "query" / "placed.yaml"), tmp_path / "state")
    monkeypatch.chdir(tmp_path / "query")
    _make(query, tmp_path / "state")
    (tmp_path / "query" / "hosts.csv").rename(tmp_path / "other.csv")
    _make(query, tmp_path / "state", tables={"hosts": str(tmp_path / "other.csv")})
    with pytest.raises(ConfigError, match=r"has no table 'hots'\. Candidates: hosts\."):
        _make(query, tmp_path / "state", tables={"hots": "x.csv"})


def _make(query: ab.Query, state: Path, **settings: Any) -> None:
    node = Node(query, state, NodeSettings(**settings))
    node.stop()


def test_a_restart_with_other_contents_is_refused(tmp_path: Path) -> None:
    query = placed()
    query.directory = tmp_path
    (tmp_path / "hosts.csv").write_text(CSV)
    _make(query, tmp_path / "state")
    (tmp_path / "hosts.csv").write_text("site,host\neast,a\n")  # the same
    _make(query, tmp_path / "state")
    (tmp_path / "hosts.csv").write_text("host,site\na,west\n")
    with pytest.raises(StateError) as caught:
        _make(query, tmp_path / "state")
    assert "whose tables had different contents: table 'hosts' had " in caught.value.message
    assert caught.value.remedy.startswith(
        "Put the old contents back, or run with the new ones on a new state directory"
    )
    (tmp_path / "hosts.csv").write_text(CSV)
    _make(query, tmp_path / "state")


# --- nodes that read the same table --------------------------------------------------------------------------------


class Told(FakeNode):
    """A node that tells its digest in its status."""

    def __init__(self, digest: str | None, uptime_s: float) -> None:
        super().__init__()
        told = {"tables": {"hosts": {"rows": 1, "digest": digest}}, "uptime_s": uptime_s}
        self._queries = {} if digest is None else {"q": told}

    def status(self) -> HostStatus:
        return host_status({"queries": self._queries})


def table(site: str) -> StaticTable:
    rows = pa.table({"host": ["a"], "site": [site]})
    return StaticTable(name="hosts", rows=rows, digest=digest(rows))


class Pair:
    """This node, ``b``, and another, ``a``, that reads the table, too."""

    def __init__(self, opened: ExitStack) -> None:
        (self.port,) = free_ports(1)
        self._opened = opened
        self.dialer = Dialer(direct)
        shares = {"a": f"grpc+tcp://127.0.0.1:{self.port}"}
        part = assigned(Diagram(name="q", boxes=(), outputs=()), "b", shares_tables=shares)
        self.agreement = Agreement(part, {"hosts": table("east")}, self.dialer)

    def other_starts(self, site: str | None, uptime_s: float = 100.0) -> None:
        told = Told(None if site is None else table(site).digest, uptime_s)
        self._opened.enter_context(FlightServer(told, port=self.port))


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(tables, "ASK_EVERY_S", 0.01)
    with ExitStack() as opened:
        made = Pair(opened)
        yield made
        made.agreement.stop()
        made.dialer.close()


def test_a_node_begins_if_the_other_reads_the_same(pair: Pair) -> None:
    pair.other_starts("east")
    pair.agreement.start()
    assert pair.agreement.failure is None


def test_a_node_does_not_begin_if_the_other_has_other_contents(pair: Pair) -> None:
    pair.other_starts("west", uptime_s=0)
    with pytest.raises(StateError) as caught:
        pair.agreement.start()
    here, there = table("east").digest[:16], table("west").digest[:16]
    assert caught.value.message == (
        f"The contents of table 'hosts' differ from those on node a: {here} here, {there} there."
    )
    assert "use the same contents on both nodes" in caught.value.remedy


def test_one_that_could_not_be_reached_is_asked_later_and_the_younger_ends(pair: Pair) -> None:
    pair.agreement.start()
    assert pair.agreement.failure is None
    pair.other_starts("west", uptime_s=100)
    wait_for(lambda: pair.agreement.failure is not None)


def test_the_older_goes_on(pair: Pair) -> None:
    pair.agreement.start()
    pair.other_starts("west", uptime_s=0)
    wait_for(lambda: not pair.agreement._waiting)
    assert pair.agreement.failure is None


def test_one_that_waits_for_a_query_is_asked_again(pair: Pair) -> None:
    pair.other_starts(None)
    pair.agreement.start()
    assert pair.agreement._waiting
