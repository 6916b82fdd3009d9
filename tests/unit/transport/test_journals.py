"""The server of journals over real sockets: what Spark may ask, who may ask, and what nobody can do to the node."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from anabranch import limits
from anabranch.errors import ConfigError, StateError, StreamNotFound
from anabranch.model.selection import Range, to_text
from anabranch.transport import journals, plain
from anabranch.transport.journals import Control, JournalRequest, JournalServer, MadeBatch, Rows
from tests.waiting import HANG_S, wait_for

ROWS = pa.record_batch({"x": pa.array([1, 2, 3], pa.int64())})
ALL = to_text(((),))
RELEASE = "r1"


def encoded(message: plain.Message) -> bytes:
    """As ``jvm/`` writes it."""
    return json.dumps({"v": journals.VERSION, **message}).encode()


@dataclass
class FakeJournals:
    """Three messages and a control row in every range; ``fails_after`` of them it fails."""

    fails_after: int | None = None
    at_hand: bool = False
    asked: list[JournalRequest] = field(default_factory=list)
    closed: int = 0
    waits: int = 0
    logged: list[MadeBatch] = field(default_factory=list)

    def wait_room(self, stage: str, life: int, seconds: float) -> bool:
        self.waits -= 1
        return self.waits < 0

    def log(self, batch: MadeBatch) -> None:
        if batch.stage != "s":
            raise StreamNotFound(f"There is no stage {batch.stage!r}.", remedy="There is s.")
        self.logged.append(batch)

    def latest(self, stream: str, stage: str, scan: int, after_seq: int, max_rows: int) -> int:
        if stream != "s":
            raise StreamNotFound(f"There is no stream {stream!r}.", remedy="There is s.")
        return after_seq + max_rows

    def ranges(self, stream: str, after_seq: int, to_seq: int, at_most: int) -> list[int]:
        return [after_seq, *range(after_seq + 1, after_seq + at_most), to_seq]

    def is_at_hand(self, stream: str, after_seq: int, to_seq: int) -> bool:
        return self.at_hand

    def read(self, request: JournalRequest) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
        self.asked.append(request)
        return ROWS.schema, self._pieces()

    def _pieces(self) -> Generator[Rows | Control, None, None]:
        try:
            for number in range(3):
                if number == self.fails_after:
                    raise StateError("The segment is damaged.", remedy="Restore it.")
                yield Rows(ROWS.serialize())
            yield Control(7)
        finally:
            self.closed += 1


class Spark:
    """What the connector does, in Python: frames over a socket."""

    def __init__(self, server: JournalServer, *, token: str | None = None, release: str = RELEASE) -> None:
        host, _, port = server.address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=HANG_S)
        self.send(b"H", encoded({"token": server.token if token is None else token, "release": release}))

    def send(self, kind: bytes, body: bytes) -> None:
        self.socket.sendall(struct.pack(">cI", kind, len(body)) + body)

    def ask(self, question: str, **more: object) -> None:
        self.send(b"Q", encoded({"ask": question, "stream": "s", **more}))

    def frame(self) -> tuple[bytes, bytes]:
        kind, length = struct.unpack(">cI", self._read(5))
        return kind, self._read(length)

    def numbers(self, question: str, **more: object) -> list[int]:
        self.ask(question, **more)
        kind, body = self.frame()
        assert kind == b"N", body
        if question == "latest":
            assert self.frame() == (b"E", b"")
        return list(struct.unpack(f">{len(body) // 8}q", body))

    def refusal(self) -> str:
        kind, body = self.frame()
        assert kind == b"X", (kind, body)
        return body.decode()

    def is_cut(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _read(self, count: int) -> bytes:
        body = b""
        while len(body) < count:
            piece = self.socket.recv(count - len(body))
            assert piece, "the node closed the connection"
            body += piece
        return body

    def __enter__(self) -> Spark:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@pytest.fixture
def ports() -> FakeJournals:
    return FakeJournals()


@pytest.fixture
def server(ports: FakeJournals) -> Iterator[JournalServer]:
    with serving(ports) as server:
        yield server


@contextmanager
def serving(ports: FakeJournals, host: str = "127.0.0.1") -> Iterator[JournalServer]:
    server = JournalServer(ports, host, release=RELEASE)
    try:
        yield server
    finally:
        server.stop()


def a_range(**changed: object) -> dict[str, object]:
    return {"after": 0, "to": 3, "columns": ["x"], "rows": ALL} | changed


def news(**changed: object) -> dict[str, object]:
    """A question for what is new."""
    asked = {"stage": "a", "scan": 0, "after": 0, "max_rows": 1, "at_most": 1, "columns": ["x"], "rows": ALL}
    return asked | changed


# --- questions -----------------------------------------------------------------------------------------------------


def test_numbers_are_asked_for_and_answered(server: JournalServer) -> None:
    with Spark(server) as spark:
        assert spark.numbers("latest", **news(after=3, max_rows=4, at_most=2)) == [3, 4, 7]
        assert spark.numbers("ranges", after=1, to=9, at_most=3) == [1, 2, 3, 9]


def test_what_is_new_comes_with_its_rows_if_they_are_at_hand_and_for_one_task(
    server: JournalServer, ports: FakeJournals
) -> None:
    ports.at_hand = True
    with Spark(server) as spark:
        spark.ask("latest", **news(after=3, max_rows=4))
        frames = [spark.frame() for _ in range(7)]
        assert [kind for kind, _ in frames] == [b"N", b"S", b"R", b"R", b"R", b"C", b"E"]
        assert struct.unpack(">2q", frames[0][1]) == (3, 7)
        assert spark.numbers("latest", **news(at_most=2, max_rows=9)) == [0, 1, 9]
    assert ports.asked == [JournalRequest(stream="s", after_seq=3, to_seq=7, columns=["x"])]


def test_a_range_is_a_schema_messages_a_control_row_and_an_end(server: JournalServer, ports: FakeJournals) -> None:
    rows = ((Range(column="x", low=-(1 << 63)), Range(column="y", low="\u00e9'\"", high=None)),)
    with Spark(server) as spark:
        for _ in range(2):  # the connection is used again
            spark.ask("read", **a_range(rows=to_text(rows)))
            frames = [spark.frame() for _ in range(6)]
            assert [kind for kind, _ in frames] == [b"S", b"R", b"R", b"R", b"C", b"E"]
            schema = pa.ipc.read_schema(pa.py_buffer(frames[0][1]))
            assert pa.ipc.read_record_batch(pa.py_buffer(frames[1][1]), schema) == ROWS
            assert struct.unpack(">q", frames[4][1]) == (7,)
    assert ports.asked == [JournalRequest(stream="s", after_seq=0, to_seq=3, columns=["x"], rows=rows)] * 2


def test_an_error_in_the_middle_of_a_range_is_told_as_a_sentence(server: JournalServer, ports: FakeJournals) -> None:
    ports.fails_after = 2
    with Spark(server) as spark:
        spark.ask("read", **a_range())
        assert [spark.frame()[0] for _ in range(3)] == [b"S", b"R", b"R"]
        assert spark.refusal() == "The segment is damaged. Restore it."
        ports.fails_after = None
        assert spark.numbers("latest", **news(after=1)) == [1, 2]


def test_a_range_that_nobody_reads_to_its_end_is_left(server: JournalServer, ports: FakeJournals) -> None:
    with Spark(server) as spark:
        spark.ask("read", **a_range())
        spark.frame()
    wait_for(lambda: ports.closed == 1)
    wait_for(lambda: server.statistics() == {"connections": 0})


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"ask": "latest", "stream": "t", **news()}, "no stream 't'"),
        ({"ask": "latest", "stream": "s", **news(after=-1)}, "'after'"),
        ({"ask": "latest", "stream": "s", **news(columns=7)}, "'columns'"),
        ({"ask": "ranges", "stream": "s", "after": 0, "to": 1 << 70, "at_most": 1}, "'to'"),
        ({"ask": "ranges", "stream": "s", "after": 0, "to": 1, "at_most": "x"}, "'at_most'"),
        ({"ask": "write", "stream": "s"}, "unknown request: 'write'"),
        ({"ask": "read", "stream": "s", **a_range(rows="[[7]]")}, "which rows"),
        ({"ask": "read", "stream": "s", **a_range(rows="[" * 100_000)}, "which rows"),
        ({"ask": "read", "stream": "s", **a_range(columns="x")}, "'columns'"),
        ({"stream": "s"}, "'ask'"),
    ],
)
def test_a_wrong_question_is_refused_and_the_next_one_answered(
    server: JournalServer, question: dict[str, object], said: str
) -> None:
    with Spark(server) as spark:
        spark.send(b"Q", encoded(question))
        assert said in spark.refusal()
        assert spark.numbers("ranges", after=1, to=9, at_most=1) == [1, 9]


# --- batches -------------------------------------------------------------------------------------------------------


def a_batch(**changed: object) -> dict[str, object]:
    facts = {"stage": "s", "life": 2, "query": "abc", "batch": 7, "dropped": 0, "took_us": 1_500}
    return {"ask": "log", **facts, **changed}


def send_batch(spark: Spark, question: dict[str, object], *rows: pa.RecordBatch) -> None:
    spark.send(b"Q", encoded(question))
    spark.send(b"S", bytes(ROWS.schema.serialize()))
    for batch in rows:
        spark.send(b"R", bytes(batch.serialize()))
    spark.send(b"E", b"")


def test_a_batch_is_taken_whole_and_answered_when_it_is_logged(server: JournalServer, ports: FakeJournals) -> None:
    with Spark(server) as spark:
        for rows in ([ROWS, ROWS], []):
            send_batch(spark, a_batch(), *rows)
            assert spark.frame() == (b"E", b"")
            batch = ports.logged.pop()
            assert (batch.stage, batch.life, batch.query, batch.batch_id, batch.took_s) == ("s", 2, "abc", 7, 0.0015)
            assert batch.table == pa.Table.from_batches(rows, ROWS.schema)


def test_spark_hears_that_it_has_to_wait_for_room(server: JournalServer, ports: FakeJournals) -> None:
    ports.waits = 2
    with Spark(server) as spark:
        send_batch(spark, a_batch(), ROWS)
        assert [spark.frame()[0] for _ in range(3)] == [b"W", b"W", b"E"]
    assert len(ports.logged) == 1


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (a_batch(stage="t"), "no stage 't'"),
        (a_batch(batch=-1), "'batch'"),
        (a_batch(life="x"), "'life'"),
        (a_batch(query=None), "'query'"),
    ],
)
def test_a_batch_that_is_refused_is_read_to_its_end(
    server: JournalServer, ports: FakeJournals, question: dict[str, object], said: str
) -> None:
    with Spark(server) as spark:
        send_batch(spark, question, ROWS, ROWS)
        assert said in spark.refusal()
        send_batch(spark, a_batch(), ROWS)
        assert spark.frame() == (b"E", b"")
    assert len(ports.logged) == 1


def test_a_batch_that_is_too_large_is_refused_in_words(
    server: JournalServer, ports: FakeJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_BYTES", 300)
    with Spark(server) as spark:
        send_batch(spark, a_batch(), ROWS, ROWS, ROWS)
        assert "Let it read fewer rows: --batch-rows." in spark.refusal()
    assert ports.logged == []


def test_a_batch_that_ends_in_the_middle_is_not_logged(server: JournalServer, ports: FakeJournals) -> None:
    with Spark(server) as spark:
        spark.send(b"Q", encoded(a_batch()))
        spark.send(b"S", bytes(ROWS.schema.serialize()))
        spark.send(b"R", bytes(ROWS.serialize()))
    wait_for(lambda: server.statistics() == {"connections": 0})
    assert ports.logged == []


# --- who may ask ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "0" * 32, "é"])
def test_without_the_token_nothing_is_answered(server: JournalServer, token: str) -> None:
    with Spark(server, token=token) as spark:
        assert "Only the Spark of this node" in spark.refusal()
        assert spark.is_cut()


def test_each_start_has_a_token_of_its_own(ports: FakeJournals) -> None:
    with serving(ports) as one, serving(ports) as other:
        assert one.token != other.token


def test_a_connector_of_another_release_is_refused_with_what_to_do(server: JournalServer) -> None:
    with Spark(server, release="r0") as spark:
        assert spark.refusal() == (
            "Spark runs release r0 of Anabranch's connector; this node needs r1. "
            "Remove every other Anabranch jar from spark.jars and from Spark's class path."
        )
        assert spark.is_cut()


@pytest.mark.parametrize(
    "hello",
    [
        b"",
        b"{}",
        b"[" * 4_000,
        b'{"v":1,"token":7,"release":7}',
        b'{"v":1,"token":"\\ud800","release":"\\ud800"}',
        b'{"v":1,"token":"%s","release":"\\ud800"}',
        b'{"v":2}',
    ],
)
def test_a_greeting_that_is_none_is_refused(server: JournalServer, hello: bytes) -> None:
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=HANG_S) as stranger:
        body = hello.replace(b"%s", server.token.encode())
        stranger.sendall(struct.pack(">cI", b"H", len(body)) + body)
        assert stranger.recv(1) == b"X"


def test_an_address_of_ipv6_is_served(ports: FakeJournals) -> None:
    with serving(ports, "[::1]") as server, Spark(server) as spark:
        assert server.address.startswith("[::1]:")
        assert spark.numbers("ranges", after=1, to=9, at_most=1) == [1, 9]


def test_a_port_that_is_taken_is_told(server: JournalServer, ports: FakeJournals) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
        JournalServer(ports, "127.0.0.1", port, release=RELEASE)


# --- bounds --------------------------------------------------------------------------------------------------------


def test_more_connections_than_the_bound_are_closed_at_once(
    server: JournalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_CONNECTIONS", 1)
    with Spark(server) as first:
        assert first.numbers("ranges", after=1, to=9, at_most=1) == [1, 9]
        with Spark(server) as second:
            assert second.is_cut()
        assert first.numbers("ranges", after=1, to=9, at_most=1) == [1, 9]


def test_a_connection_without_questions_is_closed(server: JournalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPARK_IDLE_S", 0.05)
    with Spark(server) as spark:
        assert spark.is_cut()


def test_a_connection_that_shows_no_token_is_closed(server: JournalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPARK_HELLO_S", 0.05)
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=HANG_S) as silent:
        assert silent.recv(1) == b""


def test_a_reader_that_takes_nothing_for_too_long_is_left(
    server: JournalServer, ports: FakeJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_STALL_S", 0.05)
    large = pa.record_batch({"x": pa.array(range(1 << 20), pa.int64())}).serialize()

    def endless() -> Generator[Rows | Control, None, None]:
        try:
            while True:
                yield Rows(large)
        finally:
            ports.closed += 1

    monkeypatch.setattr(ports, "_pieces", endless)
    with Spark(server) as spark:
        spark.ask("read", **a_range())
        wait_for(lambda: ports.closed == 1)


def test_a_stop_ends_all_connections_and_threads(ports: FakeJournals) -> None:
    before = threading.active_count()
    with serving(ports) as server:
        clients = [Spark(server) for _ in range(5)]
        for spark in clients:
            assert spark.numbers("ranges", after=1, to=9, at_most=1) == [1, 9]
    assert threading.active_count() == before
    assert all(spark.is_cut() for spark in clients)


# --- whatever is sent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_no_bytes_take_the_server_down(server: JournalServer, ports: FakeJournals, seed: int) -> None:
    """Random bytes, frames cut short, frames with wrong lengths and bits flipped, before and after the greeting."""
    chance = random.Random(seed)
    whole = [encoded({"ask": "read", "stream": "s", **a_range()})]
    whole += [encoded({"ask": "latest", "stream": "s", **news()})]
    host, _, port = server.address.rpartition(":")
    for _ in range(60):
        body = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        length = chance.choice([len(body), len(body), chance.randrange(1 << 32), 0])
        sent = chance.choice([b"Q", b"Q", b"H", chance.randbytes(1)]) + struct.pack(">I", length) + body
        sent = chance.choice([sent, sent[: chance.randrange(len(sent))], chance.randbytes(chance.randrange(200))])
        if chance.random() < 0.7:
            with Spark(server) as spark:
                spark.socket.sendall(sent)
        else:
            with socket.create_connection((host, int(port)), timeout=HANG_S) as stranger:
                stranger.sendall(sent)
    with Spark(server) as spark:
        assert spark.numbers("ranges", after=1, to=9, at_most=1) == [1, 9]
    wait_for(lambda: server.statistics() == {"connections": 0}, server.statistics)


@pytest.mark.parametrize("seed", range(5))
def test_no_rows_take_the_server_down(server: JournalServer, seed: int) -> None:
    """A batch with bits flipped in its schema or rows, or with frames left out."""
    chance = random.Random(seed)
    for _ in range(60):
        frames = [(b"S", bytearray(ROWS.schema.serialize())), (b"R", bytearray(ROWS.serialize())), (b"E", bytearray())]
        for _ in range(chance.randrange(1, 4)):
            body = frames[chance.randrange(2)][1]
            body[chance.randrange(len(body))] = chance.randrange(256)
        chance.random() < 0.3 and frames.pop(chance.randrange(3))
        with Spark(server) as spark, suppress(ConnectionError):  # the server may have had enough of it
            spark.send(b"Q", encoded(a_batch()))
            for kind, body in frames:
                spark.send(kind, bytes(body))
    with Spark(server) as spark:
        assert spark.numbers("ranges", after=1, to=9, at_most=1) == [1, 9]
    wait_for(lambda: server.statistics() == {"connections": 0}, server.statistics)


@pytest.mark.parametrize("length", [journals.QUESTION_BYTES + 1, (1 << 32) - 1])
def test_a_question_that_is_too_long_is_not_read(server: JournalServer, length: int) -> None:
    with Spark(server) as spark:
        spark.socket.sendall(struct.pack(">cI", b"Q", length))
        assert spark.is_cut()
