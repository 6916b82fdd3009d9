"""The lane of a source: who may say what, which number and stamp it gets, and what the lane promises after it.

A lane is one sequence of numbered entries: rows, boundaries, voids and CLOSE. Stamp, lateness and punctuation are
functions of this sequence alone, so every entry point and replica agrees on them (racing paper, section 3.4: tuples are
timestamped once, where they enter). There are two kinds:

- an *owned* lane is numbered by its entry point, for any number of plain clients. A client may give its name and its
  own counter; what it sends again is then known again.
- a *producer's* lane is numbered by one named producer, and stamped by it too unless there is a time column.

``Lane.handle`` is the one door. It changes nothing: it returns the state to store (whenever it is not the old one) in
the transaction that carries out the Append actions, and the answer to give after that transaction. If the transaction
fails, the old state simply stays. Knows no clock, storage or wire; never sees a payload.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anabranch import limits
from anabranch.core import refusals
from anabranch.core.lane_messages import (
    Action,
    Answer,
    AnswerRegistration,
    AppendBoundary,
    AppendClose,
    AppendRows,
    AppendVoids,
    BoundaryArrived,
    ClockTicked,
    CloseArrived,
    Entry,
    EntryPointStarted,
    Event,
    ProducerRegistered,
    Refuse,
    RowsArrived,
    VoidsArrived,
)
from anabranch.core.lane_state import LaneRules, LaneState, Producer
from anabranch.core.stamping import BadRow, stamp_rows
from anabranch.errors import check
from anabranch.model.times import CLOSED_US, MIN_TIME_US

Step = tuple[LaneState, list[Action]]
Append = AppendRows | AppendBoundary | AppendVoids | AppendClose


@dataclass(frozen=True, slots=True)
class Lane:
    """The rules of one lane, applied. Holds no state: ``handle`` is given one and returns the next."""

    name: str
    rules: LaneRules

    def handle(self, state: LaneState, event: Event) -> Step:
        """The state after the event, and what to do. After a refusal it is the very state that was given."""
        check(MIN_TIME_US <= event.now_us < CLOSED_US, f"The clock of lane {self.name!r} says {event.now_us} us.")
        match event:
            case EntryPointStarted():
                return replace(state, last_activity_us=event.now_us), []
            case ClockTicked():
                return self._tick(state, event.now_us)
            case ProducerRegistered():
                return self._register(state, event)
            case _:
                return self._enter(state, event)

    def punctuation(self, state: LaneState) -> int:
        """The time below which no later row of this lane comes; 0 while nothing is promised."""
        if state.closed:
            return CLOSED_US
        if self.rules.timed:
            return max(state.boundary_us, state.max_time_us - self.rules.disorder_us)
        return state.last_stamp_us

    def due_us(self, state: LaneState) -> int | None:
        """When a tick may find something to say, by the clock of the entry point; None for never."""
        if state.closed or self.rules.speaks_every_us is None:
            return None
        if self.rules.producer is not None:
            return state.last_activity_us + self.rules.speaks_every_us
        idle_us = state.last_activity_us + (self.rules.idle_us or 0) if self.rules.timed else 0
        return max(idle_us, state.last_entry_us + self.rules.boundary_interval_us)

    # --- who may speak ---------------------------------------------------------------------------------------------

    def _register(self, state: LaneState, event: ProducerRegistered) -> Step:
        if self.rules.producer not in (None, event.producer):
            return state, [refusals.unknown_producer(self.name, self.rules.producer, event.producer)]
        known = state.producers.get(event.producer)
        if event.session is not None:
            return self._go_on(state, event, event.session, known)
        next_number = known.next_number if known else 1
        session = state.last_session + 1
        producer = Producer(session=session, next_number=next_number, seen_us=event.now_us)
        new = replace(
            _with_producer(state, event.producer, producer), last_session=session, last_activity_us=event.now_us
        )
        return new, [AnswerRegistration(session=session, next_number=next_number)]

    def _go_on(self, state: LaneState, event: ProducerRegistered, session: int, known: Producer | None) -> Step:
        if known is None or known.session != session:
            present = known.session if known else None
            return state, [refusals.session_expired(self.name, event.producer, session, present)]
        new = _with_producer(state, event.producer, replace(known, seen_us=event.now_us))
        answer = AnswerRegistration(session=session, next_number=known.next_number)
        return replace(new, last_activity_us=event.now_us), [answer]

    def _refuse_sender(self, state: LaneState, event: Entry) -> Refuse | None:
        """Why this client may not send this, whatever is in it; None if it may."""
        if event.producer is None:
            by_hand = isinstance(event, CloseArrived)
            if self.rules.producer is None or by_hand:
                return None
            return refusals.unknown_producer(self.name, self.rules.producer, None)
        if self.rules.producer not in (None, event.producer):
            return refusals.unknown_producer(self.name, self.rules.producer, event.producer)
        known = state.producers.get(event.producer)
        if known is None or event.session != known.session:
            present = known.session if known else None
            return refusals.session_expired(self.name, event.producer, event.session, present)
        if event.first is None or event.first < 1:
            return refusals.number_missing(self.name, event.producer, event.first, known.next_number)
        if isinstance(event, VoidsArrived) and not 1 <= event.count <= limits.VOIDS:
            return refusals.void_count(self.name, event.count)
        return None

    # --- entries ---------------------------------------------------------------------------------------------------

    def _enter(self, state: LaneState, event: Entry) -> Step:
        """What all entries share: may the client speak, what of it is new, is the lane open; then the entry itself."""
        refusal = self._refuse_sender(state, event)
        if refusal is not None:
            return state, [refusal]
        count = event.count if isinstance(event, RowsArrived | VoidsArrived) else 1
        expected = state.next_number if event.producer is None else state.producers[event.producer].next_number
        first = expected if event.producer is None or event.first is None else event.first
        if first > expected:
            return state, [refusals.number_gap(self.name, first, expected)]
        skip = min(count, expected - first)
        closed_again = state.closed and event.producer is None and isinstance(event, CloseArrived)
        if skip == count or closed_again:
            return _heard(state, event), [Answer(accepted_through=first + count - 1, next_number=expected)]
        if state.closed:
            return state, [refusals.lane_closed(self.name)]
        appended = self._append(state, event, skip, count - skip)
        if isinstance(appended, Refuse):
            return state, [appended]
        new, action = appended
        return _heard(new, event, count - skip), [action, _answer(action, first + count - 1)]

    def _append(self, state: LaneState, event: Entry, skip: int, count: int) -> tuple[LaneState, Append] | Refuse:
        match event:
            case RowsArrived():
                return self._append_rows(state, event, skip, count)
            case BoundaryArrived():
                return self._append_boundary(state, event)
            case VoidsArrived():
                return state, AppendVoids(first=state.next_number, count=count)
            case CloseArrived():
                return self._append_close(state)

    def _append_rows(
        self, state: LaneState, event: RowsArrived, skip: int, count: int
    ) -> tuple[LaneState, Append] | Refuse:
        stamped = stamp_rows(self.rules, state, event, skip)
        if isinstance(stamped, BadRow):
            return refusals.bad_row(self.name, stamped)
        numbers = np.arange(state.next_number, state.next_number + count, dtype=np.int64)
        return stamped.state, AppendRows(
            skip=skip,
            numbers=numbers,
            stamps=stamped.stamps,
            late=stamped.late,
            punctuation_us=self.punctuation(stamped.state),
        )

    def _append_boundary(self, state: LaneState, event: BoundaryArrived) -> tuple[LaneState, Append] | Refuse:
        if self.rules.producer is None and not self.rules.timed:
            return refusals.boundary_not_taken(self.name)
        if not MIN_TIME_US <= event.time_us < CLOSED_US:
            return refusals.boundary_range(self.name, event.time_us)
        return self._raise_boundary(state, event.time_us)

    def _raise_boundary(self, state: LaneState, time_us: int) -> tuple[LaneState, Append]:
        """A boundary below the present punctuation promises nothing new; it takes its number all the same."""
        if self.rules.timed:
            new = replace(state, boundary_us=max(state.boundary_us, time_us))
        else:
            new = replace(state, last_stamp_us=max(state.last_stamp_us, time_us))
        return new, AppendBoundary(number=state.next_number, punctuation_us=self.punctuation(new))

    def _append_close(self, state: LaneState) -> tuple[LaneState, Append]:
        new = replace(state, closed=True)
        return new, AppendClose(number=state.next_number, punctuation_us=self.punctuation(new))

    # --- the lane's own entries ------------------------------------------------------------------------------------

    def _tick(self, state: LaneState, now_us: int) -> Step:
        if state.closed:
            return state, []
        if not 0 < state.last_activity_us <= now_us:  # never heard, or the clock was set back
            return replace(state, last_activity_us=now_us), []
        appended = self._close_silent(state, now_us) if self.rules.producer else self._heartbeat(state, now_us)
        if appended is None:
            return state, []
        new, action = appended
        return replace(new, next_number=new.next_number + 1, last_entry_us=now_us), [action]

    def _close_silent(self, state: LaneState, now_us: int) -> tuple[LaneState, Append] | None:
        """A producer's lane says nothing by itself, except that it ends, if its silence was given a limit."""
        if self.rules.silence_us is None or now_us - state.last_activity_us < self.rules.silence_us:
            return None
        return self._append_close(state)

    def _heartbeat(self, state: LaneState, now_us: int) -> tuple[LaneState, Append] | None:
        """An owned lane follows its clock; with a time column only as far as ``idle`` allows."""
        if 0 <= now_us - state.last_entry_us < self.rules.boundary_interval_us:  # negative: the clock was set back
            return None
        time_us = now_us
        if self.rules.timed:
            if self.rules.idle_us is None or now_us - state.last_activity_us < self.rules.idle_us:
                return None
            time_us = now_us - self.rules.idle_us - self.rules.disorder_us
        if time_us <= self.punctuation(state):
            return None
        return self._raise_boundary(state, time_us)


def _heard(state: LaneState, event: Entry, count: int = 0) -> LaneState:
    """A client spoke, be it only to repeat itself; ``count`` new entries took their numbers, of the lane and of the
    client's own counting.

    On a producer's lane the two are the same, until the lane is closed by hand or for its silence: that entry is not
    the producer's, and a row that it sends under the same number is not a repetition.
    """
    producers, now_us = state.producers, event.now_us
    if event.producer is not None:
        known = producers[event.producer]
        spoke = Producer(session=known.session, next_number=known.next_number + count, seen_us=now_us)
        producers = {**producers, event.producer: spoke}
    return LaneState(
        next_number=state.next_number + count,
        last_stamp_us=state.last_stamp_us,
        max_time_us=state.max_time_us,
        boundary_us=state.boundary_us,
        closed=state.closed,
        last_session=state.last_session,
        last_activity_us=now_us,
        last_entry_us=now_us if count else state.last_entry_us,
        producers=producers,
    )


def _answer(action: Append, accepted_through: int) -> Answer:
    rows = action if isinstance(action, AppendRows) else None
    return Answer(
        accepted_through=accepted_through,
        next_number=accepted_through + 1,
        new_rows=len(rows.numbers) if rows else 0,
        late_rows=int(np.count_nonzero(rows.late)) if rows else 0,
    )


def _with_producer(state: LaneState, name: str, producer: Producer) -> LaneState:
    """Remember a producer; if there are too many, forget the one that was silent for longest."""
    producers = dict(state.producers)
    producers[name] = producer
    if len(producers) > limits.PRODUCERS:
        others = (other for other in producers if other != name)
        del producers[min(others, key=lambda other: (producers[other].seen_us, other))]
    return replace(state, producers=producers)
