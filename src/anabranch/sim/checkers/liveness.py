"""Liveness: after the last heal everything arrives, and every promise is made."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.sim.checkers.base import Base
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape


class Liveness(Base):
    def complete(
        self, client: str, journals: Sequence[Tape], passed: dict[str, frozenset[tuple[str, int, int]]]
    ) -> None:
        for tape in journals:
            missing = sorted(set(self.truth.tuples[tape.name]) - passed.get(tape.name, frozenset()))
            if missing:
                raise Broken(f"{client} never got {len(missing)} tuples of {tape.name}, the first is {missing[0]}.")
            if dict(tape.promises) != dict(self.truth.promises[tape.name]):
                raise Broken(
                    f"{client} was promised {dict(tape.promises)} of {tape.name}, not {self.truth.promises[tape.name]}."
                )
