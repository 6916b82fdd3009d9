"""Calls that stay open: many questions on one, what breaks one, and what is left of it at the node."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pytest

from anabranch import limits
from anabranch.core.roll_call import Roll
from anabranch.core.shared_lane import StoreAsked, TeachAsked
from anabranch.errors import NodeUnreachable, PushRefused
from anabranch.transport import open_call
from anabranch.transport import server as flight_server
from anabranch.transport.calls import Greeting
from anabranch.transport.client import Client
from anabranch.transport.letters import AboutLane
from anabranch.transport.open_call import OpenCall
from anabranch.transport.ports import Push, PushAnswer
from anabranch.transport.producer import Producer
from anabranch.transport.server import FlightServer
from tests.unit.transport.fake_node import FakeNode, pings
from tests.waiting import HANG_S, wait_for

ENTRY = b"e" * 100_000
LETTER = [
    AboutLane(
        source="s",
        lane="p",
        message=StoreAsked(sender="a", term=1, after=0, began_with=0, entries=(ENTRY,), released=0),
    )
]


class FakePeer:
    """Hears letters, and answers with them; while ``open`` is not set, it thinks."""

    def __init__(self) -> None:
        self.heard: list[AboutLane] = []
        self.open = threading.Event()
        self.open.set()

    def hear(self, sender: str, letter: Sequence[AboutLane]) -> list[AboutLane]:
        self.heard += letter
        assert self.open.wait(HANG_S)
        return [AboutLane(source="s", lane="p", message=TeachAsked(sender="b", term=len(self.heard)))]

    def greet(self, greeting: Greeting) -> Roll:
        raise AssertionError("Nobody greets.")


@pytest.fixture
def peer() -> FakePeer:
    return FakePeer()


@pytest.fixture
def server(node: FakeNode, peer: FakePeer) -> Iterator[FlightServer]:
    with FlightServer(node, lanes=peer) as server:
        yield server
        peer.open.set()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One more for each call that begins."""
    counted: list[int] = []
    real = OpenCall._begin

    def begin(self: OpenCall) -> open_call._Call:
        counted.append(1)
        return real(self)

    monkeypatch.setattr(OpenCall, "_begin", begin)
    return counted


def rtts(node: FakeNode) -> list[float]:
    return [rtt for batch in node.batches for rtt in batch.column("rtt_ms").to_pylist()]


def terms(answers: Sequence[AboutLane]) -> list[int]:
    return [answer.message.term for answer in answers]


# --- many on one ---------------------------------------------------------------------------------------------------


def test_all_entries_of_a_producer_go_on_one_call(client: Client, node: FakeNode, begun: list[int]) -> None:
    with Producer(client, "ping", "p") as producer:
        for rtt in range(20):
            producer.push(pings(rtt))
        producer.void(3)
        producer.push(pings(20, 21))
    assert rtts(node) == list(range(22))
    assert len(begun) == 1


def test_all_letters_to_a_peer_go_on_one_call(client: Client, peer: FakePeer, begun: list[int]) -> None:
    call = client.peer_call()
    assert [terms(call.tell_lanes("a", LETTER)) for _ in range(20)] == [[number] for number in range(1, 21)]
    assert peer.heard == LETTER * 20
    assert len(begun) == 1


def test_what_is_refused_ends_the_call_and_the_next_goes_on(client: Client, node: FakeNode, begun: list[int]) -> None:
    producer = Producer(client, "ping", "p")
    producer.push(pings(1))
    with pytest.raises(PushRefused, match="hops is negative") as refused:
        producer.push(pings(2, hops=-1))
    assert refused.value.row == 0
    producer.void(1)
    producer.push(pings(3))
    assert rtts(node) == [1, 3]
    assert len(begun) == 2


def test_more_calls_than_a_node_keeps_open_are_answered_one_by_one(
    client: Client, node: FakeNode, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_CALLS", 2)
    producers = [Producer(client, "ping", f"p{number}") for number in range(4)]
    for rtt in range(5):
        for producer in producers:
            producer.push(pings(rtt))
    assert rtts(node) == [rtt for rtt in range(5) for _ in producers]
    assert len(begun) == 2 + 2 * 5


def test_a_closed_call_begins_no_other(client: Client, node: FakeNode) -> None:
    call = client.push_call("ping")
    call.close()
    with pytest.raises(NodeUnreachable):
        call.push(Push(source="ping", rows=pings(1), count=1))
    assert not node.pushes


# --- too slow ------------------------------------------------------------------------------------------------------


def test_an_answer_that_is_overdue_ends_its_call_and_holds_up_no_other(client: Client, node: FakeNode) -> None:
    real, thinks = node.push, threading.Event()

    def push(push: Push) -> PushAnswer:
        if push.producer == "slow":
            assert thinks.wait(HANG_S)
        return real(push)

    node.push = push  # type: ignore[method-assign]
    session = client.register("ping", "slow").session
    slow, quick = client.push_call("ping"), Producer(client, "ping", "quick")
    entry = Push(source="ping", producer="slow", session=session, first=1, count=1, rows=pings(7))
    overdue: list[Exception] = []

    def wait() -> None:
        try:
            slow.push(entry, within_s=0.2)
        except NodeUnreachable as error:
            overdue.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    for rtt in range(5):
        quick.push(pings(rtt))
    waiting.join(HANG_S)
    assert "did not answer in time" in str(overdue[0])
    thinks.set()
    slow.push(entry)
    assert sorted(rtts(node)) == [0, 1, 2, 3, 4, 7]


def test_a_call_that_waits_for_its_answer_can_be_closed(client: Client, peer: FakePeer) -> None:
    peer.open.clear()
    call = client.peer_call()
    ended: list[Exception] = []

    def tell() -> None:
        try:
            call.tell_lanes("a", LETTER)
        except NodeUnreachable as error:
            ended.append(error)

    telling = threading.Thread(target=tell)
    telling.start()
    wait_for(lambda: peer.heard)
    call.close()
    telling.join(HANG_S)
    assert len(ended) == 1


def test_a_stop_does_not_wait_for_calls_on_which_nothing_is_said(node: FakeNode) -> None:
    server = FlightServer(node)
    with Client(server.address) as client, Producer(client, "ping", "p") as producer:
        producer.push(pings(1))
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < HANG_S / 10  # gRPC itself would wait until the client ends the call
        with pytest.raises(NodeUnreachable):
            client.push_call("ping").push(Push(source="ping", rows=pings(2), count=1), within_s=1)


# --- broken --------------------------------------------------------------------------------------------------------

_TELLING = """
import sys
from tests.unit.transport.test_open_call import LETTER
from anabranch.transport.calls import Greeting
from anabranch.transport.client import Client
call = Client(sys.argv[1]).peer_call()
while True:
    call.tell_lanes("a", LETTER)
    print("told", flush=True)
"""


@pytest.mark.parametrize("thinks", [False, True], ids=["between letters or in one", "while it is answered"])
def test_a_peer_that_is_killed_leaves_no_traceback(
    server: FlightServer,
    peer: FakePeer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    thinks: bool,
) -> None:
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", _TELLING, server.address], stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"told\n"
            if thinks:
                heard = len(peer.heard)
                peer.open.clear()
                wait_for(lambda heard=heard: len(peer.heard) > heard)
            os.kill(other.pid, signal.SIGKILL)
        peer.open.set()
    _check_forgotten(server, caplog, capfd)


_PUSHING = """
import sys
from tests.unit.transport.fake_node import pings
from anabranch.transport.calls import Greeting
from anabranch.transport.client import Client
from anabranch.transport.ports import Push
Client(sys.argv[1]).push(Push(source="ping", rows=pings(1), count=1))
"""


def test_a_client_that_is_killed_before_its_push_is_answered_leaves_no_traceback(
    server: FlightServer,
    node: FakeNode,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real_push, real_errors, contexts = node.push, flight_server._errors, []

    def errors(context: Any = None) -> AbstractContextManager[None]:
        contexts.append(context)
        return real_errors(context)

    def push(push: Push) -> PushAnswer:
        came.set()
        wait_for(contexts[-1].is_cancelled)
        return real_push(push)

    came = threading.Event()
    monkeypatch.setattr(flight_server, "_errors", errors)
    node.push = push  # type: ignore[method-assign]
    with subprocess.Popen([sys.executable, "-c", _PUSHING, server.address]) as other:
        assert came.wait(HANG_S)
        os.kill(other.pid, signal.SIGKILL)
    wait_for(lambda: server._calls._open == 0)
    _check_forgotten(server, caplog, capfd)


@pytest.mark.parametrize("cut_after", [50, 400, 2_000, 20_000, 90_000, 150_000])
def test_a_letter_that_is_cut_off_is_not_heard_and_comes_again(
    server: FlightServer,
    peer: FakePeer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    cut_after: int,
) -> None:
    with cut_link(server.port, cut_after) as port, Client(f"127.0.0.1:{port}") as client:
        call = client.peer_call()
        told = 0
        while told < 3:
            try:
                call.tell_lanes("a", LETTER)
                told += 1
            except NodeUnreachable:
                wait_for(lambda: server._calls._listening == 0)
    assert all(about == LETTER[0] for about in peer.heard)
    assert len(peer.heard) >= 3
    _check_forgotten(server, caplog, capfd)


def _check_forgotten(server: FlightServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """The node has ended the call, says nothing about it, and serves others."""
    wait_for(lambda: server._calls._listening == 0)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "Traceback" not in capfd.readouterr().err
    with Client(server.address) as client:
        assert client.peer_call().tell_lanes("a", LETTER)


@contextmanager
def cut_link(port: int, cut_after: int) -> Iterator[int]:
    """A port behind which the first connection is cut after so many bytes to the server; later ones are whole."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            rest = cut_after
            while True:
                try:
                    near, _ = listening.accept()
                except OSError:
                    return
                far = socket.create_connection(("127.0.0.1", port))
                threading.Thread(target=_carry, args=(far, near, None), daemon=True).start()
                threading.Thread(target=_carry, args=(near, far, rest), daemon=True).start()
                rest = None  # type: ignore[assignment]

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _carry(source: socket.socket, target: socket.socket, limit: int | None) -> None:
    try:
        while data := source.recv(4_096 if limit is None else min(4_096, limit)):
            target.sendall(data)
            if limit is not None:
                limit -= len(data)
                if not limit:
                    break
    except OSError:
        pass
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)  # to close it would not wake who reads from it
