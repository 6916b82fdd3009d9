"""Every verb of a node over real Flight, with our client and with a plain one."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from anabranch.errors import (
    AnabranchError,
    ConfigError,
    DiskFull,
    InvariantBroken,
    NodeUnreachable,
    Problem,
    PushRefused,
    QueryError,
    SessionExpired,
    StreamNotFound,
)
from anabranch.model.links import Cut, Delay, Heal, LinkFault, Slow
from anabranch.model.position import Position
from anabranch.runtime.status import HostStatus
from anabranch.transport import calls, messages, wire
from anabranch.transport.calls import Call
from anabranch.transport.client import Client
from anabranch.transport.ports import Push, ReadRequest
from anabranch.transport.server import FlightServer, _cut_connections
from tests.unit.transport.fake_node import PING, FakeNode, pings
from tests.waiting import HANG_S


def ids(batches: list[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column("_id").to_pylist()]


# --- streams -------------------------------------------------------------------------------------------------------


def test_streams_are_listed_with_schema_incarnation_and_extent(client: Client, node: FakeNode) -> None:
    client.push(Push(source="ping", rows=pings(1, 2), count=2))
    assert client.streams() == node.streams()
    assert client.stream("ping").last_id == 2


def test_an_unknown_stream_is_refused_with_those_there_are(client: Client) -> None:
    with pytest.raises(StreamNotFound) as caught:
        client.stream("pong")
    assert caught.value.message == "This node has no stream 'pong'."
    assert caught.value.remedy == "It has: ping, ping.late."
    with pytest.raises(StreamNotFound, match="no stream 'pong'"):
        client.read(ReadRequest(stream="pong"))


def test_a_read_begins_after_the_asked_position(client: Client) -> None:
    client.push(Push(source="ping", rows=pings(1, 2, 3), count=3))
    client.push(Push(source="ping", rows=pings(4), count=1))
    assert ids(list(client.read(ReadRequest(stream="ping")))) == [1, 2, 3, 4]
    assert ids(list(client.read(ReadRequest(stream="ping", start=Position("a1", 2))))) == [3, 4]
    assert ids(list(client.read(ReadRequest(stream="ping", start="end")))) == []


def test_a_read_says_the_incarnation_in_its_schema(client: Client) -> None:
    schema = client.read(ReadRequest(stream="ping")).schema
    assert schema.metadata == {wire.INCARNATION: b"a1"}
    assert schema.equals(wire.wire_schema(PING))


def test_a_position_of_another_incarnation_is_refused(client: Client) -> None:
    with pytest.raises(StreamNotFound, match="z9:1"):
        list(client.read(ReadRequest(stream="ping", start=Position("z9", 1))))


def test_a_batch_larger_than_a_message_is_sent_in_pieces(client: Client, node: FakeNode) -> None:
    big = "x" * (9 << 20)
    node.push(Push(source="ping", rows=pa.RecordBatch.from_pylist([{"source": big}] * 8, schema=PING), count=8))
    batches = list(client.read(ReadRequest(stream="ping")))
    assert len(batches) > 1
    assert ids(batches) == list(range(1, 9))


# --- following -----------------------------------------------------------------------------------------------------


def test_a_follower_gets_what_comes_and_ends_when_the_server_stops(client: Client, server: FlightServer) -> None:
    reading = client.read(ReadRequest(stream="ping", start="end", follow=True))
    client.push(Push(source="ping", rows=pings(1), count=1))
    assert ids([next(reading)]) == [1]
    client.push(Push(source="ping", rows=pings(2), count=1))
    assert ids([next(reading)]) == [2]
    server.stop()
    with pytest.raises(NodeUnreachable, match="stopping"):
        next(reading)


def test_a_follower_that_is_closed_from_another_thread_ends_quietly(client: Client, node: FakeNode) -> None:
    reading = client.read(ReadRequest(stream="ping", follow=True))
    closer = threading.Thread(target=reading.close)
    got: list[pa.RecordBatch] = []
    reader = threading.Thread(target=lambda: got.extend(reading))
    reader.start()
    closer.start()
    reader.join(HANG_S)
    closer.join(HANG_S)
    assert not reader.is_alive()
    assert got == []


def test_ctrl_c_leaves_a_follower_at_once_and_the_node_sees_it_go(client: Client, server: FlightServer) -> None:
    with pytest.raises(KeyboardInterrupt), client.read(ReadRequest(stream="ping", follow=True)):
        raise KeyboardInterrupt
    assert server._calls.wait_over(HANG_S)


def test_stopping_does_not_wait_for_a_client_that_holds_a_push_open(client: Client, node: FakeNode) -> None:
    server = FlightServer(node)
    plain = flight.connect(f"grpc://{server.address}")
    writer, answers = plain.do_put(flight.FlightDescriptor.for_path("ping"), PING)
    writer.write_batch(pings(1))
    assert answers.read() is not None  # the call is open, and silent from now on
    stopper = threading.Thread(target=server.stop, daemon=True)
    stopper.start()
    stopper.join(HANG_S)
    assert not stopper.is_alive()
    with pytest.raises((flight.FlightError, pa.ArrowException)):
        writer.close()
    plain.close()


def test_cutting_connections_opens_nothing_that_stays(node: FakeNode, tmp_path: Path) -> None:
    """A second descriptor of a lock file would keep the lock after its owner has given it back."""
    with (tmp_path / "lock").open("w") as lock:
        before = _descriptors()
        _cut_connections(1)
        assert _descriptors() == before
        assert not lock.closed


def _descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


# --- pushing -------------------------------------------------------------------------------------------------------


def test_pushed_entries_reach_the_node_as_they_were_sent(client: Client, node: FakeNode) -> None:
    session = client.register("ping", "p").session
    sent = [
        Push(source="ping", producer="p", session=session, first=1, count=2, rows=pings(1, 2)),
        Push(source="ping", producer="p", session=session, kind="boundary", first=3, time_us=7_000_000),
        Push(source="ping", producer="p", session=session, kind="void", first=4, count=5),
        Push(source="ping", producer="p", session=session, kind="close", first=9),
    ]
    answers = [client.push(push) for push in sent]
    assert node.pushes == sent
    assert [answer.through for answer in answers] == [2, 3, 8, 9]
    assert answers[0].rows == 2


def test_a_push_that_is_sent_again_is_answered_as_repeated(client: Client) -> None:
    session = client.register("ping", "p").session
    push = Push(source="ping", producer="p", session=session, first=1, count=2, rows=pings(1, 2))
    client.push(push)
    again = client.push(push)
    assert (again.through, again.rows, again.repeated) == (2, 0, 2)
    assert client.stream("ping").last_id == 2


def test_a_refused_push_keeps_class_row_and_remedy_and_nothing_of_the_batch(client: Client, node: FakeNode) -> None:
    rows = pa.concat_batches([pings(1, 2), pings(3, hops=-1), pings(4)])
    with pytest.raises(PushRefused) as caught:
        client.push(Push(source="ping", rows=rows, count=4))
    assert caught.value.row == 2
    assert caught.value.message == "Row 3: hops is negative."
    assert caught.value.remedy == "Count hops from 0."
    assert node.last_id == 0


def test_columns_in_another_order_and_of_a_narrower_type_are_taken(client: Client, node: FakeNode) -> None:
    narrow = pings(1, 2).select(["hops", "rtt_ms", "sent", "target", "source"]).to_pydict()
    rows = pa.RecordBatch.from_pydict({**narrow, "hops": pa.array([1, 2], pa.int8())})
    client.push(Push(source="ping", rows=rows, count=2))
    assert node.pushes[0].rows.schema.equals(PING)


def test_a_batch_that_arrow_cannot_read_is_refused(client: Client, node: FakeNode) -> None:
    no_text = pa.array([b"\xff\xfe"]).view(pa.string())
    arrays = [no_text if pa.types.is_string(field.type) else pa.nulls(1, field.type) for field in PING]
    with pytest.raises(PushRefused, match="damaged"):
        client.push(Push(source="ping", count=1, rows=pa.RecordBatch.from_arrays(arrays, schema=PING)))
    assert node.pushes == []


def test_a_message_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="not JSON"):
        messages.decode(b'{"v":3,"later":' + b"[" * 100_000, calls.Nothing)


def test_a_void_of_nothing_stays_one_of_nothing(client: Client, node: FakeNode) -> None:
    """The node refuses it. Taken for a void of one number, it would swallow the next row."""
    session = client.register("ping", "p").session
    push = Push(source="ping", producer="p", session=session, kind="void", first=1, count=0)
    client.push(push)
    assert node.pushes == [push]


def test_an_unknown_column_is_refused_with_the_likely_one(client: Client) -> None:
    rows = pings(1).rename_columns(["source", "target", "rtt", "hops", "sent"])
    with pytest.raises(PushRefused, match=r"unknown 'rtt'; missing 'rtt_ms'.* Did you mean 'rtt_ms'"):
        client.push(Push(source="ping", rows=rows, count=1))


def test_a_push_to_what_is_no_source_is_refused(client: Client) -> None:
    with pytest.raises(StreamNotFound, match=r"no source 'ping.late'. It has: ping."):
        client.push(Push(source="ping.late", rows=pings(1), count=1))


def test_a_replaced_producer_is_told(client: Client) -> None:
    old = client.register("ping", "p").session
    client.register("ping", "p")
    with pytest.raises(SessionExpired, match="took over"):
        client.push(Push(source="ping", producer="p", session=old, first=1, count=1, rows=pings(1)))


def test_a_batch_above_the_limit_is_refused(client: Client, node: FakeNode) -> None:
    rows = pa.RecordBatch.from_pylist([{"source": "x" * (11 << 20)}] * 3, schema=PING)
    with pytest.raises(PushRefused, match=r"above the limit.*Push smaller batches"):
        client.push(Push(source="ping", rows=rows, count=3))
    assert node.pushes == []


# --- actions -------------------------------------------------------------------------------------------------------


def test_registration_tells_lane_next_number_and_schema(client: Client) -> None:
    registration = client.register("ping", "p")
    assert (registration.session, registration.next, registration.lane) == (1, 1, "0")
    assert registration.schema.equals(PING)
    assert not registration.stamps


def test_readers_acknowledge_and_are_forgotten(client: Client, node: FakeNode) -> None:
    client.acknowledge("ping", "dash", Position("a1", 5))
    assert node.readers == {("ping", "dash"): Position("a1", 5)}
    client.forget_reader("ping", "dash")
    assert node.readers == {}


def test_lanes_are_closed_by_name_or_as_the_only_one(client: Client, node: FakeNode) -> None:
    client.close_lane("ping")
    client.close_lane("ping", "p")
    assert node.closed == [("ping", None), ("ping", "p")]


def test_status_comes_as_the_node_has_it(client: Client) -> None:
    assert client.status() == FakeNode().status()


# --- errors and addresses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        DiskFull("No room in /state.", remedy="Free some."),
        PushRefused("Row 3: no.", row=2, remedy="Yes."),
        ConfigError("漢" * 10_000, remedy="é" * 10_000),
        QueryError("q", [Problem(code="c", box="b", message="Bad.", remedy="Good.")]),
    ],
)
def test_an_error_is_raised_as_the_same_class(error: AnabranchError, client: Client, node: FakeNode) -> None:
    def fail() -> HostStatus:
        raise error

    node.status = fail  # type: ignore[method-assign]
    with pytest.raises(type(error)) as caught:
        client.status()
    got = caught.value
    assert type(got) is type(error)
    assert got.message.removesuffix("...") == error.message[: len(got.message.removesuffix("..."))]
    assert getattr(got, "row", None) == getattr(error, "row", None)
    assert getattr(got, "problems", None) == getattr(error, "problems", None)


def test_a_bug_in_a_node_is_told_as_one(client: Client, node: FakeNode) -> None:
    node.status = lambda: {}[0]  # type: ignore[assignment,index]
    with pytest.raises(InvariantBroken, match="KeyError: 0"):
        client.status()


def test_no_node_at_an_address_is_said_with_the_address() -> None:
    with Client("127.0.0.1:1", timeout_s=5) as client, pytest.raises(NodeUnreachable, match=r"No node.*127.0.0.1:1:"):
        client.status()


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", "localhost:x", ":80", "h:70000"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="not the address of a node"):
        Client(address)


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    try:
        probe = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = probe.getsockname()[1]
    probe.close()
    with FlightServer(FakeNode(), "[::1]", port) as there, Client(there.address) as client:
        assert there.address == f"[::1]:{port}"
        assert client.status() == FakeNode().status()


def test_a_taken_port_is_named(server: FlightServer, node: FakeNode) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{server.port}.*in use"):
        FlightServer(node, port=server.port)


def test_a_message_of_another_version_is_refused(server: FlightServer) -> None:
    plain = flight.connect(f"grpc://{server.address}")
    with pytest.raises(flight.FlightServerError, match="version 1; this side speaks version 3"):
        list(plain.do_action(flight.Action("register", b'{"v":1}')))
    plain.close()


# --- a client without any Anabranch code ---------------------------------------------------------------------------


def test_a_plain_flight_client_lists_and_reads(server: FlightServer, node: FakeNode) -> None:
    node.push(Push(source="ping", rows=pings(1, 2, 3), count=3))
    with flight.connect(f"grpc://{server.address}") as plain:
        infos = {info.descriptor.path[0]: info for info in plain.list_flights()}
        assert set(infos) == {b"ping", b"ping.late"}
        info = plain.get_flight_info(flight.FlightDescriptor.for_path("ping"))
        assert info.total_records == 3
        assert info.schema.names[:5] == ["_kind", "_id", "_tid", "_stime", "_origin"]
        table = plain.do_get(info.endpoints[0].ticket).read_all()
        assert table.column("rtt_ms").to_pylist() == [1, 2, 3]
        assert plain.get_schema(flight.FlightDescriptor.for_path("ping")).schema.equals(info.schema)
        assert "register" in {action.type for action in plain.list_actions()}


def test_a_plain_flight_client_pushes_and_sees_an_acknowledgement_or_a_sentence(
    server: FlightServer, node: FakeNode
) -> None:
    with flight.connect(f"grpc://{server.address}") as plain:
        writer, answers = plain.do_put(flight.FlightDescriptor.for_path("ping"), PING)
        writer.write_batch(pings(1, 2))
        assert b'"rows":2' in answers.read().to_pybytes()
        writer.write_batch(pings(3, hops=-1))
        assert answers.read() is None
        with pytest.raises(flight.FlightServerError, match=r"Row 1: hops is negative. Count hops from 0."):
            writer.close()
    assert node.last_id == 2
    assert (node.pushes[0].producer, node.pushes[0].first) == (None, None)


# --- links ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Cut(), Delay(200_000, 10_000), Slow(125_000), Heal()], ids=str)
def test_what_is_done_to_a_link_reaches_the_node_as_it_was_said(
    client: Client, node: FakeNode, fault: LinkFault
) -> None:
    client.fault_link("b", fault)
    assert node.faults == [("b", fault)]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"do": "bend"}, "Invalid enum value 'bend'"),
        ({"do": "delay", "delay_us": 5, "jitter_us": 6}, "The jitter is larger than the delay"),
        ({"do": "delay", "delay_us": -5, "jitter_us": -5}, "Jitter cannot be negative"),
        ({"do": "slow", "rate_bytes_s": 0}, "A link with a rate of zero is cut"),
        ({"do": "slow", "rate_bytes_s": "fast"}, "Expected `int`, got `str` - at `\\$.rate_bytes_s`"),
    ],
)
def test_what_cannot_be_done_to_a_link_is_refused(
    client: Client, node: FakeNode, message: dict[str, object], told: str
) -> None:
    asked = {"node": "b", **message}
    anything = Call(calls.FAULT_LINK.name, "", dict[str, Any], calls.Nothing)
    with pytest.raises(ConfigError, match=told):
        client._call(anything, asked)
    assert node.faults == []
