"""One node, everything a client can see of it. One query serves all tests; each uses its own sources."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

import anabranch as ab
from anabranch.node.node import Node
from tests.spark import running
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.spark

T0 = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    query = ab.Query("surface")
    clocked = query.source("clocked", "k string, x int")
    timed = query.source("timed", "k string, x int, at timestamp", time="at", disorder="1s")
    named = query.source("named", "k string, x int, at timestamp", time="at", producers=("p", "q"))
    query.output("counts", clocked.aggregate("count(*) AS n", by="k", window="1s"))
    query.output("passed", timed.filter("x > 0"))
    query.output("named_counts", named.aggregate("count(*) AS n", by="k", window="10s"))
    divisors = query.source("divisors", "d int, at timestamp", time="at")
    wanted = query.source("wanted", "w int, since timestamp", time="since")
    query.output("divided", divisors.filter("d IS NULL OR 10 / d > 0").join(wanted, on="d = w", within="1s"))
    measured = query.source("measured", "x double, t string, n int, at timestamp", time="at")
    query.output("high", measured.filter("x > 1 AND 10 / n > 0"))
    query.output("named_a", measured.filter("t = 'a'").filter("n >= 3"))
    letters = query.source("letters", "number int, at timestamp", time="at")
    query.output("in_order", letters.wsort("number", timeout="5s", name="desk")[0])
    state = tmp_path_factory.mktemp("node") / "state"
    with running(query, state, boundary_interval_us=500_000) as node:
        yield node


@pytest.fixture(scope="module")
def connection(node: Node) -> Iterator[ab.Connection]:
    with ab.connect(node.address) as connection:
        yield connection


def row(k: str, x: int, seconds: float) -> dict[str, Any]:
    return {"k": k, "x": x, "at": T0 + timedelta(seconds=seconds)}


def rows_of(connection: ab.Connection, stream: str) -> list[dict[str, Any]]:
    batches = connection.subscribe(stream, start="start", follow=False)
    return [row for batch in batches for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]


def test_a_window_closes_by_the_clock_though_no_more_rows_come(connection: ab.Connection) -> None:
    before = datetime.now(UTC)
    connection.push("clocked", [{"k": "a", "x": 1}, {"k": "a", "x": 2}])
    wait_for(lambda: rows_of(connection, "counts"))
    counted = rows_of(connection, "counts")
    assert sum(each["n"] for each in counted) == 2
    assert all(each["_stime"] >= before - timedelta(seconds=1) for each in counted)


def test_late_rows_are_kept_aside_with_what_made_them_late(node: Node, connection: ab.Connection) -> None:
    connection.push("timed", [row("a", 1, 10), row("late", 1, 8.9), row("just", 1, 9), row("b", -1, 10)])
    assert node.wait_caught_up(HANG_S)
    assert [each["k"] for each in rows_of(connection, "passed")] == ["a", "just"]
    late = rows_of(connection, "timed.late")
    assert [(each["k"], each["_stime"], each["at"]) for each in late] == [
        ("late", T0 + timedelta(seconds=9), T0 + timedelta(seconds=8.9))
    ]
    assert connection.status().queries["surface"].sources["timed"].late_rows == 1


def test_rows_too_late_for_a_sort_are_counted_though_nothing_reads_them(node: Node, connection: ab.Connection) -> None:
    numbers = {0: 3, 2: 1, 4: 5, 6: 2, 7: 4, 20: 9}
    connection.push("letters", [{"number": n, "at": T0 + timedelta(seconds=at)} for at, n in numbers.items()])
    assert node.wait_caught_up(HANG_S)
    assert [each["number"] for each in rows_of(connection, "in_order")] == [1, 3, 4, 5]
    assert connection.status().queries["surface"].stages["desk"].late_rows == 1


def test_rows_that_no_filter_wants_are_left_out_and_no_others(node: Node, connection: ab.Connection) -> None:
    """Spark finds NaN larger than any number; a row that an earlier predicate turns away is not divided by."""
    odd = [(math.nan, "a", 1), (math.inf, "b", 2), (1.0, "a", 0), (None, "a", 0), (2.0, None, 3), (-math.inf, "a", 3)]
    rows = [*odd, *[(0.0, "c", 0)] * 50]
    connection.push("measured", [{"x": x, "t": t, "n": n, "at": T0} for x, t, n in rows])
    assert node.wait_caught_up(HANG_S)
    assert [str(each["x"]) for each in rows_of(connection, "high")] == ["nan", "inf", "2.0"]
    assert [(str(each["x"]), each["n"]) for each in rows_of(connection, "named_a")] == [("-inf", 3)]


def test_a_refused_push_names_the_row_and_leaves_nothing(node: Node, connection: ab.Connection) -> None:
    before = node.hosted.streams.logs["timed"][1].last_id()
    bad = [row("a", 1, 11), {"k": "b", "x": 1, "at": None}]
    with pytest.raises(ab.PushRefused, match="at") as caught:
        connection.push("timed", bad)
    assert caught.value.row == 1
    assert node.hosted.streams.logs["timed"][1].last_id() == before


def test_a_plain_flight_client_lists_reads_and_pushes(node: Node, connection: ab.Connection) -> None:
    client = flight.connect(f"grpc://{node.address}")
    names = {info.descriptor.path[0].decode() for info in client.list_flights()}
    assert {"surface/timed", "surface/timed.late", "surface/passed", "surface/counts"} <= names
    info = client.get_flight_info(flight.FlightDescriptor.for_path("timed"))
    table = pa.table({"k": ["plain"], "x": pa.array([5], pa.int32()), "at": [T0 + timedelta(seconds=20)]})
    table = table.cast(pa.schema([info.schema.field(name) for name in ("k", "x", "at")]))
    writer, _ = client.do_put(flight.FlightDescriptor.for_path("timed"), table.schema)
    writer.write_table(table)
    writer.done_writing()
    writer.close()
    assert node.wait_caught_up(HANG_S)
    passed = client.get_flight_info(flight.FlightDescriptor.for_path("passed"))
    read = client.do_get(passed.endpoints[0].ticket).read_all()
    assert "plain" in read.column("k").to_pylist()
    client.close()


def test_status_names_the_lane_that_everything_waits_for(node: Node, connection: ab.Connection) -> None:
    with connection.producer("named", "p") as producer:
        producer.push([row("a", 1, 1), row("a", 1, 30)])
    assert node.wait_caught_up(HANG_S)
    stage = next(stage for stage in node.hosted.part.stages if stage.inputs == ("named",))
    waits = connection.status().queries["surface"].stages[stage.name].waits_for
    assert waits.origin == "named/q"
    assert rows_of(connection, "named_counts") == []
    connection.client.close_lane("named", "q")
    wait_for(lambda: rows_of(connection, "named_counts"))
    assert [(each["k"], each["n"]) for each in rows_of(connection, "named_counts")] == [("a", 1)]


def test_a_closed_lane_takes_no_more(connection: ab.Connection) -> None:
    with connection.producer("named", "q") as producer, pytest.raises(ab.PushRefused, match="closed"):
        producer.push([row("a", 1, 40)])


def test_only_declared_producers_may_push_to_their_lanes(connection: ab.Connection) -> None:
    with pytest.raises(ab.PushRefused, match="p, q"):
        connection.push("named", [row("a", 1, 50)])


def test_an_older_session_of_a_producer_is_refused(connection: ab.Connection) -> None:
    first = connection.producer("timed", "twice")
    second = connection.producer("timed", "twice")
    with pytest.raises(ab.SessionExpired):
        first.push([row("a", 1, 60)])
    second.push([row("a", 1, 60)])


def test_rows_that_are_sent_again_change_nothing(node: Node, connection: ab.Connection) -> None:
    producer = connection.producer("timed", "again")
    producer.push([row("again", 1, 61)])
    registered = connection.client.register("timed", "again")
    assert registered.next == 2
    sent = ab.connect(node.address).producer("timed", "again")
    assert sent.next == 2


def test_a_journal_is_trimmed_behind_spark_and_an_output_is_not(node: Node, connection: ab.Connection) -> None:
    connection.push("timed", [row("trim", 1, 70)])
    assert node.wait_caught_up(HANG_S)
    connection.push("timed", [row("trim", 1, 71)])  # Spark's commit of a batch is known when the next one runs
    wait_for(lambda: node.hosted.streams.logs["timed"][1].first_id() > 1)
    assert node.hosted.streams.logs["passed"][1].first_id() == 1


def test_a_named_reader_keeps_what_it_has_not_acknowledged(node: Node, connection: ab.Connection) -> None:
    assert node.wait_caught_up(HANG_S)
    subscription = connection.subscribe("passed", start="start", follow=False, reader="auditor")
    read = sum(batch.num_rows for batch in subscription)
    log = node.hosted.streams.logs["passed"][1]
    assert read > 0
    assert log.first_id() == 1
    subscription.acknowledge()
    assert log.first_id() == log.last_id() + 1
    connection.client.forget_reader("passed", "auditor")
    assert "auditor" not in log.readers()


@pytest.mark.parametrize(
    ("call", "error", "hint"),
    [
        (lambda c: c.push("nowhere", [{"k": "a"}]), ab.StreamNotFound, "clocked"),
        (lambda c: list(c.subscribe("nowhere", start="start", follow=False)), ab.StreamNotFound, "passed"),
        (lambda c: c.client.close_lane("named"), ab.ConfigError, "p, q"),
        (lambda c: c.client.close_lane("named", "r"), ab.ConfigError, "p, q"),
        (lambda c: c.push("timed", [{"k": "a", "y": 1}]), ab.PushRefused, "x"),
        (lambda c: list(c.subscribe("passed", start="0000:3", follow=False)), ab.StreamNotFound, "incarnation"),
    ],
)
def test_a_mistake_is_answered_with_what_would_be_right(
    connection: ab.Connection, call: Any, error: type[ab.AnabranchError], hint: str
) -> None:
    with pytest.raises(error) as caught:
        call(connection)
    assert hint in str(caught.value)


def test_statistics_count_what_went_in_and_out(node: Node) -> None:
    statistics = node.statistics()
    assert statistics.state == "running"
    assert statistics.sources["timed"].rows_in >= 5
    assert all(stage.state == "running" and stage.batches > 0 for stage in statistics.stages.values())
    assert statistics.streams["passed"].rows_in >= 3


def test_a_join_sees_neither_null_as_equal_nor_the_predicates_of_the_other_side(
    node: Node, connection: ab.Connection
) -> None:
    connection.push("divisors", [{"d": 5, "at": T0}, {"d": None, "at": T0}])
    connection.push("wanted", [{"w": 0, "since": T0}, {"w": None, "since": T0}, {"w": 5, "since": T0}])
    assert node.wait_caught_up(HANG_S), node.failure()
    assert [(each["d"], each["w"]) for each in rows_of(connection, "divided")] == [(5, 5)]


def test_a_full_log_that_spark_has_read_in_one_batch_does_not_stay_full(tmp_path: Path) -> None:
    """No row can come that would begin the next batch, by which the node learns that this one is committed."""
    query = ab.Query("full")
    query.output("o", query.source("s", "x bigint, at timestamp", time="at").filter("x >= 0"))
    rows = pa.table({"x": pa.array(range(4_000)), "at": pa.array([T0] * 4_000, pa.timestamp("us", "UTC"))})
    with running(query, tmp_path / "state", log_bytes=300_000) as node, ab.connect(node.address) as connection:
        for _ in range(6):
            connection.push("s", rows)
        assert node.wait_caught_up(HANG_S)
        assert rows_of(connection, "o")[-1]["_id"] == 24_000
