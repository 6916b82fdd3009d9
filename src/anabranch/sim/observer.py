"""Sees everything that becomes durable anywhere, and tells the checkers, which know what it should have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple
from anabranch.sim.tape import Segment, Tape
from anabranch.sim.truth import Identity

if TYPE_CHECKING:
    from anabranch.sim.node import Disk


class Broken(AssertionError):
    """A guarantee did not hold."""


class Checker(Protocol):
    """One guarantee. Every method is called when something has become durable; any may raise ``Broken``."""

    def passed(
        self, node: str, stream: str, tuples: Sequence[Tuple], before: frozenset[Identity], promised: Punctuations
    ) -> None:
        """An inlet let these through; ``before`` and ``promised`` is what it let through and promised until then."""

    def promised(self, node: str, stream: str, promises: Punctuations, passed: frozenset[Identity]) -> None:
        """An inlet promised this, with all of ``passed`` behind it."""

    def logged(self, node: str, stream: str, segment: Segment, tape: Tape) -> None:
        """A stage or an entry point wrote this to a log."""

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """A log is about to forget everything up to here."""

    def stored(self, node: str, disk: Disk) -> None:
        """A node's disk is this now."""


class Observer:
    """What each inlet has let through, and who must hear of what happens."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self._checkers = checkers
        self._passed: dict[tuple[str, str], frozenset[Identity]] = {}
        self.cuts = 0
        self.rebuilds = 0

    def committed(self, node: str, before: Disk, after: Disk) -> None:
        if before.life == after.life:
            for stream, tape in after.tapes.items():
                promised = before.tapes[stream].promises
                for segment in tape.between(before.tapes[stream].end_seq, tape.end_seq):
                    if stream in after.inlets:
                        self._journaled(node, stream, segment, promised)
                        promised = segment.promises
                    else:
                        for checker in self._checkers:
                            checker.logged(node, stream, segment, tape)
        for checker in self._checkers:
            checker.stored(node, after)

    def _journaled(self, node: str, stream: str, segment: Segment, promised: Punctuations) -> None:
        before = self._passed.get((node, stream), frozenset())
        passed = self._passed[node, stream] = before | {each.identity for each in segment.tuples}
        for checker in self._checkers:
            checker.passed(node, stream, segment.tuples, before, promised)
            checker.promised(node, stream, segment.promises, passed)

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        for checker in self._checkers:
            checker.trimmed(node, stream, tape, last_id)

    def cut_off(self, node: str, reader: str) -> None:
        self.cuts += 1

    def lost(self, node: str) -> None:
        for key in [key for key in self._passed if key[0] == node]:
            del self._passed[key]

    def rebuilt(self, node: str, passed: Mapping[str, frozenset[Identity]]) -> None:
        self.rebuilds += 1
        self.lost(node)
        for stream, identities in passed.items():
            self._passed[node, stream] = identities

    def passed_by(self, node: str) -> dict[str, frozenset[Identity]]:
        return {stream: identities for (owner, stream), identities in self._passed.items() if owner == node}
