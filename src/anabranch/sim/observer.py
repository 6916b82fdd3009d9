"""Sees everything that becomes durable anywhere, and tells the checkers.

Some of them look while it happens. The others must know what should have come out, which is known when all is over:
only then it is clear which entries of a producer that died were kept. So what they look at is noted, and judged later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from anabranch.core.horizon import Slowest
from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple
from anabranch.sim.messages import Pushed
from anabranch.sim.tape import Segment, Tape
from anabranch.sim.truth import Identity
from anabranch.sim.world import SECOND, World

if TYPE_CHECKING:
    from anabranch.sim.role import Disk


class Broken(AssertionError):
    """A guarantee did not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """An inlet let a segment through; ``before`` and ``promised`` is what it let through and promised until then."""

    at_us: int
    node: str
    stream: str
    segment: Segment
    before: frozenset[Identity]
    promised: Punctuations

    @property
    def tuples(self) -> Sequence[Tuple]:
        return self.segment.tuples

    @property
    def after(self) -> frozenset[Identity]:
        return self.before | {each.identity for each in self.segment.tuples}


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A stage or an entry point wrote a segment to a log, which had promised this before."""

    at_us: int
    node: str
    stream: str
    segment: Segment
    promised: Punctuations


Noted = Passed | Logged


class Watcher(Protocol):
    """A checker that needs no truth: it is told when something has become durable, and may raise ``Broken``."""

    def stored(self, node: str, disk: Disk) -> None:
        """A node's disk is this now."""

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """A log is about to forget everything up to here."""


class ElectionWatcher(Protocol):
    """A checker of who leads."""

    def campaigned(self, origin: str, term: int, *, takes_over: bool) -> None: ...

    def stepped_down(self, now_us: int, node: str, origin: str, term: int) -> None: ...


class LifeWatcher(Protocol):
    """A checker of what begins anew, and why."""

    def ended(self, node: str, *, lost: bool) -> None: ...

    def rebuilt(self, node: str) -> None: ...

    def began(self, node: str) -> None: ...


class HorizonWatcher(Protocol):
    """A checker of who waits at the horizon."""

    def began(self, node: str) -> None: ...

    def told(self, node: str, reader: str, slowest: Slowest) -> None: ...

    def entered(self, node: str, origin: str, entry: Pushed) -> None: ...

    def holds_back(self, node: str, origin: str) -> None: ...


class Observer:
    """What each inlet has let through, what there is to judge, and who must hear of what happens."""

    def __init__(
        self,
        world: World,
        watchers: Sequence[Watcher],
        election_watcher: ElectionWatcher,
        life_watcher: LifeWatcher,
        horizon_watcher: HorizonWatcher | None = None,
    ) -> None:
        self._world = world
        self._watchers = watchers
        self._election_watcher = election_watcher
        self._life_watcher = life_watcher
        self._horizon_watcher = horizon_watcher
        self._passed: dict[tuple[str, str], frozenset[Identity]] = {}
        self.noted: list[Noted] = []
        self.cuts = 0
        self.rebuilds = 0
        self.rejoined = 0
        self.held_back = 0
        self.holes = 0
        self.moves = 0
        self.repeated = 0

    def committed(self, node: str, before: Disk, after: Disk) -> None:
        if before.life == after.life:
            for stream, tape in after.tapes.items():
                earlier = before.tapes[stream]
                if tape.end_seq == earlier.end_seq:
                    continue
                promised = earlier.promises
                for segment in tape.between(earlier.end_seq, tape.end_seq):
                    self._note(node, stream, segment, promised, is_inlet=stream in after.inlets)
                    promised = segment.promises
        for watcher in self._watchers:
            watcher.stored(node, after)

    def _note(self, node: str, stream: str, segment: Segment, promised: Punctuations, *, is_inlet: bool) -> None:
        now_us = self._world.now_us
        if not is_inlet:
            self.noted.append(Logged(at_us=now_us, node=node, stream=stream, segment=segment, promised=promised))
            return
        before = self._passed.get((node, stream), frozenset())
        passed = Passed(at_us=now_us, node=node, stream=stream, segment=segment, before=before, promised=promised)
        self._passed[node, stream] = passed.after
        self.noted.append(passed)

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        for watcher in self._watchers:
            watcher.trimmed(node, stream, tape, last_id)

    def campaigned(self, origin: str, term: int, *, takes_over: bool) -> None:
        """An entry point asks for votes; with ``takes_over`` for a producer that takes its lane along."""
        self._election_watcher.campaigned(origin, term, takes_over=takes_over)

    def stepped_down(self, node: str, origin: str, term: int) -> None:
        """An entry point leads no longer, because of this term."""
        self._election_watcher.stepped_down(self._world.now_us, node, origin, term)

    def cut_off(self) -> None:
        self.cuts += 1

    def told(self, node: str, reader: str, slowest: Slowest) -> None:
        """A reader has told the node how far its slowest origin is."""
        if self._horizon_watcher is not None:
            self._horizon_watcher.told(node, reader, slowest)

    def entered(self, node: str, origin: str, entry: Pushed) -> None:
        """The entry point that leads the lane has taken an entry in."""
        if self._horizon_watcher is not None:
            self._horizon_watcher.entered(node, origin, entry)

    def holds_back(self, node: str, origin: str) -> None:
        """The entry point that leads the lane makes it wait at the horizon."""
        self.held_back += 1
        if self._horizon_watcher is not None:
            self._horizon_watcher.holds_back(node, origin)

    def moves_on(self) -> None:
        self.moves += 1

    def knows_again(self) -> None:
        self.repeated += 1

    def leaves_out(self) -> None:
        self.holes += 1

    def counts_again(self) -> None:
        self.rejoined += 1

    def began(self, node: str) -> None:
        """Its process runs, from what is on its disk."""
        self._life_watcher.began(node)
        if self._horizon_watcher is not None:
            self._horizon_watcher.began(node)

    def ended(self, node: str, *, lost: bool) -> None:
        """A fault has ended its process, and may have taken its disk."""
        self._life_watcher.ended(node, lost=lost)
        if lost:
            self._forget(node)

    def installs(self, node: str) -> None:
        """It is about to store the state of a peer."""
        self._life_watcher.rebuilt(node)

    def _forget(self, node: str) -> None:
        for key in [key for key in self._passed if key[0] == node]:
            del self._passed[key]

    def rebuilt(self, node: str, passed: Mapping[str, frozenset[Identity]]) -> None:
        self.rebuilds += 1
        self._forget(node)
        for stream, identities in passed.items():
            self._passed[node, stream] = identities

    def passed_by(self, node: str) -> dict[str, frozenset[Identity]]:
        return {stream: identities for (owner, stream), identities in self._passed.items() if owner == node}


def at(time_us: int) -> str:
    return f"At {time_us / SECOND:.6f} s"
