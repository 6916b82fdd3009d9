"""Which copy of a feed speaks: one feed on several hosts, of which one brings rows and the others wait.

The lane alone keeps this safe. Rows have numbers, a registration says which number is next, and one of a newer session
refuses the older: whichever copy registered last speaks, from the right place, and every other copy is told so when it
pushes. So a copy need not be sure that another one is gone. What is decided here is only when it is worth trying:

- The copy at *home*, the first of the hosts, begins as soon as it has asked all others once, and none of them speaks.
- A copy that waits asks the others now and then. It begins when none of them was heard to speak for ``takeover_us``;
  hosts further down the list wait longer, so that one of them is there before the next tries.
- A copy that is refused because another one registered waits like any other. Nobody goes back home by itself.

``FeedLease.handle`` is the one door; it changes nothing. Knows no clock, no wire, and not what a feed is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Looked:
    """Time has passed."""

    now_us: int


@dataclass(frozen=True, slots=True)
class CopyAsked:
    """The copy on another host was asked. One that does not answer does not speak."""

    now_us: int
    host: str
    speaks: bool


@dataclass(frozen=True, slots=True)
class Replaced:
    """The lane refused this copy, because another one has registered since."""

    now_us: int


Event = Looked | CopyAsked | Replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How one copy stands."""

    speaks: bool = False
    silent_us: int
    """Since when no other copy was heard to speak."""
    asked: frozenset[str] = frozenset()
    """The others that were asked since it waits."""
    heard: bool = False
    """Whether another copy ever spoke since this one was started."""


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
        return Turn(silent_us=now_us)

    def handle(self, turn: Turn, event: Event) -> tuple[Turn, bool]:
        """The turn after the event, and whether the copy begins to speak: it registers at the lane."""
        match event:
            case Replaced():
                return replace(turn, speaks=False, silent_us=event.now_us, asked=frozenset(), heard=True), False
            case CopyAsked(speaks=True):
                turn = replace(turn, silent_us=event.now_us, heard=True)
            case CopyAsked():
                turn = replace(turn, asked=turn.asked | {event.host})
            case Looked():
                pass
        if turn.speaks or not self.may_begin(turn, event.now_us):
            return turn, False
        return replace(turn, speaks=True), True

    def may_begin(self, turn: Turn, now_us: int) -> bool:
        rank = self.hosts.index(self.host)
        if rank == 0 and not turn.heard:
            return turn.asked >= set(self.others)
        return now_us - turn.silent_us >= self.takeover_us * max(1, rank)
