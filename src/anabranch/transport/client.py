"""The low-level client: one method per port of a node, one Flight call each, nothing tried twice.

A ``Client`` may be used by several threads at once; a ``BatchStream`` by one, but closed from any. Who pushes or writes
letters again and again has an object for that, with a call that stays open. Errors are those of ``anabranch.errors``:
what the node raised, or ``NodeUnreachable`` when no answer came within ``timeout_s``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Final, Self, TypeVar
from weakref import WeakSet

import pyarrow as pa
import pyarrow.flight as flight

from anabranch import limits
from anabranch.core.roll_call import Roll
from anabranch.core.telling import Range, Told
from anabranch.errors import ConfigError, check
from anabranch.model.ids import NO_QUERY, QueryId, StreamId
from anabranch.model.links import LinkFault
from anabranch.model.position import Position
from anabranch.runtime.status import HostStatus, from_plain
from anabranch.transport import calls, failures, letters, messages, wire
from anabranch.transport.calls import Call, Nothing, PieceMark, PushSaid, SnapshotMark, Ticket
from anabranch.transport.channel import CONNECTION_ERRORS, Channel
from anabranch.transport.open_call import OpenCall
from anabranch.transport.ports import (
    CopyAcknowledgement,
    CopyAnswer,
    CopyPiece,
    CopyRequest,
    CopyReservation,
    Determinants,
    HandOver,
    PeerPlaces,
    PieceAnswer,
    PieceRequest,
    Push,
    PushAnswer,
    ReadRequest,
    Registration,
    SnapshotPiece,
    StreamInfo,
)

TIMEOUT_S: Final = 10.0
"""How long a call waits for its answer. Reads have no such limit: they may be long, and are watched by keepalive."""

Q = TypeVar("Q")
A = TypeVar("A")


class Client:
    """Calls to the node at ``address`` (``host:port``). Connects on the first call.

    ``called`` is how errors name it, where the address is only that of a relay on the way.
    """

    def __init__(self, address: str, *, timeout_s: float = TIMEOUT_S, called: str | None = None) -> None:
        self.address: Final = _checked(address)
        self._called: Final = called or self.address
        self.timeout_s: Final = timeout_s
        self._channel: Final = Channel(self.address, self._called)
        self._calls: Final[WeakSet[OpenCall]] = WeakSet()
        self._query: QueryId | None = None

    def about(self, query: QueryId) -> Client:
        """The same connection, for what is said about one query: streams and sources are named as they are there."""
        other = copy(self)
        other._query = query
        return other

    def _named(self, stream: str) -> str:
        """What a stream is called on the wire."""
        return stream if self._query is None else str(StreamId(self._query, stream))

    def close(self) -> None:
        """Also ends the calls that it has open."""
        for call in list(self._calls):
            call.close()
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # --- streams ---------------------------------------------------------------------------------------------------

    def streams(self) -> list[StreamInfo]:
        with self._channel.calling() as client:
            return [_stream_info(info) for info in client.list_flights(options=self._options())]

    def stream(self, name: str, *, within_s: float | None = None) -> StreamInfo:
        """One stream; ``StreamNotFound`` names those there are."""
        descriptor = flight.FlightDescriptor.for_path(self._named(name))
        with self._channel.calling() as client:
            return _stream_info(client.get_flight_info(descriptor, self._options(within_s)))

    def read(self, request: ReadRequest) -> BatchStream:
        """The batches that a node answers; those without rows (a follower's signs of life) are left out."""
        asked = Ticket(read=replace(request, stream=self._named(request.stream)))
        return BatchStream(self._channel, asked)

    def read_pieces(self, request: PieceRequest) -> PieceStream:
        """The stream as one of several copies."""
        asked = Ticket(pieces=replace(request, stream=self._named(request.stream)))
        return PieceStream(self._channel, asked)

    def acknowledge(self, stream: str, reader: str, position: Position) -> None:
        asked = calls.Acknowledge(stream=self._named(stream), reader=reader, position=position)
        self._call(calls.ACKNOWLEDGE, asked)

    def forget_reader(self, stream: str, reader: str) -> None:
        self._call(calls.FORGET_READER, calls.ForgetReader(stream=self._named(stream), reader=reader))

    # --- sources ---------------------------------------------------------------------------------------------------

    def register(
        self, source: str, producer: str, session: int | None = None, *, within_s: float | None = None
    ) -> Registration:
        """A new session, or the old one, which then goes on at this node."""
        asked = calls.Register(source=self._named(source), producer=producer, session=session)
        return self._call(calls.REGISTER, asked, within_s)

    def push(self, push: Push, *, within_s: float | None = None) -> PushAnswer:
        """Returns when the entries are durable. ``NodeUnreachable`` leaves open whether they are.

        The node itself may wait for room before it answers; where ``within_s`` is not given, it is let.
        """
        schema = push.rows.schema if push.rows is not None else pa.schema([])
        options = self._options(self.timeout_s + limits.PUSH_WAIT_S if within_s is None else within_s)
        descriptor = flight.FlightDescriptor.for_path(self._named(push.source))
        return messages.decode(self._put(descriptor, schema, _said(push), push.rows, options), PushAnswer)

    def push_call(self, source: str) -> PushCall:
        """For a producer that pushes again and again."""
        descriptor = flight.FlightDescriptor.for_path(self._named(source))
        return PushCall(self._open(descriptor), self.timeout_s + limits.PUSH_WAIT_S)

    def close_lane(self, source: str, lane: str | None = None) -> None:
        self._call(calls.CLOSE_LANE, calls.CloseLane(source=self._named(source), lane=lane))

    # --- node ------------------------------------------------------------------------------------------------------

    def status(self, within_s: float | None = None) -> HostStatus:
        answer = self._call(calls.STATUS, Nothing(), within_s)
        return from_plain(answer)

    def fault_link(self, node: str, fault: LinkFault) -> None:
        """Hurts, or heals, what the node at this address has opened to another one."""
        self._call(calls.FAULT_LINK, calls.FaultLink.of(node, fault))

    def may_take(self, given: HandOver) -> bool:
        """Whether the host would take this query; False if it runs just that already."""
        return self._call(calls.MAY_TAKE, given).takes

    def take(self, given: HandOver) -> None:
        """Gives a host a query to run."""
        self._call(calls.TAKE, given)

    # --- copies ----------------------------------------------------------------------------------------------------

    def read_copy(self, request: CopyRequest) -> CopyStream:
        """The copy of a stream that this node has, as a replica reads it."""
        asked = Ticket(copy=replace(request, stream=self._named(request.stream)))
        return CopyStream(self._channel, asked)

    def acknowledge_copies(self, said: Sequence[CopyAcknowledgement]) -> None:
        """What a replica holds of several streams."""
        named = tuple(replace(each, stream=self._named(each.stream)) for each in said)
        self._call(calls.ACKNOWLEDGE_COPIES, calls.AcknowledgeCopies(held=named))

    def reserve_copy(self, said: CopyReservation) -> None:
        self._call(calls.RESERVE_COPY, replace(said, stream=self._named(said.stream)))

    def keep_determinants(self, said: Determinants) -> None:
        """Returns when the partner has them."""
        self._call(calls.KEEP_DETERMINANTS, replace(said, stream=self._named(said.stream)))

    def digests(self, asker: str, stream: str, asked: Mapping[str, Range]) -> Mapping[str, Told]:
        """What the copy of this node has in these ranges, by origin."""
        question = calls.AskDigests(asker=asker, stream=self._named(stream), ranges=asked)
        return self._call(calls.DIGESTS, question).told

    # --- peers -----------------------------------------------------------------------------------------------------

    def places(self, asker: str) -> PeerPlaces:
        """How far a host has read that does the same of the query."""
        return self._call(calls.PLACES, calls.AskPlaces(query=self._query or NO_QUERY, asker=asker))

    def snapshot(self, asker: str) -> SnapshotStream:
        """All of its state, as it is at one moment."""
        asked = Ticket(snapshot=calls.SnapshotRequest(query=self._query or NO_QUERY, asker=asker))
        return SnapshotStream(self._channel, asked)

    # --- lanes -----------------------------------------------------------------------------------------------------

    def peer_call(self) -> PeerCall:
        """For letters to another entry point."""
        return PeerCall(self._open(flight.FlightDescriptor.for_command(letters.LETTERS)), self._query)

    def greet(self, greeting: calls.Greeting) -> Roll:
        asked = replace(greeting, source=self._named(greeting.source))
        return self._call(calls.GREET, asked, limits.LETTER_S).roll

    # --- shared ----------------------------------------------------------------------------------------------------

    def _put(
        self,
        descriptor: flight.FlightDescriptor,
        schema: pa.Schema,
        said: bytes,
        rows: pa.RecordBatch | None,
        options: flight.FlightCallOptions,
    ) -> bytes:
        """One message with its rows, and the one answer to it."""
        with self._channel.calling() as client:
            writer, reader = client.do_put(descriptor, schema, options)
            answer = None
            try:
                if rows is not None:
                    writer.write_with_metadata(rows, said)
                else:
                    writer.write_metadata(said)
                writer.done_writing()
                answer = reader.read()
            finally:
                writer.close()  # raises what the node refused
        check(answer is not None, f"The node at {self._called} neither accepted nor refused a push.")
        return answer.to_pybytes()  # type: ignore[no-any-return]

    def _call(self, call: Call[Q, A], asked: Q, within_s: float | None = None) -> A:
        action = flight.Action(call.name, messages.encode(asked))
        with self._channel.calling() as client:
            results = list(client.do_action(action, self._options(within_s)))
        check(len(results) == 1, f"The node at {self._called} gave {len(results)} answers to {call.name}.")
        return messages.decode(results[0].body.to_pybytes(), call.answered)

    def _open(self, descriptor: flight.FlightDescriptor) -> OpenCall:
        call = OpenCall(self._channel, descriptor)
        self._calls.add(call)
        return call

    def _options(self, timeout_s: float | None = None) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=timeout_s or self.timeout_s)


class PushCall:
    """The pushes of one producer to one node. ``close`` may be called from any thread."""

    def __init__(self, call: OpenCall, timeout_s: float) -> None:
        self._call: Final = call
        self._timeout_s: Final = timeout_s

    def push(self, push: Push, *, within_s: float | None = None) -> PushAnswer:
        """As ``Client.push``."""
        answer = self._call.ask(_said(push), push.rows, self._timeout_s if within_s is None else within_s)
        return messages.decode(answer, PushAnswer)

    def close(self) -> None:
        self._call.close()


class PeerCall:
    """The letters to one host, about the lanes of one query. ``close`` may be called from any thread."""

    def __init__(self, call: OpenCall, query: QueryId | None) -> None:
        self._call: Final = call
        self._before: Final = "" if query is None else f"{query}/"

    def tell_lanes(self, sender: str, messages: Sequence[letters.AboutLane]) -> list[letters.AboutLane]:
        """What the other entry point answers, durably."""
        before = self._before
        said = [letters.AboutLane(before + each.source, each.lane, each.message) for each in messages]
        letter = letters.letter(sender, said)
        answered = letters.answers_of(self._call.ask(letter, None, limits.LETTER_S + len(letter) / 1_000_000))
        return [letters.AboutLane(each.source.removeprefix(before), each.lane, each.message) for each in answered]

    def close(self) -> None:
        self._call.close()


class _Reading:
    """One read that is going on. A blocked one does not hear Ctrl-C; a node that has died is found out by keepalive."""

    def __init__(self, channel: Channel, asked: Ticket) -> None:
        self._channel: Final = channel
        self._closed: Final = threading.Event()
        with channel.calling() as client:
            self._client: Final = client
            self._reader: Final = client.do_get(flight.Ticket(messages.encode(asked)))
            self.schema: Final[pa.Schema] = self._reader.schema

    def close(self) -> None:
        """End the read. A thread that iterates sees the end of the stream."""
        self._closed.set()
        self._reader.cancel()

    def _next(self) -> flight.FlightStreamChunk:
        """What comes next; ``StopIteration`` at the end, and when it is closed."""
        try:
            if not self._closed.is_set():
                return self._reader.read_chunk()
        except CONNECTION_ERRORS as error:
            if not self._closed.is_set():  # this is how a cancelled read ends
                raise self._channel.failure(self._client, error) from error
        raise StopIteration


class BatchStream(_Reading):
    """Batches of one read, in order. Iterate it in one thread; ``close`` may be called from any.

    A following one hears Ctrl-C at the next sign of life, twice a second.
    """

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        while True:
            batch = self._next().data
            if batch.num_rows:
                return batch

    def __enter__(self) -> BatchStream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Pieces(_Reading):
    """A copy of a stream, piece by piece, signs of life included. Iterate it in one thread; close it from any."""

    def __iter__(self) -> Iterator[CopyPiece]:
        return self

    def __next__(self) -> CopyPiece:
        chunk = self._next()
        mark = messages.decode(chunk.app_metadata.to_pybytes(), PieceMark)
        return CopyPiece(first_id=mark.first, rows=chunk.data, promises=mark.promises)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class CopyStream(_Pieces):
    """A copy as a replica reads it."""

    @property
    def answer(self) -> CopyAnswer:
        return wire.copy_answer(self.schema)


class PieceStream(_Pieces):
    """A copy as a client reads it."""

    @property
    def answer(self) -> PieceAnswer:
        return wire.piece_answer(self.schema)


class SnapshotStream(_Reading):
    """The state of a node, file by file. Iterate it in one thread; close it from any.

    One that ends before all of it has come is ``NodeUnreachable``.
    """

    @property
    def life(self) -> str:
        return wire.snapshot_life(self.schema)

    def __iter__(self) -> Iterator[SnapshotPiece]:
        files = 0
        while True:
            try:
                chunk = self._next()
            except StopIteration:
                raise failures.unreachable(self._channel.called, "it ended before its state had come") from None
            mark = messages.decode(chunk.app_metadata.to_pybytes(), SnapshotMark)
            if mark.files is not None:
                check(mark.files == files, f"The snapshot of {self._channel.called} lacks files.")
                return
            files += mark.digest is not None
            yield SnapshotPiece(path=mark.path, bytes=chunk.data.column(0)[0].as_py(), digest=mark.digest)

    def __enter__(self) -> SnapshotStream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _checked(address: str) -> str:
    """``host:port``, also when written with the scheme that Flight tools use."""
    plain = address.removeprefix("grpc://").removeprefix("grpc+tcp://").rstrip("/")
    host, _, port = plain.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ConfigError(f"{address!r} is not the address of a node.", remedy="Write host:port, as 127.0.0.1:7700.")
    return plain


def _stream_info(info: flight.FlightInfo) -> StreamInfo:
    return messages.decode(info.app_metadata, StreamInfo)


def _said(push: Push) -> bytes:
    return messages.encode(
        PushSaid(
            kind=push.kind,
            producer=push.producer,
            session=push.session,
            first=push.first,
            count=push.count,
            time_us=push.time_us,
        )
    )
