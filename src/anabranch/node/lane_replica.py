"""One shared lane at one entry point: ``core.SharedLane`` carried out on the source's store.

One transaction holds the copy of the lane, and the logs with what is released of it. What is to be asked of a peer is
not kept: the protocol says it anew when the peer is written to. All of it is for one thread at a time; the entry point
has the lock.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from anabranch import limits
from anabranch.core import shared_lane as lanes
from anabranch.core.lane_state import LaneState
from anabranch.core.shared_lane import Leading, SharedLane
from anabranch.errors import check
from anabranch.model.names import lane_origin, late_stream
from anabranch.model.punctuation import Punctuations
from anabranch.node import kept_lane
from anabranch.node.decided import Decided
from anabranch.node.kept_lane import Copy, Held
from anabranch.storage import codec
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

TRIM_ENTRIES: Final = 64
TRIM_BYTES: Final = 4 << 20
"""Entries that nobody needs are removed when there are so many, or so large: each removal reads one of them again."""

Message = lanes.Message[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What an entry point must know to share lanes.

    ``token`` is that of the state directory. ``fed`` says that the feed of the source runs here, and nowhere else: it
    takes its lanes along, also an owned one. ``wake`` is called with a peer that is to be told something; ``renew``
    with a stream and times below which tuples will be missing in it; ``kept`` says which readers of a stream cannot go
    on then; ``rebuild`` is called with the reason why this node cannot.
    """

    name: str
    peers: tuple[str, ...]
    token: str
    fed: bool
    wake: Callable[[str], None]
    renew: Callable[[str, Punctuations], None]
    kept: Callable[[str], Set[str]]
    rebuild: Callable[[str], None]


@dataclass(slots=True, eq=False)
class Waiting:
    """Someone who waits for an entry to be released: True when it is, False when nobody knows."""

    place: int
    released: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """What came of an event: answers for whoever sent it, what was released, and whether the lead was won or lost."""

    answers: list[Message] = field(default_factory=list)
    released: list[Decided] = field(default_factory=list)
    won: bool = False
    lost: bool = False


class LaneReplica:
    """``tell`` is called with a peer that is to be told of this lane. ``kept_bytes`` says what all lanes keep."""

    def __init__(
        self,
        source: str,
        name: str,
        store: Store,
        sharing: Sharing,
        *,
        clock: Callable[[], int],
        tell: Callable[[str], None],
        kept_bytes: Callable[[], int],
    ) -> None:
        copy = kept_lane.load(store, name)
        check(copy is not None, f"Lane {name!r} of {source!r} is not in its store.")
        assert copy is not None
        self.name: Final = name
        self._source = source
        self._origin = lane_origin(source, name)
        self._store = store
        self._schema = codec.stored_schema(store.log(source).spec.schema)
        self._sharing = sharing
        self._clock = clock
        self._tell = tell
        self._all_kept_bytes = kept_bytes
        self._rules: SharedLane[Held] = SharedLane(sharing.name, sharing.peers)
        self._leading: Leading | None = None
        self._waiting: list[Waiting] = []
        self._logs = store.log(source), store.log(late_stream(source))
        self._marks = deque([self._mark(copy.released)])
        """Places, and where the logs ended there; those of an earlier run are one."""
        self._unread_after = 0
        self.copy: Copy = copy
        self.kept_bytes = sum(entry.content.size for entry in copy.entries)
        self.leader_heard = False
        """Whether a leader was heard of since the start, this one included."""
        self._heard_s = time.monotonic()
        """When a leader was last heard of, or one who may become it."""
        self._asked_s = float("-inf")
        """When a peer last asked to be taught."""
        self._patience_s = _patience_s(first=copy.term == 0)

    # --- how it is -------------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        return self._leading is not None and self._leading.elected

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for a majority."""
        return self.copy.held == self.copy.released

    @property
    def held_bytes(self) -> int:
        """What waits for a majority."""
        return sum(entry.content.size for entry in self.copy.between(self.copy.released, self.copy.held))

    def state_at(self, place: int) -> LaneState:
        """The state of the lane after this place, which is not trimmed."""
        copy = self.copy
        last = copy.entries[place - copy.trimmed - 1].content if place > copy.trimmed else copy.base
        return LaneState() if last is None else self._read(last).state

    def statistics(self) -> dict[str, Any]:
        copy, leading = self.copy, self._leading
        return {
            "state": "leads" if self.leads else "learns" if copy.learns else "follows",
            "leader": self._sharing.name if self.leads else copy.leader,
            "term": copy.term,
            "held": copy.held,
            "released": copy.released,
            "kept": len(copy.entries),
            "peers": dict(leading.stored) if leading is not None and leading.elected else {},
        }

    # --- who leads -------------------------------------------------------------------------------------------------

    def leader_is_silent(self) -> bool:
        return not self.leader_heard or time.monotonic() - self._heard_s > limits.SILENT_S

    def ask_to_lead(self) -> Handled:
        """Once: while peers are asked already, nothing happens."""
        return self.handle(lanes.LeadWanted()) if self._leading is None else Handled()

    def look_after(self, *, speaks: bool) -> Handled:
        """Asks to lead, if somebody must and no one was heard of for long.

        Where the lane ``speaks`` for itself, somebody must let it; and somebody must finish what was begun, and teach.
        """
        now_s = time.monotonic()
        wanted = speaks or now_s - self._asked_s < 2 * limits.SILENT_S or not self.is_settled
        if self.leads or self.copy.learns or not wanted or now_s - self._heard_s <= self._patience_s:
            return Handled()
        self._heard_s, self._patience_s = now_s, _patience_s()
        return self.handle(lanes.LeadWanted())

    def nobody_was_there(self) -> None:
        """This process slept: the silence was its own."""
        self._heard_s = time.monotonic()

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait_from_now(self) -> Waiting:
        """For the release of everything that is held now."""
        waiting = Waiting(self.copy.held, released=True if self.is_settled else None)
        self._waiting.append(waiting)
        return waiting

    def wait_no_more(self, waiting: Waiting) -> None:
        self._waiting.remove(waiting)

    # --- messages --------------------------------------------------------------------------------------------------

    def has_to_say(self) -> bool:
        """Whether peers are reminded of this lane."""
        return self._leading is not None or self.copy.learns

    def message(self, peer: str, room: int) -> tuple[Message, int] | None:
        """What this peer is to be told now, with the bytes of its entries: as many as there is room for, but at least
        one."""
        _, _, actions = self._rules.handle(self.copy, self._leading, lanes.PeerReachable(peer=peer))
        if not actions:
            return None
        (action,) = actions
        assert isinstance(action, lanes.Tell)
        message = action.message
        if not isinstance(message, lanes.StoreAsked):
            return message, 0
        entries: list[lanes.Entry[bytes]] = []
        size = 0
        for entry in message.entries:
            if entries and size + entry.content.size > room:
                break
            entries.append(lanes.Entry(entry.term, entry.content.read(self._store)))
            size += entry.content.size
        cut = lanes.StoreAsked(
            sender=message.sender,
            term=message.term,
            after=message.after,
            after_term=message.after_term,
            entries=tuple(entries),
            released=message.released,
            counts=message.counts and len(entries) == len(message.entries),
            everywhere=message.everywhere,
            base=None if message.base is None else message.base.read(self._store),
            lives=message.lives,
        )
        return cut, size

    def heard(self, message: Message, *, room: bool) -> Handled:
        """From a peer. Without room, one that asks to store counts on this one as little as if it were away."""
        if isinstance(message, lanes.StoreAsked):
            self._heard_s, self.leader_heard = time.monotonic(), True
            if message.entries and not room:
                return Handled()
        elif isinstance(message, lanes.TeachAsked):
            self._asked_s = time.monotonic()
        handled = self.handle(_with_bodies(message))
        if isinstance(message, lanes.VoteAsked) and self.copy.voted_for == message.sender:
            self._heard_s = time.monotonic()  # whom it voted for has its time to lead
        leading = self._leading
        if isinstance(message, lanes.StoreAnswered) and leading is not None and leading.elected:
            lacks = leading.stored[message.sender] < self.copy.held  # there was no room for all
            if lacks:
                self._tell(message.sender)
        return handled

    # --- the door --------------------------------------------------------------------------------------------------

    def enter(self, decided: Decided) -> Handled:
        """The next entry of the lane, which this entry point leads."""
        return self.handle(lanes.Entered(contents=(Held(body=decided.to_bytes()),)))

    def handle(self, event: lanes.Event[Held]) -> Handled:
        before, led = self.copy, self.leads
        after, leading, actions = self._rules.handle(before, self._leading, event)
        after = self._forgetting(before, after)
        released: list[Decided] = []
        if not kept_lane.is_same(before, after):
            hole = any(isinstance(action, lanes.BeginAt) for action in actions)
            if hole and not self._leave_out(after):
                return Handled()
            released = [self._read(entry.content) for entry in after.between(before.released, after.released)]
            with self._store.transaction() as transaction:
                kept_lane.save(transaction, self.name, before, after)
                if hole and after.base is not None:
                    self._append(transaction, self._read(after.base))
                for decided in released:
                    self._append(transaction, decided)
            self.kept_bytes += kept_lane.added_bytes(before, after)
            for entry in after.between(before.released, after.released):
                entry.content.leave_memory()
            self._note(after.released)
        self.copy, self._leading = after, leading
        self._settle(led=led, news=after.released > before.released)
        answers = self._told(actions)
        return Handled(answers=answers, released=released, won=self.leads and not led, lost=led and not self.leads)

    def _told(self, actions: list[lanes.Action[Held]]) -> list[Message]:
        """Questions are asked when their peer is written to, with all that there is then; answers go back."""
        answers: list[Message] = []
        for action in actions:
            if not isinstance(action, lanes.Tell):
                continue
            if isinstance(action.message, lanes.VoteAnswered | lanes.StoreAnswered):
                answers.append(action.message)
            else:
                self._tell(action.peer)
        return answers

    def _settle(self, *, led: bool, news: bool) -> None:
        """Who waits hears what became of it, and peers what was released."""
        for waiting in self._waiting:
            if waiting.released is None and not self.leads:
                waiting.released = False  # what is at its place may be another's entry
            elif waiting.released is None and waiting.place <= self.copy.released:
                waiting.released = True
        if self.leads:
            self.leader_heard = True
        elif led:
            self._heard_s = time.monotonic()
        if self.leads and news:
            for peer in self._sharing.peers:
                self._tell(peer)

    def _append(self, transaction: Transaction, decided: Decided) -> None:
        for log, rows, promise_us in (
            (late_stream(self._source), decided.late, decided.late_promise_us),
            (self._source, decided.rows, decided.promise_us),
        ):
            if rows is not None or promise_us:
                promised = {self._origin: promise_us} if promise_us else {}
                transaction.append(log, rows, promised, now_us=self._clock())

    # --- forgetting ------------------------------------------------------------------------------------------------

    def _forgetting(self, before: Copy, after: Copy) -> Copy:
        """Without the entries that nobody needs, and the oldest if there are too many.

        Every entry point has released them, and the logs have forgotten their rows: one that loses its disk gets back
        what a reader may still need.
        """
        through = min(after.everywhere, self._read_through())
        kept = len(after.entries)
        if kept > limits.LANE_KEPT_ENTRIES:
            through = max(through, after.held - limits.LANE_KEPT_ENTRIES)
        if self._all_kept_bytes() > limits.LANE_KEPT_BYTES:
            through = max(through, after.trimmed + kept // 2)
        through = min(through, before.released)  # what is released now is still to be read
        enough = through - after.trimmed >= TRIM_ENTRIES or self.kept_bytes >= TRIM_BYTES
        if through <= after.trimmed or not enough:
            return after
        trimmed = after.trim(through)
        assert trimmed.base is not None
        return replace(trimmed, base=Held(body=self._read(trimmed.base).without_rows().to_bytes()))

    def _mark(self, place: int) -> tuple[int, list[int]]:
        return place, [log.last_id() for log in self._logs]

    def _note(self, place: int) -> None:
        """Marks need not lie closer than entries are removed."""
        if len(self._marks) > 1 and place - self._marks[-2][0] < TRIM_ENTRIES:
            self._marks.pop()
        self._marks.append(self._mark(place))

    def _read_through(self) -> int:
        """The last place up to which the logs have no rows any more."""
        while self._marks and all(
            last_id < log.first_id() for last_id, log in zip(self._marks[0][1], self._logs, strict=True)
        ):
            self._unread_after = self._marks.popleft()[0]
        return self._unread_after

    def _leave_out(self, after: Copy) -> bool:
        """Whether this node can go on without what the others have forgotten. Its readers are told of the hole."""
        own = self._sharing.kept(self._source)
        if own:
            self._sharing.rebuild(
                f"Entry point {self._sharing.name} of {self._source!r} lacks entries of lane {self.name!r} that its "
                f"peers have forgotten, and {', '.join(sorted(own))} would miss them."
            )
            return False
        assert after.base is not None
        state = self._read(after.base).state
        floor = max(state.max_time_us, state.last_stamp_us, state.boundary_us) + 1
        for stream in (self._source, late_stream(self._source)):
            self._sharing.renew(stream, {self._origin: floor})
        return True

    def _read(self, held: Held) -> Decided:
        return Decided.from_bytes(held.read(self._store), self._schema)


def _with_bodies(message: Message) -> lanes.Message[Held]:
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
    """How long a leader may be silent; where none is known, only until one would have said so."""
    least_s = limits.HEARTBEAT_S if first else limits.SILENT_S
    return least_s * random.uniform(1, 2)
