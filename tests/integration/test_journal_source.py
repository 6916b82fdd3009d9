"""The connector in a real Spark: all types, what goes wrong on the way, a stop while it waits, and Arrow's memory."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch import limits
from anabranch.columns import arrow_schema
from anabranch.engine import connector
from anabranch.engine.connector import JournalHost
from anabranch.engine.run import journal_frame
from anabranch.errors import StateError
from anabranch.model.selection import Range, to_text
from anabranch.node.journals import Journals
from anabranch.node.node import Node
from anabranch.storage.codec import stored_schema
from anabranch.transport.journals import Control, JournalRequest, JournalServer, MadeBatch, Rows
from tests.spark import running, scratch
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.spark

VALUES: dict[str, list[object]] = {
    "boolean": [True, False, None],
    "tinyint": [-128, 127, None],
    "smallint": [-32768, 7, None],
    "int": [-(2**31), 2**31 - 1, None],
    "bigint": [-(2**63), 2**63 - 1, None],
    "float": [-0.0, 1.5, None],
    "double": [math.inf, 0.1, None],
    "string": ["", "grün", None],
    "binary": [b"", b"\x00abc", None],
    "date": [date(1970, 1, 1), date(2026, 11, 15), None],
    "timestamp": [datetime(1969, 12, 31, 1, 2, 3, 4, tzinfo=UTC), datetime(2026, 11, 15, tzinfo=UTC), None],
    "decimal(10,2)": [Decimal("0.00"), Decimal("-12345678.90"), None],
    "decimal(38,4)": [Decimal("1234567890123456789012.3456"), Decimal(-1), None],
}


def held_bytes(session: SparkSession) -> int:
    """What Arrow's own allocator says that readers hold."""
    jvm: Any = session.sparkContext._jvm
    return int(jvm.anabranch.JournalSource.allocatedBytes())


def filtered() -> ab.Query:
    query = ab.Query("q")
    query.output("large", query.source("numbers", "x bigint").filter("x >= 0"))
    return query


def results(node: Node, stream: str = "large") -> list[int]:
    log = node.hosted.streams.logs[stream][1]
    found = [segment.rows for segment in log.read(0, log.end_seq()) if segment.rows is not None]
    return [x for rows in found for x in rows.column("x").to_pylist()]


def session_of(node: Node) -> SparkSession:
    assert node.hosted._spark is not None
    session: SparkSession = node.hosted._spark.session()
    return session


@pytest.fixture
def state() -> Iterator[Path]:
    with scratch() as directory:
        yield directory / "state"


# --- rows ----------------------------------------------------------------------------------------------------------


def test_every_type_arrives_as_it_is_with_its_nulls(state: Path) -> None:
    query = ab.Query("types")
    columns = {f"c{number}": kind for number, kind in enumerate(VALUES)}
    source = query.source("all", ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    query.output("same", source.filter("true"))
    query.output("few", source.map("c7, c11"))
    schema = arrow_schema(columns.items())
    rows = pa.table(
        [pa.array(values, field.type) for values, field in zip(VALUES.values(), schema, strict=True)], schema
    )
    with running(query, state) as node, ab.connect(node.address) as connection:
        connection.push("all", rows)
        assert node.wait_caught_up(HANG_S)
        log = node.hosted.streams.logs["same"][1]
        same = [segment.rows for segment in log.read(0, log.end_seq()) if segment.rows is not None]
        assert pa.Table.from_batches(same).select(rows.column_names).equals(rows)
        assert held_bytes(session_of(node)) == 0


def test_small_batches_and_large_ones_leave_no_memory_behind(state: Path) -> None:
    _many_batches(state, 20, large_every=10)


@pytest.mark.long
@pytest.mark.timeout(3600)  # more than others may take
def test_ten_thousand_batches_leave_no_memory_behind(state: Path) -> None:
    _many_batches(state, 10_000, large_every=50)


def _many_batches(state: Path, count: int, large_every: int) -> None:
    """A batch for each segment; some segments need more than a page of memory. What one batch keeps would be seen."""
    with running(filtered(), state, batch_rows=1) as node, ab.connect(node.address) as connection:
        expected: list[int] = []
        for number in range(count):
            rows = [number] if number % large_every else list(range(number, number + 5_000))
            connection.push("numbers", [{"x": x} for x in rows])
            expected += rows
        wait_for(lambda: node.wait_caught_up(HANG_S), seconds=10 * HANG_S)
        assert results(node) == expected
        assert node.statistics().stages["numbers"].batches >= count
        assert held_bytes(session_of(node)) == 0


# --- what goes wrong -----------------------------------------------------------------------------------------------


class Hurt:
    """Does something once, after the first rows of a range were sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
        self.happened = 0
        read = Journals.read

        def hurt(
            journals: Journals, request: JournalRequest
        ) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
            schema, pieces = read(journals, request)
            return schema, self._hurting(pieces, what)

        monkeypatch.setattr(Journals, "read", hurt)

    def _hurting(
        self, pieces: Generator[Rows | Control, None, None], what: Callable[[], None]
    ) -> Generator[Rows | Control, None, None]:
        for piece in pieces:
            yield piece
            if isinstance(piece, Rows) and not self.happened:
                self.happened += 1
                what()


def test_a_connection_that_is_cut_in_a_batch_costs_a_second_try(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(filtered(), state) as node, ab.connect(node.address) as connection:
        server = node.host._journals
        assert server is not None

        def cut() -> None:
            for open_socket in list(server._open):
                open_socket.shutdown(socket.SHUT_RDWR)

        hurt = Hurt(monkeypatch, cut)
        connection.push("numbers", [{"x": x} for x in range(10)])
        wait_for(lambda: results(node) == list(range(10)), lambda: node.statistics().stages)
        assert hurt.happened == 1
        assert held_bytes(session_of(node)) == 0


def test_an_error_in_the_middle_of_a_range_reaches_the_user_as_a_sentence(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StateError("The segment is damaged.", remedy="Restore it from a backup.")

    with running(filtered(), state) as node, ab.connect(node.address) as connection:
        told: list[str] = []
        runner = node.hosted.runners["numbers"]
        note = runner._note_failure
        monkeypatch.setattr(runner, "_note_failure", lambda error: (told.append(str(error)), note(error)))
        hurt = Hurt(monkeypatch, fail)
        connection.push("numbers", [{"x": x} for x in range(10)])
        wait_for(lambda: results(node) == list(range(10)), lambda: node.statistics().stages)
        assert hurt.happened == 1
        assert told == ["Stage numbers failed in Spark: The segment is damaged. Restore it from a backup."]
        assert held_bytes(session_of(node)) == 0


class Talker(threading.Thread):
    """A server that takes every connection and sends what it is told to, whatever it is asked."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(daemon=True)
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = JournalHost(address=f"127.0.0.1:{self._listener.getsockname()[1]}", token="t")
        self._taken: list[socket.socket] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            self._taken.append(taken)
            taken.sendall(self._answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for taken in self._taken:
            taken.close()


@contextmanager
def talking(answer: bytes) -> Iterator[JournalHost]:
    talker = Talker(answer)
    try:
        yield talker.host
    finally:
        talker.close()


def failure_of(session: SparkSession, host: JournalHost, checkpoint: Path) -> str:
    """Why a query on these journals ends."""
    frame = journal_frame(session, arrow_schema([("x", "bigint")]), journals=host, stream="s", stage="a")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    wait_for(lambda: not query.isActive)
    return str(query.exception())


@pytest.fixture
def session(state: Path) -> Iterator[SparkSession]:
    with running(filtered(), state) as node:
        yield session_of(node)


def frame_of(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(4) + body


def test_a_node_that_says_nothing_is_given_up(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_ANSWER_S", 0.5)
    with talking(b"") as host:
        told = failure_of(session, host, tmp_path)
    assert f"No node answers at {host.address}: it has said nothing for" in told


def test_nobody_is_there(session: SparkSession, tmp_path: Path) -> None:
    assert "No node answers at 127.0.0.1:1: Connection refused" in failure_of(session, connector.NOWHERE, tmp_path)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (frame_of(b"X", "Nein, nicht heute, größer.".encode()), "Nein, nicht heute, größer."),
        (frame_of(b"E", b""), "answered with a frame 'E' of 0 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answered with a frame 'H'"),
        (b"N\xff\xff\xff\xff", "answered with a frame 'N'"),
    ],
)
def test_what_is_no_answer_ends_the_query_with_a_sentence(
    session: SparkSession, tmp_path: Path, answer: bytes, said: str
) -> None:
    with talking(answer) as host:
        assert said in failure_of(session, host, tmp_path)
    assert held_bytes(session) == 0


class Damaged:
    """Journals whose rows are no Arrow messages, or end early."""

    def __init__(self, message: bytes, *, at_hand: bool) -> None:
        self._message = message
        self._at_hand = at_hand
        self._schema = stored_schema(arrow_schema([("x", "bigint")]))

    def latest(self, stream: str, stage: str, scan: int, after_seq: int, max_rows: int) -> int:
        return 1

    def ranges(self, stream: str, after_seq: int, to_seq: int, at_most: int) -> list[int]:
        return [after_seq, to_seq]

    def is_at_hand(self, stream: str, after_seq: int, to_seq: int) -> bool:
        return self._at_hand

    def read(self, request: JournalRequest) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
        return self._schema, (Rows(message) for message in [self._message])


@pytest.mark.parametrize("at_hand", [True, False])
@pytest.mark.parametrize("message", [b"", b"\xff" * 4, b"\xff" * 64, b"\xff\xff\xff\xff\x08\0\0\0" + b"\0" * 64])
def test_rows_that_are_damaged_fail_the_batch_and_leave_no_memory_behind(
    session: SparkSession, tmp_path: Path, message: bytes, at_hand: bool
) -> None:
    server = JournalServer(Damaged(message, at_hand=at_hand), "127.0.0.1", release=connector.release())
    try:
        assert failure_of(session, JournalHost(address=server.address, token=server.token), tmp_path)
    finally:
        server.stop()
    assert held_bytes(session) == 0


# --- waiting -------------------------------------------------------------------------------------------------------


def test_a_stop_interrupts_a_query_that_waits_for_news(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NEWS_WAIT_S", 10 * HANG_S)
    with running(filtered(), state) as node:
        runner = node.hosted.runners["numbers"]
        wait_for(lambda: not runner._news.is_set() and node.wait_caught_up(HANG_S))
        runner._run.stop()
        assert not runner._run.running
        assert runner._run.failure() is None, "a stop is no failure"


def test_a_selection_leaves_out_what_no_filter_wants(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[JournalRequest] = []
    read = Journals.read

    def noted(journals: Journals, request: JournalRequest) -> tuple[pa.Schema, Generator[Rows | Control, None, None]]:
        asked.append(request)
        return read(journals, request)

    monkeypatch.setattr(Journals, "read", noted)
    with running(filtered(), state) as node, ab.connect(node.address) as connection:
        connection.push("numbers", [{"x": x} for x in range(-10, 3)])
        assert node.wait_caught_up(HANG_S)
        assert results(node) == [0, 1, 2]
    assert {to_text(request.rows) for request in asked} == {to_text(((Range(column="x", low=0),),))}
    assert {tuple(request.columns) for request in asked} == {("_stime", "_origin", "_tid", "x")}


def test_a_few_rows_of_several_journals_are_one_task_and_keep_their_order(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[pa.Table] = []
    log = Journals.log

    def noted(journals: Journals, batch: MadeBatch) -> None:
        made.append(batch.table)
        log(journals, batch)

    def push_until(count: int, tasks: range) -> None:
        """So many rows to each source, until a batch has read both, in so many tasks."""

        def is_there() -> bool:
            return any(table.num_rows > count and table.column(0).num_chunks in tasks for table in made[first:])

        first = len(made)
        while not is_there():
            for source in ("ones", "twos"):
                connection.push(source, [{"x": len(made)}] * count)
            assert node.wait_caught_up(HANG_S)

    monkeypatch.setattr(Journals, "log", noted)
    query = ab.Query("q")
    query.output("both", query.source("ones", "x bigint").union(query.source("twos", "x bigint")))
    with running(query, state) as node, ab.connect(node.address) as connection:
        push_until(1, range(1, 2))
        push_until(5_000, range(2, 100))
        assert held_bytes(session_of(node)) == 0
    for table in made:
        origins = table.column("_origin").to_pylist()
        assert origins == sorted(origins)
