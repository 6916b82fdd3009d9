"""Transparency: no fault changes a stream. What passes an inlet or enters a log is what the failure-free run has there,
with the same columns, and nothing passes an inlet twice at any moment."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple
from anabranch.sim.checkers.base import Base
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Segment, Tape
from anabranch.sim.truth import Identity


class Transparency(Base):
    def passed(
        self, node: str, stream: str, tuples: Sequence[Tuple], before: frozenset[Identity], promised: Punctuations
    ) -> None:
        seen = set(before)
        for each in tuples:
            if each.identity in seen:
                raise Broken(f"{each.identity} passed the inlet of {node} for {stream} twice.")
            seen.add(each.identity)
            self._is_true(f"the inlet of {node}", stream, each)

    def logged(self, node: str, stream: str, segment: Segment, tape: Tape) -> None:
        for each in segment.tuples:
            self._is_true(f"the log of {node}", stream, each)

    def _is_true(self, where: str, stream: str, found: Tuple) -> None:
        wanted = self.truth.tuples[stream].get(found.identity)
        if wanted is None or wanted.content != found.content:
            raise Broken(f"{where} has {found} in {stream}; the failure-free run has {wanted}.")
