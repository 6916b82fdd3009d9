"""Two queries with the same names on one host, without Spark: whatever is asked reaches the one that was meant."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.errors import NodeUnreachable, StreamNotFound
from anabranch.model.ids import QueryId
from anabranch.node.host import Host
from anabranch.node.hosted_part import HostedPart
from anabranch.node.open_calls import OpenCalls
from anabranch.query.assigned import AssignedQuery
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_stages")


def part(name: str) -> AssignedQuery:
    query = ab.Query(name)
    query.output("even", query.source("numbers", "n bigint").filter("n % 2 = 0"))
    if name == "first":
        query.output("all", query.source("alone", "n bigint"))
    return AssignedQuery.whole(query.checked())


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with Host("h", tmp_path / "state", queries=[part("first"), part("second")]) as made:
        yield made


@pytest.fixture
def connection(host: Host) -> Iterator[ab.Connection]:
    with ab.connect(host.address) as made:
        yield made


def rows(connection: ab.Connection, stream: str) -> list[int]:
    batches = connection.subscribe(stream, start="start", follow=False)
    return [row["n"] for batch in batches for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]


def test_rows_go_to_the_query_that_is_named(connection: ab.Connection) -> None:
    connection.push("first/numbers", [{"n": 1}])
    with connection.producer("second/numbers", "p") as producer:
        producer.push([{"n": 2}])
    assert (rows(connection, "first/numbers"), rows(connection, "second/numbers")) == ([1], [2])


def test_a_name_that_only_one_query_has_needs_no_query(connection: ab.Connection) -> None:
    connection.push("alone", [{"n": 7}])
    assert rows(connection, "alone") == rows(connection, "first/alone") == [7]


def test_a_name_that_several_have_is_refused_with_the_candidates(connection: ab.Connection) -> None:
    candidates = r"Name one of: first/numbers, second/numbers\."
    with pytest.raises(StreamNotFound, match=candidates):
        connection.push("numbers", [{"n": 1}])
    with pytest.raises(StreamNotFound, match=candidates):
        rows(connection, "numbers")
    with pytest.raises(StreamNotFound, match=r"first/numbers\.late, second/numbers\.late"):
        rows(connection, "numbers.late")
    with pytest.raises(StreamNotFound, match=r"no stream 'none'.*first/alone"):
        rows(connection, "none")
    with pytest.raises(StreamNotFound, match="no query 'third'"):
        rows(connection, "third/numbers")


def test_streams_are_listed_with_their_query(connection: ab.Connection) -> None:
    sources = [info for info in connection.streams() if info.kind == "source"]
    assert [(info.name, str(info.id)) for info in sources] == [
        ("alone", "first/alone"),
        ("numbers", "first/numbers"),
        ("numbers", "second/numbers"),
    ]


def test_readers_lanes_and_acknowledgements_are_those_of_one_query(connection: ab.Connection, host: Host) -> None:
    connection.push("first/numbers", [{"n": 1}])
    connection.push("second/numbers", [{"n": 2}])
    with connection.subscribe("first/numbers", start="start", follow=False, reader="r") as subscription:
        for _ in subscription:
            pass
        subscription.acknowledge()
    logs = {name: query.parts[0].streams.logs["numbers"][1] for name, query in host.queries.items()}
    assert ["r" in logs[QueryId(name)].readers() for name in ("first", "second")] == [True, False]
    connection.client.forget_reader("first/numbers", "r")
    connection.client.close_lane("second/numbers")
    closed = [
        lane.closed for query in host.statistics().queries.values() for lane in query.sources["numbers"].lanes.values()
    ]
    assert closed == [False, True]


def test_a_query_that_is_added_is_there_and_one_that_is_closed_harms_no_other(
    host: Host, connection: ab.Connection
) -> None:
    host.add(part("third"))
    wait_for(lambda: host.queries[QueryId("third")].lets_in)
    connection.push("third/numbers", [{"n": 3}])
    follower = connection.subscribe("third/numbers", start="start", deadline_s=0.1)
    assert next(iter(follower)).num_rows
    host.queries[QueryId("third")].stop()
    with pytest.raises(NodeUnreachable, match="The query third is starting, being rebuilt or stopping"):
        for _ in follower:
            pass
    connection.push("first/numbers", [{"n": 1}])
    assert rows(connection, "first/numbers") == [1]


def test_who_said_a_bare_name_in_time_stays_with_its_query(host: Host, tmp_path: Path) -> None:
    """A further query with a stream of the same name makes it unclear, but only for those who come later."""
    with ab.connect(host.address) as connection, connection.producer("alone", "p") as producer:
        producer.push([{"n": 1}])
        follower = connection.subscribe("alone", start="start", reader="r")
        copies = ab.connect([host.address]).subscribe("alone", start="start", reader="s")
        query = ab.Query("third")
        query.output("all", query.source("alone", "n bigint"))
        host.add(AssignedQuery.whole(query.checked()))
        wait_for(lambda: host.queries[QueryId("third")].lets_in)
        producer.close()
        producer.push([{"n": 2}])
        for each in (follower, copies):
            found: list[int] = []
            for batch in each:
                found += [row["n"] for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]
                if len(found) == 2:
                    break
            assert found == [1, 2]
            each.acknowledge()
            each.close()
        with pytest.raises(StreamNotFound, match="Name one of: first/alone, third/alone"):
            connection.push("alone", [{"n": 3}])


def test_a_query_that_cannot_start_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_stages(query: HostedPart) -> None:
        if query.id == "first":
            raise ab.EngineError("no such function")
        query._opened.set()

    monkeypatch.setattr(HostedPart, "_start_stages", start_stages)
    with Host("h", tmp_path / "state", queries=[part("first"), part("second")]) as host:
        assert host.failure() is None
        assert {name: str(error) for name, error in host.failures().items()} == {"first": "no such function"}
        found = host.statistics()
        assert found.state == "running"
        assert [query.state for query in found.queries.values()] == ["failed", "running"]
        assert found.queries["first"].error == "no such function"
        with ab.connect(host.address) as connection:
            connection.push("second/numbers", [{"n": 1}])


def test_where_no_query_can_start_the_host_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: HostedPart) -> None:
        raise ab.EngineError("no such function")

    monkeypatch.setattr(HostedPart, "_start_stages", refuse)
    host = Host("h", tmp_path / "state", queries=[part("first"), part("second")])
    with pytest.raises(ab.EngineError, match="no such function"):
        host.start()
    Host("h", tmp_path / "state").stop()  # the directory is free


def test_calls_are_waited_for_and_then_let_in_again() -> None:
    calls = OpenCalls("q")
    with pytest.raises(NodeUnreachable), calls.inside():
        pass
    calls.open()
    held = threading.Event()

    def pieces() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1]})
        held.wait()

    reading = calls.reading(pieces())
    next(reading)
    calls.close()
    assert not calls.wait_over(0.01)
    held.set()
    with pytest.raises(NodeUnreachable):
        next(reading)
    assert calls.wait_over(0)
