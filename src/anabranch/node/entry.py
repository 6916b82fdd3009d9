"""An entry point: one source's lanes, wired to its store.

``core.Lane`` decides; this class gives it events with the clock, carries out its actions in one transaction together
with the new lane state, and answers only after the commit. Decisions are made one after the other, and may run ahead of
what is durable; those that are made while a transaction is synced share the next (``runtime/ingest/push_groups.py``).
Lanes of a source share one file. Whoever looks in sees what is durable.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from anabranch import failpoints, limits
from anabranch.core.lane import Lane
from anabranch.core.lane_messages import (
    Action,
    Answer,
    AnswerRegistration,
    ClockTicked,
    CloseArrived,
    EntryPointStarted,
    Event,
    ProducerRegistered,
    Refuse,
)
from anabranch.core.lane_state import LaneRules, LaneState
from anabranch.errors import ConfigError, DiskFull, NodeUnreachable, Overloaded, PushRefused
from anabranch.model.names import OWNED_LANE, Origins, lane_origin, late_stream
from anabranch.model.times import format_duration, format_time
from anabranch.node.arrivals import arrival
from anabranch.node.decided import Decided, append
from anabranch.node.part_reports import PartReports
from anabranch.node.pending import Pending, refuse_too_large, together
from anabranch.query.boxes import Source
from anabranch.runtime.ingest.horizon_gate import HeldRows, HorizonGate, latest_us
from anabranch.runtime.ingest.push_groups import PushGroups
from anabranch.runtime.status import HeldLaneStatus, LaneStatus, SourceStatus
from anabranch.storage import codec
from anabranch.storage.store import Store
from anabranch.transport.ports import Push, PushAnswer, Registration

Heard = Callable[[int], Event]
"""What somebody said to a lane, at a time of the entry point's clock."""


@dataclass(slots=True)
class _LaneSlot:
    """A lane with the state that the last committed transaction stored, and the one after all that was decided."""

    lane: Lane
    origin: str
    state: LaneState
    decided: LaneState

    def speaks_again(self, now_us: int) -> None:
        """Nobody was silent until now: nobody could speak."""
        self.decided, _ = self.lane.handle(self.decided, EntryPointStarted(now_us=now_us))


class EntryPoint:
    """Where the rows of one source enter this node."""

    def __init__(
        self,
        source: Source,
        store: Store,
        origins: Origins,
        *,
        schema: pa.Schema,
        clock: Callable[[], int],
        boundary_interval_us: int,
        intake_stopped: Callable[[], str | None],
        stopping: Callable[[], bool] = lambda: False,
        reports: PartReports | None = None,
    ) -> None:
        self.source = source
        self.store = store
        self.log = store.log(source.name)
        self.late = store.log(late_stream(source.name))
        self._origins = origins
        self._schema = schema
        self._stored_schema = codec.stored_schema(schema)
        self._clock = clock
        self._intake_stopped = intake_stopped
        self._stopping = stopping
        self._gate = None if reports is None else _gate(source, reports)
        self._ticked_us = clock()
        self._lock = threading.Lock()
        self._rows = 0
        self._bytes = 0
        self._late_rows = 0
        self._slots: dict[str, _LaneSlot] = {}
        self._groups = PushGroups[Pending]()
        for name in source.lanes:
            lane = Lane(name, LaneRules.of(source, name, boundary_interval_us=boundary_interval_us))
            stored = store.get(_key(name))
            state = LaneState.from_bytes(stored) if stored is not None else LaneState()
            state, _ = lane.handle(state, EntryPointStarted(now_us=clock()))
            self._slots[name] = _LaneSlot(lane, lane_origin(source.name, name), state, state)

    # --- what clients ask for --------------------------------------------------------------------------------------

    def register(self, producer: str, session: int | None = None) -> Registration:
        """A new session, or the one that the producer has, if it goes on here."""
        name = self._lane_of(producer)
        answer = self._handle(
            name, lambda now_us: ProducerRegistered(producer=producer, now_us=now_us, session=session), None
        )
        assert isinstance(answer, AnswerRegistration)
        return Registration(
            session=answer.session,
            next=answer.next_number,
            lane=name,
            schema=self._schema,
            time=self.source.time,
            stamp_us=self._slots[name].state.last_stamp_us,
        )

    def push(self, push: Push) -> PushAnswer:
        """All of the batch, durably, or an error and nothing of it."""
        stopped = self._intake_stopped()
        if stopped:
            raise DiskFull(
                stopped, remedy="Free space on the disk of the state directory; producers can then try again."
            )
        self._wait_room()
        answer = self._enter(push)
        return PushAnswer(
            through=answer.accepted_through,
            rows=answer.new_rows,
            repeated=push.count - answer.new_rows if push.kind == "rows" else 0,
            late=answer.late_rows,
        )

    def _enter(self, push: Push) -> Answer:
        """Rows that are too far ahead wait for the slowest origin, and are refused if it does not come."""
        lane = self._lane_of(push.producer)
        deadline: float | None = None
        while True:
            try:
                answer = self._handle(lane, lambda now_us: arrival(push, self.source, self._schema, now_us), push.rows)
                failpoints.reach("push.committed")
                assert isinstance(answer, Answer)
                return answer
            except _TooFarAhead as ahead:
                deadline = deadline or time.monotonic() + self._room_wait_s()
                if self._stopping():
                    raise _stopping_node() from None
                if time.monotonic() > deadline:
                    raise Overloaded(ahead.message, remedy=ahead.remedy) from None
            time.sleep(0.05)

    def close_lane(self, lane: str) -> None:
        if lane not in self._slots:
            raise ConfigError(
                f"Source {self.source.name!r} has no lane {lane!r}.", remedy=f"Its lanes: {', '.join(self._slots)}."
            )
        self._handle(lane, lambda now_us: CloseArrived(now_us=now_us), None)

    def tick(self) -> float:
        """Lets the lanes speak for themselves: boundaries of idle lanes, the end of silent ones. Returns the seconds
        until there may be something to say again.

        While rows are turned away, or wait at the horizon, or nobody was there to take them, no lane is silent: it
        could not speak. A CLOSE is for ever, so this must not be taken for the silence of its producer.
        """
        now_us = self._clock()
        stopped = self._intake_stopped() is not None
        unheard = stopped or self._is_full() or now_us - self._ticked_us > limits.AWAY_US
        self._ticked_us = now_us
        again_s = limits.LOOK_S
        for name, slot in self._slots.items():
            with self._lock:
                if unheard or self._held(slot) is not None:
                    slot.speaks_again(now_us)
            if not stopped:
                self._handle(name, lambda now_us: ClockTicked(now_us=now_us), None)
            due_s = self._due_s(slot, now_us)
            again_s = again_s if due_s is None else min(again_s, due_s)
        return max(again_s, limits.SOONEST_S)

    def _due_s(self, slot: _LaneSlot, now_us: int) -> float | None:
        """The seconds until the lane may have something to say by itself."""
        due_us = slot.lane.due_us(slot.decided)
        return None if due_us is None else (due_us - now_us) / 1_000_000

    # --- carrying out ----------------------------------------------------------------------------------------------

    def _handle(self, name: str, heard: Heard, rows: pa.RecordBatch | None) -> Answer | AnswerRegistration | None:
        """Answers when everything that the answer rests on is durable."""
        with self._lock:
            pending = self._decide(name, heard(self._clock()), rows)
            if not pending.actions or (isinstance(pending.reply, Refuse) and self._groups.is_idle):
                return pending.answer()
            self._groups.join(pending, pending.size)
            pending.group = self._groups.begin()
        if not pending.group:
            pending.wait()
        if pending.group:
            self._store_group(pending.group)
        return pending.answer()

    def _decide(self, name: str, event: Event, rows: pa.RecordBatch | None) -> Pending:
        """What the lane makes of the event, after all that was decided before."""
        slot = self._slots[name]
        state, actions = slot.lane.handle(slot.decided, event)
        pending = Pending(name, state, actions, rows)
        refuse_too_large(pending, self._stored_schema)
        self._check_horizon(slot, actions)
        slot.decided = state
        return pending

    def _store_group(self, group: Sequence[Pending]) -> None:
        """One transaction. Whoever came meanwhile has the next: its first member is woken to store it."""
        failure: BaseException | None = None
        try:
            decided = self._come_to(group)
            with self.store.transaction() as transaction:
                for name, each in decided.items():
                    append(transaction, self.source.name, self._slots[name].origin, each, now_us=self._clock())
                    transaction.put(_key(name), each.state.to_bytes())
                for _ in filter(lambda pending: pending.appended, group):
                    failpoints.reach("push.before_commit")
        except BaseException as error:
            failure = error
        with self._lock:
            over = self._groups.end() if failure is None else self._groups.fail()
            if failure is None:
                self._are_durable(decided)
            else:
                self._go_back()
            following = self._groups.begin()
            if following:
                following[0].group = following
        for pending in over:
            if failure is not None:
                pending.fail(failure)
            if pending is not group[0]:
                pending.ring()
        if following:
            following[0].ring()
        if failure is not None and not isinstance(failure, Exception):
            raise failure

    def _come_to(self, group: Sequence[Pending]) -> dict[str, Decided]:
        """What the decisions of a group come to, for each lane."""
        by_lane: dict[str, list[Pending]] = {}
        for pending in group:
            by_lane.setdefault(pending.lane, []).append(pending)
        origins = {name: self._slots[name].origin for name in by_lane}
        return {
            name: together(of_lane, self._stored_schema, origins[name], self._origins.code(origins[name]))
            for name, of_lane in by_lane.items()
        }

    def _are_durable(self, decided: Mapping[str, Decided]) -> None:
        for name, each in decided.items():
            self._slots[name].state = each.state
            self._count(each)

    def _go_back(self) -> None:
        """To what is durable. Whoever spoke since then was not heard, which is nobody's silence."""
        for slot in self._slots.values():
            slot.decided = slot.state
            slot.speaks_again(self._clock())

    def _lane_of(self, producer: str | None) -> str:
        if not self.source.producers:
            return OWNED_LANE
        if producer not in self._slots:
            who = producer or "a plain client"
            raise PushRefused(
                f"Source {self.source.name!r} accepts rows only from its producers, not from {who}.",
                remedy=f"Its producers: {', '.join(self._slots)}.",
            )
        return producer

    def _check_horizon(self, slot: _LaneSlot, actions: Sequence[Action]) -> None:
        """Back-pressure: what is beyond the horizon does not enter."""
        gate, latest = self._gate, latest_us(actions) if self._gate is not None else None
        if gate is None or latest is None:
            return
        if gate.lets_in(slot.lane.name, slot.lane.punctuation(slot.decided), latest, self._clock()):
            return
        slowest, horizon = gate.slowest(), format_duration(self.source.horizon_us or 0)
        raise _TooFarAhead(
            f"Lane {slot.lane.name!r} of source {self.source.name!r} is at {format_time(latest)}, and so more than its "
            f"horizon of {horizon} ahead of {slowest.origin}, which is at {format_time(slowest.time_us)}.",
            remedy=f"Try again later: the rows enter when {slowest.origin} has caught up. If it has nothing more to "
            "send, close it with 'anabranch source close'.",
        )

    def _held(self, slot: _LaneSlot) -> HeldRows | None:
        """What the lane waits with at the horizon."""
        if self._gate is None:
            return None
        return self._gate.held(slot.lane.name, slot.lane.punctuation(slot.decided), self._clock())

    def _wait_room(self) -> None:
        """Back-pressure: a full log makes the push wait, then refuses it."""
        if not self._is_full():
            return
        deadline = time.monotonic() + self._room_wait_s()
        while self._is_full():
            if self._stopping():
                raise _stopping_node()
            if time.monotonic() > deadline:
                raise Overloaded(
                    f"The log of {self.source.name!r} or its late rows is full: its slowest reader does not keep up.",
                    remedy="Try again later; see 'anabranch status' for the readers and their lag.",
                )
            time.sleep(0.05)

    def _room_wait_s(self) -> float:
        return limits.PUSH_WAIT_S

    def _is_full(self) -> bool:
        """Rows may go to either log: nobody knows before they are stamped."""
        return self.log.is_full() or self.late.is_full()

    # --- looking in ------------------------------------------------------------------------------------------------

    def _count(self, decided: Decided) -> None:
        """With the lock."""
        for each in (*decided.rows, *decided.late):
            self._rows += each.count
            self._bytes += len(each.body)
        self._late_rows += sum([each.count for each in decided.late])

    def statistics(self) -> SourceStatus:
        """Rows and bytes in since the start, and each lane's number, punctuation and silence."""
        now_us = self._clock()
        lanes = {
            lane_origin(self.source.name, name): LaneStatus(
                next_number=slot.state.next_number,
                punctuation_us=slot.lane.punctuation(slot.state),
                silent_us=max(0, now_us - slot.decided.last_activity_us),
                closed=slot.state.closed,
                held=self._held_status(slot),
            )
            for name, slot in self._slots.items()
        }
        return SourceStatus(rows_in=self._rows, bytes_in=self._bytes, late_rows=self._late_rows, lanes=lanes)

    def _held_status(self, slot: _LaneSlot) -> HeldLaneStatus | None:
        if self._gate is None:
            return None
        with self._lock:
            held = self._held(slot)
            slowest = self._gate.slowest()
        if held is None:
            return None
        return HeldLaneStatus(origin=slowest.origin, punctuation_us=slowest.time_us, latest_us=held.latest_us)


class _TooFarAhead(Overloaded):
    """Rows have to wait at the horizon."""


def _stopping_node() -> NodeUnreachable:
    return NodeUnreachable("The node is stopping.", remedy="Send the rows again when it is back.")


def _gate(source: Source, reports: PartReports) -> HorizonGate:
    return HorizonGate(partial(reports.may_enter, source.name), partial(reports.waits_for, source.name))


def _key(lane: str) -> str:
    return f"lane/{lane}"
