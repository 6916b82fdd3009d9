"""A subscription to several copies of one stream: the first arrival of a tuple passes, all others are dropped.

What an inlet is for a node, this is for a client, and ``core.Inlet`` decides for both. A client keeps nothing on disk:
within one subscription nothing is lost or repeated, whichever copies are killed, paused, slow or come back; what a new
one may repeat is said at ``RacingSubscription``. The rules, and why they are right, are in design note 12.

A thread for each copy, because a read of Flight blocks and cannot be waited for together with others: with one thread
the slowest copy would hold up all. The threads only read, and wait where nobody takes what they bring; everything is
decided by the thread that iterates.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from anabranch.core.backoff import RECONNECT
from anabranch.core.identities import Header
from anabranch.core.inlet import (
    AppendToJournal,
    CopyAnswered,
    Inlet,
    InletState,
    SubscribeAgain,
    TuplesArrived,
    beginning,
)
from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable, StreamNotFound
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.ids import named_in
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.runtime.status import CopyStatus
from anabranch.transport import wire
from anabranch.transport.client import Client, PieceStream
from anabranch.transport.ports import CopyPiece, PieceAnswer, PieceRequest, Start
from anabranch.transport.retry import DEADLINE_S
from anabranch.transport.tuples import STORED_HEADER, boundaries, insertions

BEGIN_WAIT_S: Final = 1.0
"""How long a subscription that has a first answer waits for those of the other copies."""

SILENT_S: Final = 2.0
"""After this long without a sign of life, which comes twice a second, a copy is not waited for."""

LOOK_S: Final = 0.5
"""How often the state of the copies is looked at while nothing comes. Ctrl-C is heard as often."""

ACKNOWLEDGE_S: Final = 0.1
"""How often a copy is told what a named reader has: each time costs it a transaction."""

WAITING_PIECES: Final = 2
"""Pieces of each copy that wait for the thread that iterates: one that is worked on, and one that is there next."""

Place = Mapping[str, Position]


@dataclass(frozen=True, slots=True)
class _Answered:
    copy: _Copy
    answer: PieceAnswer
    promises: Punctuations
    asked_at_end: bool


@dataclass(frozen=True, slots=True)
class _Arrived:
    copy: _Copy
    incarnation: str
    piece: CopyPiece


@dataclass(frozen=True, slots=True)
class _Ended:
    """It was read to its end, or could not be read."""

    copy: _Copy
    error: AnabranchError | None


_News = _Answered | _Arrived | _Ended


class RacingSubscription:
    """Iterates a stream that several nodes have copies of (wire schema); goes on while one of them lives.

    *Where it begins.* At ``start``: per origin, at the time from which on every copy that answers holds everything. At
    ``end``: every tuple that no copy had when it was asked comes; one that some copy had already may come. A named
    reader that is known goes on at each copy after what was acknowledged there.

    *After that* every tuple comes once, and a boundary is true. If what comes next was trimmed at all copies that live,
    ``StreamNotFound`` is raised: nothing is skipped in silence. A new subscription under the same name may repeat
    tuples that were acknowledged: those at or above the punctuations at the acknowledged places, if the copy that
    brought them first is not the one that answers. Their identity ``(_origin, _stime, _tid)`` is the same.

    ``_id`` is null, since ids are of one log. ``place`` says how far each copy is handed out. Iterate in one thread;
    ``close`` may be called from any.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.stream: Final = stream
        self.named = stream
        """With its query, once a copy has said it: another one may get a stream of the same name."""
        self.reader: Final = reader
        self.follow: Final = follow
        self._start: Final = _checked_start(start, reader)
        self._deadline_s: Final = deadline_s
        self._closed: Final = threading.Event()
        self._begun: Final = threading.Event()
        self._news: Final[queue.Queue[_News]] = queue.Queue(WAITING_PIECES * len(clients))
        self._state: InletState | None = None  # until it has begun
        self._first: dict[str, int] = {}
        self.origins: tuple[str, ...] = ()
        """Those that its tuples can have, and that promise something."""
        self._waiting: list[pa.RecordBatch] = []
        self._looked = time.monotonic()
        self.place: Place = {}
        """Up to where the tuples of each copy have come, by address."""
        self._copies: Final = [_Copy(self, client) for client in clients]
        for copy in self._copies:
            copy.start()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    # --- for its user ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while not self._closed.is_set():
            yield from self._handed_out()
            if self._is_over():
                return
            self._check_copies()
            self._waiting = self._handle(self._next_news())

    def _handed_out(self) -> Iterator[pa.RecordBatch]:
        """What has passed and waits to be taken. With the last of it the place moves on."""
        while self._waiting:
            batch = self._waiting.pop(0)
            if not self._waiting:
                self._move_on()
            yield batch
        self._move_on()

    def _move_on(self) -> None:
        self.place = {name: copy.position for name, copy in self._known.copies.items()}

    def acknowledge(self, place: Place | None = None) -> None:
        """Tell every copy, beside the reading, that this named reader needs nothing up to ``place`` any more."""
        if self.reader is None:
            raise ConfigError(
                f"A subscription of {self.stream!r} without a name cannot acknowledge.", remedy="Give it a reader name."
            )
        place = self.place if place is None else place
        for copy in self._copies:
            if copy.name in place:
                copy.acknowledge(place[copy.name])

    def close(self) -> None:
        """End the iteration, also while it waits in another thread. What was acknowledged is told to the copies that
        answer."""
        deadline = time.monotonic() + SILENT_S
        for copy in self._copies:
            copy.wait_told(deadline)
        self._closed.set()
        for copy in self._copies:
            copy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def statistics(self) -> dict[str, CopyStatus]:
        """Per copy: whether it is read, up to where, how many tuples it was the first to bring, why it is not read."""
        return {
            copy.name: CopyStatus(
                state="read" if copy.is_live else "away",
                position=str(self.place[copy.name]) if copy.name in self.place else None,
                first=self._first.get(copy.name, 0),
                error=None if copy.error is None else str(copy.error),
            )
            for copy in self._copies
        }

    # --- for its copies --------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def put(self, news: _News) -> None:
        """Waits where too much is waiting: so the copy is not sent more than is taken."""
        while not self._closed.is_set():
            with suppress(queue.Full):
                self._news.put(news, timeout=LOOK_S)
                return

    def wait_begun(self) -> None:
        while not self._closed.is_set() and not self._begun.wait(LOOK_S):
            pass

    def wait_closed(self, seconds: float) -> None:
        self._closed.wait(seconds)

    # --- beginning -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """With the copies that answer soon. What each of them had promised where it begins is known before the rows of
        any: a named reader has everything below it, whoever sends it again."""
        answers = self._first_answers()
        goes_on = any(each.answer.goes_on for each in answers)
        first = answers[0].answer
        self._table, self._stored = first.origins, first.schema
        self.origins = first.reaching
        self.named = named_in(first.query, self.stream)
        self._inlet = Inlet(self.stream, self._table, joins_late=True)
        self.schema: pa.Schema = wire.wire_schema(pa.schema(list(self._stored)[STORED_HEADER:]))
        self._state = beginning([] if goes_on else [each.answer.floors for each in answers])
        self._waiting = [batch for each in answers for batch in self._answered(each)]
        self._begun.set()

    def _first_answers(self) -> list[_Answered]:
        answers: list[_Answered] = []
        failed: dict[str, AnabranchError] = {}
        deadline = time.monotonic() + self._deadline_s
        while time.monotonic() < deadline and len(answers) + len(failed) < len(self._copies):
            match self._next_news():
                case _Answered() as news:
                    failed.pop(news.copy.name, None)
                    answers.append(news)
                    deadline = min(deadline, time.monotonic() + BEGIN_WAIT_S)
                case _Ended(error=AnabranchError() as error) as news:
                    failed[news.copy.name] = error
            if len(failed) == len(self._copies) and any(isinstance(each, NodeUnreachable) for each in failed.values()):
                failed.clear()  # all are away: there is time to wait for one
        if not answers:
            raise self._nobody()
        return answers

    def _next_news(self) -> _News | None:
        try:
            return self._news.get(timeout=LOOK_S)
        except queue.Empty:
            return None

    def request(self, copy: str) -> PieceRequest:
        """What to ask a copy for now: what follows on what has come of it, or, if nothing has, what is missing."""
        state = self._state
        start: Start = self._start
        if state is not None:
            known = state.copies.get(copy)
            start = known.position if known is not None else "start"
        return PieceRequest(
            stream=self.named,
            start=start,
            punctuations={} if state is None else state.punctuations,
            follow=self.follow,
            reader=self.reader,
        )

    # --- what comes ------------------------------------------------------------------------------------------------

    def _handle(self, news: _News | None) -> list[pa.RecordBatch]:
        match news:
            case _Answered(asked_at_end=True):
                news.copy.ask_again()  # it says where its end is now; we have begun before
            case _Answered():
                return self._answered(news)
            case _Arrived():
                return self._arrived(news)
        return []

    def _answered(self, news: _Answered) -> list[pa.RecordBatch]:
        answer, copy = news.answer, news.copy.name
        is_same = named_in(answer.query, self.stream) == self.named
        if not is_same or (answer.origins, answer.schema) != (self._table, self._stored):
            raise ConfigError(
                f"Stream {self.stream!r} of {copy} is not the same as that of the other nodes.",
                remedy="Name nodes that run the same query.",
            )
        known = self._known.copies.get(copy)
        follows = known is not None and Position(answer.incarnation, answer.first_id - 1) == known.position
        floors = known.floors if known is not None and follows else answer.floors
        event = CopyAnswered(copy=copy, incarnation=answer.incarnation, first_id=answer.first_id, floors=floors)
        passed = self._passed(event, None)
        promised = TuplesArrived(
            copy=copy, incarnation=answer.incarnation, first_id=answer.first_id, promises=news.promises
        )
        return [*passed, *self._passed(promised, None)]

    def _arrived(self, news: _Arrived) -> list[pa.RecordBatch]:
        rows = news.piece.rows
        times = rows.column(STIME).cast(pa.int64()).to_numpy()
        event = TuplesArrived(
            copy=news.copy.name,
            incarnation=news.incarnation,
            first_id=news.piece.first_id,
            header=Header(rows.column(ORIGIN).to_numpy(), times, rows.column(TID).to_numpy()),
            promises=news.piece.promises,
        )
        return self._passed(event, rows)

    def _passed(self, event: CopyAnswered | TuplesArrived, rows: pa.RecordBatch | None) -> list[pa.RecordBatch]:
        """What the inlet lets through, as tuples of the stream."""
        batches: list[pa.RecordBatch] = []
        self._state, actions = self._inlet.handle(self._known, event)
        for action in actions:
            match action:
                case AppendToJournal(take=take, punctuations=punctuations):
                    if rows is not None and len(take):
                        self._first[event.copy] = self._first.get(event.copy, 0) + len(take)
                        batches.append(insertions(rows.take(pa.array(take)), None, self._table, self.schema))
                    if punctuations:
                        batches.append(boundaries(punctuations, self.schema))
                case SubscribeAgain():
                    next(copy for copy in self._copies if copy.name == event.copy).ask_again()
        return batches

    @property
    def _known(self) -> InletState:
        assert self._state is not None
        return self._state

    # --- the state of the copies -----------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        """Whether a read that does not follow has come to its end: it waits for no copy that is away or silent."""
        if self.follow or not any(copy.has_ended for copy in self._copies):
            return False
        waited_for = [copy for copy in self._copies if not copy.has_ended and copy.silent_s() <= SILENT_S]
        return not waited_for and self._news.empty()  # in this order: what a copy brought is there before it has ended

    def _check_copies(self) -> None:
        """Now and then: raises if there is no hope any more. Nobody is there, or all have trimmed what comes next."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        near = {copy.name for copy in self._copies if copy.is_live or copy.silent_s() < self._deadline_s}
        if not near:
            raise self._nobody()
        orphaned = self._inlet.orphaned(self._known, near)
        if orphaned:
            raise StreamNotFound(
                f"Stream {self.stream!r} cannot be resumed without a gap: all copies have trimmed tuples of "
                f"{orphaned[0]!r} that were not read yet.",
                remedy="Subscribe again; a named reader keeps what it has not acknowledged.",
            )

    def _nobody(self) -> AnabranchError:
        errors = [copy.error for copy in self._copies if copy.error is not None]
        others = [error for error in errors if not isinstance(error, NodeUnreachable)]
        if others:
            return others[0]
        names = ", ".join(copy.name for copy in self._copies)
        reason = errors[0].message if errors else "None of them has answered."
        return NodeUnreachable(
            f"No copy of {self.stream!r} can be read, at {names}. {reason}",
            remedy="Check the addresses and that the nodes are running.",
        )


class _Copy:
    """One copy, and the thread that reads it."""

    def __init__(self, owner: RacingSubscription, client: Client) -> None:
        self.name: Final = client.address
        self.error: AnabranchError | None = None
        """Why it cannot be read, if it was tried and failed since it was read last."""
        self.has_ended = False
        self._owner = owner
        self._client = client
        self._reading: PieceStream | None = None
        self._heard = time.monotonic()
        self._held: Position | None = None
        self._told: Position | None = None
        self._told_at = 0.0
        self._quiet = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"copy at {self.name}", daemon=True)

    @property
    def is_live(self) -> bool:
        return self._reading is not None

    def start(self) -> None:
        self._thread.start()

    def silent_s(self) -> float:
        return time.monotonic() - self._heard

    def ask_again(self) -> None:
        reading = self._reading
        if reading is not None:
            reading.close()

    def close(self) -> None:
        self.ask_again()
        if self.is_live:
            self._thread.join(LOOK_S)

    def acknowledge(self, position: Position) -> None:
        self._held = position

    def wait_told(self, deadline: float) -> None:
        """Until the copy knows what is acknowledged, if it is there."""
        with self._quiet:
            self._quiet.wait_for(
                lambda: self._held == self._told or not (self.is_live or self.has_ended),
                max(0.0, deadline - time.monotonic()),
            )

    # --- its thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = RECONNECT
        while not self._owner.is_closed:
            before = self._heard
            try:
                self._read()
                self.error = None
                if not self._owner.follow:
                    self.has_ended = True
            except AnabranchError as error:
                self.error = error
            with self._quiet:
                self._reading = None
                self._quiet.notify_all()
            self._owner.put(_Ended(self, self.error))
            while self.has_ended and not self._owner.is_closed:  # nothing comes any more, but it can be told
                self._tell()
                self._owner.wait_closed(ACKNOWLEDGE_S)
            backoff = (RECONNECT if self._heard > before else backoff).failed()
            self._owner.wait_closed(backoff.wait_s)

    def _read(self) -> None:
        request = self._owner.request(self.name)
        with self._client.read_pieces(request) as reading:
            self._reading = reading
            answer = reading.answer
            promises: Punctuations | None = None
            for piece in reading:
                if self._owner.is_closed:
                    return
                self._heard = time.monotonic()
                if promises is None:
                    self._owner.put(_Answered(self, answer, piece.promises, request.start == "end"))
                    self._owner.wait_begun()
                elif piece.rows.num_rows or piece.promises != promises:
                    self._owner.put(_Arrived(self, answer.incarnation, piece))
                promises = piece.promises
                self._tell()

    def _tell(self) -> None:
        """What cannot be told now is told with more after the next piece or sign of life."""
        held = self._held
        if held is None or held == self._told or time.monotonic() - self._told_at < ACKNOWLEDGE_S:
            return
        with suppress(AnabranchError):
            self._client.acknowledge(self._owner.named, str(self._owner.reader), held)
            with self._quiet:
                self._told, self._told_at = held, time.monotonic()
                self._quiet.notify_all()


def _checked_start(start: str | Position, reader: str | None) -> Start:
    if start not in ("start", "end"):
        raise ConfigError(
            f"{start} is a position in the log of one node, but several copies are read.",
            remedy="Begin at start or end, or read from one node; a named reader continues where it was.",
        )
    if start == "end" and reader is not None:
        raise ConfigError(
            f"Reader {reader!r} cannot begin at the end of several copies: they end at different tuples.",
            remedy="Let it begin at start; copies that know it continue after what it acknowledged.",
        )
    return "end" if start == "end" else "start"
