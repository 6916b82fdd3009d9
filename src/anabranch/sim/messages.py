"""What simulated nodes say to each other: the same things that travel over Flight in the product.

What is said most often is a named tuple: it is made in a third of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from anabranch.core.horizon import UNKNOWN, Slowest
from anabranch.core.lane_state import LaneState
from anabranch.core.rebuild import Places
from anabranch.core.roll_call import Met, Roll
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """One entry of a lane: tuples, what the lane promises after them, and the largest stream time of any tuple up to
    here, in this entry or an earlier one."""

    tuples: tuple[Tuple, ...]
    promise_us: int
    top_us: int = 0
    late: tuple[Tuple, ...] = ()
    """Rows that came too late, in a lane that its entry point numbers."""
    state: LaneState | None = None
    """Of such a lane, after the entry."""
    sent: tuple[str, int] | None = None
    """Which plain client said it, and its own number of the first row."""

    @property
    def size(self) -> int:
        """What stands for its bytes."""
        return 1 + len(self.tuples)

    def body(self) -> Pushed:
        """As it is sent to a peer."""
        return self

    def leave_memory(self) -> None:
        """A simulated disk is as near as memory."""

    def without_rows(self) -> Pushed:
        """What is left of it when nobody needs its rows any more."""
        return Pushed(tuples=(), promise_us=self.promise_us, top_us=self.top_us, state=self.state, sent=self.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """From a producer that wants to push to a lane here."""

    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """``following`` is the place of the next entry."""

    origin: str
    following: int


class Push(NamedTuple):
    origin: str
    place: int
    entry: Pushed


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Everything up to this place is released."""

    origin: str
    through: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The lane would run too far ahead: send again from this place on, after a while."""

    origin: str
    following: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Not here, or not now: register again, here or elsewhere."""

    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a plain client says: a time, and columns. Number and stream time are the lane's."""

    time_us: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """From a plain client: with a session, it goes on with that one; without, it asks for a new one.

    ``producer`` is the name under which it counts, if not its own.
    """

    origin: str
    session: int | None
    producer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """``following`` is the client's next number."""

    origin: str
    session: int
    following: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Rows of a plain client, which it numbers from ``first`` on."""

    origin: str
    session: int
    first: int
    rows: tuple[Row, ...]
    producer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFeed:
    """Between copies of a feed: whether the other one speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellFeed:
    speaks: bool | None
    """None: it is its turn, and it cannot get rows in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The session is not known, or not any more."""

    origin: str
    session: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseLane:
    """From an operator."""

    origin: str


class Letter(NamedTuple):
    """What one entry point says to another about lanes: of each, its source, its name and a message. Letters to one
    are numbered. Before it, the other is to write down what this one begins."""

    number: int
    about: tuple[tuple[str, str, Any], ...]
    greetings: tuple[tuple[str, Met], ...] = ()


class LetterAnswered(NamedTuple):
    """What is answered to the letter of this number, durably; with what is written down where it greeted."""

    number: int
    about: tuple[tuple[str, str, Any], ...]
    rolls: tuple[tuple[str, Roll], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    stream: str
    life: str
    position: Position | None
    punctuations: Punctuations


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    stream: str
    incarnation: str
    first_id: int
    floors: Punctuations
    earlier_life: bool


class Tuples(NamedTuple):
    stream: str
    incarnation: str
    first_id: int
    tuples: tuple[Tuple, ...]
    promises: Punctuations


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The copy sends no more of the stream: the reader was cut off, or the copy is rebuilt. Ask again."""

    stream: str


class Acknowledgement(NamedTuple):
    """``slowest`` has the smallest punctuation of the reader over all its inlets, where a horizon is set."""

    stream: str
    life: str
    position: Position
    punctuations: Punctuations
    slowest: Slowest = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPlaces:
    """From a replica that is rebuilt to its peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellPlaces:
    life: str
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    stream: str
    life: str
    like: str
    like_life: str
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    stream: str
    life: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSnapshot:
    """Everything that is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    life: str
    disk: Any
    passed: Mapping[str, frozenset[tuple[str, int, int]]]
    """Not part of the protocol: what the checkers know of the peer at this moment."""
