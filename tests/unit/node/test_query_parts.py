"""A query on a host in parts: its entry point, and two replicas with different peers, each with a life of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.deploy.parts import assigned
from anabranch.deploy.plan import Plan, load_plan
from anabranch.errors import EngineError, NodeUnreachable, StateError, StreamNotFound
from anabranch.model.ids import QueryId
from anabranch.node.host import Host
from anabranch.node.hosted_part import HostedPart
from anabranch.node.query_parts import QueryParts
from anabranch.node.settings import NodeSettings
from anabranch.node.state import StateDirectory
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import inlet_names, parts

pytestmark = pytest.mark.usefixtures("no_stages")

QUERY = """\
query: layers
boxes:
  - source: {name: events, schema: "k int, x bigint"}
  - aggregate: {name: totals, input: events, columns: "sum(x) AS total", by: k, window: 1s}
  - aggregate: {name: sums, input: totals, columns: "sum(total) AS total", window: 10s}
  - aggregate: {name: counts, input: events, columns: "count(*) AS n", window: 10s}
outputs:
  sums: sums
  counts: counts
"""

PLACED = """\
[queries.layers]
file = "layers.yaml"
mode = "race"
[queries.layers.place]
totals = ["a", "b"]
sums = ["b", "c"]
counts = ["b", "c"]
[queries.layers.entry]
events = ["b"]
"""


def planned(folder: Path, placed: str = PLACED) -> Plan:
    nodes = (f'{name} = {{address = "127.0.0.1:{port}"}}\n' for name, port in zip("abc", free_ports(3), strict=True))
    (folder / "layers.yaml").write_text(QUERY)
    (folder / "layers.toml").write_text("[nodes]\n" + "".join(nodes) + placed)
    return load_plan(folder / "layers.toml")


@pytest.fixture
def part(tmp_path: Path) -> AssignedQuery:
    return assigned(planned(tmp_path), "b", "layers")


@pytest.fixture
def host(tmp_path: Path, part: AssignedQuery) -> Iterator[Host]:
    settings = NodeSettings(disk_reserve_bytes=1 << 20)
    with Host("b", tmp_path / "state", settings, queries=[part]) as host:
        yield host


@pytest.fixture
def query(host: Host) -> QueryParts:
    return host.queries[QueryId("layers")]


def replica(query: QueryParts, name: str) -> HostedPart:
    return next(each for each in query.parts if each.part.assignment.part == name)


def test_each_part_has_a_directory_and_a_life(tmp_path: Path, query: QueryParts) -> None:
    root = tmp_path / "state" / "queries" / "layers"
    markers = {path.parent.relative_to(root): json.loads(path.read_text()) for path in root.rglob("query.json")}
    assert sorted(map(str, markers)) == ["entry", "replicas/counts", "replicas/totals"]
    assert len({each["life"] for each in markers.values()}) == 3
    assert markers[Path("entry")]["part"] == {"stages": [], "sources": ["events"], "reads": []}
    assert markers[Path("replicas/counts")]["part"]["reads"] == ["box:totals", "events"]
    assert len(query.parts) == 3


def test_parts_read_all_copies_that_of_their_own_host_among_them(part: AssignedQuery) -> None:
    named = {each.assignment.part: each for each in parts(part)}
    entry, totals, sums = (named[name] for name in ("", "totals", "counts"))
    assert [stage.name for stage in sums.stages] == ["counts", "sums"]
    assert set(entry.readers["events"]) == {"totals@a", "totals@b", "counts@b", "counts@c"}
    assert totals.readers == {"box:totals": ("counts@b", "counts@c")}
    assert {stream: tuple(copies) for stream, copies in sums.upstream.items()} == {
        "box:totals": ("a", "b"),
        "events": ("b",),
    }
    assert (tuple(totals.siblings), tuple(sums.siblings)) == (("a",), ("c",))
    assert inlet_names([entry, totals, sums]) == {
        ("totals@b", "events"): "events",
        ("counts@b", "box:totals"): "box:totals",
        ("counts@b", "events"): "events@counts",
    }


def test_a_stream_is_the_affair_of_the_part_that_makes_it(query: QueryParts) -> None:
    entry, totals, sums = (replica(query, name) for name in ("", "totals", "counts"))
    assert [query.having(name) for name in ("events", "events.late", "box:totals", "counts")] == [
        *(entry, entry, totals, sums),
    ]
    assert (query.running("counts"), query.like("totals@a"), query.like("counts@c")) == (sums, totals, sums)
    with pytest.raises(StreamNotFound, match="There is no stream 'nothing'"):
        query.having("nothing")
    with pytest.raises(StreamNotFound, match="no stage 'nothing'"):
        query.running("nothing")
    with pytest.raises(StreamNotFound, match="There is no source 'sums'"):
        query.entering("sums")


def test_a_part_that_is_closed_closes_no_other(host: Host, query: QueryParts) -> None:
    replica(query, "totals").calls.close()
    with ab.connect(host.address) as connection:
        connection.push("events", [{"k": 1, "x": 2}])
        assert [info.name for info in connection.streams()] == ["events", "events.late"]
        with pytest.raises(NodeUnreachable, match="The replica totals of layers on 'b' is starting, being rebuilt"):
            connection.client.stream("box:totals")
    with pytest.raises(NodeUnreachable), replica(query, "totals").calls.inside():
        pass
    assert replica(query, "counts").calls.lets_in


def test_a_part_that_fails_ends_no_other_and_is_named(host: Host, query: QueryParts) -> None:
    replica(query, "counts")._lost = EngineError("It is broken.")
    assert (query.failure(), host.failure()) == (None, None)
    assert {part: str(error) for part, error in host.failed_parts().items()} == {(query.id, "counts"): "It is broken."}
    found = host.statistics().queries["layers"]
    assert {name: str(part.state) for name, part in found.parts.items()} == {
        "entry": "running",
        "totals": "running",
        "counts": "failed",
    }
    assert (found.state, found.error) == ("running", "It is broken.")
    for each in query.parts:
        each._lost = EngineError("All of it.")
    assert query.failure() is not None


@pytest.mark.parametrize(("box", "left"), [("totals", "replicas/totals"), ("events", "entry")])
def test_the_state_of_a_part_that_is_placed_elsewhere_is_not_left_behind(
    tmp_path: Path, part: AssignedQuery, box: str, left: str
) -> None:
    directory = StateDirectory(tmp_path / "state")
    directory.parts(parts(part))
    before, after = {"totals": ('["a", "b"]', '["a", "c"]'), "events": ('["b"]', '["a"]')}[box]
    placed = PLACED.replace(f"{box} = {before}", f"{box} = {after}")
    with pytest.raises(StateError, match=f"another part of the query: {left}"):
        directory.parts(parts(assigned(planned(tmp_path, placed), "b", "layers")))
    directory.close()
