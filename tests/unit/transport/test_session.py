"""Producers and subscriptions: what they keep true while nodes stop, restart, refuse and are full."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.errors import (
    ConfigError,
    InvariantBroken,
    NodeUnreachable,
    Overloaded,
    PushRefused,
    SessionExpired,
    StreamNotFound,
)
from anabranch.limits import SEGMENT_ROWS
from anabranch.model.header import STIME
from anabranch.model.position import Position
from anabranch.transport.client import Client
from anabranch.transport.ports import Push, PushAnswer
from anabranch.transport.producer import Producer
from anabranch.transport.server import FlightServer
from anabranch.transport.session import Connection, connect
from tests.unit.transport.fake_node import PING, FakeNode, pings, tuples
from tests.waiting import HANG_S

ROW = {"source": "a", "target": "b", "rtt_ms": 1.5, "hops": 2, "sent": "2026-01-31T12:00:00Z"}


def rtts(node: FakeNode) -> list[float]:
    return [rtt for batch in node.batches for rtt in batch.column("rtt_ms").to_pylist()]


def restarted(server: FlightServer, node: FakeNode) -> FlightServer:
    """The node after a restart: the same state at the same address."""
    server.stop()
    return FlightServer(node, port=server.port)


# --- plain pushes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        pings(1.5),
        pa.table(pings(1.5)),
        [ROW],
        pd.DataFrame([{**ROW, "sent": pd.Timestamp("2026-01-31T12:00:00Z")}]),
        pd.DataFrame([ROW]),
    ],
    ids=["batch", "table", "dicts", "frame", "frame with text times"],
)
def test_rows_are_pushed_in_whatever_form_they_are(rows: object, connection: Connection, node: FakeNode) -> None:
    assert connection.push("ping", rows).rows == 1
    assert rtts(node) == [1.5]
    assert node.pushes[0].rows.schema.equals(PING)


def test_pushing_nothing_is_no_push(connection: Connection, node: FakeNode) -> None:
    assert connection.push("ping", []) == PushAnswer()
    assert node.pushes == []


def test_what_cannot_be_rows_is_refused(connection: Connection) -> None:
    with pytest.raises(PushRefused, match="type int cannot be pushed"):
        connection.push("ping", 3)


def test_a_large_push_goes_in_batches_and_a_refusal_counts_rows_over_all(
    connection: Connection, node: FakeNode
) -> None:
    good = pa.concat_batches([pings(*[1.0] * 1_000)] * 66)
    answer = connection.push("ping", good)
    assert answer.rows == 66_000
    assert [push.count for push in node.pushes] == [SEGMENT_ROWS, 66_000 - SEGMENT_ROWS]
    with pytest.raises(PushRefused, match="rows before it are kept") as caught:
        connection.push("ping", pa.concat_batches([good, pings(1, hops=-1)]))
    assert caught.value.row == 66_000


def test_a_plain_push_that_gets_no_answer_says_what_is_not_known(server: FlightServer) -> None:
    with connect(server.address) as connection:

        def lose(push: Push, *, within_s: float | None = None) -> PushAnswer:
            raise NodeUnreachable("Gone.")

        connection.client.push = lose  # type: ignore[method-assign]
        with pytest.raises(
            NodeUnreachable, match=r"0 rows of the push are durable; the next 1 may or may not be.*producer name"
        ):
            connection.push("ping", pings(1))


# --- producers -----------------------------------------------------------------------------------------------------


def test_a_producer_numbers_what_it_sends(connection: Connection, node: FakeNode) -> None:
    with connection.producer("ping", "p") as producer:
        producer.push(pings(1, 2))
        producer.boundary(datetime(2026, 1, 1, tzinfo=UTC))
        producer.void(3)
        producer.close_lane()
    assert [(push.kind, push.first, push.count) for push in node.pushes] == [
        ("rows", 1, 2),
        ("boundary", 3, 1),
        ("void", 4, 3),
        ("close", 7, 1),
    ]
    assert node.pushes[1].time_us == 1_767_225_600_000_000
    assert producer.next == 8


def test_a_producer_that_restarts_knows_what_it_had_sent(connection: Connection, node: FakeNode) -> None:
    input_rows = [1.0, 2.0, 3.0, 4.0]
    connection.producer("ping", "p").push(pings(*input_rows[:3]))
    again = connection.producer("ping", "p")
    again.push(pings(*input_rows[again.next - 1 :]))
    assert rtts(node) == input_rows


def test_an_older_producer_of_the_same_name_is_refused(connection: Connection) -> None:
    old = connection.producer("ping", "p")
    connection.producer("ping", "p")
    with pytest.raises(SessionExpired):
        old.push(pings(1))


@pytest.mark.parametrize("count", [0, -1])
def test_a_void_of_no_numbers_is_a_mistake_of_the_caller(connection: Connection, node: FakeNode, count: int) -> None:
    producer = connection.producer("ping", "p")
    with pytest.raises(ConfigError, match="cannot be voided"):
        producer.void(count)
    assert (producer.next, node.pushes) == (1, [])


def test_after_a_refusal_the_numbers_are_free_to_void_or_to_correct(connection: Connection, node: FakeNode) -> None:
    producer = connection.producer("ping", "p")
    node.counters["p"] = 0
    with pytest.raises(PushRefused):
        producer.push([{**ROW, "hops": "many"}])
    assert producer.next == 1
    producer.void(1)
    producer.push(pings(7))
    assert rtts(node) == [7]


def test_a_producer_waits_for_a_full_node(connection: Connection, node: FakeNode) -> None:
    node.overloaded_times = 2
    connection.producer("ping", "p").push(pings(1))
    assert rtts(node) == [1]


def test_a_producer_gives_up_at_its_deadline(connection: Connection, node: FakeNode) -> None:
    node.overloaded_times = 1_000_000
    with pytest.raises(Overloaded):
        connection.producer("ping", "p", deadline_s=0.3).push(pings(1))


def test_an_answer_that_was_lost_is_asked_for_again_without_harm(client: Client, node: FakeNode) -> None:
    producer = Producer(client, "ping", "p")
    real, answers = node.push, iter([NodeUnreachable("The answer was lost."), None])

    def push_and_lose(push: Push) -> PushAnswer:
        answer, lost = real(push), next(answers)
        if lost is not None:
            raise lost
        return answer

    node.push = push_and_lose  # type: ignore[method-assign]
    answer = producer.push(pings(1, 2))
    assert (answer.rows, answer.repeated) == (0, 2)
    assert rtts(node) == [1, 2]


def test_a_producer_carries_on_when_the_node_restarts(node: FakeNode) -> None:
    server = FlightServer(node)
    with connect(server.address) as connection:
        producer = connection.producer("ping", "p")
        producer.push(pings(1))
        server.stop()
        pushing = threading.Thread(target=producer.push, args=(pings(2),))
        pushing.start()
        server = FlightServer(node, port=server.port)
        pushing.join(HANG_S)
        producer.push(pings(3))
    server.stop()
    assert rtts(node) == [1, 2, 3]


def test_a_lane_without_a_time_column_is_stamped_by_its_producer_and_never_back(client: Client, node: FakeNode) -> None:
    node.producers = ("p",)
    clock = iter([100, 90, 500, 600])
    producer = Producer(client, "ping", "p", clock_us=lambda: next(clock))
    producer.push(pings(1, 2))
    producer.push(pings(3))
    producer.boundary(550)
    producer.push(pings(4))
    producer.push(pings(5))
    stamps = [push.rows.column(STIME).cast("int64").to_pylist() for push in node.pushes if push.rows is not None]
    assert stamps == [[100, 100], [100], [550], [600]]


def test_a_lane_with_a_time_column_is_not_stamped(client: Client, node: FakeNode) -> None:
    node.producers, node.time = ("p",), "sent"
    Producer(client, "ping", "p").push(pings(1))
    assert node.pushes[0].rows.schema.equals(PING)


# --- subscriptions -------------------------------------------------------------------------------------------------


def taken(batches: Iterator[pa.RecordBatch], count: int) -> list[int]:
    """The ids of the next ``count`` tuples."""
    ids: list[int] = []
    while len(ids) < count:
        ids += next(batches).column("_id").to_pylist()
    return ids


def test_a_subscription_that_does_not_follow_ends(connection: Connection) -> None:
    connection.push("ping", pings(1, 2))
    subscription = connection.subscribe("ping", start="start", follow=False)
    assert taken(iter(subscription), 2) == [1, 2]
    assert list(connection.subscribe("ping", follow=False)) == []
    assert subscription.position == Position("a1", 2)


def test_a_subscription_begins_where_it_is_told(connection: Connection) -> None:
    connection.push("ping", pings(1, 2, 3))
    assert taken(iter(connection.subscribe("ping", start="a1:1", follow=False)), 2) == [2, 3]
    assert taken(iter(connection.subscribe("ping", start=Position("a1", 2), follow=False)), 1) == [3]
    with pytest.raises(ConfigError, match="'yesterday' is not a position"):
        connection.subscribe("ping", start="yesterday")
    with pytest.raises(StreamNotFound):
        connection.subscribe("pong")


def test_a_node_that_restarts_under_a_follower_costs_it_nothing(node: FakeNode) -> None:
    server = FlightServer(node)
    with connect(server.address) as connection, connection.subscribe("ping", start="start") as subscription:
        batches = iter(subscription)
        got: list[int] = []
        for rtt in range(4):
            connection.producer("ping", "p").push(pings(rtt, rtt))
            got += taken(batches, 2)
            server = restarted(server, node)
            node.push(Push(source="ping", rows=pings(rtt), count=1))  # while the follower is away
            got += taken(batches, 1)
        assert got == list(range(1, 13))
        assert node.reads == 5
    server.stop()


def test_what_comes_after_the_end_was_found_is_not_skipped_by_a_restart(node: FakeNode) -> None:
    server = FlightServer(node)
    with connect(server.address) as connection, connection.subscribe("ping") as subscription:
        node.push(Push(source="ping", rows=pings(1), count=1))
        server = restarted(server, node)
        assert taken(iter(subscription), 1) == [1]
    server.stop()


def test_a_stream_that_comes_back_as_another_incarnation_ends_the_subscription(node: FakeNode) -> None:
    server = FlightServer(node)
    with connect(server.address) as connection, connection.subscribe("ping", start="start") as subscription:
        node.push(Push(source="ping", rows=pings(1), count=1))
        batches = iter(subscription)
        taken(batches, 1)
        node.incarnation = "b2"
        server = restarted(server, node)
        with pytest.raises(StreamNotFound) as caught:
            next(batches)
        assert caught.value.remedy
        with pytest.raises(StreamNotFound, match="incarnation b2: position a1:1"):
            connection.subscribe("ping", start="a1:1")
    server.stop()


def test_a_node_that_stays_away_ends_the_subscription_at_its_deadline(node: FakeNode) -> None:
    server = FlightServer(node)
    with connect(server.address) as connection, connection.subscribe("ping", deadline_s=0.3) as subscription:
        server.stop()
        with pytest.raises(NodeUnreachable, match=server.address):
            next(iter(subscription))


@pytest.mark.parametrize("node_is_there", [True, False], ids=["while it reads", "while it waits for the node"])
def test_a_subscription_is_closed_from_another_thread(node: FakeNode, node_is_there: bool) -> None:
    server = FlightServer(node)
    with connect(server.address) as connection:
        subscription = connection.subscribe("ping")
        if not node_is_there:
            server.stop()
        got: list[pa.RecordBatch] = []
        reading = threading.Thread(target=lambda: got.extend(subscription))
        reading.start()
        subscription.close()
        reading.join(HANG_S)
        assert not reading.is_alive()
        assert got == []
    server.stop()


def test_a_named_subscription_acknowledges_what_it_handed_out(connection: Connection, node: FakeNode) -> None:
    connection.push("ping", pings(1, 2))
    named = connection.subscribe("ping", start="start", follow=False, reader="dash")
    list(named)
    named.acknowledge()
    assert node.readers == {("ping", "dash"): Position("a1", 2)}
    with pytest.raises(ConfigError, match="without a name"):
        connection.subscribe("ping").acknowledge()


def test_a_hole_in_a_stream_is_never_passed_on(connection: Connection, node: FakeNode) -> None:
    node.batches += [tuples(pings(1), 1), tuples(pings(3), 3)]
    batches = iter(connection.subscribe("ping", start="start"))
    next(batches)
    with pytest.raises(InvariantBroken, match=r"sent tuples 3 to 3 .* where 2 was next"):
        next(batches)


# --- how fast ------------------------------------------------------------------------------------------------------


def test_rows_per_second_are_printed(connection: Connection, node: FakeNode) -> None:
    count = 300_000
    rows = pa.table(
        {
            "source": pc.cast(pa.array(range(count)), pa.string()),
            "target": pa.repeat("somewhere", count),
            "rtt_ms": pa.array(range(count), pa.float64()),
            "hops": pa.repeat(pa.scalar(3, pa.int32()), count),
            "sent": pa.repeat(pa.scalar(0, pa.timestamp("us", "UTC")), count),
        }
    )
    producer = connection.producer("ping", "p")
    begin = time.perf_counter()
    producer.push(rows)
    pushed = time.perf_counter()
    got = sum(batch.num_rows for batch in connection.subscribe("ping", start="start", follow=False))
    read = time.perf_counter()
    print(f"pushed {count / (pushed - begin):,.0f} rows/s, read {count / (read - pushed):,.0f} rows/s")
    assert got == count
