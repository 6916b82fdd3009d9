"""Which copy of a feed speaks: one feed on several hosts, of which one brings rows and the others wait.

The lane alone keeps this safe. Rows have numbers, a registration says which number is next, and one of a newer session
refuses the older: whichever copy registered last speaks, from the right place, and every other copy is told so when it
pushes. So a copy need not be sure that another one is gone. What is decided here is only when it is worth trying, and
only when all others have been asked:

- The copy at *home*, the first of the hosts, begins as soon as all others have said that it is not their turn. One that
  does not answer may speak: then home waits as the others do. So it does not take the feed back after a restart.
- A copy that waits asks the others now and then. It begins after ``takeover_us`` of silence: no other was heard to
  speak, and no row of the feed came into the lane. Hosts further down the list wait longer, so that one of them is
  there before the next tries. Time in which the copy itself did not look hardly counts: one that was paused asks first.
- A copy that is refused because another one registered waits like any other. If it does not hear that one either, it
  waits twice as long each time: two hosts that cannot talk do not take the feed from each other for ever.
- A copy that cannot register lets others try, and waits like any other.

``FeedLease.handle`` is the one door; it changes nothing. Knows no clock, no wire, and not what a feed is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

MOST_PATIENCE: Final = 64
"""Times ``takeover_us``, for one that was replaced again and again by a copy that it cannot hear: five minutes for
5 s. Should that one end, nobody else may be there to go on."""


@dataclass(frozen=True, slots=True)
class Looked:
    """All others were asked, or are being asked."""

    now_us: int


@dataclass(frozen=True, slots=True)
class CopyAsked:
    """The copy on another host was asked whether it speaks. None if that is not clear: it did not answer, or it is its
    turn, and it cannot get rows in."""

    now_us: int
    host: str
    speaks: bool | None


@dataclass(frozen=True, slots=True)
class RowsCame:
    """Rows of the feed came into the lane from another copy."""

    now_us: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """The lane refused this copy, because another one has registered since."""

    now_us: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """The lane could not be registered at from here."""

    now_us: int


Event = Looked | CopyAsked | RowsCame | Replaced | Stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How one copy stands."""

    speaks: bool = False
    looked_us: int
    """When something happened last."""
    silence_us: int = 0
    """For how long it has looked, and no other copy was heard to speak."""
    asked: frozenset[str] = frozenset()
    """The others that were asked since it decided last."""
    silent: frozenset[str] = frozenset()
    """Those of them that said that they do not speak."""
    heard: bool = False
    """Whether another copy ever spoke since this one was started."""
    patience: int = 1
    """How many times as long it waits."""


@dataclass(frozen=True, slots=True)
class FeedLease:
    """The rules of one copy. ``hosts`` are all that have one, the first of them its home; ``host`` is this one."""

    host: str
    hosts: tuple[str, ...]
    takeover_us: int

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(host for host in self.hosts if host != self.host)

    @property
    def ask_every_us(self) -> int:
        """How often a copy that waits asks the others: three answers may be lost before one counts as gone."""
        return self.takeover_us // 4

    def begin(self, now_us: int) -> Turn:
        return Turn(looked_us=now_us)

    def handle(self, turn: Turn, event: Event) -> tuple[Turn, bool]:
        """The turn after the event, and whether the copy begins to speak: it registers at the lane."""
        passed_us = min(event.now_us - turn.looked_us, self._most_us)
        turn = replace(turn, looked_us=event.now_us, silence_us=turn.silence_us + passed_us)
        match event:
            case Replaced():
                patience = min(2 * turn.patience, MOST_PATIENCE)
                return replace(self.begin(event.now_us), heard=True, patience=patience), False
            case Stuck():
                return replace(self.begin(event.now_us), heard=turn.heard, patience=turn.patience), False
            case RowsCame():
                return replace(turn, silence_us=0), False
            case CopyAsked(speaks=True):
                turn = replace(turn, silence_us=0, heard=True, patience=1)
                return replace(turn, asked=turn.asked | {event.host}), False
            case CopyAsked(speaks=said):
                silent = turn.silent if said is None else turn.silent | {event.host}
                return replace(turn, asked=turn.asked | {event.host}, silent=silent), False
            case Looked():
                return self._decided(turn)

    @property
    def _most_us(self) -> int:
        """What counts at most of the time between two events: between two questions there is half of it."""
        return 2 * self.ask_every_us

    def _decided(self, turn: Turn) -> tuple[Turn, bool]:
        if not turn.asked >= set(self.others):
            return turn, False
        begins = not turn.speaks and self.may_begin(turn)
        return replace(turn, speaks=turn.speaks or begins, asked=frozenset(), silent=frozenset()), begins

    def may_begin(self, turn: Turn) -> bool:
        """When all others have been asked."""
        rank = self.hosts.index(self.host)
        if rank == 0 and not turn.heard and turn.silent >= set(self.others):
            return True
        return turn.silence_us >= self.takeover_us * max(1, rank) * turn.patience
