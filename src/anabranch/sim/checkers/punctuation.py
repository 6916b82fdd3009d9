"""Punctuation is true: when an inlet promises a time, everything below it has passed, and nothing below comes after."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple
from anabranch.sim.checkers.base import Base
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Segment, Tape
from anabranch.sim.truth import Identity


class Punctuation(Base):
    def passed(
        self, node: str, stream: str, tuples: Sequence[Tuple], before: frozenset[Identity], promised: Punctuations
    ) -> None:
        for each in tuples:
            if each.stime < promised.get(each.origin, 0):
                raise Broken(f"{each.identity} passed {node}, which had promised {promised[each.origin]} for {stream}.")

    def promised(self, node: str, stream: str, promises: Punctuations, passed: frozenset[Identity]) -> None:
        for origin, time in promises.items():
            for identity in self.truth.by_time.get((stream, origin), ()):
                if identity[1] >= time:
                    break
                if identity not in passed:
                    raise Broken(f"{node} promised {time} for {origin} of {stream}, and {identity} has not passed.")

    def logged(self, node: str, stream: str, segment: Segment, tape: Tape) -> None:
        before = tape.promises_at(segment.first_id - 1) if segment.tuples else {}
        for each in segment.tuples:
            if each.stime < before.get(each.origin, 0):
                raise Broken(f"{each.identity} in the log of {node} for {stream} is below its promise.")
