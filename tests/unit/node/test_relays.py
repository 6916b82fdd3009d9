"""Links that are slow, late, cut and healed, with plain TCP through them: whatever they do, bytes keep their order."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from anabranch import limits
from anabranch.errors import ConfigError, NodeUnreachable
from anabranch.model.links import Cut, Delay, Heal, Link, Slow
from anabranch.node.dialer import Dialer
from anabranch.node.relays import Relays
from anabranch.transport.client import Client
from anabranch.transport.server import FlightServer
from tests.unit.node.sockets import Server, connected, echo, is_silent, received, serving
from tests.unit.transport.fake_node import FakeNode
from tests.waiting import HANG_S, wait_for

MANY = 100
Through = Callable[..., Relays]


@pytest.fixture
def relays() -> Iterator[Through]:
    """Relays of a node ``a`` with one link, to ``b``."""
    opened: list[Relays] = []

    def make(link: Link | None = None, *, allow_faults: bool = True) -> Relays:
        opened.append(Relays("a", {"b": link or Link()}, allow_faults=allow_faults))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(echo) as server:
        yield server


def round_trip(connection: socket.socket, data: bytes = b"x") -> float:
    begun = time.monotonic()
    connection.sendall(data)
    assert received(connection, len(data)) == data
    return time.monotonic() - begun


def is_reset(address: str) -> bool:
    """Whether a new connection is reset, at once or a little later."""
    try:
        with connected(address) as connection:
            connection.recv(1)
    except ConnectionResetError:
        return True
    return False


def held(relays: Relays) -> int:
    return int(relays.statistics()["b"].bytes_held)


# --- delay and rate --------------------------------------------------------------------------------------------------


def test_bytes_take_the_delay_each_way_and_a_connection_takes_a_round_trip_more(
    relays: Through, server: Server
) -> None:
    address = relays(Link(delay_us=60_000)).route("b", server.address)
    with connected(address) as connection:
        assert 0.24 <= round_trip(connection) < 2
        assert 0.12 <= round_trip(connection) < 1


def test_jitter_spreads_the_delay_and_keeps_the_order(relays: Through, server: Server) -> None:
    address = relays(Link(delay_us=20_000, jitter_us=20_000)).route("b", server.address)
    with connected(address) as connection:
        round_trip(connection)
        taken = [round_trip(connection) for _ in range(20)]
        assert max(taken) - min(taken) > 0.01
        numbers = [struct.pack(">I", number) for number in range(500)]
        for number in numbers:
            connection.sendall(number)
            time.sleep(0.0002)  # so that they are many messages, with a delay each
        assert received(connection, 2_000) == b"".join(numbers)


def test_no_more_than_the_rate_goes_through(relays: Through, server: Server) -> None:
    address = relays(Link(rate_bytes_s=1_000_000)).route("b", server.address)
    data = random.Random(1).randbytes(500_000)
    with connected(address) as connection, ThreadPoolExecutor() as pool:
        begun = time.monotonic()
        pool.submit(connection.sendall, data)
        assert received(connection, len(data)) == data
        assert time.monotonic() - begun >= 0.45


def test_connections_share_the_rate_and_none_is_left_behind(relays: Through) -> None:
    sizes: dict[int, int] = {}

    def count(connection: socket.socket) -> None:
        while data := connection.recv(1 << 16):
            sizes[connection.fileno()] = sizes.get(connection.fileno(), 0) + len(data)

    with serving(count) as server, ThreadPoolExecutor() as pool:
        through = relays(Link(rate_bytes_s=2_000_000))
        connections = [connected(through.route("b", server.address)) for _ in range(3)]
        for connection in connections:
            pool.submit(connection.sendall, bytes(4_000_000))
        wait_for(lambda: len(sizes) == 3 and min(sizes.values()) > 250_000, lambda: sizes)
        assert max(sizes.values()) < 4_000_000, sizes
        through.close()
        for connection in connections:
            connection.close()


# --- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link", [Link(), Link(delay_us=2_000, jitter_us=2_000), Link(rate_bytes_s=40_000_000)], ids=str
)
def test_a_large_transfer_arrives_whole_both_ways(relays: Through, server: Server, link: Link) -> None:
    data = random.Random(2).randbytes(24 << 20)
    with connected(relays(link).route("b", server.address)) as connection, ThreadPoolExecutor() as pool:
        pool.submit(lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        back = received(connection, len(data) + 1)
    assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest()


def test_many_connections_at_once_are_kept_apart(relays: Through, server: Server) -> None:
    through = relays(Link(delay_us=5_000, jitter_us=5_000))
    address = through.route("b", server.address)

    def talk(number: int) -> bool:
        data = random.Random(number).randbytes(20_000)
        with connected(address) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return received(connection, len(data) + 1) == data

    with ThreadPoolExecutor(MANY) as pool:
        assert all(pool.map(talk, range(MANY)))
    wait_for(lambda: through.statistics()["b"].connections == 0)
    told = through.statistics()["b"]
    assert (told.bytes_there, told.bytes_back, told.bytes_held) == (MANY * 20_000, MANY * 20_000, 0)


def test_a_receiver_that_does_not_read_holds_the_sender_back(relays: Through) -> None:
    silent = threading.Event()
    with serving(lambda connection: (silent.wait(), echo(connection))[1]) as server:
        through = relays(Link(delay_us=1_000))
        with connected(through.route("b", server.address)) as connection:
            connection.setblocking(False)
            sent, stopped_at = 0, time.monotonic()
            while held(through) <= limits.RELAY_BYTES or time.monotonic() - stopped_at < 0.5:  # nothing more was taken
                try:
                    sent += connection.send(bytes(1 << 20))
                    stopped_at = time.monotonic()
                except BlockingIOError:
                    time.sleep(0.01)
            assert held(through) <= limits.RELAY_BYTES + (1 << 20)
            assert sent < limits.RELAY_BYTES + (64 << 20)  # the system's own buffers have bounds, too
            silent.set()
            connection.settimeout(HANG_S)
            connection.shutdown(socket.SHUT_WR)
            assert len(received(connection, sent + 1)) == sent


def test_a_slow_link_holds_what_a_router_would(relays: Through, server: Server) -> None:
    through = relays(Link(rate_bytes_s=1_000_000, delay_us=50_000))
    with connected(through.route("b", server.address)) as connection, ThreadPoolExecutor() as pool:
        sending = pool.submit(connection.sendall, bytes(1_000_000))
        largest = 0
        while not sending.done():
            largest = max(largest, held(through))
            time.sleep(0.005)
        received(connection, 1_000_000)
    assert largest <= 2 * (150_000 + (256 << 10)), "in two directions, with what is read at once"


# --- ends ------------------------------------------------------------------------------------------------------------


def test_an_end_of_one_direction_leaves_the_other_open(relays: Through) -> None:
    def sum_up(connection: socket.socket) -> None:
        connection.sendall(str(len(received(connection, 1 << 30))).encode())

    through = relays(Link(delay_us=5_000))
    with serving(sum_up) as server, connected(through.route("b", server.address)) as connection:
        connection.sendall(b"12345")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection, 100) == b"5"


def test_a_reset_of_either_side_reaches_the_other(relays: Through) -> None:
    seen: list[type] = []

    def hear(connection: socket.socket) -> None:
        if connection.recv(1) == b"!":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        try:
            connection.recv(1)
        except OSError as error:
            seen.append(type(error))

    with serving(hear) as server:
        address = relays(Link(delay_us=1_000)).route("b", server.address)
        with connected(address) as connection:
            connection.sendall(b"!")
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
        with connected(address) as connection:
            connection.sendall(b"?")
            wait_for(lambda: server.accepted == 2)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_for(lambda: seen == [ConnectionResetError])


def test_a_node_that_is_not_there_resets_the_connection(relays: Through) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    through = relays()
    assert is_reset(through.route("b", f"127.0.0.1:{port}"))
    wait_for(lambda: through.statistics()["b"].connections == 0)


def test_connections_past_the_limit_are_reset(relays: Through, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RELAY_CONNECTIONS", 2)
    address = relays().route("b", server.address)
    with connected(address) as one, connected(address) as other:
        round_trip(one), round_trip(other)
        assert is_reset(address)
        round_trip(one)


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_cut_is_silence_and_connections_go_on_after_it(relays: Through, server: Server) -> None:
    through = relays(Link(delay_us=1_000))
    address = through.route("b", server.address)
    with connected(address) as connection:
        round_trip(connection)
        through.set("b", Cut())
        assert through.statistics()["b"].state == "cut"
        connection.sendall(b"held")
        with connected(address) as newcomer:  # the system answers for us; the other node does not
            newcomer.sendall(b"new")
            assert is_silent(connection, 0.3)
            assert is_silent(newcomer, 0.1)
            assert server.accepted == 1
            through.set("b", Heal())
            assert received(connection, 4) == b"held"
            assert received(newcomer, 3) == b"new"
        assert through.statistics()["b"].state == "open"


def test_who_gives_up_during_a_cut_is_heard_of_after_it(relays: Through) -> None:
    said: list[bytes] = []

    def listen(connection: socket.socket) -> None:
        connection.sendall(b"hello")
        said.append(received(connection, 100))

    with serving(listen) as server:
        through = relays()
        address = through.route("b", server.address)
        with connected(address) as connection:
            assert received(connection, 5) == b"hello"
            through.set("b", Cut())
            connection.sendall(b"bye")
        tries = [connected(address) for _ in range(5)]
        wait_for(lambda: through.statistics()["b"].connections == 6)
        for each in tries:  # given up again: the other side never hears of them
            each.close()
        wait_for(lambda: through.statistics()["b"].connections == 1)
        assert said == []
        through.set("b", Heal())
        wait_for(lambda: said == [b"bye"])
        assert server.accepted == 1


def test_delay_and_slow_add_up_until_they_are_healed(relays: Through, server: Server) -> None:
    through = relays(Link(delay_us=1_000, jitter_us=500, rate_bytes_s=50_000_000))
    with connected(through.route("b", server.address)) as connection:
        round_trip(connection)
        through.set("b", Delay(100_000))
        assert round_trip(connection) >= 0.2
        through.set("b", Slow(100_000))
        told = through.statistics()["b"]
        assert (told.delay_us, told.jitter_us, told.rate_bytes_s) == (100_000, 0, 100_000)
        assert round_trip(connection, bytes(30_000)) >= 0.4
        through.set("b", Heal())
        told = through.statistics()["b"]
        assert (told.delay_us, told.jitter_us, told.rate_bytes_s) == (1_000, 500, 50_000_000)
        assert round_trip(connection) < 0.2


def test_what_is_on_a_long_way_arrives_when_it_is_healed(relays: Through, server: Server) -> None:
    through = relays()
    with connected(through.route("b", server.address)) as connection:
        round_trip(connection)
        through.set("b", Delay(3_600_000_000))
        connection.sendall(bytes(100_000))
        wait_for(lambda: held(through) > 100_000)
        through.set("b", Heal())
        assert received(connection, 100_000) == bytes(100_000)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_done_to_a_link_all_bytes_arrive_once_and_in_order(
    relays: Through, server: Server, seed: int
) -> None:
    chance = random.Random(seed)
    data = chance.randbytes(6 << 20)
    through = relays(Link(delay_us=1_000, jitter_us=1_000))
    faults = [Cut(), Delay(30_000, 30_000), Delay(1_000), Slow(8_000_000), Slow(60_000_000), Heal(), Heal()]
    with connected(through.route("b", server.address)) as connection, ThreadPoolExecutor() as pool:
        pool.submit(lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        back = pool.submit(received, connection, len(data) + 1)
        for _ in range(40):
            through.set("b", chance.choice(faults))
            time.sleep(chance.uniform(0, 0.03))
        through.set("b", Heal())
        assert hashlib.sha256(back.result()).digest() == hashlib.sha256(data).digest()


def test_a_link_may_be_cut_before_anything_uses_it(relays: Through, server: Server) -> None:
    through = relays()
    through.set("b", Cut())
    with connected(through.route("b", server.address)) as connection:
        connection.sendall(b"x")
        assert is_silent(connection, 0.2)
        through.set("b", Heal())
        assert received(connection, 1) == b"x"


def test_faults_are_refused_unless_they_are_allowed(relays: Through) -> None:
    through = relays(Link(delay_us=1), allow_faults=False)
    with pytest.raises(ConfigError, match="faults = true"):
        through.set("b", Cut())
    assert through.statistics()["b"].state == "open"


def test_only_nodes_with_a_link_are_reached_through_a_relay(relays: Through) -> None:
    through = relays()
    assert through.route("c", "10.0.0.1:7700") == "10.0.0.1:7700"
    with pytest.raises(ConfigError, match=r"a has no link to 'c'\. It has links to: b"):
        through.set("c", Cut())


# --- life ------------------------------------------------------------------------------------------------------------


def test_closing_resets_connections_and_leaves_neither_thread_nor_socket(server: Server) -> None:
    process = psutil.Process()
    threads, files = set(threading.enumerate()), process.num_fds()
    relays = Relays("a", {"b": Link(delay_us=1_000), "c": Link()}, allow_faults=True)
    assert (set(threading.enumerate()), process.num_fds()) == (threads, files), "nothing was opened yet"
    connections = [connected(relays.route("b", server.address)) for _ in range(20)]
    for connection in connections[:10]:
        round_trip(connection)
    relays.set("b", Cut())
    connections.append(connected(relays.route("b", server.address)))
    connections.append(connected(relays.route("c", server.address)))
    relays.close()
    relays.close()
    for connection in connections:
        with connection, pytest.raises(ConnectionResetError):
            connection.recv(1)
    wait_for(lambda: set(threading.enumerate()) <= threads, threading.enumerate)
    wait_for(lambda: process.num_fds() == files, process.num_fds)
    with pytest.raises(NodeUnreachable, match="stopping"):
        relays.set("b", Heal())


# --- Flight ----------------------------------------------------------------------------------------------------------


def test_flight_goes_over_a_relay_and_finds_out_about_a_cut(relays: Through) -> None:
    through = relays(Link(delay_us=10_000, jitter_us=5_000))
    with FlightServer(FakeNode()) as server:
        address = through.route("b", server.address)
        with Client(address) as client:
            assert [info.name for info in client.streams()] == ["ping", "ping.late"]
            through.set("b", Cut())
            with Client(address, timeout_s=0.3) as hasty, pytest.raises(NodeUnreachable):
                hasty.streams()
            through.set("b", Heal())
            assert [info.name for info in client.streams()] == ["ping", "ping.late"]


def test_an_error_names_the_node_and_not_the_relay(relays: Through) -> None:
    dialer = Dialer(relays().route)
    with pytest.raises(NodeUnreachable, match=r"No node answers at 127\.0\.0\.1:1: "):
        dialer.client("b", "127.0.0.1:1").status()
    dialer.close()
