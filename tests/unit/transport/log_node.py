"""A node with one real log ``s`` of two origins behind a real Flight server. It can go and come back, with its disk or
without, and stand still for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from anabranch.errors import StreamNotFound
from anabranch.model.position import Position
from anabranch.node.pieces import client_pieces
from anabranch.node.reading import wire_batches
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store
from anabranch.transport.ports import CopyPiece, PieceAnswer, PieceRequest, ReadRequest, StreamInfo
from anabranch.transport.server import FlightServer
from anabranch.transport.wire import wire_schema
from tests.unit.transport.fake_node import FakeNode

ORIGINS = ("a", "b")
Entry = tuple[str, int, int]
"""Origin, stream time, number."""


def stored(entries: list[Entry]) -> pa.RecordBatch:
    origins, times, numbers = zip(*entries, strict=True)
    return pa.record_batch(
        {
            "_tid": pa.array(numbers, pa.int64()),
            "_stime": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "_origin": pa.array([ORIGINS.index(origin) for origin in origins], pa.int32()),
            "x": pa.array(numbers, pa.int64()),
        }
    )


class LogNode(FakeNode):
    """``reads`` counts what it was asked for. While ``running`` is cleared it sends nothing."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__()
        self._directory = directory
        self._name = name
        self._life = 0
        self._port = 0
        self.running = threading.Event()
        self.running.set()
        self.requests: list[PieceRequest] = []
        self.open()

    def open(self) -> None:
        self.store = Store.open(self._directory / f"{self._name}{self._life}.db")
        self.log = self.store.create_log(
            LogSpec(
                name="s",
                schema=pa.schema([("x", pa.int64())]),
                origins=ORIGINS,
                kind="output",
                retention_us=1 << 60,
                limit_bytes=1 << 30,
            )
        )
        self.server = FlightServer(self, port=self._port)
        self._port = self.server.port

    def close(self) -> None:
        self.running.set()
        self.server.stop()
        self.store.close()

    def lose_disk(self) -> None:
        """While it is closed."""
        self._life += 1

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def append(self, entries: list[Entry], **promises: int) -> None:
        with self.store.transaction() as transaction:
            transaction.append("s", stored(entries) if entries else None, promises, now_us=0)

    def append_unseen(self, entries: list[Entry], **promises: int) -> None:
        """Trimmed before anybody could read it."""
        with self.store.transaction() as transaction:
            appended = transaction.append("s", stored(entries), promises, now_us=0)
            transaction.trim_through("s", appended.last_seq)

    def trim(self, seq: int) -> None:
        with self.store.transaction() as transaction:
            transaction.trim_through("s", seq)

    # --- ports -----------------------------------------------------------------------------------------------------

    def streams(self) -> list[StreamInfo]:
        return [
            StreamInfo(
                name="s",
                kind="output",
                schema=wire_schema(self.log.spec.schema),
                incarnation=self.log.incarnation,
                first_id=self.log.first_id(),
                last_id=self.log.last_id(),
                origins=ORIGINS,
            )
        ]

    def read(self, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        return wire_batches(self.log, request, cancelled)

    def read_pieces(
        self, request: PieceRequest, cancelled: Callable[[], bool]
    ) -> tuple[PieceAnswer, Iterator[CopyPiece]]:
        self.running.wait()
        if request.stream != "s":
            raise StreamNotFound(f"There is no stream {request.stream!r}.")
        self.requests.append(request)
        answer, pieces = client_pieces(self.log, ORIGINS, request, cancelled)
        if request.reader is not None and request.reader not in self.log.readers():
            with self.store.transaction() as transaction:
                at_seq = self.log.seq_before_id(answer.first_id)
                transaction.add_reader("s", request.reader, at_seq=at_seq)
        return answer, self._while_running(pieces)

    def _while_running(self, pieces: Iterator[CopyPiece]) -> Iterator[CopyPiece]:
        for piece in pieces:
            self.running.wait()
            yield piece

    def acknowledge(self, stream: str, reader: str, position: Position) -> None:
        with self.store.transaction() as transaction:
            transaction.acknowledge(stream, reader, self.log.seq_before_id(position.id + 1))
