"""An inlet wired to its journal: several copies of a stream become one, durably, each tuple once.

``core.Inlet`` decides; this class gives it whole columns, and appends what passes in one transaction with the inlet's
small state. What may be acknowledged is what is ``stored``.

The identities that an inlet must remember are not stored beside the journal: they are in it. The inlet is a reader of
its own journal that acknowledges a segment when all its tuples lie below the punctuation; so what it must remember is
never trimmed, and an inlet that starts reads it back.

Where rows come one by one, most of the work would be for what the slower copies repeat, and for digests of single rows.
So a small piece that is known to bring nothing is put off, and taken with others after a moment; the comparison of
small pieces waits for longer. What a piece newly brings is in the journal when ``arrived`` returns; unless every stage
that reads the journal says that it would not read it yet (``core.pacing``). Then it is put off, too, until a stage
takes it: a transaction for each batch, not for each row. Nothing that is put off counts as held: it is not
acknowledged.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from anabranch import limits
from anabranch.core.identities import Header, Identities, Keys, times_of
from anabranch.core.inlet import (
    Acknowledge,
    Action,
    AppendToJournal,
    CopyAnswered,
    CopyState,
    Event,
    Inlet,
    InletState,
    TuplesArrived,
)
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.node.digesting import Comparing, header_of, row_numbers
from anabranch.runtime.status import AlarmStatus
from anabranch.storage.log import Log
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

STORE_S: Final = 1.0
"""How long the places of copies that brought nothing new may wait for a transaction that is needed anyway."""

COMPARE_TIMES: Final = 5
"""So many times as long the comparison of small pieces may wait: nobody acts on it at once, and whoever asks for alarms
has it done."""

SMALL_ROWS: Final = 64
"""Rows of a piece up to which it may be put off: what a larger one costs is worth its rows."""

PUT_OFF_ROWS: Final = 1_024
PUT_OFF_PIECES: Final = 64
"""What is put off of one copy is taken when it is so much."""

KNOWN_ROWS: Final = 1_024
"""The last rows of small pieces that are known: a slower copy, some seconds behind at ten rows a second, brings the
same rows again, maybe cut in another way."""

INLET_READER: Final = "inlet"
"""As whom an inlet reads its own journal. It must never be cut off."""


class PacedReader(Protocol):
    """A stage that reads the journal."""

    def may_wait(self, stream: str, promises: Punctuations) -> bool:
        """Whether it would not read now what comes now with these promises. Asked with the lock of the inlet."""
        ...

    def hold_us(self) -> int:
        """How long whoever sends it a few rows may collect them."""
        ...

    def ring(self) -> None:
        """Something was put off for it; it takes it when its next batch begins."""
        ...


@dataclass(frozen=True, slots=True)
class _Held:
    """Segments up to ``seq`` have tuples up to these times, one for each code of an origin."""

    seq: int
    rows: int
    tops: np.ndarray


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a copy, numbered from ``first_id``, and what the copy promised after them."""

    first_id: int
    rows: pa.RecordBatch | None
    promises: Punctuations

    @property
    def count(self) -> int:
        return 0 if self.rows is None else self.rows.num_rows

    @property
    def is_small(self) -> bool:
        return self.count <= SMALL_ROWS

    def keys(self) -> list[bytes]:
        """The identity of each row, as it is stored."""
        if self.rows is None or not self.rows.num_rows:
            return []
        (tids, stimes), origins = (_fixed(self.rows, name, 8) for name in (TID, STIME)), _fixed(self.rows, ORIGIN, 4)
        return [
            tids[8 * row : 8 * row + 8] + stimes[8 * row : 8 * row + 8] + origins[4 * row : 4 * row + 4]
            for row in range(self.count)
        ]


@dataclass(frozen=True, slots=True)
class _Step:
    """An event that changed something: its rows, what it brought about, and what was known of its copy before."""

    event: Event
    rows: pa.RecordBatch | None
    actions: list[Action]
    known: CopyState | None


def _joined(pieces: list[_Piece]) -> _Piece:
    """Pieces that follow each other, as one."""
    batches = [piece.rows for piece in pieces if piece.rows is not None and piece.rows.num_rows]
    rows = None
    if batches:
        rows = batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return _Piece(pieces[0].first_id, rows, pieces[-1].promises)


def _fixed(rows: pa.RecordBatch, name: str, width: int) -> bytes:
    """The values of a column that have so many bytes each."""
    column = rows.column(name)
    values: bytes = column.buffers()[1].slice(column.offset * width, len(column) * width).to_pybytes()
    return values


def _is_past(since: float | None, wait_s: float) -> bool:
    return since is not None and time.monotonic() - since >= wait_s


def _is_much(pieces: list[_Piece]) -> bool:
    return len(pieces) >= PUT_OFF_PIECES or sum(piece.count for piece in pieces) >= PUT_OFF_ROWS


class JournalInlet:
    """The inlet of one stream on one node. Any thread may bring what a copy sent. ``compares`` says that the copies are
    to be compared with each other."""

    def __init__(self, store: Store, journal: Log, *, clock: Callable[[], int], compares: bool = True) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._inlet = Inlet(journal.name, journal.spec.origins)
        self._lock = threading.Lock()
        self._held: deque[_Held] = deque()
        self._first: dict[str, int] = {}
        with store.transaction() as transaction:
            transaction.add_reader(journal.name, INLET_READER, at_seq=journal.first_seq() - 1)
        self._state = self._stored = self._read_back()
        self._unstored_since: float | None = None
        self._put_off: dict[str, list[_Piece]] = {}
        """Per copy, pieces that follow on what is known of it, and bring nothing or can wait."""
        self._put_off_since: dict[str, float] = {}
        self._bringing: dict[str, int] = {}
        """The rows of those that may bring something, per copy, in the order in which copies began to."""
        self._to_come: dict[str, int] = {}
        """What those promise for which a copy may vouch."""
        self._offered: dict[str, int] = {}
        """The most that any copy has promised."""
        self._readers: list[PacedReader] = []
        self._uncompared: dict[str, list[_Piece]] = {}
        self._uncompared_since: float | None = None
        self._known: dict[bytes, None] = {}
        """The identities of the last rows of small pieces, oldest first."""
        self._comparing = Comparing(journal.name, self.origins, journal.tops()) if compares else None

    @property
    def state(self) -> InletState:
        """As it is now. How far copies were read that brought nothing new may not be stored yet, and what was put off
        is not in it."""
        return self._state

    def settled(self) -> InletState:
        """With all that has come."""
        with self._lock:
            self._take_all()
            return self._state

    def stored(self) -> InletState:
        """What of it is durable. Rows that come store all of it; where none come, this does, after a while."""
        with self._lock:
            self._take(*[copy for copy, since in self._put_off_since.items() if _is_past(since, STORE_S)])
            if _is_past(self._uncompared_since, COMPARE_TIMES * STORE_S):
                self._compare_taken()
            if _is_past(self._unstored_since, STORE_S):
                with self._store.transaction() as transaction:
                    transaction.put(_key(self._journal.name), _encoded(self._state))
                self._stored, self._unstored_since = self._state, None
            return self._stored

    @property
    def is_stored(self) -> bool:
        """Whether all of it is durable, and nothing is put off."""
        return self._unstored_since is None and not self._put_off and self._uncompared_since is None

    @property
    def stream(self) -> str:
        return self._journal.name

    @property
    def origins(self) -> tuple[str, ...]:
        """In the order of their codes."""
        return self._journal.spec.origins

    def first_from(self, copy: str) -> int:
        """How many tuples this copy was the first to bring, since the node started."""
        return self._first.get(copy, 0)

    def alarms(self) -> AlarmStatus | None:
        """Where copies were found to differ, if they are compared."""
        if self._comparing is None:
            return None
        with self._lock:
            self._compare_all()
            return self._comparing.alarms.statistics()

    def orphaned(self, live: Collection[str]) -> list[str]:
        """The origins for which no live copy may vouch."""
        return self._inlet.orphaned(self._state, live)

    def answered(self, event: CopyAnswered) -> list[Action]:
        """A copy took the subscription. Returns what is left to do."""
        with self._lock:
            self._compare_all()
            return self._handle([(event, None)])

    def arrived(
        self, copy: str, incarnation: str, first_id: int, rows: pa.RecordBatch | None, promises: Punctuations
    ) -> list[Action]:
        """Rows of a copy as its log stores them, numbered from ``first_id``, and what the copy promised after them.

        Returns what is left to do: what passes is in the journal, durably.
        """
        piece = _Piece(first_id, rows, promises)
        keys = piece.keys() if piece.is_small else None
        numbers = None if rows is None or keys is not None else self._numbers(rows)
        with self._lock:
            if keys is not None and self._follows(copy, incarnation, piece) and self._waits(copy, piece, keys):
                return [Acknowledge(copy=copy, position=Position(incarnation, first_id + piece.count - 1))]
            self._take(copy)
            actions = self._handle([(_event(copy, incarnation, piece), rows)], numbers)
            if keys:
                self._know(keys)
        return actions

    def read_by(self, reader: PacedReader) -> None:
        """From now on this stage reads the journal, and may let it wait."""
        with self._lock:
            self._readers.append(reader)

    def waiting(self) -> tuple[int, bool]:
        """How many rows are put off that may be new, at most, and whether anything is."""
        with self._lock:
            return max(self._bringing.values(), default=0), bool(self._bringing)

    def rows_outside(self) -> list[pa.RecordBatch]:
        """The rows that are put off and may be new."""
        with self._lock:
            joined = [_joined(self._put_off[copy]).rows for copy in self._bringing]
        return [rows for rows in joined if rows is not None]

    def take(self) -> None:
        """What was put off and may be new is in the journal when this returns."""
        with self._lock:
            self._take(*self._bringing)

    def hold_us(self) -> int:
        """How long copies may collect a few rows before they send them: no stage that reads the journal would hurry."""
        return min((reader.hold_us() for reader in self._readers), default=0)

    # --- what is put off -------------------------------------------------------------------------------------------

    def _follows(self, copy: str, incarnation: str, piece: _Piece) -> bool:
        """Whether a piece follows on what has come of its copy."""
        known = self._state.copies.get(copy)
        if known is None or known.position.incarnation != incarnation:
            return False
        put_off = self._put_off.get(copy)
        last_id = known.position.id if not put_off else put_off[-1].first_id + put_off[-1].count - 1
        return piece.first_id == last_id + 1

    def _waits(self, copy: str, piece: _Piece, keys: Sequence[bytes]) -> bool:
        """Puts a piece off that follows on its copy, if it brings nothing or can wait."""
        is_known = all(key in self._known for key in keys)
        if is_known and self._promises_no_more(piece, {}):
            self._put_piece_off(copy, piece)
            return True
        if not self._may_wait(piece.promises):
            return False
        if is_known and self._promises_no_more(piece, self._to_come):
            self._put_piece_off(copy, piece)
        else:
            self._let_wait(copy, piece, keys)
        return True

    def _promises_no_more(self, piece: _Piece, to_come: Punctuations) -> bool:
        """Than is promised, or will be when this is taken."""
        promised = self._state.punctuations
        return all(
            time <= promised.get(origin, 0) or time <= to_come.get(origin, 0) for origin, time in piece.promises.items()
        )

    def _may_wait(self, promises: Punctuations) -> bool:
        """Whether no stage would read yet what comes with these promises, after all that was put off."""
        for origin, time_us in promises.items():
            self._offered[origin] = max(time_us, self._offered.get(origin, 0))
        return bool(self._readers) and all(reader.may_wait(self.stream, self._offered) for reader in self._readers)

    def _let_wait(self, copy: str, piece: _Piece, keys: Sequence[bytes]) -> None:
        is_first = not self._bringing
        self._bringing[copy] = self._bringing.get(copy, 0) + sum(key not in self._known for key in keys)
        floors, promised = self._state.copies[copy].floors, self._state.punctuations
        for origin, time_us in piece.promises.items():
            if floors.get(origin, 0) <= promised.get(origin, 0):
                self._to_come[origin] = max(time_us, self._to_come.get(origin, 0))
        self._know(keys)
        self._put_piece_off(copy, piece)
        if is_first or self._bringing.get(copy, 0) >= limits.PACE_ROWS:
            for reader in self._readers:
                reader.ring()

    def _know(self, keys: Sequence[bytes]) -> None:
        self._known.update(dict.fromkeys(keys))
        while len(self._known) > KNOWN_ROWS:
            del self._known[next(iter(self._known))]

    def _put_piece_off(self, copy: str, piece: _Piece) -> None:
        pieces = self._put_off.setdefault(copy, [])
        if not pieces:
            self._put_off_since[copy] = time.monotonic()
        pieces.append(piece)
        if _is_much(pieces):
            self._take_all()

    def _take(self, *copies: str) -> None:
        """What was put off of these copies, in one transaction. It stays if it cannot be stored."""
        arrivals = []
        for copy in copies:
            if pieces := self._put_off.get(copy):
                piece = _joined(pieces)
                incarnation = self._state.copies[copy].position.incarnation
                arrivals.append((_event(copy, incarnation, piece), piece.rows))
        self._handle(arrivals)
        for copy in copies:
            self._put_off.pop(copy, None)
            self._put_off_since.pop(copy, None)
            self._bringing.pop(copy, None)
        self._to_come.clear()

    def _take_all(self) -> None:
        """Of all copies; those that brought something first are taken first."""
        self._take(*dict.fromkeys([*self._bringing, *self._put_off]))

    def _compare_all(self) -> None:
        self._take_all()
        self._compare_taken()

    def _compare_taken(self) -> None:
        self._uncompared_since = None
        for copy in list(self._uncompared):
            self._compare_put_off(copy)

    def _compare_put_off(self, copy: str) -> None:
        pieces = self._uncompared.pop(copy, None)
        if pieces and self._comparing is not None:
            piece = _joined(pieces)
            header = header_of(piece.rows)
            numbers = np.empty(0, np.uint64) if piece.rows is None else row_numbers(piece.rows, header)
            self._comparing.arrived(copy, header, numbers, 0, piece.promises)

    def _numbers(self, rows: pa.RecordBatch) -> Keys | None:
        """Of a large piece, before anybody waits for the lock."""
        return None if self._comparing is None else row_numbers(rows, header_of(rows))

    # --- events ----------------------------------------------------------------------------------------------------

    def _handle(
        self, arrivals: Sequence[tuple[Event, pa.RecordBatch | None]], numbers: Keys | None = None
    ) -> list[Action]:
        """Events in their order, with their rows: what they change is stored at once. ``numbers`` are those of a large
        piece, which comes alone."""
        state = self._state
        steps: list[_Step] = []
        left: list[Action] = []
        for event, rows in arrivals:
            before = state
            state, actions = self._inlet.handle(before, event)
            if state is not before:
                steps.append(_Step(event, rows, actions, before.copies.get(event.copy)))
            left += [action for action in actions if not isinstance(action, AppendToJournal)]
        if any(self._inlet.must_store(step.event, step.actions) for step in steps):
            self._save(steps, state)
        elif steps and self._unstored_since is None:
            self._unstored_since = time.monotonic()
        self._state = state
        for step in steps:
            self._compare(step.event, step.known, step.rows, numbers)
        return left

    def _save(self, steps: Sequence[_Step], state: InletState) -> None:
        """In one transaction: what passes into the journal, and what is known of all copies."""
        end_seq = self._journal.end_seq()
        added: list[tuple[str, _Held]] = []
        with self._store.transaction() as transaction:
            for step in steps:
                more, end_seq = self._append(transaction, step, end_seq)
                added += [(step.event.copy, each) for each in more]
            new = [each for _, each in added]
            over = self._over(new, state.punctuations)
            held = len(self._held) + len(new) - over
            self._acknowledge(transaction, new, over, end_seq if not held else None)
            transaction.put(_key(self._journal.name), _encoded(state))
        self._stored, self._unstored_since = state, None
        for copy, each in added:
            self._first[copy] = self._first.get(copy, 0) + each.rows
        self._held.extend(new)
        for _ in range(over):
            self._held.popleft()

    def _compare(
        self, event: Event, known: CopyState | None, rows: pa.RecordBatch | None, numbers: Keys | None
    ) -> None:
        """``known`` is what was known of the copy before the event, which was taken. ``numbers`` are those of a large
        piece."""
        if self._comparing is None:
            return
        if isinstance(event, CopyAnswered):
            self._comparing.answered(event, known)
        elif known is not None:
            seen = max(0, known.position.id + 1 - event.first_id)
            if numbers is not None:
                self._compare_put_off(event.copy)
                self._comparing.arrived(event.copy, event.header, numbers, seen, event.promises)
                return
            piece = _Piece(event.first_id + seen, rows.slice(seen) if rows is not None else None, event.promises)
            pieces = self._uncompared.setdefault(event.copy, [])
            pieces.append(piece)
            if self._uncompared_since is None:
                self._uncompared_since = time.monotonic()
            if _is_much(pieces):
                self._compare_put_off(event.copy)

    def _append(self, transaction: Transaction, step: _Step, end_seq: int) -> tuple[list[_Held], int]:
        """What passes, into the journal, which ends with ``end_seq``. Returns what must be held of it, and the new
        end."""
        added: list[_Held] = []
        event = step.event
        for action in step.actions:
            if isinstance(action, AppendToJournal):
                passed = None if step.rows is None else _taken(step.rows, action.take)
                appended = transaction.append(self._journal.name, passed, action.punctuations, now_us=self._clock())
                end_seq = appended.last_seq
                if passed is not None and isinstance(event, TuplesArrived):
                    added.append(_Held(end_seq, passed.num_rows, self._tops(event.header.take(action.take))))
        return added, end_seq

    def _over(self, added: list[_Held], punctuations: Punctuations) -> int:
        """How many of what is held need not be remembered any more, oldest first."""
        times = times_of(punctuations, self.origins)
        over = itertools.takewhile(lambda held: bool((held.tops < times).all()), itertools.chain(self._held, added))
        return sum(1 for _ in over)

    def _acknowledge(self, transaction: Transaction, added: list[_Held], over: int, end_seq: int | None) -> None:
        """What need not be remembered need not be kept for us; ``end_seq`` is given if that is everything."""
        last = next(itertools.islice(itertools.chain(self._held, added), over - 1, None)).seq if over else None
        seq = end_seq if end_seq is not None else last
        if seq is not None:
            transaction.acknowledge(self._journal.name, INLET_READER, seq)

    def _tops(self, header: Header) -> np.ndarray:
        tops = np.full(len(self.origins), -1, dtype=np.int64)
        np.maximum.at(tops, header.origins, header.stimes)
        return tops

    def _read_back(self) -> InletState:
        stored = self._store.get(_key(self._journal.name))
        if stored is None:
            return InletState()
        state = _decoded(stored)
        times = times_of(state.punctuations, self.origins)
        remembered = Identities()
        after = self._journal.readers()[INLET_READER]
        for segment in self._journal.read(after, self._journal.end_seq()):
            if segment.rows is None:
                continue
            header = header_of(segment.rows)
            self._held.append(_Held(segment.seq, len(header), self._tops(header)))
            _, remembered = remembered.admit(header.take(header.at_or_above(times)))
        return InletState(copies=state.copies, punctuations=state.punctuations, remembered=remembered)


def stored_positions(store: Store, stream: str) -> dict[str, Position]:
    """How far each copy of a stream has been read into this store, durably; none if it has no inlet yet."""
    stored = store.get(_key(stream))
    return {} if stored is None else {name: copy.position for name, copy in _decoded(stored).copies.items()}


def _taken(rows: pa.RecordBatch, take: np.ndarray) -> pa.RecordBatch | None:
    """These rows, without copying them if they are a range."""
    if not len(take):
        return None
    first, last = int(take[0]), int(take[-1])
    if last - first + 1 == len(take):
        return rows.slice(first, len(take))
    return rows.take(pa.array(take))


def _event(copy: str, incarnation: str, piece: _Piece) -> TuplesArrived:
    return TuplesArrived(
        copy=copy,
        incarnation=incarnation,
        first_id=piece.first_id,
        header=header_of(piece.rows),
        promises=piece.promises,
    )


def _key(stream: str) -> str:
    return f"inlet {stream}"


def _encoded(state: InletState) -> bytes:
    """Without the identities: they are in the journal."""
    copies = {
        name: {"position": str(copy.position), "promises": copy.promises, "floors": copy.floors}
        for name, copy in state.copies.items()
    }
    return msgspec.json.encode({"copies": copies, "punctuations": state.punctuations})


def _decoded(stored: bytes) -> InletState:
    facts: dict[str, Any] = json.loads(stored)
    copies = {
        name: CopyState(position=Position.parse(copy["position"]), promises=copy["promises"], floors=copy["floors"])
        for name, copy in facts["copies"].items()
    }
    return InletState(copies=copies, punctuations=facts["punctuations"])
