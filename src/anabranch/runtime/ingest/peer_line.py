"""The line to one other entry point: when it is written to, and what is said about all sources that it shares.

One letter at a time: all that there is to say about all lanes, and the next when it is answered. So pushes that come
while a letter is under way travel together in the next. A letter is written when there are news, which may wait a while
for others (``core/asking.py``), and half a second after the last as a reminder while anything is owed to the peer or by
it, which is also what finds one again that was away. Where all have everything, nothing is said.

Who sends the letter, and waits for its answer and for the next, is up to the node or the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Generic, Protocol

from anabranch import limits
from anabranch.core import shared_lane as lanes
from anabranch.core.backoff import Backoff
from anabranch.core.roll_call import Met
from anabranch.runtime.ports import Sent

NEVER: Final = math.inf

_BACKOFF: Final = Backoff(waits_s=limits.PEER_BACKOFF_S)

About = tuple[str, str, lanes.Message[Sent]]
"""A source, a lane, and what is said of it."""


class Correspondent(Protocol[Sent]):
    """A source that is shared with the peer."""

    def greets(self, peer: str) -> Met | None:
        """What it begins, if the peer has not written that down; None for one that has begun."""
        ...

    def letter(self, peer: str, *, reminder: bool) -> tuple[list[tuple[str, lanes.Message[Sent]]], bool]:
        """What the peer is to be told now, lane by lane, and whether it is reminded of all that it is owed."""
        ...

    def answered_by(self, peer: str, answers: Sequence[tuple[str, lanes.Message[Sent]]]) -> bool:
        """What the peer said to a letter. Returns whether it is to be reminded of anything."""
        ...


class PeerLine(Generic[Sent]):
    """All times are seconds of one clock that is never set."""

    def __init__(self, peer: str, sources: Mapping[str, Correspondent[Sent]]) -> None:
        self.peer: Final = peer
        self._sources = sources
        self._reminded_s = -math.inf
        """When a letter last reminded the peer of all that it is owed."""
        self._backoff = _BACKOFF
        self._begins = False
        """Whether the last letter came with a greeting."""

    @property
    def is_away(self) -> bool:
        """Whether the last letter was not answered. One that is away hears the news when it is back."""
        return self._backoff.failures > 0

    def greetings(self) -> dict[str, Met]:
        """What is to be written down by the peer before the next letter, by source."""
        found = {name: source.greets(self.peer) for name, source in self._sources.items()}
        greetings = {name: met for name, met in found.items() if met is not None}
        self._begins = bool(greetings)
        return greetings

    def write(self, now_s: float) -> list[About[Sent]]:
        """The next letter; empty where there is nothing to say. ``answered`` or ``failed`` must follow."""
        reminder = now_s - self._reminded_s >= limits.HEARTBEAT_S
        letter: list[About[Sent]] = []
        reminded = True
        for name, source in self._sources.items():
            told, of_all = source.letter(self.peer, reminder=reminder)
            letter += [(name, lane, message) for lane, message in told]
            reminded = reminded and of_all
        if reminded:
            self._reminded_s = now_s
        return letter

    def answered(self, answers: Sequence[About[Sent]], now_s: float) -> float:
        """Returns the seconds until the next reminder: there is one while anything is owed, or where one that begins
        has to say so again."""
        owes = self._begins
        for name, source in self._sources.items():
            said = [(lane, message) for about, lane, message in answers if about == name]
            owes = source.answered_by(self.peer, said) or owes
        self._backoff = _BACKOFF
        return max(0.0, self._reminded_s + limits.HEARTBEAT_S - now_s) if owes else NEVER

    def failed(self) -> float:
        """Nobody knows whether the letter was read. Returns the seconds until the peer is looked for again."""
        self._reminded_s = -math.inf
        self._backoff = self._backoff.failed()
        return self._backoff.wait_s
