"""Which boundaries a stage passes on without a batch, and what it promises then.

Where rows wait, a batch has to run. Where only boundaries do, most batches would show nothing and change nothing but
the promise of the output, which follows from the promises of the inputs alone (``core.output``). So the host promises
it by itself, if two things hold:

- *no row is left that would show anything.* Every row below these positions of the journals has been in a batch that
  is logged, so nothing comes out any more but what the boundaries themselves bring about. Or the stage will keep the
  rows (``keeps``), of which none was late. Those of a window of time belong to windows that end above the watermark of
  the last batch, and by the second condition above that of now. Those of a Join are further than its window from all
  that the other side ever brought; a pair with what comes later is as late as the later of the two;
- *the boundaries bring about nothing.* Filter, Map, Union and Join emit at once. A window of time shows its results
  when the watermark reaches its end, so none if no end lies between the watermark of the last batch and that of now.
  What other boxes show that wait is known to Spark alone: those have their batch.

Spark reads these boundaries with the next batch that runs. That batch may know less than what was promised, after a
stop for instance; what was promised stays true (``raised``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from anabranch.core.output import output_punctuations
from anabranch.core.pacing import keeps_rows, shows_results
from anabranch.model.punctuation import Punctuations
from anabranch.query import catalog
from anabranch.query.boxes import Arrow, Diagram, Join
from anabranch.query.graph import Stage, is_stateful, read_as


class Passing:
    """The rule for one stage."""

    def __init__(self, diagram: Diagram, stage: Stage) -> None:
        self._diagram = diagram
        self._stage = stage
        self._waits = is_stateful(diagram, stage)
        self._root = diagram.box(stage.root)
        sides = self._root.inputs if self._waits and isinstance(self._root, Join) else ()
        self._sides = [frozenset(_streams(diagram, stage, arrow)) for arrow in sides]
        self._keeps_rows = self._waits and keeps_rows(self._root)
        self._may_show = self._waits and catalog.waits_us(self._root) is not None

    def keeps(self, rows: Mapping[str, int], said_us: Mapping[str, int], top_us: Callable[[str], int]) -> bool:
        """Whether rows that no batch has read show nothing before a boundary or other rows come.

        Of each stream: how many there are, what the last batch heard it promise, which is no more than their times, and
        the largest time of all rows that it ever had.
        """
        if not isinstance(self._root, Join) or not self._waits:
            return self._keeps_rows
        within_us, (left, right) = self._root.within_us, self._sides
        return not left & right and all(
            not rows.get(stream, 0) or max(map(top_us, others)) + within_us < said_us.get(stream, 0)
            for side, others in ((left, right), (right, left))
            for stream in side
        )

    def promised(
        self, inputs: Mapping[str, Punctuations], *, rows: int, before_us: int, now_us: int
    ) -> dict[str, int] | None:
        """What the stage promises without a batch; None if it needs one.

        ``inputs`` has the promises of what it reads, at positions below which ``rows`` have not been in a logged batch
        that the stage does not keep;
        ``now_us`` is the watermark that these promises make, and ``before_us`` the one that the last batch ran with.
        """
        if not self.all_logged(rows) or self.shows(before_us, now_us):
            return None
        watermark_us = max(before_us, now_us)
        return output_punctuations(self._diagram, self._stage.root, inputs, watermark_us, port=self._stage.port)

    def all_logged(self, rows: int) -> bool:
        return rows == 0

    def shows(self, before_us: int, now_us: int) -> bool:
        """Whether a batch may have results to show when the watermark has gone from one time to another."""
        return self._may_show and now_us > before_us and shows_results(self._root, before_us, now_us)


def _streams(diagram: Diagram, stage: Stage, arrow: Arrow) -> Iterator[str]:
    """What is read below an arrow."""
    stream = read_as(diagram, stage, arrow)
    if stream is not None:
        yield stream
        return
    for below in diagram.box(arrow.box).inputs:
        yield from _streams(diagram, stage, below)


def raised(said: Punctuations, promised: Punctuations) -> dict[str, int]:
    """What is promised, and no less than was said before."""
    return {origin: max(time, said.get(origin, 0)) for origin, time in promised.items()}
