"""The Flight server of a node: names and JSON in, Arrow batches out and in.

It translates and bounds, and decides nothing: what a stream, a lane or a reader is, the node behind ``NodePorts``
knows. A plain Flight client can list the streams, take the ticket of an endpoint and read; push batches of data
columns; and see each error as a sentence. gRPC gives every call a thread of its own.

Stopping: a following reader ends with "the node is stopping". gRPC waits for every open call, also for one whose client
holds it open and says nothing: connections with such calls are cut, and after a short grace all others that are left.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from anabranch import limits
from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable, PushRefused, StreamNotFound
from anabranch.runtime.status import to_plain
from anabranch.transport import calls, failures, letters, messages, rows, wire
from anabranch.transport.calls import Call, Nothing, PieceMark, PushSaid
from anabranch.transport.ports import (
    AssignmentPorts,
    CopyPiece,
    CopyPorts,
    DeterminantPorts,
    DigestPorts,
    NodePorts,
    PeerPorts,
    Push,
    PushAnswer,
    ReadRequest,
    SnapshotPiece,
    StreamInfo,
)

_log: Final = logging.getLogger(__name__)

STOP_GRACE_S: Final = 2 * limits.FOLLOW_WAIT_S
"""How long a stop waits for calls to end by themselves: two looks of a following reader."""

SEND_BYTES: Final = limits.MESSAGE_BYTES // 4 * 3
"""Bytes of one batch that is sent: a message with room for its frame, and more than any row that was let in."""

Action = Callable[[bytes], bytes]
"""From what is asked to what is answered."""

Q = TypeVar("Q")
A = TypeVar("A")

Sent: TypeAlias = pa.RecordBatch | tuple[pa.RecordBatch, bytes]
"""A batch, and what is said beside it."""


class FlightServer:
    """Serves ``ports`` from construction until ``stop``. Port 0 takes any free one; ``address`` says which."""

    def __init__(
        self,
        ports: NodePorts,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        copies: CopyPorts | None = None,
        assignments: AssignmentPorts | None = None,
        peers: PeerPorts | None = None,
        lanes: letters.LanePorts | None = None,
        determinants: DeterminantPorts | None = None,
        outputs: DigestPorts | None = None,
    ) -> None:
        self._copies: Final = copies
        _check_free(host, port)
        self._calls: Final = _Calls()
        try:
            location = flight.Location.for_grpc_tcp(host, port)
            self._service = _Service(
                ports, copies, assignments, peers, lanes, determinants, outputs, self._calls, location
            )
        except (OSError, pa.ArrowException) as error:
            raise failures.cannot_listen(host, port, str(error)) from error
        self.host: Final = host
        self.port: Final[int] = self._service.port

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def stop(self) -> None:
        """End every call and give the port back, within about a second; calling it again does nothing."""
        if self._calls.stopping():
            return
        if self._copies is not None:
            self._copies.wake()
        if not self._calls.wait_over(STOP_GRACE_S) or self._calls.listens:
            _cut_connections(self.port)
        self._service.shutdown()

    def __enter__(self) -> FlightServer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


class _Calls:
    """The streaming calls that are open, so that a stop can wait for them and then for no longer."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._changed: Final = threading.Condition(self._lock)
        self._open = 0
        self._listening = 0
        self._is_stopping = False

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    def stopping(self) -> bool:
        """From now on calls end. Whether that had been said before."""
        with self._lock:
            before, self._is_stopping = self._is_stopping, True
            return before

    def wait_over(self, timeout_s: float) -> bool:
        with self._lock:
            return self._changed.wait_for(lambda: self._open == 0, timeout_s)

    @property
    def listens(self) -> bool:
        """Whether a call is open that only its client can end."""
        return self._listening > 0

    @contextmanager
    def listening(self) -> Iterator[bool]:
        """A call that waits for its client. Whether there are more of them than there should be."""
        with self._lock:
            self._listening += 1
            too_many = self._listening > limits.OPEN_CALLS
        try:
            yield too_many
        finally:
            with self._lock:
                self._listening -= 1

    def counted(self) -> _Calls:
        """To be used in a ``with`` statement: the call is open for as long as the block runs."""
        return self

    def __enter__(self) -> None:
        self.check_running()
        with self._lock:
            self._open += 1

    def __exit__(self, *exc_info: object) -> None:
        with self._lock:
            self._open -= 1
            self._changed.notify_all()

    def check_running(self) -> None:
        if self._is_stopping:
            raise NodeUnreachable("The node is stopping.", remedy="Connect again when it is back.")


class _Service(flight.FlightServerBase):
    """The handlers. Only Flight errors may leave one: pyarrow makes anything else opaque."""

    def __init__(
        self,
        ports: NodePorts,
        copies: CopyPorts | None,
        assignments: AssignmentPorts | None,
        peers: PeerPorts | None,
        lanes: letters.LanePorts | None,
        determinants: DeterminantPorts | None,
        outputs: DigestPorts | None,
        calls: _Calls,
        location: flight.Location,
    ) -> None:
        super().__init__(location)
        self._ports: Final = ports
        self._copies: Final = copies
        self._assignments: Final = assignments
        self._peers: Final = peers
        self._lanes: Final = lanes
        self._determinants: Final = determinants
        self._outputs: Final = outputs
        self._calls: Final = calls
        self._actions: Final[dict[str, tuple[str, Action]]] = {}
        self._offer_calls()

    # --- reading ---------------------------------------------------------------------------------------------------

    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:
        with _errors():
            yield from [_flight_info(info) for info in self._ports.streams()]

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        with _errors():
            return _flight_info(self._stream(_path(descriptor)))

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with _errors():
            return flight.SchemaResult(_marked(self._stream(_path(descriptor))))

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        over = threading.Event()  # the context must not be touched after its call

        def cancelled() -> bool:
            return self._calls.is_stopping or over.is_set() or bool(context.is_cancelled())

        with _errors():
            schema, sent = self._open(ticket.ticket, cancelled)
            return flight.GeneratorStream(schema, self._send(sent, cancelled, over))

    def _open(self, ticket: bytes, cancelled: Callable[[], bool]) -> tuple[pa.Schema, Iterator[Sent]]:
        """What a ticket asks for. One that is no JSON is the name of a stream: all of it, without following."""
        if not ticket.startswith(b"{"):
            asked = calls.Ticket(read=ReadRequest(stream=ticket.decode(errors="replace")))
        else:
            asked = messages.decode(ticket, calls.Ticket)
        if asked.copy is not None:
            answer, pieces = self._serving().read_copy(asked.copy, cancelled)
            return wire.copy_schema(answer), _with_places(pieces)
        if asked.snapshot is not None:
            life, files = self._peer().snapshot(asked.snapshot.query, asked.snapshot.asker)
            return wire.snapshot_schema(life), _with_end(files)
        if asked.pieces is not None:
            started, pieces = self._ports.read_pieces(asked.pieces, cancelled)
            return wire.piece_schema(started), _with_places(pieces)
        if asked.read is None:
            raise ConfigError("A ticket says nothing to read.", remedy="Use the Anabranch client.")
        return _marked(self._stream(asked.read.stream)), _small_enough(self._ports.read(asked.read, cancelled))

    def _send(self, batches: Iterator[Sent], cancelled: Callable[[], bool], over: threading.Event) -> Iterator[Sent]:
        with _errors(), self._calls.counted():
            try:
                for batch in batches:
                    yield batch
                    if cancelled():
                        break
                self._calls.check_running()
            finally:
                over.set()
                close = getattr(batches, "close", None)
                if close is not None:
                    close()

    # --- pushing ---------------------------------------------------------------------------------------------------

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        with _errors(context), self._calls.counted():
            info = self._stream(_path(descriptor), "source")
            schema = wire.data_schema(info.schema)
            for chunk in reader:
                self._calls.check_running()
                answer = self._push(_text(info), schema, chunk)
                writer.write(pa.py_buffer(messages.encode(answer)))

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Pushes of a producer, or letters of another entry point, each answered before the next is read. If too many
        such calls are open, this one ends after its first answer: who has more to say begins another."""
        with _errors(context), self._calls.listening() as one_of_too_many:
            answer = self._answering(descriptor)
            for chunk in reader:
                with self._calls.counted():
                    writer.write_metadata(pa.py_buffer(answer(chunk)))
                if one_of_too_many:
                    return

    def _answering(self, descriptor: flight.FlightDescriptor) -> Callable[[flight.FlightStreamChunk], bytes]:
        """What answers each message of an open call."""
        if descriptor.descriptor_type == flight.DescriptorType.CMD and descriptor.command == letters.LETTERS:
            return self._hear
        info = self._stream(_path(descriptor), "source")
        source, schema = _text(info), wire.data_schema(info.schema)
        return lambda chunk: messages.encode(self._push(source, schema, chunk))

    def _push(self, source: str, schema: pa.Schema, chunk: flight.FlightStreamChunk) -> PushAnswer:
        said = messages.decode(chunk.app_metadata.to_pybytes(), PushSaid) if chunk.app_metadata else _ROWS
        data = chunk.data
        if data is not None and data.nbytes > limits.SEGMENT_BYTES:
            raise PushRefused(
                f"A batch of {data.nbytes:,} bytes for {source!r} is above the limit of {limits.SEGMENT_BYTES:,}.",
                remedy="Push smaller batches.",
            )
        if data is not None:
            _check_whole(data, source)
            data = rows.conform(data, schema, stamped=said.producer is not None)
        push = _pushed(source, said, data)
        return self._ports.push(push) if push.count or push.kind != "rows" else PushAnswer()

    def _hear(self, chunk: flight.FlightStreamChunk) -> bytes:
        """A letter of another entry point; it is answered when all that the answer says is durable."""
        sender, said = letters.letter_of(chunk.app_metadata.to_pybytes() if chunk.app_metadata else b"")
        return letters.answers(self._sharing().hear(sender, said))

    # --- actions ---------------------------------------------------------------------------------------------------

    def list_actions(self, context: flight.ServerCallContext) -> list[flight.ActionType]:
        return [flight.ActionType(name, description) for name, (description, _) in self._actions.items()]

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        with _errors():
            if action.type not in self._actions:
                known = ", ".join(self._actions)
                raise ConfigError(f"There is no action {action.type!r}.", remedy=f"There are: {known}.")
            _, perform = self._actions[action.type]
            yield flight.Result(pa.py_buffer(perform(action.body.to_pybytes())))

    def _offer_calls(self) -> None:
        ports = self._ports
        self._offer(calls.REGISTER, lambda asked: ports.register(asked.source, asked.producer, asked.session))
        self._offer(calls.ACKNOWLEDGE, lambda asked: ports.acknowledge(asked.stream, asked.reader, asked.position))
        self._offer(calls.FORGET_READER, lambda asked: ports.forget_reader(asked.stream, asked.reader))
        self._offer(calls.CLOSE_LANE, lambda asked: ports.close_lane(asked.source, asked.lane))
        self._offer(calls.ACKNOWLEDGE_COPIES, lambda asked: self._serving().acknowledge_copies(asked.held))
        self._offer(calls.FAULT_LINK, lambda asked: ports.fault_link(asked.node, asked.fault))
        self._offer(calls.MAY_TAKE, lambda asked: calls.MayTake(takes=self._assigning().may_take(asked)))
        self._offer(calls.TAKE, lambda asked: self._assigning().take(asked))
        self._offer(calls.KEEP_DETERMINANTS, lambda asked: self._keeping().keep_determinants(asked))
        self._offer(calls.DIGESTS, self._digests)
        self._offer(calls.RESERVE_COPY, lambda asked: self._serving().reserve_copy(asked))
        self._offer(calls.PLACES, lambda asked: self._peer().places(asked.query, asked.asker))
        self._offer(calls.GREET, lambda asked: calls.Greeted(roll=self._sharing().greet(asked)))
        self._offer(calls.STATUS, lambda _: to_plain(ports.status()))

    def _offer(self, call: Call[Q, Any], perform: Callable[[Q], Any]) -> None:
        """A call that has no answer of its own performs something and returns nothing."""

        def answered(body: bytes) -> bytes:
            answer = perform(messages.decode(body or messages.encode(Nothing()), call.asked))
            return messages.encode(Nothing() if answer is None else answer)

        self._actions[call.name] = call.meaning, answered

    def _digests(self, asked: calls.AskDigests) -> calls.Digests:
        if self._outputs is None:
            raise self._has_none("This node has no copies of outputs to compare.")
        return calls.Digests(told=self._outputs.digests(asked.asker, asked.stream, asked.ranges))

    # --- shared ----------------------------------------------------------------------------------------------------

    def _serving(self) -> CopyPorts:
        if self._copies is None:
            raise self._has_none("This node has no copies for replicas.")
        return self._copies

    def _peer(self) -> PeerPorts:
        if self._peers is None:
            raise self._has_none("No node can be rebuilt from this one.")
        return self._peers

    def _sharing(self) -> letters.LanePorts:
        if self._lanes is None:
            raise self._has_none("This node shares no lanes.")
        return self._lanes

    def _keeping(self) -> DeterminantPorts:
        if self._determinants is None:
            raise StreamNotFound("This node keeps no determinants.", remedy="Deploy the same query to all nodes.")
        return self._determinants

    def _assigning(self) -> AssignmentPorts:
        if self._assignments is None:
            raise ConfigError("This host accepts no queries.", remedy="Start it with anabranch node.")
        return self._assignments

    def _has_none(self, what: str) -> AnabranchError:
        return StreamNotFound(what, remedy="Check the deployment's addresses.")

    def _stream(self, name: str, kind: str | None = None) -> StreamInfo:
        info = self._ports.stream(name)
        if kind not in (None, info.kind):
            known = sorted(_text(other) for other in self._ports.streams() if other.kind == kind)
            raise StreamNotFound(f"This node has no {kind} {name!r}.", remedy=f"It has: {', '.join(known) or 'none'}.")
        return info


_ROWS: Final = PushSaid()


def _pushed(source: str, said: PushSaid, rows: pa.RecordBatch | None) -> Push:
    """What a client pushes: what it says, and the rows beside it."""
    if (said.kind == "rows") != (rows is not None):
        raise ConfigError(f"A push of {said.kind} to {source!r} came {'with' if rows else 'without'} rows.")
    if (said.kind == "boundary") != (said.time_us is not None):
        raise ConfigError(f"A push of {said.kind} to {source!r} came {'with' if said.time_us else 'without'} a time.")
    count = 1
    if rows is not None:
        count = rows.num_rows
    elif said.kind == "void" and said.count is not None:
        count = said.count
    return Push(
        source=source,
        producer=said.producer,
        session=said.session,
        kind=said.kind,
        first=said.first,
        count=count,
        time_us=said.time_us,
        rows=rows,
    )


def _small_enough(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that fit into a message."""
    try:
        for batch in batches:
            yield from rows.split(batch, max_rows=batch.num_rows, max_bytes=SEND_BYTES)
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


def _with_places(pieces: Iterator[CopyPiece]) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    for piece in pieces:
        yield piece.rows, messages.encode(PieceMark(first=piece.first_id, promises=piece.promises))


def _with_end(pieces: Iterator[SnapshotPiece]) -> Iterator[tuple[pa.RecordBatch, bytes]]:
    files = 0
    try:
        for piece in pieces:
            files += piece.digest is not None
            yield wire.snapshot_batch(piece)
        yield wire.snapshot_end(files)
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()


@contextmanager
def _errors(context: flight.ServerCallContext | None = None) -> Iterator[None]:
    """Let out Flight errors only. ``context`` is that of a call whose client may go while it is read from."""
    try:
        yield
    except AnabranchError as error:
        raise failures.to_flight(error) from error
    except flight.FlightError:
        raise  # the connection itself
    except Exception as error:
        if context is not None and isinstance(error, pa.ArrowException | OSError) and context.is_cancelled():
            raise flight.FlightCancelledError("The client has gone.") from error
        _log.exception("a Flight call failed")
        raise failures.to_flight(failures.internal(error)) from error


def _check_whole(batch: pa.RecordBatch, source: str) -> None:
    """Arrow believes what comes over the wire: text that is none, or offsets that lead nowhere, would end a reader."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise PushRefused(f"A batch for {source!r} is damaged: {error}.", remedy="Correct it and push again.") from None


def _path(descriptor: flight.FlightDescriptor) -> str:
    if descriptor.descriptor_type != flight.DescriptorType.PATH or len(descriptor.path) != 1:
        raise ConfigError("A descriptor must be a path of one element.", remedy="Use the name of the stream as path.")
    return str(descriptor.path[0].decode(errors="replace"))


def _marked(info: StreamInfo) -> pa.Schema:
    """The schema of a stream as it is sent: it says of which incarnation the ids are."""
    return info.schema.with_metadata({wire.INCARNATION: info.incarnation.encode()})


def _text(info: StreamInfo) -> str:
    """What a stream is called on the wire."""
    return str(info.id) if info.query else info.name


def _flight_info(info: StreamInfo) -> flight.FlightInfo:
    return flight.FlightInfo(
        _marked(info),
        flight.FlightDescriptor.for_path(_text(info)),
        [flight.FlightEndpoint(_text(info).encode(), [])],
        info.last_id - info.first_id + 1,
        -1,
        ordered=True,
        app_metadata=messages.encode(info),
    )


def _check_free(host: str, port: int) -> None:
    """Say that a port is taken before gRPC does: it prints its own complaint on standard error."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))  # an address of IPv6 is written in brackets
    except (OSError, OverflowError) as error:
        raise failures.cannot_listen(host, port, str(error)) from error


def _cut_connections(port: int) -> None:
    """Shut every accepted connection of this server. pyarrow has no door for it, so the sockets are looked up."""
    for entry in Path("/dev/fd").iterdir():
        with suppress(OSError):  # not connected, or closed meanwhile
            descriptor = int(entry.name)
            # Only sockets are duplicated: a second descriptor of a lock file would keep the lock, and closing one of a
            # database would release SQLite's.
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.getsockname()[1:2] == (port,) and connection.getpeername():
                    connection.shutdown(socket.SHUT_RDWR)
