"""One shared lane at one entry point: ``core.SharedLane`` carried out, over ports.

The nodes and the simulator run this very code. It decides what is stored in which transaction, when the entry point
asks to lead (``core/elections.py``), whom it asks first to store an entry (``core/asking.py``), when it shows what a
leader has released, and which entries it keeps.

One transaction holds the copy of the lane, and the logs with what is released of it: an entry costs one of them, at who
leads and at its peers. What is to be asked of a peer is not kept: the protocol says it anew when the peer is written
to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic

from anabranch import limits
from anabranch.core import elections
from anabranch.core import shared_lane as lanes
from anabranch.core.asking import LATER_ENTRIES, Asking
from anabranch.core.elections import Elections, Standing
from anabranch.core.shared_lane import LaneCopy, Leading, SharedLane
from anabranch.runtime.ports import Clock, Entry, LaneDisk, Sent
from anabranch.runtime.status import SharedLaneStatus

TRIM_ENTRIES: Final = 64
TRIM_BYTES: Final = 4 << 20
"""Entries that nobody needs are removed when there are so many, or so large: each removal reads one of them again."""

SMALL_BYTES: Final = 64 << 10
"""Entries up to this size, together, may wait for others before a peer is told of them or shows them."""

REMEMBERED_BYTES: Final = 4 << 10
"""Released entries up to this size stay in memory while there are fewer than ``LATER_ENTRIES`` behind them: a peer that
is told later is told of them without reading them back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """Which entries of a lane are kept, and how many may wait for others."""

    entries: int = limits.LANE_KEPT_ENTRIES
    all_bytes: int = limits.LANE_KEPT_BYTES
    """Of all lanes of the source."""
    trim_entries: int = TRIM_ENTRIES
    trim_bytes: int = TRIM_BYTES
    small_bytes: int = SMALL_BYTES


@dataclass(frozen=True, slots=True)
class Handled(Generic[Sent]):
    """What came of an event: answers for whoever sent it, whether something was released, and whether the lead was won
    or lost."""

    answers: tuple[lanes.Message[Sent], ...] = ()
    released: bool = False
    won: bool = False
    lost: bool = False


class LaneReplica(Generic[Entry, Sent]):
    """``tell`` is called with a peer that is to be told of this lane, and within how many seconds. ``all_kept_bytes``
    says what all lanes of the source keep. ``observe``, if given, is called with all that the protocol said to an
    event, after it was stored."""

    def __init__(
        self,
        name: str,
        rules: SharedLane[Entry],
        elections: Elections,
        disk: LaneDisk[Entry, Sent],
        clock: Clock,
        *,
        tell: Callable[[str, float], None],
        all_kept_bytes: Callable[[], int],
        keeping: Keeping,
        observe: Callable[[Sequence[lanes.Action[Entry]]], None] | None = None,
    ) -> None:
        self.name: Final = name
        self._rules = rules
        self._elections = elections
        self._disk = disk
        self._clock = clock
        self._tell = tell
        self._all_kept_bytes = all_kept_bytes
        self._keeping = keeping
        self._observe = observe
        self._leading: Leading | None = None
        self.leads = False
        self._news: lanes.StoreAsked[Sent] | None = None
        """What a leader said to be released, and is not released here yet."""
        self.copy: LaneCopy[Entry] = disk.load()
        self._stored = self.copy
        """As it is on disk: without what it took last, if it leads."""
        self._marks = deque([(self.copy.released, disk.log_ends())])
        """Places, and where the logs ended there; those of an earlier run are one."""
        self._unread_after = 0
        self.kept_bytes = _size(self.copy.entries)
        self.closed = False
        """Whether the lane has nothing more to say."""
        self._asking = Asking()
        self._entered_us: int | None = None
        """Since when an entry waits for its release."""
        self._watch = elections.begin(clock.now_us(), chance=clock.chance())

    # --- how it is -------------------------------------------------------------------------------------------------

    @property
    def is_asking(self) -> bool:
        """Whether it leads, or asks to."""
        return self._leading is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for a majority."""
        return self.copy.held == self.copy.released

    @property
    def held_bytes(self) -> int:
        """What waits for a majority."""
        copy = self.copy
        return _size(copy.between(copy.released, copy.held)) if copy.held > copy.released else 0

    def statistics(self) -> SharedLaneStatus:
        copy, leading = self.copy, self._leading
        return SharedLaneStatus(
            state="leads" if self.leads else "learns" if copy.learns else "follows",
            leader=self._rules.name if self.leads else copy.leader,
            term=copy.term,
            held=copy.held,
            released=copy.released,
            kept=len(copy.entries),
            peers=dict(leading.stored) if leading is not None and leading.elected else {},
        )

    # --- who leads -------------------------------------------------------------------------------------------------

    def leader_lives(self) -> bool:
        """Whether another one was heard to lead, lately."""
        return self._elections.leader_lives(self._watch, self._clock.now_us())

    def client_came(self, *, takes_over: bool) -> None:
        """Somebody wants to speak here; with ``takes_over``, whoever leads."""
        self._notice(elections.ClientCame(self._clock.now_us(), takes_over))

    def look_after(self) -> float | None:
        """Asks to lead, if somebody must and no leader is heard of. Returns the seconds until that may be the case."""
        self._notice(elections.Looked(self._clock.now_us()))
        due_us = self._elections.due_us(self._watch, self._standing())
        return None if due_us is None else (due_us - self._clock.now_us()) / 1_000_000

    def _notice(self, event: elections.Event) -> None:
        self._watch, asks = self._elections.handle(self._watch, self._standing(), event, chance=self._clock.chance())
        if asks:
            takes_over = self._elections.takes_over(self._watch, event.now_us)
            self.handle(lanes.LeadWanted(takes_over=takes_over))
        if isinstance(event, elections.Looked) or (isinstance(event, elections.LeaderHeard) and not asks):
            return  # when a leader was heard, nothing is due before the next look
        due_us = self._elections.due_us(self._watch, self._standing())
        if due_us is not None:
            self._clock.look_within((due_us - event.now_us) / 1_000_000)

    def _standing(self) -> Standing:
        return Standing.of(self.copy, self._leading, closed=self.closed)

    # --- messages --------------------------------------------------------------------------------------------------

    def owes(self, peer: str) -> bool:
        """Whether this peer is reminded of the lane."""
        return self._rules.owes(self.copy, self._leading, peer)

    def message(self, peer: str, room: int) -> tuple[lanes.Message[Sent], int] | None:
        """What this peer is to be told now, with the size of its entries: as many as there is room for, but at least
        one."""
        _, _, actions = self._rules.handle(self.copy, self._leading, lanes.PeerReachable(peer=peer))
        if not actions:
            return None
        (action,) = actions
        assert isinstance(action, lanes.Tell)
        message = action.message
        if not isinstance(message, lanes.StoreAsked):
            return message, 0
        entries: list[Any] = []
        size = 0
        for entry in message.entries:
            if entries and size + entry.size > room:
                break
            entries.append(entry.body())
            size += entry.size
        cut: lanes.StoreAsked[Any] = lanes.StoreAsked(
            sender=message.sender,
            term=message.term,
            after=message.after,
            began_with=message.began_with,
            entries=tuple(entries),
            released=message.released,
            counts=message.counts and len(entries) == len(message.entries),
            everywhere=message.everywhere,
            base=None if message.base is None else message.base.body(),
            lives=message.lives,
        )
        return cut, size

    def heard(self, message: lanes.Message[Sent], *, has_room: Callable[[], bool]) -> Handled[Sent]:
        """From a peer. Without room, one that asks to store counts on this one as little as if it were away."""
        if isinstance(message, lanes.StoreAsked) and message.entries:
            if not has_room():
                self._notice(elections.said_by(message, self.copy, self._clock.now_us()))
                return Handled()
            if self.copy.released < message.released:
                message = self._postponed(message)
        handled = self.handle(self._held(message))
        leading = self._leading
        if isinstance(message, lanes.StoreAnswered) and leading is not None and leading.elected:
            lacks = leading.stored[message.sender] < self.copy.held  # there was no room for all
            if lacks:
                self._tell(message.sender, 0.0)
            return handled  # who leads need not notice that it is answered
        self._notice(elections.said_by(message, self.copy, self._clock.now_us()))
        return handled

    def _postponed(self, message: lanes.StoreAsked[Sent]) -> lanes.StoreAsked[Sent]:
        """The message without the news that earlier entries are released: somebody waits for its answer, and nobody for
        these, which the leader has shown. They are released together, after a while or when there are many. Where it
        brings entries that are released already, a peer catches up, and has all of it at once."""
        if message.released > message.after:
            return message
        if self._news is None:
            self._clock.look_within(limits.LATER_S)
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
        if _size(self.copy.between(self.copy.released, message.released)) > self._keeping.small_bytes:
            self._clock.look_within(0.0)
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

    def show_news(self) -> Handled[Sent]:
        """Releases what was heard to be released, and could wait."""
        news, self._news = self._news, None
        return Handled() if news is None else self.handle(self._held(news))

    def _held(self, message: lanes.Message[Sent]) -> lanes.Message[Entry]:
        """The message with its entries as they are held here."""
        if not isinstance(message, lanes.StoreAsked):
            return message
        entry = self._disk.entry
        return lanes.StoreAsked(
            sender=message.sender,
            term=message.term,
            after=message.after,
            began_with=message.began_with,
            entries=tuple([entry(body) for body in message.entries]),
            released=message.released,
            counts=message.counts,
            everywhere=message.everywhere,
            base=None if message.base is None else entry(message.base),
            lives=message.lives,
        )

    # --- the door --------------------------------------------------------------------------------------------------

    def enter(self, entry: Entry) -> Handled[Sent]:
        """The next entry of the lane, which this entry point leads."""
        self._asking = self._asking.entered()
        if self._entered_us is None:
            self._entered_us = self._clock.now_us()
        return self.handle(lanes.Entered(contents=(entry,)))

    def handle(self, event: lanes.Event[Entry]) -> Handled[Sent]:
        """What the copy becomes is stored first, where the protocol says so; then others are told."""
        before, led = self.copy, self.leads
        is_led = isinstance(event, lanes.VoteAsked) and self.leader_lives()  # nothing else depends on it
        after, leading, actions = self._rules.handle(before, self._leading, event, led=is_led)
        after = self._forgetting(before, after)
        released = after.released > before.released
        if self._rules.must_store(event, actions) and not is_same(before, after):
            hole = after.trimmed > before.released  # only what was released is forgotten
            if hole and not self._leave_out(after):
                return Handled()
            self._disk.store(self._stored, after, hole=hole)
            self.kept_bytes += added_bytes(self._stored, after)
            self._stored = after
            if released:
                self._leave_memory(before.released, after)
                self._note(after.released)
        leads = leading is not None and leading.elected
        self.copy, self._leading, self.leads = after, leading, leads
        if released and leads:
            self._tell_released(after)
        answers = self._told(actions, entered=isinstance(event, lanes.Entered))
        if leads != led:
            self._asking, self._entered_us = Asking(), None
        if self._observe is not None:
            self._observe(actions)
        return Handled(answers, released, leads and not led, led and not leads)

    def _told(self, actions: list[lanes.Action[Entry]], *, entered: bool) -> tuple[lanes.Message[Any], ...]:
        """Questions are asked when their peer is written to, with all that there is then; answers go back."""
        answers: list[lanes.Message[Any]] = []
        for action in actions:
            if not isinstance(action, lanes.Tell):
                continue
            if isinstance(action.message, lanes.VoteAnswered | lanes.StoreAnswered):
                answers.append(action.message)
            else:
                self._tell(action.peer, limits.LATER_S if entered and self._may_wait(action.peer) else 0.0)
        return tuple(answers)

    # --- whom it asks first ----------------------------------------------------------------------------------------

    @property
    def patience_s(self) -> float:
        """How long those that were asked first may take before ``ask_all`` is due."""
        return self._asking.patience_us / 1_000_000

    def ask_all(self) -> None:
        """An entry was not released in time."""
        if not self.is_settled and self._asking.first:
            self._asking = self._asking.overdue()
            for peer in self._rules.peers:
                self._tell(peer, 0.0)

    def _may_wait(self, peer: str) -> bool:
        """Whether it is told of the last entry later, with others."""
        if self._asking.asks(peer) or self._leading is None:
            return False
        copy, stored = self.copy, self._leading.stored[peer]
        held = copy.held
        far_behind = self._asking.is_far_behind(held - stored)
        return not far_behind and _size(copy.between(stored, held)) <= self._keeping.small_bytes

    def _tell_released(self, copy: LaneCopy[Entry]) -> None:
        """Peers hear what was released with the next entry, if one comes soon. Those whose answers came first are asked
        first from now on, if all were asked."""
        asking = self._asking
        for peer in self._rules.peers:
            self._tell(peer, limits.RELEASE_NEWS_S if asking.asks(peer) else limits.LATER_S)
        entered_us, self._entered_us = self._entered_us, None
        if self._leading is not None and entered_us is not None:
            took_us, needed = self._clock.now_us() - entered_us, self._rules.majority - 1
            self._asking = asking.released(copy.released, self._leading.stored, took_us, needed)

    # --- forgetting ------------------------------------------------------------------------------------------------

    def _forgetting(self, before: LaneCopy[Entry], after: LaneCopy[Entry]) -> LaneCopy[Entry]:
        """Without the entries that nobody needs, and the oldest if there are too many.

        Every entry point has released them, and the logs have forgotten their rows: one that loses its disk gets back
        what a reader may still need.
        """
        kept, keeping = len(after.entries), self._keeping
        if kept < keeping.trim_entries and self.kept_bytes < keeping.trim_bytes:
            return after
        through = min(after.everywhere, self._read_through())
        if kept > keeping.entries:
            through = max(through, after.held - keeping.entries)
        if self._all_kept_bytes() > keeping.all_bytes:
            through = max(through, after.trimmed + kept // 2)
        through = min(through, before.released)  # what is released now is still to be read
        enough = through - after.trimmed >= keeping.trim_entries or self.kept_bytes >= keeping.trim_bytes
        if through <= after.trimmed or not enough:
            return after
        trimmed = after.trim(through)
        assert trimmed.base is not None
        return replace(trimmed, base=self._disk.base(trimmed.base))

    def _leave_memory(self, released: int, after: LaneCopy[Entry]) -> None:
        """What was released is on disk; ``released`` is up to where it was before."""
        for entry in after.between(released, after.released):
            if entry.size > REMEMBERED_BYTES:
                entry.leave_memory()
        for entry in after.between(released - LATER_ENTRIES, after.released - LATER_ENTRIES):
            entry.leave_memory()

    def _note(self, place: int) -> None:
        """Marks need not lie closer than entries are removed."""
        if len(self._marks) > 1 and place - self._marks[-2][0] < self._keeping.trim_entries:
            self._marks.pop()
        self._marks.append((place, self._disk.log_ends()))

    def _read_through(self) -> int:
        """The last place up to which the logs have no rows any more."""
        while self._marks and self._disk.is_forgotten(self._marks[0][1]):
            self._unread_after = self._marks.popleft()[0]
        return self._unread_after

    def _leave_out(self, after: LaneCopy[Entry]) -> bool:
        """Whether this entry point can go on without what the others have forgotten."""
        assert after.base is not None
        return self._disk.leave_out(after.base)


def _size(entries: Iterable[Any]) -> int:
    size = 0
    for entry in entries:
        size += entry.size
    return size


def is_same(before: LaneCopy[Any], after: LaneCopy[Any]) -> bool:
    """Whether there is nothing to store. How far all have released is heard again."""
    if after is before:
        return True
    if (
        before.released != after.released
        or before.held != after.held
        or before.term != after.term
        or before.leader != after.leader
        or before.voted_for != after.voted_for
        or before.trimmed != after.trimmed
        or before.whole != after.whole
        or before.learns != after.learns
        or before.lives != after.lives
    ):
        return False
    pairs = zip(before.between(before.released, before.held), after.between(after.released, after.held), strict=True)
    return all(old is new for old, new in pairs)


def added_bytes(before: LaneCopy[Any], after: LaneCopy[Any]) -> int:
    """How much more the entries of a lane take than before."""
    first = max(before.released, after.trimmed)
    lost = (*before.between(before.trimmed, min(after.trimmed, before.held)), *before.between(first, before.held))
    return _size(after.between(first, after.held)) - _size(lost)
