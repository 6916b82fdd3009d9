"""One shared lane at one entry point: ``core.SharedLane`` carried out on the source's store.

One transaction holds the copy of the lane, and the logs with what is released of it: an entry costs one of them, at who
leads and at its peers. What is to be asked of a peer is
not kept: the protocol says it anew when the peer is written to. All of it is for one thread at a time; the entry point
has the lock.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Final

from anabranch import limits
from anabranch.core import elections
from anabranch.core import shared_lane as lanes
from anabranch.core.asking import LATER_ENTRIES, Asking
from anabranch.core.elections import Elections, Standing
from anabranch.core.lane_state import LaneState
from anabranch.core.shared_lane import Leading, SharedLane
from anabranch.errors import check
from anabranch.model.names import lane_origin, late_stream
from anabranch.model.punctuation import Punctuations
from anabranch.node import kept_lane
from anabranch.node.decided import Decided
from anabranch.node.kept_lane import Copy, Held
from anabranch.runtime.status import SharedLaneStatus
from anabranch.storage.store import Store
from anabranch.storage.transaction import Transaction

TRIM_ENTRIES: Final = 64
TRIM_BYTES: Final = 4 << 20
"""Entries that nobody needs are removed when there are so many, or so large: each removal reads one of them again."""

SMALL_BYTES: Final = 64 << 10
"""Entries up to this size, together, may wait for others before a peer is told of them or shows them."""

REMEMBERED_BYTES: Final = 4 << 10
"""Released entries up to this size stay in memory while there are fewer than ``LATER_ENTRIES`` behind them: a peer that
is told later is told of them without reading them back."""

Message = lanes.Message[bytes]


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
    """``tell`` is called with a peer that is to be told of this lane, and within how many seconds. ``kept_bytes`` says
    what all lanes keep. ``speaks_every_us`` is how often the lane speaks by itself."""

    def __init__(
        self,
        source: str,
        name: str,
        store: Store,
        sharing: Sharing,
        *,
        clock: Callable[[], int],
        tell: Callable[[str, float], None],
        kept_bytes: Callable[[], int],
        speaks_every_us: int | None,
    ) -> None:
        copy = kept_lane.load(store, name)
        check(copy is not None, f"Lane {name!r} of {source!r} is not in its store.")
        assert copy is not None
        self.name: Final = name
        self._source = source
        self._origin = lane_origin(source, name)
        self._store = store
        self._late = late_stream(source)
        self._sharing = sharing
        self._clock = clock
        self._tell = tell
        self._all_kept_bytes = kept_bytes
        self._rules: SharedLane[Held] = SharedLane(sharing.name, sharing.peers, self._is_same)
        self._leading: Leading | None = None
        self._waiting: list[Waiting] = []
        self._news: lanes.StoreAsked[bytes] | None = None
        """What a leader said to be released, and is not released here yet."""
        self._logs = store.log(source), store.log(self._late)
        self._marks = deque([self._mark(copy.released)])
        """Places, and where the logs ended there; those of an earlier run are one."""
        self._unread_after = 0
        self.copy: Copy = copy
        self._stored: Copy = copy
        """As it is on disk: without what it took last, if it leads."""
        self.kept_bytes = sum(entry.size for entry in copy.entries)
        self.closed = False
        """Whether the lane has nothing more to say."""
        self._elections = Elections(speaks_every_us)
        self._asking = Asking()
        self._entered_us: int | None = None
        """Since when an entry waits for its release."""
        self._watch = self._elections.begin(_now_us(), chance=random.random())

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
        copy = self.copy
        return _size(copy.between(copy.released, copy.held)) if copy.held > copy.released else 0

    def state_at(self, place: int) -> LaneState:
        """The state of the lane after this place, which is not trimmed."""
        copy = self.copy
        last = copy.entries[place - copy.trimmed - 1] if place > copy.trimmed else copy.base
        return LaneState() if last is None else self._read(last).state

    def statistics(self) -> SharedLaneStatus:
        copy, leading = self.copy, self._leading
        return SharedLaneStatus(
            state="leads" if self.leads else "learns" if copy.learns else "follows",
            leader=self._sharing.name if self.leads else copy.leader,
            term=copy.term,
            held=copy.held,
            released=copy.released,
            kept=len(copy.entries),
            peers=dict(leading.stored) if leading is not None and leading.elected else {},
        )

    # --- who leads -------------------------------------------------------------------------------------------------

    def leader_lives(self) -> bool:
        """Whether another one was heard to lead, lately."""
        return self._elections.leader_lives(self._watch, _now_us())

    def client_came(self, *, takes_over: bool) -> None:
        """Somebody wants to speak here; with ``takes_over``, whoever leads."""
        self._notice(elections.ClientCame(_now_us(), takes_over))

    def look_after(self) -> float | None:
        """Asks to lead, if somebody must and no leader is heard of. Returns the seconds until that may be the case."""
        self._notice(elections.Looked(_now_us()))
        due_us = self._elections.due_us(self._watch, self._standing())
        return None if due_us is None else (due_us - _now_us()) / 1_000_000

    def _notice(self, event: elections.Event) -> None:
        self._watch, asks = self._elections.handle(self._watch, self._standing(), event, chance=random.random())
        if asks:
            takes_over = self._elections.takes_over(self._watch, event.now_us)
            self.handle(lanes.LeadWanted(takes_over=takes_over))
        if isinstance(event, elections.Looked) or (isinstance(event, elections.LeaderHeard) and not asks):
            return  # when a leader was heard, nothing is due before the next look
        due_us = self._elections.due_us(self._watch, self._standing())
        if due_us is not None:
            self._sharing.look((due_us - event.now_us) / 1_000_000)

    def _standing(self) -> Standing:
        return Standing.of(self.copy, self._leading, closed=self.closed)

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait_from_now(self) -> Waiting:
        """For the release of everything that is held now."""
        waiting = Waiting(self.copy.held, released=True if self.is_settled else None)
        self._waiting.append(waiting)
        return waiting

    def wait_no_more(self, waiting: Waiting) -> None:
        self._waiting.remove(waiting)

    # --- messages --------------------------------------------------------------------------------------------------

    def owes(self, peer: str) -> bool:
        """Whether this peer is reminded of the lane."""
        return self._rules.owes(self.copy, self._leading, peer)

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
        entries: list[bytes] = []
        size = 0
        for entry in message.entries:
            if entries and size + entry.size > room:
                break
            entries.append(entry.read(self._store))
            size += entry.size
        cut = lanes.StoreAsked(
            sender=message.sender,
            term=message.term,
            after=message.after,
            began_with=message.began_with,
            entries=tuple(entries),
            released=message.released,
            counts=message.counts and len(entries) == len(message.entries),
            everywhere=message.everywhere,
            base=None if message.base is None else message.base.read(self._store),
            lives=message.lives,
        )
        return cut, size

    def heard(self, message: Message, *, has_room: Callable[[], bool]) -> Handled:
        """From a peer. Without room, one that asks to store counts on this one as little as if it were away."""
        if isinstance(message, lanes.StoreAsked) and message.entries and not has_room():
            self._notice(elections.said_by(message, self.copy, _now_us()))
            return Handled()
        if isinstance(message, lanes.StoreAsked) and message.entries and self.copy.released < message.released:
            message = self._postponed(message)
        handled = self.handle(_with_bodies(message))
        leading = self._leading
        if isinstance(message, lanes.StoreAnswered) and leading is not None and leading.elected:
            lacks = leading.stored[message.sender] < self.copy.held  # there was no room for all
            if lacks:
                self._tell(message.sender, 0.0)
            return handled  # who leads need not notice that it is answered
        self._notice(elections.said_by(message, self.copy, _now_us()))
        return handled

    def _postponed(self, message: lanes.StoreAsked[bytes]) -> lanes.StoreAsked[bytes]:
        """The message without the news that earlier entries are released: somebody waits for its answer, and nobody for
        these, which the leader has shown. They are released together, after a while or when there are many. Where it
        brings entries that are released already, a peer catches up, and has all of it at once."""
        if message.released > message.after:
            return message
        if self._news is None:
            self._sharing.look(limits.LATER_S)
        self._news = lanes.StoreAsked(
            sender=message.sender,
            term=message.term,
            after=message.after,
            began_with=message.began_with,
            entries=(),
            released=message.released,
            everywhere=message.everywhere,
            lives=message.lives,
        )
        if _size(self.copy.between(self.copy.released, message.released)) > SMALL_BYTES:
            self._sharing.look(0.0)
        return lanes.StoreAsked(
            sender=message.sender,
            term=message.term,
            after=message.after,
            began_with=message.began_with,
            entries=message.entries,
            released=self.copy.released,
            counts=message.counts,
            everywhere=message.everywhere,
            base=message.base,
            lives=message.lives,
        )

    def show_news(self) -> Handled:
        """Releases what was heard to be released, and could wait."""
        news, self._news = self._news, None
        return Handled() if news is None else self.handle(_with_bodies(news))

    # --- the door --------------------------------------------------------------------------------------------------

    def enter(self, decided: Decided) -> Handled:
        """The next entry of the lane, which this entry point leads."""
        self._asking = self._asking.entered()
        if self._entered_us is None:
            self._entered_us = _now_us()
        return self.handle(lanes.Entered(contents=(Held(body=decided.to_bytes(), decided=decided),)))

    def handle(self, event: lanes.Event[Held]) -> Handled:
        before, led = self.copy, self.leads
        after, leading, actions = self._rules.handle(before, self._leading, event, led=self.leader_lives())
        after = self._forgetting(before, after)
        released: list[Decided] = []
        if self._rules.must_store(event, actions) and not kept_lane.is_same(before, after):
            hole = any(isinstance(action, lanes.BeginAt) for action in actions)
            if hole and not self._leave_out(after):
                return Handled()
            released = [self._read(entry) for entry in after.between(before.released, after.released)]
            with self._store.transaction() as transaction:
                kept_lane.save(transaction, self.name, self._stored, after)
                if hole and after.base is not None:
                    self._append(transaction, self._read(after.base))
                for decided in released:
                    self._append(transaction, decided)
            self.kept_bytes += kept_lane.added_bytes(self._stored, after)
            self._stored = after
            self._leave_memory(before.released, after)
            self._note(after.released)
        self.copy, self._leading = after, leading
        self._settle(news=after.released > before.released)
        if after.released > before.released:
            self._asked_first(after)
        answers = self._told(actions, entered=isinstance(event, lanes.Entered))
        won, lost = self.leads and not led, led and not self.leads
        if won or lost:
            self._asking, self._entered_us = Asking(), None
        return Handled(answers=answers, released=released, won=won, lost=lost)

    def _told(self, actions: list[lanes.Action[Held]], *, entered: bool) -> list[Message]:
        """Questions are asked when their peer is written to, with all that there is then; answers go back."""
        answers: list[Message] = []
        for action in actions:
            if not isinstance(action, lanes.Tell):
                continue
            if isinstance(action.message, lanes.VoteAnswered | lanes.StoreAnswered):
                answers.append(action.message)
            else:
                self._tell(action.peer, limits.LATER_S if entered and self._may_wait(action.peer) else 0.0)
        return answers

    # --- whom it asks first ----------------------------------------------------------------------------------------

    @property
    def patience_s(self) -> float:
        """How long those that were asked first may take before ``ask_all`` is due."""
        return self._asking.patience_us / 1_000_000

    def ask_all(self) -> None:
        """An entry was not released in time."""
        if not self.is_settled and self._asking.first:
            self._asking = self._asking.overdue()
            for peer in self._sharing.peers:
                self._tell(peer, 0.0)

    def _may_wait(self, peer: str) -> bool:
        """Whether it is told of the last entry later, with others."""
        if self._asking.asks(peer) or self._leading is None:
            return False
        copy, stored = self.copy, self._leading.stored[peer]
        far_behind = self._asking.is_far_behind(copy.held - stored)
        return not far_behind and _size(copy.between(stored, copy.held)) <= SMALL_BYTES

    def _asked_first(self, copy: Copy) -> None:
        entered_us, self._entered_us = self._entered_us, None
        if self._leading is not None and entered_us is not None:
            took_us, needed = _now_us() - entered_us, self._rules.majority - 1
            self._asking = self._asking.released(copy.released, self._leading.stored, took_us, needed)

    def _settle(self, *, news: bool) -> None:
        """Who waits hears what became of it, and peers what was released: with the next entry, if one comes soon."""
        leads = self.leads
        for waiting in self._waiting:
            if waiting.released is None and not leads:
                waiting.released = False  # what is at its place may be another's entry
            elif waiting.released is None and waiting.place <= self.copy.released:
                waiting.released = True
        if leads and news:
            for peer in self._sharing.peers:
                self._tell(peer, limits.RELEASE_NEWS_S if self._asking.asks(peer) else limits.LATER_S)

    def _append(self, transaction: Transaction, decided: Decided) -> None:
        for log, rows, promise_us in (
            (self._late, decided.late, decided.late_promise_us),
            (self._source, decided.rows, decided.promise_us),
        ):
            if rows or promise_us:
                promised = {self._origin: promise_us} if promise_us else {}
                transaction.append_encoded(log, rows, promised, now_us=self._clock())

    # --- forgetting ------------------------------------------------------------------------------------------------

    def _forgetting(self, before: Copy, after: Copy) -> Copy:
        """Without the entries that nobody needs, and the oldest if there are too many.

        Every entry point has released them, and the logs have forgotten their rows: one that loses its disk gets back
        what a reader may still need.
        """
        kept = len(after.entries)
        if kept < TRIM_ENTRIES and self.kept_bytes < TRIM_BYTES:
            return after
        through = min(after.everywhere, self._read_through())
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

    def _leave_memory(self, released: int, after: Copy) -> None:
        """What was released is on disk; ``released`` is up to where it was before."""
        for entry in after.between(released, after.released):
            if entry.size > REMEMBERED_BYTES:
                entry.leave_memory()
        for entry in after.between(released - LATER_ENTRIES, after.released - LATER_ENTRIES):
            entry.leave_memory()

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
                f"Entry point {self._sharing.name} of {self._source!r} lacks entries of lane {self.name!r} that "
                f"its peers no longer keep, so {', '.join(sorted(own))} would never see them."
            )
            return False
        assert after.base is not None
        state = self._read(after.base).state
        floor = max(state.max_time_us, state.last_stamp_us, state.boundary_us) + 1
        for stream in (self._source, self._late):
            self._sharing.renew(stream, {self._origin: floor})
        return True

    def _is_same(self, mine: Held, its: Held) -> bool:
        """The bytes of an entry are made once, by who first led it in; a base has lost its rows."""
        entry, sent = mine.read(self._store), its.read(self._store)
        return entry == sent or self._read(mine).without_rows().to_bytes() == sent

    def _read(self, held: Held) -> Decided:
        return held.decided(self._store, self._origin)


def _size(entries: Iterable[Held]) -> int:
    return sum([entry.size for entry in entries])


def _with_bodies(message: Message) -> lanes.Message[Held]:
    if not isinstance(message, lanes.StoreAsked):
        return message
    return lanes.StoreAsked(
        sender=message.sender,
        term=message.term,
        after=message.after,
        began_with=message.began_with,
        entries=tuple(Held(body=body) for body in message.entries),
        released=message.released,
        counts=message.counts,
        everywhere=message.everywhere,
        base=None if message.base is None else Held(body=message.base),
        lives=message.lives,
    )


def _now_us() -> int:
    """By a clock that nobody sets."""
    return time.monotonic_ns() // 1_000
