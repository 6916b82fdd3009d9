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
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.flight as flight

from anabranch import limits
from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable, PushRefused, StreamNotFound
from anabranch.model.ids import QueryId
from anabranch.runtime.status import to_plain
from anabranch.transport import digests, failures, handover, letters, rows, wire
from anabranch.transport.ports import (
    AssignmentPorts,
    CopyPiece,
    CopyPorts,
    DeterminantPorts,
    NodePorts,
    PeerPorts,
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

Action = Callable[[wire.Message], wire.Message]
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
        outputs: digests.DigestPorts | None = None,
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
        outputs: digests.DigestPorts | None,
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
        self._actions: Final[dict[str, tuple[str, Action]]] = {
            "register": ("A session and the next number for {source, producer}.", self._register),
            "acknowledge": ("{reader} of {stream} needs nothing up to {position}.", self._acknowledge),
            "forget-reader": ("{stream} keeps nothing more for {reader}.", self._forget_reader),
            "close-lane": ("Close {lane} of {source}, or its only lane.", self._close_lane),
            "acknowledge-copies": ("{held}: of each {stream}, {reader} has {position}.", self._acknowledge_copies),
            "fault-link": ("Cut, delay, slow or heal the link to {node}, if faults are allowed.", self._fault_link),
            "may-take": ("Whether this host would take the {query}, by this {assignment}.", self._may_take),
            "take": ("Run the {query}, by this {assignment}.", self._take),
            "keep-determinants": (
                "Keep which tuples {stream} of {sender} has from {first} on.",
                self._keep_determinants,
            ),
            "digests": ("What {stream} has in {ranges}, for {asker}, who has a copy of it, too.", self._digests),
            "reserve-copy": ("Keep {position} of {stream} for {reader}, which is rebuilt.", self._reserve_copy),
            "places": ("How far this node has read its inputs, for a peer that is rebuilt.", self._places),
            "greet": ("The entry point {name} of {source} begins {life} with the directory {token}.", self._greet),
            "status": ("Everything worth showing about this node.", lambda _: to_plain(self._ports.status())),
        }

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
            request = ReadRequest(stream=ticket.decode(errors="replace"))
        else:
            message = wire.decode(ticket)
            if "copy" in message:
                answer, pieces = self._serving().read_copy(wire.copy_request(message), cancelled)
                return wire.copy_schema(answer), _with_places(pieces)
            if "snapshot" in message:
                query = QueryId(wire.text(message, "query"))
                life, files = self._peer().snapshot(query, wire.text(message, "snapshot"))
                return wire.snapshot_schema(life), _with_end(files)
            if "pieces" in message:
                started, pieces = self._ports.read_pieces(wire.piece_request(message), cancelled)
                return wire.piece_schema(started), _with_places(pieces)
            request = wire.read_request(message)
        return _marked(self._stream(request.stream)), _small_enough(self._ports.read(request, cancelled))

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
                writer.write(pa.py_buffer(wire.encode(wire.answer_message(answer))))

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
                    writer.write_metadata(pa.py_buffer(wire.encode(answer(chunk))))
                if one_of_too_many:
                    return

    def _answering(self, descriptor: flight.FlightDescriptor) -> Callable[[flight.FlightStreamChunk], wire.Message]:
        """What answers each message of an open call."""
        if descriptor.descriptor_type == flight.DescriptorType.CMD and descriptor.command == letters.LETTERS:
            return self._hear
        info = self._stream(_path(descriptor), "source")
        source, schema = _text(info), wire.data_schema(info.schema)
        return lambda chunk: wire.answer_message(self._push(source, schema, chunk))

    def _push(self, source: str, schema: pa.Schema, chunk: flight.FlightStreamChunk) -> PushAnswer:
        message = wire.decode(chunk.app_metadata.to_pybytes()) if chunk.app_metadata else {}
        data = chunk.data
        if data is not None and data.nbytes > limits.SEGMENT_BYTES:
            raise PushRefused(
                f"A batch of {data.nbytes:,} bytes for {source!r} is above the limit of {limits.SEGMENT_BYTES:,}.",
                remedy="Push smaller batches.",
            )
        if data is not None:
            _check_whole(data, source)
            data = rows.conform(data, schema, stamped=message.get("producer") is not None)
        push = wire.push_of(source, message, data)
        return self._ports.push(push) if push.count or push.kind != "rows" else PushAnswer()

    def _hear(self, chunk: flight.FlightStreamChunk) -> wire.Message:
        """A letter of another entry point; it is answered when all that the answer says is durable."""
        sender, messages = letters.letter_of(chunk.app_metadata.to_pybytes() if chunk.app_metadata else b"")
        return letters.answers_message(self._sharing().hear(sender, messages))

    # --- actions ---------------------------------------------------------------------------------------------------

    def list_actions(self, context: flight.ServerCallContext) -> list[flight.ActionType]:
        return [flight.ActionType(name, description) for name, (description, _) in self._actions.items()]

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        with _errors():
            if action.type not in self._actions:
                known = ", ".join(self._actions)
                raise ConfigError(f"There is no action {action.type!r}.", remedy=f"There are: {known}.")
            _, perform = self._actions[action.type]
            body = action.body.to_pybytes()
            result = perform(wire.decode(body) if body else {})
            yield flight.Result(pa.py_buffer(wire.encode(result)))

    def _register(self, message: wire.Message) -> wire.Message:
        source, producer = wire.text(message, "source"), wire.text(message, "producer")
        session = wire.optional_number(message, "session")
        return wire.registration_message(self._ports.register(source, producer, session))

    def _greet(self, message: wire.Message) -> wire.Message:
        return letters.roll_message(self._sharing().greet(letters.greeting_of(message)))

    def _acknowledge(self, message: wire.Message) -> wire.Message:
        stream, reader = wire.text(message, "stream"), wire.text(message, "reader")
        self._ports.acknowledge(stream, reader, wire.position(message, "position"))
        return {}

    def _acknowledge_copies(self, message: wire.Message) -> wire.Message:
        self._serving().acknowledge_copies(wire.acknowledgements_of(message))
        return {}

    def _may_take(self, message: wire.Message) -> wire.Message:
        return {"takes": self._assigning().may_take(handover.from_plain(message))}

    def _take(self, message: wire.Message) -> wire.Message:
        self._assigning().take(handover.from_plain(message))
        return {}

    def _reserve_copy(self, message: wire.Message) -> wire.Message:
        self._serving().reserve_copy(wire.reservation_of(message))
        return {}

    def _keep_determinants(self, message: wire.Message) -> wire.Message:
        if self._determinants is None:
            raise StreamNotFound("This node keeps no determinants.", remedy="Deploy the same query to all nodes.")
        self._determinants.keep_determinants(wire.determinants_of(message))
        return {}

    def _digests(self, message: wire.Message) -> wire.Message:
        if self._outputs is None:
            raise self._has_none("This node has no copies of outputs to compare.")
        asker, stream = wire.text(message, "asker"), wire.text(message, "stream")
        return digests.answer_message(self._outputs.digests(asker, stream, digests.ranges_of(message)))

    def _places(self, message: wire.Message) -> wire.Message:
        query = QueryId(wire.text(message, "query"))
        return wire.places_message(self._peer().places(query, wire.text(message, "asker")))

    def _forget_reader(self, message: wire.Message) -> wire.Message:
        self._ports.forget_reader(wire.text(message, "stream"), wire.text(message, "reader"))
        return {}

    def _close_lane(self, message: wire.Message) -> wire.Message:
        self._ports.close_lane(wire.text(message, "source"), wire.optional_text(message, "lane"))
        return {}

    def _fault_link(self, message: wire.Message) -> wire.Message:
        self._ports.fault_link(wire.text(message, "node"), wire.link_fault_of(message))
        return {}

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
        yield piece.rows, wire.encode({"first": piece.first_id, "promises": dict(piece.promises)})


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
        app_metadata=wire.encode(
            {
                "kind": info.kind,
                "incarnation": info.incarnation,
                "first": info.first_id,
                "last": info.last_id,
                "origins": list(info.origins),
            }
        ),
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
