"""An entry point that shares the lanes of its source with peers.

``core.Lane`` decides what enters, at the entry point that leads the lane; ``core.SharedLane`` decides who leads, and
when a majority holds what was decided. Here both are wired to the store. A push is decided and stored as an entry,
given to the peers by ``Peers``, and answered when it is released: only then is it appended to the log of the source,
here and at the peers. The state of the lane travels in the entries, so that whoever leads next goes on from the last
one.

One transaction holds the copy of the lane and the logs with what is released of it. One lock for all lanes of the
source, as in any entry point; who waits for its peers lets it go.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from anabranch import limits
from anabranch.core import roll_call
from anabranch.core import shared_lane as lanes
from anabranch.core.lane_messages import (
    Action,
    Answer,
    AnswerRegistration,
    AppendBoundary,
    AppendClose,
    AppendRows,
    AppendVoids,
    ClockTicked,
    CloseArrived,
    EntryPointStarted,
    Event,
    ProducerRegistered,
    Refuse,
)
from anabranch.core.lane_state import LaneState
from anabranch.core.roll_call import Beginning, Met, Roll
from anabranch.core.shared_lane import LaneCopy, Leading, SharedLane
from anabranch.errors import NodeUnreachable, NotLeading, Overloaded, StateError, check
from anabranch.model.names import OWNED_LANE, Origins, lane_origin, late_stream
from anabranch.model.punctuation import Punctuations
from anabranch.node import kept_lane
from anabranch.node.decided import Decided
from anabranch.node.entry import EntryPoint
from anabranch.node.kept_lane import Copy, Held
from anabranch.query.boxes import Source
from anabranch.storage import codec
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

TRIM_ENTRIES: Final = 64
TRIM_BYTES: Final = 4 << 20
"""Entries that nobody needs are removed when there are so many, or so large: each removal reads one of them again."""

_ROLL: Final = "entry points"
_BEGUN: Final = "entry point begun"

Message = lanes.Message[bytes]


@dataclass(slots=True, eq=False)
class _Waiting:
    """Someone who waits for an entry to be released: True when it is, False when nobody knows."""

    place: int
    released: bool | None = None


@dataclass(slots=True)
class _Shared:
    """One lane: the copy that is stored, and what is only in memory."""

    rules: SharedLane[Held]
    copy: Copy
    kept_bytes: int = 0
    leading: Leading | None = None
    heard_s: float = 0.0
    """When a leader was last heard of, or one who may become it."""
    leader_heard: bool = False
    """Whether a leader was heard of since the start, or this one led itself."""
    asked_s: float | None = None
    """When a peer last asked to be taught."""
    patience_s: float = 0.0
    waiting: list[_Waiting] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        return self.leading is not None and self.leading.elected


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What an entry point must know to share lanes.

    ``token`` is that of the state directory. ``wake`` is called with a peer that is to be told something; ``renew``
    with a stream and times below which tuples will be missing in it; ``kept`` says which readers of a stream cannot go
    on then; ``rebuild`` is called with the reason why this node cannot.
    """

    name: str
    peers: tuple[str, ...]
    token: str
    wake: Callable[[str], None]
    renew: Callable[[str, Punctuations], None]
    kept: Callable[[str], Set[str]]
    rebuild: Callable[[str], None]


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
        )
        self.form: Final = _form(source, schema)
        self._sharing = sharing
        self._stored_schema = codec.stored_schema(schema)
        self._changed = threading.Condition(self._lock)
        self._due: dict[str, set[str]] = {peer: set() for peer in sharing.peers}
        """Per peer, the lanes of which it is to be told."""
        self._looked_s = time.monotonic()
        self._roll: Roll = _roll_of(store.get(_ROLL))
        begun = store.get(_BEGUN)
        if begun is None and store.get(f"lane/{source.lanes[0]}") is not None:
            raise StateError(
                f"Source {source.name!r} took rows here before it had other entry points.",
                remedy="Give the deployment a new state directory.",
            )
        self._beginning: Beginning | None = None
        self._shared: dict[str, _Shared] = {}
        if begun is None:
            self._beginning = Beginning(name=sharing.name, token=sharing.token, peers=sharing.peers)
        else:
            self._open_lanes()

    def _open_lanes(self) -> None:
        opened: dict[str, _Shared] = {}
        for lane in self.source.lanes:
            copy = kept_lane.load(self.store, lane)
            check(copy is not None, f"Lane {lane!r} of {self.source.name!r} is not there.")
            assert copy is not None
            rules: SharedLane[Held] = SharedLane(self._sharing.name, self._sharing.peers)
            kept_bytes = sum(entry.content.size for entry in copy.entries)
            patience_s = _patience_s(first=copy.term == 0)
            opened[lane] = _Shared(rules, copy, kept_bytes, heard_s=time.monotonic(), patience_s=patience_s)
            self._slots[lane].state = self._state_at(copy, copy.released)
        self._shared = opened

    # --- beginning -------------------------------------------------------------------------------------------------

    def greets(self, peer: str) -> Met | None:
        """What this entry point, which has not begun, says to a peer; None if it has begun."""
        with self._lock:
            beginning = self._beginning
            return beginning.says if beginning is not None and peer not in beginning.agreed else None

    def greeted(self, name: str, said: Met) -> Roll:
        """An entry point that has not begun told what it begins. It is written down before it is answered."""
        with self._lock:
            roll = roll_call.greet(self._roll, name, said)
            self._write_roll(roll)
            return roll

    def answered(self, peer: str, roll: Roll) -> None:
        """A peer has written down what this entry point begins."""
        with self._lock:
            if self._beginning is None:
                return
            beginning = self._beginning.answered(peer, roll[self._sharing.name])
            self._write_roll(roll_call.merged(self._roll, roll))
            if beginning.may_begin:
                self._begin(beginning)
                self._beginning = None
            else:
                self._beginning = beginning
            self._changed.notify_all()

    def _write_roll(self, roll: Roll) -> None:
        if roll != self._roll:
            with self.store.transaction() as transaction:
                transaction.put(_ROLL, _roll_bytes(roll))
            self._roll = roll

    def _begin(self, beginning: Beginning) -> None:
        name, life = self._sharing.name, beginning.life
        copy: Copy = LaneCopy.lost(name, life) if beginning.lost_its_disk else LaneCopy(lives={name: life})
        with self.store.transaction() as transaction:
            for lane in self.source.lanes:
                kept_lane.save(transaction, lane, LaneCopy(), copy)
            transaction.put(_BEGUN, str(life).encode())
        self._open_lanes()

    # --- what clients ask for --------------------------------------------------------------------------------------

    def _handle(self, name: str, event: Event, rows: pa.RecordBatch | None) -> Answer | AnswerRegistration | None:
        """Answers when everything that the answer rests on is released. Called with the lock, which it lets go."""
        shared = self._wait_lead(name, event)
        if shared.leads:
            self._wait_held_room()
        if not shared.leads:
            raise self._not_leading(name)
        answer = self._decide(name, event, rows)
        self._wait_released(name, shared)
        return answer

    def _decide(self, name: str, event: Event, rows: pa.RecordBatch | None) -> Answer | AnswerRegistration | None:
        """What the lane makes of the event is stored as its next entry, if there is anything to store."""
        slot = self._slots[name]
        state, actions = slot.lane.handle(slot.state, event)
        for action in actions:
            if isinstance(action, Refuse):
                raise action.error()
        begins_session = isinstance(event, ProducerRegistered) and event.session is None
        appends = [action for action in actions if isinstance(action, _APPENDS)]
        if appends or begins_session:
            decided = self._decided(name, state, appends[0] if appends else None, rows)
            self._about(name, lanes.Entered(contents=(Held(body=decided.to_bytes()),)))
        slot.state = state
        return next((a for a in actions if isinstance(a, Answer | AnswerRegistration)), None)

    def _decided(self, name: str, state: LaneState, action: Action | None, rows: pa.RecordBatch | None) -> Decided:
        match action:
            case AppendRows():
                assert rows is not None
                stamped = self._stamped(action, rows, lane_origin(self.source.name, name))
                whole = pa.RecordBatch.from_arrays(stamped.columns, schema=self._stored_schema)
                codec.split(
                    whole, self._stored_schema
                )  # a row that is too large is refused now, not when it is released
                late = whole.filter(pa.array(action.late)) if action.late.any() else None
                punctual = whole if late is None else whole.filter(pa.array(~action.late))
                return Decided(
                    state=state,
                    rows=punctual if punctual.num_rows else None,
                    late=late,
                    promise_us=action.punctuation_us,
                )
            case AppendBoundary(punctuation_us=time_us) | AppendClose(punctuation_us=time_us):
                return Decided(state=state, promise_us=time_us, late_promise_us=time_us)
            case _:
                return Decided(state=state)

    def _wait_lead(self, name: str, event: Event) -> _Shared:
        """The lane, when this entry point leads it, or has waited for it long enough.

        A producer that registers takes its lane along. Anybody else is sent to who leads; if that one is silent, this
        entry point asks to lead in its place.
        """
        if self._beginning is not None:
            raise self._not_leading(name)
        shared = self._shared[name]
        if shared.leads:
            return shared
        registers = isinstance(event, ProducerRegistered)
        takes_along = registers and name != OWNED_LANE
        silent = not shared.leader_heard or time.monotonic() - shared.heard_s > limits.SILENT_S
        may_ask = takes_along or (silent and (registers or name == OWNED_LANE or isinstance(event, CloseArrived)))
        if shared.copy.learns or not may_ask:
            raise self._not_leading(name)
        if shared.leading is None:
            self._about(name, lanes.LeadWanted())
        self._changed.wait_for(lambda: shared.leads or self._stopping(), limits.LEAD_WAIT_S)
        return shared  # which it leads now, or not

    def _not_leading(self, name: str) -> NotLeading:
        where = f"Lane {name!r} of source {self.source.name!r}"
        if self._beginning is not None:
            waits = ", ".join(sorted(set(self._sharing.peers) - self._beginning.agreed))
            return NotLeading(
                f"{where} cannot be led here before the other entry points have been heard of: {waits}.",
                remedy="Start them, or try again when they are there.",
            )
        shared = self._shared[name]
        if shared.copy.learns:
            return NotLeading(
                f"{where} cannot be led here: this entry point lost its disk and learns what the others have.",
                remedy="Try another entry point of the source.",
            )
        leader = shared.copy.leader
        if leader not in (None, self._sharing.name):
            return NotLeading(f"{where} is led by entry point {leader}.", remedy="Push there.")
        return NotLeading(
            f"{where} has no leader that a majority of its entry points agrees on.",
            remedy="Try another entry point of the source, or again later.",
        )

    def _wait_held_room(self) -> None:
        """Back-pressure: what waits for a majority is bounded."""
        if not self._changed.wait_for(self._has_held_room, limits.LEAD_WAIT_S):
            raise Overloaded(
                f"Too much of source {self.source.name!r} waits for a majority of its entry points.",
                remedy="Try again later; see 'anabranch status' for who is away.",
            )

    def _has_held_room(self) -> bool:
        held = sum(
            entry.content.size
            for shared in self._shared.values()
            for entry in shared.copy.between(shared.copy.released, shared.copy.held)
        )
        return held < limits.LANE_HELD_BYTES

    def _wait_released(self, name: str, shared: _Shared) -> None:
        place = shared.copy.held
        if shared.copy.released >= place:
            return
        waiting = _Waiting(place)
        shared.waiting.append(waiting)
        try:
            self._changed.wait_for(lambda: waiting.released is not None or self._stopping(), limits.LEAD_WAIT_S)
        finally:
            if waiting in shared.waiting:
                shared.waiting.remove(waiting)
        if not waiting.released:
            raise NodeUnreachable(
                f"No majority of the entry points of {self.source.name!r} was heard to hold the entry. "
                f"It may be in lane {name!r} or not.",
                remedy="Send it again under its number, here or at another entry point.",
            )

    def close(self) -> None:
        """The node is stopping: nobody waits any longer."""
        with self._lock:
            self._changed.notify_all()

    # --- the clock -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Who leads lets its lanes speak for themselves; who has heard of no leader for long asks to lead.

        A lane of which something waits for a majority says nothing more by itself, and nobody's silence counts there.
        """
        now_us, now_s = self._clock(), time.monotonic()
        stopped = self._intake_stopped() is not None
        away = now_us - self._ticked_us > limits.AWAY_US
        slept = now_s - self._looked_s > limits.SILENT_S
        self._ticked_us, self._looked_s = now_us, now_s
        unheard = stopped or away or self._is_full()
        for name, shared in list(self._shared.items()):
            with self._lock:
                if slept:
                    shared.heard_s = now_s
                if shared.leads:
                    settled = shared.copy.held == shared.copy.released
                    if unheard or not settled:
                        slot = self._slots[name]
                        slot.state, _ = slot.lane.handle(slot.state, EntryPointStarted(now_us=now_us))
                    if settled and not stopped:
                        self._decide(name, ClockTicked(now_us=now_us), None)
                elif self._wants_leader(name, shared) and now_s - shared.heard_s > shared.patience_s:
                    shared.heard_s, shared.patience_s = now_s, _patience_s()
                    self._about(name, lanes.LeadWanted())

    def _wants_leader(self, name: str, shared: _Shared) -> bool:
        """Where a lane speaks for itself, somebody must let it; and somebody must finish what was begun, and teach."""
        if shared.copy.learns:
            return False
        asked = shared.asked_s is not None and time.monotonic() - shared.asked_s < 2 * limits.SILENT_S
        speaks = name == OWNED_LANE or self.source.silence_us is not None
        return speaks or asked or shared.copy.held > shared.copy.released

    # --- peers -----------------------------------------------------------------------------------------------------

    def letter(self, peer: str, *, reminder: bool) -> list[tuple[str, Message]]:
        """What this peer is to be told now, lane by lane; with ``reminder`` also where there are no news."""
        with self._lock:
            if self._beginning is not None:
                return []
            names = self._due[peer]
            self._due[peer] = set()
            if reminder:
                names |= {name for name, shared in self._shared.items() if shared.leading or shared.copy.learns}
            told: list[tuple[str, Message]] = []
            room = limits.LETTER_BYTES
            for name in sorted(names):
                if room <= 0:
                    self._due[peer].add(name)
                    continue
                shared = self._shared[name]
                _, _, actions = shared.rules.handle(shared.copy, shared.leading, lanes.PeerReachable(peer=peer))
                for action in actions:
                    assert isinstance(action, lanes.Tell)
                    message, size = self._outgoing(action.message, room)
                    told.append((name, message))
                    room -= size
            return told

    def _outgoing(self, message: lanes.Message[Held], room: int) -> tuple[Message, int]:
        """The message with the bytes of its entries: as many as there is room for, but at least one."""
        if not isinstance(message, lanes.StoreAsked):
            return message, 0
        entries: list[lanes.Entry[bytes]] = []
        size = 0
        for entry in message.entries:
            if entries and size + entry.content.size > room:
                break
            entries.append(lanes.Entry(entry.term, entry.content.read(self.store)))
            size += entry.content.size
        return lanes.StoreAsked(
            sender=message.sender,
            term=message.term,
            after=message.after,
            after_term=message.after_term,
            entries=tuple(entries),
            released=message.released,
            counts=message.counts and len(entries) == len(message.entries),
            everywhere=message.everywhere,
            base=None if message.base is None else message.base.read(self.store),
            lives=message.lives,
        ), size

    def heard(self, name: str, message: Message) -> list[Message]:
        """From a peer. What is answered is durable."""
        with self._lock:
            if self._beginning is not None:
                raise self._not_leading(name)
            shared = self._shared[name]
            if isinstance(message, lanes.StoreAsked):
                shared.heard_s, shared.leader_heard = time.monotonic(), True
                if message.entries and (self._intake_stopped() is not None or self._is_full()):
                    return []  # no room: it counts as little as if it were away
            elif isinstance(message, lanes.TeachAsked):
                shared.asked_s = time.monotonic()
            answers = self._about(name, _incoming(message))
            if isinstance(message, lanes.VoteAsked) and shared.copy.voted_for == message.sender:
                shared.heard_s = time.monotonic()  # whom it voted for has its time to lead
            leading = shared.leading
            answered = isinstance(message, lanes.StoreAnswered) and leading is not None and leading.elected
            if answered and leading is not None and leading.stored[message.sender] < shared.copy.held:
                self._tell(message.sender, name)  # there was no room for all
            return answers

    def _tell(self, peer: str, name: str) -> None:
        self._due[peer].add(name)
        self._sharing.wake(peer)

    # --- carrying out ----------------------------------------------------------------------------------------------

    def _about(self, name: str, event: lanes.Event[Held]) -> list[Message]:
        """One transaction: the copy of the lane, and the logs with what is released of it. Returns what to answer."""
        shared = self._shared[name]
        before = shared.copy
        after, leading, actions = shared.rules.handle(before, shared.leading, event)
        after = self._forgetting(shared, before, after)
        released: list[Decided] = []
        if not kept_lane.is_same(before, after):
            hole = next((action.place for action in actions if isinstance(action, lanes.BeginAt)), None)
            if hole is not None and not self._leave_out(name, after):
                return []
            released = [
                Decided.from_bytes(entry.content.read(self.store), self._stored_schema)
                for entry in after.between(before.released, after.released)
            ]
            with self.store.transaction() as transaction:
                kept_lane.save(transaction, name, before, after)
                if hole is not None and after.base is not None:
                    self._append(transaction, name, self._read(after.base))
                for decided in released:
                    self._append(transaction, name, decided)
            shared.kept_bytes += kept_lane.added_bytes(before, after)
            for entry in after.between(before.released, after.released):
                entry.content.leave_memory()
            for decided in released:
                self._count_released(decided)
        led = shared.leads
        shared.copy, shared.leading = after, leading
        if after.released > before.released and not shared.leads:
            self._slots[name].state = released[-1].state if released else self._state_at(after, after.released)
        self._settle(name, shared, led=led, news=after.released > before.released)
        return self._carry_out_told(name, actions)

    def _carry_out_told(self, name: str, actions: Sequence[lanes.Action[Held]]) -> list[Message]:
        """Questions are asked anew when their peer is written to, with all that there is then; answers go back."""
        answers: list[Message] = []
        for action in actions:
            if not isinstance(action, lanes.Tell):
                continue
            if isinstance(action.message, lanes.VoteAnswered | lanes.StoreAnswered):
                answers.append(action.message)
            else:
                self._tell(action.peer, name)
        return answers

    def _settle(self, name: str, shared: _Shared, *, led: bool, news: bool) -> None:
        """Who waits hears what became of it; who begins to lead goes on from the last entry."""
        slot = self._slots[name]
        for waiting in shared.waiting:
            if waiting.released is None and not shared.leads:
                waiting.released = False  # what is at its place may be another's entry
            elif waiting.released is None and waiting.place <= shared.copy.released:
                waiting.released = True
        if shared.leads and not led:
            state = self._state_at(shared.copy, shared.copy.held)
            slot.state, _ = slot.lane.handle(state, EntryPointStarted(now_us=self._clock()))
            shared.leader_heard = True
        elif led and not shared.leads:
            slot.state = self._state_at(shared.copy, shared.copy.released)
            shared.heard_s = time.monotonic()
        if shared.leads and news:
            for peer in self._sharing.peers:
                self._tell(peer, name)
        self._changed.notify_all()

    def _append(self, transaction: Transaction, name: str, decided: Decided) -> None:
        now_us = self._clock()
        origin = lane_origin(self.source.name, name)
        if decided.late is not None or decided.late_promise_us:
            promised = {origin: decided.late_promise_us} if decided.late_promise_us else {}
            transaction.append(self.late.name, decided.late, promised, now_us=now_us)
        if decided.rows is not None or decided.promise_us:
            promised = {origin: decided.promise_us} if decided.promise_us else {}
            transaction.append(self.log.name, decided.rows, promised, now_us=now_us)

    def _forgetting(self, shared: _Shared, before: Copy, after: Copy) -> Copy:
        """Without the entries that every entry point has released, and the oldest if there are too many."""
        through = after.everywhere
        kept = after.held - after.trimmed
        if kept > limits.LANE_KEPT_ENTRIES:
            through = max(through, after.held - limits.LANE_KEPT_ENTRIES)
        if sum(each.kept_bytes for each in self._shared.values()) > limits.LANE_KEPT_BYTES:
            through = max(through, after.trimmed + kept // 2)
        through = min(through, before.released)  # what is released now is still to be read
        enough = through - after.trimmed >= TRIM_ENTRIES or shared.kept_bytes >= TRIM_BYTES
        if through <= after.trimmed or not enough:
            return after
        trimmed = after.trim(through)
        assert trimmed.base is not None
        return replace(trimmed, base=Held(body=self._read(trimmed.base).without_rows().to_bytes()))

    def _leave_out(self, name: str, after: Copy) -> bool:
        """Whether this node can go on without what the others have forgotten. Its readers are told of the hole."""
        assert after.base is not None
        own = self._sharing.kept(self.source.name)
        if own:
            self._sharing.rebuild(
                f"Entry point {self._sharing.name} of {self.source.name!r} lacks entries of lane {name!r} that its "
                f"peers have forgotten, and {', '.join(sorted(own))} would miss them."
            )
            return False
        state = self._read(after.base).state
        floor = max(state.max_time_us, state.last_stamp_us, state.boundary_us) + 1
        for stream in (self.source.name, late_stream(self.source.name)):
            self._sharing.renew(stream, {lane_origin(self.source.name, name): floor})
        return True

    # --- looking in ------------------------------------------------------------------------------------------------

    def _state_at(self, copy: Copy, place: int) -> LaneState:
        """The state of the lane after this place."""
        last = copy.entries[place - copy.trimmed - 1].content if place > copy.trimmed else copy.base
        return LaneState() if last is None else self._read(last).state

    def _read(self, held: Held) -> Decided:
        return Decided.from_bytes(held.read(self.store), self._stored_schema)

    def _count_released(self, decided: Decided) -> None:
        for rows in (decided.rows, decided.late):
            if rows is not None:
                self._rows += rows.num_rows
                self._bytes += rows.nbytes
        self._late_rows += decided.late.num_rows if decided.late is not None else 0

    def statistics(self) -> dict[str, Any]:
        """With who leads each lane, in which term, and how much of it is held and released here."""
        found = super().statistics()
        for name in self.source.lanes:
            found["lanes"][lane_origin(self.source.name, name)]["shared"] = self._lane_statistics(name)
        return found

    def _lane_statistics(self, name: str) -> dict[str, Any]:
        shared = self._shared.get(name)
        if shared is None:
            return {"state": "beginning", "leader": None, "term": 0, "held": 0, "released": 0, "peers": {}}
        copy, leading = shared.copy, shared.leading
        state = "leads" if shared.leads else "learns" if copy.learns else "follows"
        return {
            "state": state,
            "leader": self._sharing.name if shared.leads else copy.leader,
            "term": copy.term,
            "held": copy.held,
            "released": copy.released,
            "kept": len(copy.entries),
            "peers": dict(leading.stored) if leading is not None and leading.elected else {},
        }


_APPENDS: Final = (AppendRows, AppendBoundary, AppendVoids, AppendClose)


def _incoming(message: Message) -> lanes.Message[Held]:
    if not isinstance(message, lanes.StoreAsked):
        return message
    return lanes.StoreAsked(
        sender=message.sender,
        term=message.term,
        after=message.after,
        after_term=message.after_term,
        entries=tuple(lanes.Entry(entry.term, Held(body=entry.content)) for entry in message.entries),
        released=message.released,
        counts=message.counts,
        everywhere=message.everywhere,
        base=None if message.base is None else Held(body=message.base),
        lives=message.lives,
    )


def _patience_s(*, first: bool = False) -> float:
    """How long a leader may be silent; where there has never been one, nobody need be waited for."""
    return random.uniform(0, limits.HEARTBEAT_S) if first else limits.SILENT_S * random.uniform(1, 2)


def _form(source: Source, schema: pa.Schema) -> str:
    """What entry points must have in common to share lanes."""
    columns = ", ".join(f"{field.name} {field.type}" for field in schema)
    return f"{source.name} ({columns}) time {source.time}, disorder {source.disorder_us}, lanes {list(source.lanes)}"


def _roll_bytes(roll: Roll) -> bytes:
    return json.dumps({name: [met.life, met.token] for name, met in roll.items()}).encode()


def _roll_of(stored: bytes | None) -> Roll:
    plain: Mapping[str, tuple[int, str]] = json.loads(stored) if stored is not None else {}
    return {name: Met(life, token) for name, (life, token) in plain.items()}
