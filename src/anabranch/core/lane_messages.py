"""What happens to a lane (events, past tense) and what it answers (actions, imperative).

Payloads are opaque: an action speaks of the rows of the batch that arrived by index. ``now_us`` is always the clock of
the entry point. Numbers given by clients count every entry that they send: rows, boundaries, voids and CLOSE.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.errors import AnabranchError, PushRefused, SessionExpired

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SESSION_EXPIRED = "session-expired"


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPointStarted:
    """The entry point serves the lane (again): nobody could speak while it was down, so silence counts from here."""

    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRegistered:
    """A client asked for a session under this name; its older sessions end.

    With a ``session`` it goes on with that one, maybe at another entry point, unless a later one has ended it.
    """

    producer: str
    now_us: int
    session: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsArrived:
    """A batch. A plain client gives no ``producer``, ``session`` and ``first``; a numbering client gives all three.

    ``times`` is the time column, or the stamps of a producer that stamps its rows itself; ``nulls`` marks its NULLs.
    """

    count: int
    now_us: int
    producer: str | None = None
    session: int | None = None
    first: int | None = None
    times: Times | None = None
    nulls: Mask | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryArrived:
    """A client promised that its lane has no more rows below ``time_us``."""

    time_us: int
    now_us: int
    producer: str | None = None
    session: int | None = None
    first: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidsArrived:
    """A producer gave up the numbers of rows that were refused, so that its numbering has no hole."""

    count: int
    now_us: int
    producer: str
    session: int
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseArrived:
    """The lane ends: said by its producer, or by hand (then without producer, session and first)."""

    now_us: int
    producer: str | None = None
    session: int | None = None
    first: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockTicked:
    now_us: int


Entry = RowsArrived | BoundaryArrived | VoidsArrived | CloseArrived
Event = EntryPointStarted | ProducerRegistered | Entry | ClockTicked


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AppendRows:
    """Append the batch from row ``skip`` on; the arrays speak of these rows only.

    ``stamps`` holds the stream time of each row: a late row's is the punctuation that made it late, and that row goes
    to the late stream. ``punctuation_us`` is in force for both streams after the last row.
    """

    skip: int
    numbers: Times
    stamps: Times
    late: Mask
    punctuation_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBoundary:
    number: int
    punctuation_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendVoids:
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendClose:
    number: int
    punctuation_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Tell the client, after the transaction: everything through this number of its counting is kept.

    ``next_number`` is what it sends next. A plain client is answered with the numbers of the lane. ``new_rows`` counts
    what this batch added (0 for a re-sent one), ``late_rows`` how many of these went to the late stream.
    """

    accepted_through: int
    next_number: int
    new_rows: int = 0
    late_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRegistration:
    session: int
    next_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Nothing of the event was kept. ``row`` is the first bad row; ``expected`` the number that would be right."""

    code: str
    message: str
    remedy: str
    row: int | None = None
    expected: int | None = None

    def error(self) -> AnabranchError:
        """The error that a client sees."""
        if self.code == SESSION_EXPIRED:
            return SessionExpired(self.message, remedy=self.remedy)
        return PushRefused(self.message, row=self.row, remedy=self.remedy)


Action = AppendRows | AppendBoundary | AppendVoids | AppendClose | Answer | AnswerRegistration | Refuse
