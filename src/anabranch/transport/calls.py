"""The calls of a node, each declared once: its name, what is asked, and what is answered.

Server and client follow from this. A call without an answer of its own answers ``Nothing``, when what was asked is
done. What is read or pushed at length is no call: a ``Ticket`` says what to read, ``PushSaid`` goes beside rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from anabranch.core.roll_call import Met, Roll
from anabranch.core.telling import Range, Told
from anabranch.model.ids import QueryId
from anabranch.model.links import Cut, Delay, Heal, LinkFault, Slow
from anabranch.model.position import Position
from anabranch.transport.ports import (
    CopyAcknowledgement,
    CopyRequest,
    CopyReservation,
    Determinants,
    EntryKind,
    HandOver,
    PeerPlaces,
    PieceRequest,
    ReadRequest,
    Registration,
)

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, A]):
    name: str
    meaning: str
    asked: type[Q]
    answered: type[A]


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


# --- what is asked, and what is answered ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    source: str
    producer: str
    session: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    stream: str
    reader: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReader:
    stream: str
    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseLane:
    source: str
    lane: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeCopies:
    held: tuple[CopyAcknowledgement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLink:
    """What is to be done to the link to a node, by its name."""

    node: str
    do: Literal["cut", "delay", "slow", "heal"]
    delay_us: int = 0
    jitter_us: int = 0
    rate_bytes_s: int = 0

    @classmethod
    def of(cls, node: str, fault: LinkFault) -> FaultLink:
        match fault:
            case Cut():
                return cls(node=node, do="cut")
            case Delay(delay_us, jitter_us):
                return cls(node=node, do="delay", delay_us=delay_us, jitter_us=jitter_us)
            case Slow(rate_bytes_s):
                return cls(node=node, do="slow", rate_bytes_s=rate_bytes_s)
            case Heal():
                return cls(node=node, do="heal")

    @property
    def fault(self) -> LinkFault:
        match self.do:
            case "cut":
                return Cut()
            case "delay":
                return Delay(self.delay_us, self.jitter_us)
            case "slow":
                return Slow(self.rate_bytes_s)
            case "heal":
                return Heal()


@dataclass(frozen=True, slots=True, kw_only=True)
class MayTake:
    takes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskDigests:
    asker: str
    stream: str
    ranges: Mapping[str, Range]
    """By origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    told: Mapping[str, Told]
    """By origin."""

    def __post_init__(self) -> None:
        for each in self.told.values():
            if not len(each.starts_us) == len(each.rows) == len(each.totals):
                raise ValueError("intervals, rows and digests are not equally many")
            if not all(0 <= total < 1 << 64 for total in each.totals):
                raise ValueError("a digest has 64 bits")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPlaces:
    query: QueryId
    asker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """An entry point that has not begun says which life it would begin. ``form`` tells queries that differ apart."""

    source: str
    form: str
    name: str
    met: Met


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeted:
    roll: Roll


# --- calls ---------------------------------------------------------------------------------------------------------

REGISTER: Final = Call("register", "A session and the next number for {source, producer}.", Register, Registration)
ACKNOWLEDGE: Final = Call("acknowledge", "{reader} of {stream} needs nothing up to {position}.", Acknowledge, Nothing)
FORGET_READER: Final = Call("forget-reader", "{stream} keeps nothing more for {reader}.", ForgetReader, Nothing)
CLOSE_LANE: Final = Call("close-lane", "Close {lane} of {source}, or its only lane.", CloseLane, Nothing)
ACKNOWLEDGE_COPIES: Final = Call(
    "acknowledge-copies", "{held}: of each {stream}, {reader} has {position}.", AcknowledgeCopies, Nothing
)
FAULT_LINK: Final = Call(
    "fault-link", "Cut, delay, slow or heal the link to {node}, if faults are allowed.", FaultLink, Nothing
)
MAY_TAKE: Final = Call("may-take", "Whether this host would take the {query}, by this {assignment}.", HandOver, MayTake)
TAKE: Final = Call("take", "Run the {query}, by this {assignment}.", HandOver, Nothing)
KEEP_DETERMINANTS: Final = Call(
    "keep-determinants", "Keep which tuples {stream} of {sender} has from {first_id} on.", Determinants, Nothing
)
DIGESTS: Final = Call(
    "digests", "What {stream} has in {ranges}, for {asker}, who has a copy of it, too.", AskDigests, Digests
)
RESERVE_COPY: Final = Call(
    "reserve-copy", "Keep {position} of {stream} for {reader}, which is rebuilt.", CopyReservation, Nothing
)
PLACES: Final = Call(
    "places", "How far this node has read its inputs, for a peer that is rebuilt.", AskPlaces, PeerPlaces
)
GREET: Final = Call(
    "greet", "The entry point {name} of {source} begins a life with its directory: {met}.", Greeting, Greeted
)
STATUS: Final[Call[Nothing, dict[str, Any]]] = Call(
    "status", "Everything worth showing about this node.", Nothing, dict[str, Any]
)
"""``runtime.status`` has the types of the answer, and reads those of other releases, too."""


# --- what is read and pushed ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """All of what this host has of a query, for ``asker``, which is rebuilt."""

    query: QueryId
    asker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What to read: one of these."""

    read: ReadRequest | None = None
    pieces: PieceRequest | None = None
    copy: CopyRequest | None = None
    snapshot: SnapshotRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceMark:
    """Beside a piece of a copy: the number of its first row, and all that the copy promises after it."""

    first: int
    promises: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBegins:
    """Of the schema of a snapshot: the life of the node whose state is sent."""

    life: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMark:
    """Beside bytes of a file: whose they are, and at the end of a file its digest. At the end of all, the number of
    files: a snapshot that was cut off is not taken for a whole one."""

    path: str = ""
    digest: str | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSaid:
    """Beside the rows of a push. A plain client says nothing, which means rows without numbers."""

    kind: EntryKind = "rows"
    producer: str | None = None
    session: int | None = None
    first: int | None = None
    count: int | None = None
    time_us: int | None = None
