"""An entry point that shares the lanes of its source with peers.

``core.Lane`` decides what enters, at the entry point that leads the lane. A push is decided and stored as an entry of
the shared lane (``LaneReplica``), given to the peers (``Peers``), and answered when a majority has it: only then is it
appended to the log of the source, here and at the peers. What is decided about a lane while its last entry waits for a
majority becomes one entry, the next. The state of the lane travels in the entries, so that whoever leads next goes on
from the last one.

One lock for all lanes of the source, as in any entry point; who waits for its peers lets it go.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from anabranch import limits
from anabranch.core.elections import Elections
from anabranch.core.lane_messages import (
    Answer,
    AnswerRegistration,
    ClockTicked,
    CloseArrived,
    Event,
    ProducerRegistered,
    Refuse,
)
from anabranch.core.lane_state import LaneState
from anabranch.core.roll_call import Met, Roll
from anabranch.core.shared_lane import Message, SharedLane
from anabranch.errors import NodeUnreachable, NotLeading, Overloaded
from anabranch.model.names import OWNED_LANE, Origins, lane_origin
from anabranch.model.punctuation import Punctuations
from anabranch.node.entry import EntryPoint, Heard
from anabranch.node.kept_lane import Held, KeptLane
from anabranch.node.kept_roll import KeptRoll
from anabranch.node.part_reports import PartReports
from anabranch.node.pending import Pending, together
from anabranch.query.boxes import Source
from anabranch.runtime.ingest.lane_letters import LaneLetters
from anabranch.runtime.ingest.lane_replica import Handled, Keeping, LaneReplica
from anabranch.runtime.ingest.membership import Membership
from anabranch.runtime.ingest.push_groups import PushGroups
from anabranch.runtime.status import SharedLaneStatus, SourceStatus
from anabranch.storage.store import Store

_NOT_BEGUN: Final = SharedLaneStatus(state="beginning", leader=None, term=0, held=0, released=0, kept=0, peers={})


Replica = LaneReplica[Held, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What an entry point must know to share lanes.

    ``token`` is that of the state directory. ``fed`` says that the feed of the source runs here, and nowhere else: it
    takes its lanes along, also an owned one. ``wake`` is called with a peer that is to be told something, and within
    how many seconds; ``look`` with the seconds within which the lanes are to be looked after; ``renew`` with a stream
    and times below which tuples will be missing in it; ``kept`` says which readers of a stream cannot go on then;
    ``rebuild`` is called with the reason why this node cannot.
    """

    name: str
    peers: tuple[str, ...]
    token: str
    fed: bool
    wake: Callable[[str, float], None]
    look: Callable[[float], None]
    renew: Callable[[str, Punctuations], None]
    kept: Callable[[str], Set[str]]
    rebuild: Callable[[str], None]


class _Clock:
    """Time and chance of a lane: a clock that nobody sets, and a housekeeper that looks after the lanes."""

    def __init__(self, look_within: Callable[[float], None]) -> None:
        self.look_within = look_within
        self.chance = random.random

    def now_us(self) -> int:
        return time.monotonic_ns() // 1_000


class SharedEntryPoint(EntryPoint):
    """Where the rows of one source enter this node, among others."""

    def __init__(
        self,
        source: Source,
        store: Store,
        origins: Origins,
        sharing: Sharing,
        *,
        schema: pa.Schema,
        clock: Callable[[], int],
        boundary_interval_us: int,
        intake_stopped: Callable[[], str | None],
        stopping: Callable[[], bool] = lambda: False,
        reports: PartReports | None = None,
    ) -> None:
        super().__init__(
            source,
            store,
            origins,
            schema=schema,
            clock=clock,
            boundary_interval_us=boundary_interval_us,
            intake_stopped=intake_stopped,
            stopping=stopping,
            reports=reports,
        )
        self.form: Final = _form(source, schema)
        self._sharing = sharing
        self._changed = threading.Condition(self._lock)
        self._letters = LaneLetters[Held, bytes](sharing.peers, wake=sharing.wake, room=limits.LETTER_BYTES)
        self._replicas = self._letters.replicas
        self._disks: dict[str, KeptLane] = {}
        self._sharers: dict[str, PushGroups[Pending]] = {}
        """Of each lane, what is decided and not released."""
        self._closed = False
        self._membership = Membership(
            KeptRoll(source, store), name=sharing.name, token=sharing.token, peers=sharing.peers
        )
        if self._membership.has_begun:
            self._open_lanes()

    def _open_lanes(self) -> None:
        self._letters.begin({name: self._open_lane(name) for name in self.source.lanes})
        for replica in self._replicas.values():
            self._set_state(replica, self._state_at(replica, replica.copy.released))

    def _open_lane(self, name: str) -> Replica:
        sharing = self._sharing
        self._sharers[name] = PushGroups()
        disk = self._disks[name] = KeptLane(
            self.source.name,
            name,
            self.store,
            clock=self._clock,
            released=self._count,
            renew=sharing.renew,
            kept=sharing.kept,
            rebuild=sharing.rebuild,
        )
        return LaneReplica(
            name,
            SharedLane(sharing.name, sharing.peers, disk.is_same),
            Elections(self._slots[name].lane.rules.speaks_every_us),
            disk,
            _Clock(sharing.look),
            tell=partial(self._letters.tell, name),
            all_kept_bytes=lambda: sum([replica.kept_bytes for replica in self._replicas.values()]),
            keeping=Keeping(entries=limits.LANE_KEPT_ENTRIES, all_bytes=limits.LANE_KEPT_BYTES),
        )

    def close(self) -> None:
        """The node is stopping: nobody waits any longer."""
        with self._lock:
            self._closed = True
            for name in self._replicas:
                self._fail(name, self._not_released(name))
            self._changed.notify_all()

    # --- beginning -------------------------------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether it takes part: once it does, it does for ever."""
        return self._membership.has_begun

    def greets(self, peer: str) -> Met | None:
        """What this entry point, if it has not begun, says to a peer."""
        with self._lock:
            return self._membership.says(peer)

    def greeted(self, name: str, said: Met) -> Roll:
        """Another entry point told what it begins; the answer is durable."""
        with self._lock:
            return self._membership.greeted(name, said)

    def answered(self, peer: str, roll: Roll) -> None:
        """A peer has written down what this entry point begins."""
        with self._lock:
            if self._membership.answered(peer, roll):
                self._open_lanes()
                self._changed.notify_all()

    # --- what clients ask for --------------------------------------------------------------------------------------

    def _handle(self, name: str, heard: Heard, rows: pa.RecordBatch | None) -> Answer | AnswerRegistration | None:
        """Answers when everything that the answer rests on is released."""
        with self._lock:
            event = heard(self._clock())
            replica = self._wait_lead(name, event)
            self._wait_held_room()
            if not replica.leads:
                raise self._not_leading(name)
            pending = self._decide(name, event, rows)
            pending.stores = pending.stores or (isinstance(event, ProducerRegistered) and event.session is None)
            groups = self._sharers[name]
            if not pending.stores and groups.is_idle and replica.is_settled:
                return pending.answer()
            self._share(replica, pending)
        self._wait_released(replica, pending)
        return pending.answer()

    def _share(self, replica: Replica, pending: Pending) -> None:
        """It waits for its release, with others."""
        self._sharers[replica.name].join(pending, pending.size)
        self._enter_next(replica)

    def _enter_next(self, replica: Replica) -> None:
        """What was decided while the last entry was under way is the next, if there is anything to store."""
        name = replica.name
        group = self._sharers[name].begin()
        if not group:
            return
        try:
            if any(pending.stores for pending in group):
                origin = self._slots[name].origin
                decided = together(group, self._stored_schema, origin, self._origins.code(origin))
                handled = replica.enter(Held(self._disks[name], decided.to_bytes(), decided=decided))
            else:
                handled = Handled()
        except BaseException as error:
            self._fail(name, error)
            self._slots[name].decided = self._state_at(replica, replica.copy.held)
            raise
        replica.closed = group[-1].state.closed
        self._sharers[name].stands_at(replica.copy.held)
        self._follow_up(replica, handled)

    def _answer_released(self, replica: Replica) -> None:
        """Those whose group is released are answered, and the next group begins."""
        answered = self._sharers[replica.name].released(replica.copy.released)
        for pending in answered:
            pending.ring()
        if answered:
            self._enter_next(replica)

    def _fail(self, name: str, error: BaseException) -> None:
        for pending in self._sharers[name].fail():
            pending.fail(error)
            pending.ring()

    def _wait_lead(self, name: str, event: Event) -> Replica:
        """The lane, when this entry point leads it, or has waited for it long enough.

        A producer that registers takes its lane along, and a feed any lane. Anybody else is sent to who leads; if
        nobody was heard to lead, this entry point asks to, and finds out whether somebody does.
        """
        replica = self._replicas.get(name)
        if replica is None:
            raise self._not_leading(name)
        if replica.leads:
            return replica
        registers = isinstance(event, ProducerRegistered)
        takes_along = registers and (name != OWNED_LANE or self._sharing.fed)
        speaks_here = registers or name == OWNED_LANE or isinstance(event, CloseArrived)
        may_ask = takes_along or (speaks_here and not replica.leader_lives())
        if replica.copy.learns or not may_ask:
            raise self._not_leading(name)
        self._refuse_outdated(name, event)
        replica.client_came(takes_over=takes_along)

        def is_clear() -> bool:
            another_leads = not takes_along and replica.leader_lives()
            return replica.leads or another_leads or self._stopping()

        self._changed.wait_for(is_clear, limits.LEAD_WAIT_S)
        return replica

    def _refuse_outdated(self, name: str, event: Event) -> None:
        """A producer that was replaced does not take the lane from the one that replaced it."""
        if not isinstance(event, ProducerRegistered) or event.session is None:
            return
        slot = self._slots[name]
        known = slot.state.producers.get(event.producer)
        if known is not None and known.session > event.session:
            _, actions = slot.lane.handle(slot.state, event)
            for action in actions:
                if isinstance(action, Refuse):
                    raise action.error()

    def _not_leading(self, name: str) -> NotLeading:
        where = f"Lane {name!r} of source {self.source.name!r}"
        replica = self._replicas.get(name)
        if replica is None:
            waits = ", ".join(self._membership.waits_for)
            return NotLeading(
                f"{where} cannot be led here until the other entry points have been heard from: {waits}.",
                remedy="Start them, or try again when they are up.",
            )
        if replica.copy.learns:
            return NotLeading(
                f"{where} cannot be led here: this entry point lost its disk and is still learning what the "
                "others have.",
                remedy="Try another entry point of the source.",
            )
        leader = replica.copy.leader
        if leader not in (None, self._sharing.name):
            return NotLeading(f"{where} is led by entry point {leader}.", remedy="Push there.")
        return NotLeading(
            f"{where} has no leader that a majority of its entry points agrees on.",
            remedy="Try another entry point of the source, or try again later.",
        )

    def _room_wait_s(self) -> float:
        """A client that knows others soon takes one that does not answer for lost."""
        return limits.LEAD_WAIT_S

    def _wait_held_room(self) -> None:
        """Back-pressure: what waits for a majority is bounded."""
        if not self._has_held_room() and not self._changed.wait_for(self._has_held_room, limits.LEAD_WAIT_S):
            raise Overloaded(
                f"Too much data of source {self.source.name!r} is waiting for a majority of its entry points.",
                remedy="Try again later; 'anabranch status' shows which entry points cannot be reached.",
            )

    def _has_held_room(self) -> bool:
        held = sum([replica.held_bytes for replica in self._replicas.values()])
        return held + sum([groups.gathered_size for groups in self._sharers.values()]) < limits.LANE_HELD_BYTES

    def _wait_released(self, replica: Replica, pending: Pending) -> None:
        """Those that were asked first may take a while; then all are asked. A group that has not begun asks nobody."""
        if self._closed:
            raise self._not_released(replica.name)
        deadline = time.monotonic() + limits.RELEASE_WAIT_S
        while (left_s := deadline - time.monotonic()) > 0:
            if pending.wait(min(left_s, replica.patience_s)):
                return
            with self._lock:
                if pending in self._sharers[replica.name].under_way:
                    replica.ask_all()
                    break
        if not pending.wait(max(0.0, deadline - time.monotonic())):
            if not pending.stores:
                with self._lock:
                    self._sharers[replica.name].leave(pending)
            raise self._not_released(replica.name)

    def _not_released(self, name: str) -> NodeUnreachable:
        return NodeUnreachable(
            f"No majority of the entry points of {self.source.name!r} confirmed the entry. It may or may not "
            f"be in lane {name!r}.",
            remedy="Send it again with the same number, here or to another entry point.",
        )

    # --- the clock -------------------------------------------------------------------------------------------------

    def tick(self) -> float:
        """Who leads lets its lanes speak for themselves; who misses a leader asks to lead.

        A lane of which something waits for a majority says nothing more by itself, and nobody's silence counts there.
        """
        now_us = self._clock()
        stopped = self._intake_stopped() is not None
        unheard = stopped or self._is_full() or now_us - self._ticked_us > limits.AWAY_US
        self._ticked_us = now_us
        again_s = limits.LOOK_S
        for name, replica in list(self._replicas.items()):
            with self._lock:
                slot = self._slots[name]
                self._follow_up(replica, replica.show_news())
                due_s = replica.look_after()
                if replica.leads:
                    is_quiet = replica.is_settled and self._sharers[name].is_idle
                    if unheard or not is_quiet or self._held(slot) is not None:
                        slot.speaks_again(now_us)
                    if is_quiet and not stopped:
                        said = self._decide(name, ClockTicked(now_us=now_us), None)
                        if said.stores:
                            self._share(replica, said)
                    due_s = self._due_s(slot, now_us)
                again_s = again_s if due_s is None else min(again_s, due_s)
        return max(again_s, limits.SOONEST_S)

    # --- peers -----------------------------------------------------------------------------------------------------

    def letter(self, peer: str, *, reminder: bool) -> tuple[list[tuple[str, Message[bytes]]], bool]:
        """What this peer is to be told now, lane by lane; with ``reminder`` also where there are no news. And whether
        it is reminded by that of all that it is owed."""
        with self._lock:
            return self._letters.letter(peer, reminder=reminder)

    def answered_by(self, peer: str, answers: Sequence[tuple[str, Message[bytes]]]) -> bool:
        """What this peer said to a letter. Returns whether it is to be reminded of anything."""
        with self._lock:
            for name, message in answers:
                self._heard(name, message)
            return self._letters.owes(peer)

    def heard(self, name: str, message: Message[bytes]) -> Sequence[Message[bytes]]:
        """From a peer. What is answered is durable."""
        with self._lock:
            return self._heard(name, message)

    def _heard(self, name: str, message: Message[bytes]) -> Sequence[Message[bytes]]:
        replica = self._replicas.get(name)
        if replica is None:
            raise self._not_leading(name)
        handled = replica.heard(message, has_room=self._takes_entries)
        self._follow_up(replica, handled)
        return handled.answers

    def _takes_entries(self) -> bool:
        return self._intake_stopped() is None and not self._is_full()

    def _state_at(self, replica: Replica, place: int) -> LaneState:
        return self._disks[replica.name].state_at(replica.copy, place)

    def _set_state(self, replica: Replica, state: LaneState) -> None:
        slot = self._slots[replica.name]
        slot.state = slot.decided = state
        replica.closed = state.closed

    def _follow_up(self, replica: Replica, handled: Handled[bytes]) -> None:
        """Who begins to lead goes on from the last entry; who follows shows what is released."""
        slot = self._slots[replica.name]
        if handled.won:
            slot.decided = self._state_at(replica, replica.copy.held)
            slot.speaks_again(self._clock())
            replica.closed = slot.decided.closed
            self._sharing.look(0.0)
        elif handled.lost:
            if self._gate is not None:
                self._gate.forget(replica.name)
            self._fail(replica.name, self._not_released(replica.name))
            self._set_state(replica, self._state_at(replica, replica.copy.released))
        if handled.released and replica.leads:
            slot.state = self._disks[replica.name].shown
        elif handled.released and not handled.lost:
            self._set_state(replica, self._disks[replica.name].shown)
        self._answer_released(replica)
        self._changed.notify_all()

    # --- looking in ------------------------------------------------------------------------------------------------

    def statistics(self) -> SourceStatus:
        """With who leads each lane, in which term, and how much of it is held and released here."""
        found = super().statistics()
        lanes = dict(found.lanes)
        for name in self.source.lanes:
            replica, origin = self._replicas.get(name), lane_origin(self.source.name, name)
            lanes[origin] = replace(lanes[origin], shared=_NOT_BEGUN if replica is None else replica.statistics())
        return replace(found, lanes=lanes)


def _form(source: Source, schema: pa.Schema) -> str:
    """What entry points must have in common to share lanes."""
    columns = ", ".join(f"{field.name} {field.type}" for field in schema)
    return f"{source.name} ({columns}) time {source.time}, disorder {source.disorder_us}, lanes {list(source.lanes)}"
