"""A query on a host in parts: its entry point, and two replicas with different peers, each with a life of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.core.readers import ReaderAcknowledged, ReaderSubscribed
from anabranch.deploy.parts import assigned
from anabranch.deploy.plan import Plan, load_plan
from anabranch.errors import EngineError, NodeUnreachable, Problem, QueryError, StateError, StreamNotFound
from anabranch.model.ids import QueryId
from anabranch.model.position import Position
from anabranch.node.doors import HostDoors
from anabranch.node.host import Host
from anabranch.node.hosted_part import HostedPart
from anabranch.node.query_parts import QueryParts
from anabranch.node.settings import NodeSettings
from anabranch.node.state import StateDirectory
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import inlet_names, part_name, parts
from anabranch.transport.ports import CopyAcknowledgement
from tests.waiting import wait_for

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


def planned(folder: Path, placed: str = PLACED, query: str = QUERY) -> Plan:
    nodes = (f'{name} = {{address = "127.0.0.1:{port}"}}\n' for name, port in zip("abc", free_ports(3), strict=True))
    (folder / "layers.yaml").write_text(query)
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


def rows(number: int) -> pa.RecordBatch:
    """One row of ``events``, as its log has it."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number], pa.int64()),
            pa.array([number], pa.timestamp("us", tz="UTC")),
            pa.array([0], pa.int32()),
            pa.array([1], pa.int32()),
            pa.array([number], pa.int64()),
        ],
        names=["_tid", "_stime", "_origin", "k", "x"],
    )


@pytest.mark.parametrize(
    ("hosts", "reads_on", "cut_off"),
    [('["b"]', [], []), ('["c"]', [], []), ('["b", "c"]', [], []), ('["b", "c"]', ["counts@c"], ["counts@b"])],
)
def test_a_fragment_is_not_cut_off_as_a_whole(
    tmp_path: Path, hosts: str, reads_on: list[str], cut_off: list[str]
) -> None:
    """It could be rebuilt from nobody: the log waits for it, wherever it runs, though another fragment reads on."""
    placed = PLACED.replace('["b", "c"]', hosts).replace('events = ["b"]', 'events = ["a", "b", "c"]')
    part = assigned(planned(tmp_path, placed), "b", "layers")
    settings = NodeSettings(disk_reserve_bytes=1 << 20, log_bytes=1_000)
    with Host("b", tmp_path / "state", settings, queries=[part]) as host:
        streams = replica(host.queries[part.query], "").streams
        store, log = streams.logs["events"]
        while not log.is_full():
            with store.transaction() as transaction:
                transaction.append("events", rows(log.last_id() + 1), {}, now_us=1)
        served = streams._served["events"]
        for name in ("totals@a", "totals@b", *reads_on):
            reader, end = f"replica:{name}", Position(log.incarnation, log.last_id())
            served.subscribed(ReaderSubscribed(reader=reader, life="1", position=None, punctuations={}))
            served.acknowledged(ReaderAcknowledged(reader=reader, life="1", position=end, punctuations={}))
        streams.trim([])
        readers = [reader for reader in part.assignment.readers["events"] if reader.startswith("counts")]
        assert [reader for reader in readers if served.is_cut_off(f"replica:{reader}")] == cut_off
        assert (log.first_id() > 1) is bool(cut_off)


@pytest.mark.parametrize("name", ["entry", "writers"])
def test_a_stage_may_be_called_like_another_part(tmp_path: Path, name: str) -> None:
    plan = planned(tmp_path, PLACED.replace("totals", name), QUERY.replace("totals", name))
    part = assigned(plan, "b", "layers")
    assert [part_name(each) for each in parts(part)] == ["entry", f"replica:{name}", "counts"]
    with made(tmp_path, part) as host:
        assert host.statistics().queries["layers"].parts.keys() == {"entry", f"replica:{name}", "counts"}


def test_an_acknowledgement_of_an_unknown_stream_holds_up_no_other(host: Host, query: QueryParts) -> None:
    served = replica(query, "").streams._served["events"]
    reader = "replica:totals@a"
    served.subscribed(ReaderSubscribed(reader=reader, life="1", position=None, punctuations={}))
    with ab.connect(host.address) as connection:
        for _ in range(3):
            connection.push("events", [{"k": 1, "x": 2}])
    end = Position(served.log.incarnation, served.log.last_id())
    said = [
        CopyAcknowledgement(stream=stream, reader=reader, life="1", position=end, punctuations={})
        for stream in ("layers/nothing", "nowhere/events", "layers/events")
    ]
    with pytest.raises(StreamNotFound):
        HostDoors(host.queries).acknowledge_copies(said)
    assert served.readers[reader].acknowledged == 3


def begun_with(monkeypatch: pytest.MonkeyPatch, begin: dict[str, Callable[[], object]]) -> None:
    """What the stages of a part do when they begin, by the name of the part."""

    def start(part: HostedPart) -> None:
        begin.get(part.part.assignment.part, lambda: None)()
        part._opened.set()

    monkeypatch.setattr(HostedPart, "_start_stages", start)


def made(tmp_path: Path, part: AssignedQuery) -> Host:
    return Host("b", tmp_path / "state", NodeSettings(disk_reserve_bytes=1 << 20), queries=[part])


def test_parts_start_side_by_side(tmp_path: Path, part: AssignedQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first waits for room in its log, which only the second makes."""
    room = threading.Event()
    begun_with(monkeypatch, {"totals": lambda: wait_for(room.is_set), "counts": room.set})
    with made(tmp_path, part) as host:
        assert {str(each.state) for each in host.statistics().queries["layers"].parts.values()} == {"running"}


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("name", ["totals", "counts"])
def test_a_part_that_cannot_start_is_told_and_the_others_run(
    tmp_path: Path, part: AssignedQuery, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    begun_with(monkeypatch, {name: lambda: fail(EngineError("No cores are left."))})
    with made(tmp_path, part) as host, ab.connect(host.address) as connection:
        found = host.statistics().queries["layers"]
        states = {each: str(status.state) for each, status in found.parts.items()}
        assert states == {"entry": "running", "totals": "running", "counts": "running"} | {name: "failed"}
        assert (found.parts[name].error, found.state) == ("No cores are left.", "running")
        assert host.failed_parts().keys() == {(QueryId("layers"), name)}
        assert (host.failure(), host.failures()) == (None, {})
        connection.push("events", [{"k": 1, "x": 2}])


def test_a_query_starts_if_one_of_its_parts_does(
    tmp_path: Path, part: AssignedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = EngineError("No cores are left.")
    begun_with(monkeypatch, {name: lambda: fail(error) for name in ("", "totals", "counts")})
    with pytest.raises(EngineError, match="No cores are left"), made(tmp_path, part):
        pass


def test_a_query_that_spark_refuses_leaves_nothing_of_any_part(
    tmp_path: Path, part: AssignedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is mended, and so another query, can be started there."""
    begun_with(
        monkeypatch,
        {
            "totals": lambda: fail(
                QueryError("layers", [Problem(code="spark", box="totals", message="no such function")])
            )
        },
    )
    with pytest.raises(QueryError), made(tmp_path, part):
        pass
    assert not (tmp_path / "state" / "queries" / "layers").exists()


def test_rows_that_were_taken_are_not_discarded_with_a_query_that_spark_refuses(
    tmp_path: Path, part: AssignedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed = threading.Event()

    def refuse() -> None:
        wait_for(pushed.is_set)
        raise QueryError("layers", [Problem(code="spark", box="totals", message="no such function")])

    begun_with(monkeypatch, {"totals": refuse})
    host = made(tmp_path, part)
    starting = threading.Thread(target=host.start, daemon=True)
    starting.start()
    try:
        wait_for(lambda: host.queries[QueryId("layers")].entering("events").calls.lets_in)
        with ab.connect(host.address) as connection:
            connection.push("events", [{"k": 1, "x": 2}])
            pushed.set()
            starting.join()
            assert host.statistics().queries["layers"].parts["totals"].state == "failed"
            assert host.queries[QueryId("layers")].having("events").streams.logs["events"][1].last_id() == 1
    finally:
        host.stop()
    assert (tmp_path / "state" / "queries" / "layers" / "entry" / "query.json").exists()


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
