"""A checker that looks at nothing: the others override what they look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.model.punctuation import Punctuations
from anabranch.reference.tuples import Tuple
from anabranch.sim.tape import Segment, Tape
from anabranch.sim.truth import Identity, Truth

if TYPE_CHECKING:
    from anabranch.sim.node import Disk


class Base:
    def __init__(self, truth: Truth) -> None:
        self.truth = truth

    def passed(
        self, node: str, stream: str, tuples: Sequence[Tuple], before: frozenset[Identity], promised: Punctuations
    ) -> None:
        pass

    def promised(self, node: str, stream: str, promises: Punctuations, passed: frozenset[Identity]) -> None:
        pass

    def logged(self, node: str, stream: str, segment: Segment, tape: Tape) -> None:
        pass

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        pass

    def stored(self, node: str, disk: Disk) -> None:
        pass
