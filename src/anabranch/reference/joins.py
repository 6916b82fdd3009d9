"""Join: tuples of two streams put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anabranch.model.identity import identity_hash
from anabranch.query import boxes
from anabranch.reference.box import Columns, Emitted, Promises, ReferenceBox, row_of
from anabranch.reference.expressions import compile_expression, parse
from anabranch.reference.tuples import Tuple


class JoinBox(ReferenceBox):
    """Figure 2: match a new tuple with what the other input brought, emit at once, remember it while it is of use."""

    def __init__(self, box: boxes.Join, left: Columns, right: Columns, inputs: Sequence[Iterable[str]]) -> None:
        super().__init__(inputs)
        self.columns = {**left, **right}
        self._name = box.name
        self._within_us = box.within_us
        self._on = compile_expression(parse(box.on), {name.lower(): type_ for name, type_ in self.columns.items()})
        self._buffers: tuple[list[Tuple], list[Tuple]] = ([], [])

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        made: list[Tuple] = []
        for each in tuples:
            for other in self._buffers[1 - port]:
                left, right = (each, other) if port == 0 else (other, each)
                if (
                    abs(left.stime - right.stime) < self._within_us
                    and self._on.of(row_of(left) | row_of(right)) is True
                ):
                    made.append(self._concatenate(left, right))
            self._buffers[port].append(each)
        return {0: made}

    def _concatenate(self, left: Tuple, right: Tuple) -> Tuple:
        return Tuple(
            origin=self._name,
            stime=max(left.stime, right.stime),
            tid=identity_hash("join", self._name, [*left.identity_parts, *right.identity_parts]),
            values={**left.values, **right.values},
        )

    def punctuate(self, port: int, promises: Mapping[str, int]) -> Emitted:
        super().punctuate(port, promises)
        oldest = self._smallest(port) - self._within_us
        self._buffers[1 - port][:] = [each for each in self._buffers[1 - port] if each.stime >= oldest]
        return {}

    def promises(self) -> Promises:
        """A pair is as late as the later of the two, and each of them is at or above what its input promised."""
        return {self._name: min(self._smallest(0), self._smallest(1))}
