"""A subscription: a read that survives its connection.

It knows its position, so after a lost connection it goes on behind the last tuple it handed out: none is lost, none
repeated. Boundaries may repeat; they only ever rise. A stream that came back with another incarnation cannot be
continued by position, and says so. Iterate in one thread; ``close`` may be called from any.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import ConfigError, NodeUnreachable, StreamNotFound, check
from anabranch.model.header import ID, KIND, Kind
from anabranch.model.ids import named_in
from anabranch.model.position import Position
from anabranch.transport import failures, wire
from anabranch.transport.client import BatchStream, Client
from anabranch.transport.ports import ReadRequest, Start, StreamInfo
from anabranch.transport.retry import DEADLINE_S, Retry


class Subscription:
    """Iterates the batches of a stream (wire schema). ``position`` is that of the last tuple handed out."""

    def __init__(
        self,
        client: Client,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.stream: Final = stream
        self.reader: Final = reader
        self._client: Final = client
        self._follow: Final = follow
        self._closed: Final = threading.Event()
        self._retry: Final = Retry(deadline_s, self._closed)
        self._reading: BatchStream | None = None
        self.position: Position | None = None
        info = self._info()
        self._named: Final = named_in(info.query, stream)
        """With its query: another one of the host may get a stream of the same name."""
        self.schema: Final = info.schema
        self.origins: Final = info.origins
        """Those that its tuples can have, and that promise something."""
        self.position = self._first_position(start, info)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while not self._closed.is_set():
            opened = time.monotonic()
            try:
                yield from self._read()
                if not self._follow or self._closed.is_set():
                    return
                lost = failures.unreachable(self._client.address, f"it ended the stream {self.stream!r}")
            except NodeUnreachable as error:
                lost = error
            if (
                time.monotonic() - opened > self._client.timeout_s
            ):  # it worked for a while: a new failure, a new deadline
                self._retry.succeeded()
            self._retry.wait_after(lost)

    @property
    def place(self) -> Position | None:
        """The position, under the name that all kinds of subscriptions have for it."""
        return self.position

    def acknowledge(self, place: Position | None = None) -> None:
        """Tell the node that this named reader needs nothing up to ``position``, or ``place``, any more."""
        if self.reader is None:
            raise ConfigError(
                f"A subscription of {self.stream!r} without a name cannot acknowledge.", remedy="Give it a reader name."
            )
        position = self.position if place is None else place
        if position is not None:
            self._client.acknowledge(self._named, self.reader, position)

    def close(self) -> None:
        """End the iteration, also while it waits in another thread."""
        self._closed.set()
        reading = self._reading
        if reading is not None:
            reading.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _info(self) -> StreamInfo:
        while True:
            try:
                return self._client.stream(self.stream)
            except NodeUnreachable as error:
                self._retry.wait_after(error)

    def _first_position(self, start: str | Position, info: StreamInfo) -> Position | None:
        """The end is found out once: what comes after it while we connect again is new, not skipped."""
        if start == "start":
            return None
        if start == "end":
            return Position(info.incarnation, info.last_id)
        position = start if isinstance(start, Position) else wire.parse_position(start)
        self._check_incarnation(position, info.incarnation)
        return position

    def _read(self) -> Iterator[pa.RecordBatch]:
        begin: Start = self.position if self.position is not None else "start"
        request = ReadRequest(stream=self._named, start=begin, follow=self._follow, reader=self.reader)
        with self._client.read(request) as reading:
            self._reading = reading
            if self._closed.is_set():  # closed while we connected
                return
            incarnation = (reading.schema.metadata or {}).get(wire.INCARNATION, b"").decode()
            self._check_incarnation(self.position, incarnation)
            for batch in reading:
                self._advance(batch, incarnation)
                self._retry.succeeded()
                yield batch

    def _advance(self, batch: pa.RecordBatch, incarnation: str) -> None:
        """Move behind the stable tuples of a batch. Their ids must go on without hole or repetition."""
        stable = pc.equal(batch.column(KIND), pa.scalar(int(Kind.INSERTION), pa.int8()))
        count = pc.sum(stable).as_py() or 0
        if count == 0:
            return
        ids = pc.min_max(batch.column(ID).filter(stable))
        first, last = ids["min"].as_py(), ids["max"].as_py()
        expected = first if self.position is None else self.position.id + 1
        check(
            first == expected and last - first + 1 == count,
            f"Stream {self.stream!r} sent tuples {first} to {last} ({count} of them) where {expected} was next.",
        )
        self.position = Position(incarnation, last)

    def _check_incarnation(self, position: Position | None, incarnation: str) -> None:
        if position is not None and position.incarnation != incarnation:
            raise StreamNotFound(
                f"Stream {self.stream!r} is now incarnation {incarnation}: position {position} does not exist in it.",
                remedy="Subscribe again from start or end.",
            )
