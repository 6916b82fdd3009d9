"""What a node offers to the Flight server, and the values that cross between them.

Streams and sources are named by the text of their id, ``query/stream``. A client may leave out the query where only one
query of the host has such a stream.

The server calls these methods from its own threads, several at once: an implementation must be safe for that. Errors
are ``AnabranchError``; they reach the client as the same class. Pure typing: nothing here knows Flight, storage or
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pyarrow as pa

from anabranch.core.telling import Range, Told
from anabranch.model.assignment import QueryAssignment
from anabranch.model.ids import NO_QUERY, QueryId, StreamId
from anabranch.model.links import LinkFault
from anabranch.model.names import OWNED_LANE
from anabranch.model.position import Position
from anabranch.runtime.status import HostStatus

StreamKind = Literal["source", "late", "output", "internal"]
EntryKind = Literal["rows", "boundary", "void", "close"]
Start = Position | Literal["start", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """A stream to read. ``schema`` is the wire schema; ``last_id`` is ``first_id - 1`` when nothing is kept.

    ``origins`` are those that its tuples can have, and that promise something.
    """

    name: str
    kind: StreamKind
    schema: pa.Schema
    incarnation: str
    first_id: int
    last_id: int
    origins: tuple[str, ...] = ()
    query: QueryId = NO_QUERY
    """The query that the stream is of."""

    @property
    def id(self) -> StreamId:
        """Which stream it is, on whichever host."""
        return StreamId(self.query, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Read ``stream`` after ``start``; with ``follow`` go on with what comes; ``reader`` names a reader of the log."""

    stream: str
    start: Start = "start"
    follow: bool = False
    reader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """A replica wants to read the copy of a stream that this node has: who it is, how far it is, what it promises."""

    stream: str
    reader: str
    life: str
    position: Position | None
    punctuations: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAnswer:
    """From where the copy will be sent, and below which times it cannot vouch; ``schema`` is that of stored rows."""

    incarnation: str
    first_id: int
    floors: Mapping[str, int]
    earlier_life: bool
    origins: tuple[str, ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPiece:
    """A step of a copy: rows, numbered from ``first_id``, maybe none, and all that the copy promises after them."""

    first_id: int
    rows: pa.RecordBatch
    promises: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRequest:
    """A client wants to read a copy of a stream beside others: where from, and below which times it has everything.

    A reader that the node knows by name goes on after what it acknowledged, unless ``start`` is a position.
    """

    stream: str
    start: Start = "start"
    punctuations: Mapping[str, int] = field(default_factory=dict)
    follow: bool = True
    reader: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceAnswer:
    """From where the copy will be sent. Unless the reader ``goes_on``, the copy cannot vouch below the floors."""

    incarnation: str
    first_id: int
    floors: Mapping[str, int]
    goes_on: bool
    """It is sent what follows on what it has, or begins with what is new."""
    origins: tuple[str, ...]
    """In the order of their codes."""
    reaching: tuple[str, ...]
    """Those that the tuples of the stream can have, and that promise something."""
    schema: pa.Schema
    """Of stored rows."""
    query: QueryId = NO_QUERY
    """The query that the stream is of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAcknowledgement:
    """A replica holds everything up to ``position`` durably, and promises this itself.

    The copy may collect a few rows for ``hold_us`` before it sends them. Where a source has a horizon, the replica also
    tells how far its slowest origin is; 0 if it does not know (``core.horizon``).
    """

    stream: str
    reader: str
    life: str
    position: Position
    punctuations: Mapping[str, int]
    hold_us: int = 0
    slowest_us: int = 0
    slowest_origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReservation:
    """``reader`` is about to be rebuilt, as ``life``, from the replica ``like``, which has read up to ``position``."""

    stream: str
    reader: str
    life: str
    like: str
    like_life: str
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Determinants:
    """Which tuples a log has from ``first_id`` on, in their order: three numbers for the identity of each."""

    sender: str
    stream: str
    incarnation: str
    first_id: int
    tids: Sequence[int]
    times_us: Sequence[int]
    origins: Sequence[int]
    """As codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPlaces:
    """How far a node has read each copy of its inputs, durably, for a peer that is to be rebuilt from it."""

    life: str
    belongs_to: Mapping[str, Any]
    """Whose state it has: format, query and part."""
    places: Mapping[str, Mapping[str, Position | None]]
    """By stream and copy; None for a copy that it has never heard of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPiece:
    """Bytes of a file of a node's state; the last piece of a file has the digest of all of it."""

    path: str
    bytes: bytes
    digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a producer must know to go on: its session, the next number of its entries, and what rows look like.

    ``stamp_us`` is the largest time that the lane has stamped: a producer that stamps its rows itself begins there, so
    that its stamps never decrease across its own restart, even if its clock was set back.
    """

    session: int
    next: int
    lane: str
    schema: pa.Schema
    time: str | None = None
    stamp_us: int = 0
    query: QueryId = NO_QUERY
    """The query that the source is of."""

    @property
    def stamps(self) -> bool:
        """Whether the producer gives each row its time, in a column ``_stime`` before the data columns."""
        return self.lane != OWNED_LANE and self.time is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """Entries for a lane, accepted whole or refused whole.

    ``first`` is the number (a producer's own lane) or the producer's row counter (the owned lane) of the first entry,
    None for a client that cannot number. ``rows`` has exactly the source's data columns, after ``_stime`` where the
    producer stamps. A boundary and a close are one entry, a void is ``count`` entries.
    """

    source: str
    producer: str | None = None
    session: int | None = None
    kind: EntryKind = "rows"
    first: int | None = None
    count: int = 1
    time_us: int | None = None
    rows: pa.RecordBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushAnswer:
    """What is durable now. ``through`` is the last number or counter; ``repeated`` entries had been accepted before."""

    through: int | None = None
    rows: int = 0
    repeated: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """What a host is given to run: its assignment of a query, and the query itself as plain data."""

    assignment: QueryAssignment
    query: Mapping[str, Any]


class NodePorts(Protocol):
    """The doors of a node."""

    def streams(self) -> list[StreamInfo]: ...

    def stream(self, name: str) -> StreamInfo:
        """One stream, or ``StreamNotFound``. One that a starting node will have is ``NodeUnreachable`` until then."""
        ...

    def read(self, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        """Batches of the wire schema, in log order, beginning with the tuple after ``request.start``, which means what
        it means now, not when the first batch is asked for.

        Boundaries that were raised after that position may come again when a reader resumes there, but none is left
        out. A following read that has nothing to say yields a batch without rows every ``limits.FOLLOW_WAIT_S``: the
        client tells a quiet stream from a dead node by it. It returns soon after ``cancelled()`` turns true. A
        position that is no longer kept, or of another incarnation, is ``StreamNotFound``.
        """
        ...

    def read_pieces(
        self, request: PieceRequest, cancelled: Callable[[], bool]
    ) -> tuple[PieceAnswer, Iterator[CopyPiece]]:
        """The stream as one of several copies, in log order, as replicas get it: first a piece without rows, with what
        had been promised at the place where it begins, then what follows; with ``follow`` without end.

        It ends when what comes next was trimmed before it was sent: then ask again.
        """
        ...

    def register(self, source: str, producer: str, session: int | None = None) -> Registration:
        """A new session for this producer; older ones are refused from now on. With a session it goes on with that."""
        ...

    def push(self, push: Push) -> PushAnswer:
        """Returns when the entries are durable. The same numbers again are harmless."""
        ...

    def acknowledge(self, stream: str, reader: str, position: Position) -> None: ...

    def forget_reader(self, stream: str, reader: str) -> None: ...

    def close_lane(self, source: str, lane: str | None) -> None:
        """Close one lane, or the only one of the source."""
        ...

    def status(self) -> HostStatus:
        """Everything worth showing."""
        ...

    def fault_link(self, node: str, fault: LinkFault) -> None:
        """Do this to what this node has opened to that one; ``ConfigError`` where the deployment allows no faults."""
        ...


class CopyPorts(Protocol):
    """What a node offers to the replicas that read its copies of streams."""

    def read_copy(self, request: CopyRequest, cancelled: Callable[[], bool]) -> tuple[CopyAnswer, Iterator[CopyPiece]]:
        """The copy from the answered place on, in log order, without end.

        A piece without rows comes every ``limits.COPY_QUIET_S`` where there is nothing to say. It ends when
        ``cancelled()`` turns true, the reader is cut off, or the same reader asks again.
        """
        ...

    def acknowledge_copies(self, acknowledgements: Sequence[CopyAcknowledgement]) -> None:
        """All that can be taken are, also where one is refused."""
        ...

    def wake(self) -> None:
        """Reads that wait ask ``cancelled()`` now."""
        ...

    def reserve_copy(self, reservation: CopyReservation) -> None:
        """Nothing that ``like`` has not read is trimmed before the rebuilt reader has it; durably."""
        ...


class DeterminantPorts(Protocol):
    """What a node offers to the others that do the same, where output is held until they have its determinants."""

    def keep_determinants(self, said: Determinants) -> None:
        """Returns when they are kept."""
        ...


class DigestPorts(Protocol):
    """What a node offers to the others that make the same outputs."""

    def digests(self, asker: str, stream: str, asked: Mapping[str, Range]) -> Mapping[str, Told]:
        """What its own copy has in these ranges, by origin; ``NodeUnreachable`` while it is starting."""
        ...


class AssignmentPorts(Protocol):
    """What a host offers to whoever has queries for it."""

    def may_take(self, given: HandOver) -> bool:
        """Whether it would take this query: False if it has just that already. ConfigError says why it cannot."""
        ...

    def take(self, given: HandOver) -> None:
        """Returns when the host will keep it; it begins to run it then. Taking the same again changes nothing."""
        ...


class PeerPorts(Protocol):
    """What a host offers to the others that do the same of a query, when one of them is to be rebuilt."""

    def places(self, query: QueryId, asker: str) -> PeerPlaces:
        """How far it has read; ``NodeUnreachable`` while it cannot help."""
        ...

    def snapshot(self, query: QueryId, asker: str) -> tuple[str, Iterator[SnapshotPiece]]:
        """The life of its state of the query, and all of that as it is at one moment, file by file."""
        ...
