"""One stage, batch by batch, as Spark runs it.

Spark's watermark in batch N is the smallest punctuation at the end of batch N - 1, in whole milliseconds; it starts
at 0. Windows close by it, so an Aggregate hears of a punctuation one batch late; everything else hears of it at once.
Given the very batches that a Spark query ran, tuples and punctuations are the same after each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anabranch.model.names import internal_stream
from anabranch.query.boxes import Aggregate, Arrow, Box, Diagram, Maker, Source
from anabranch.query.graph import Stage, order, origins
from anabranch.reference.boxes import Emitted, Promises
from anabranch.reference.network import make_boxes
from anabranch.reference.tuples import Tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What a batch wrote to each target, what the stage promises after it, and the watermark it ran with."""

    emitted: Mapping[str, list[Tuple]]
    punctuations: Mapping[str, int]
    watermark_us: int


class StageReference:
    """Replays a stage. ``run`` is one batch; a batch that Spark ran twice is run once here."""

    def __init__(self, diagram: Diagram, stage: Stage) -> None:
        self._stage = stage
        self._boxes = make_boxes(diagram)
        below = set(_below(diagram, stage.root))
        above = {name for target in stage.targets for name, _ in target.path}
        self._members = [box for box in order(diagram) if box.name in below | above | {stage.root}]
        self._origins = {box.name: origins(diagram, Arrow(box.name)) for box in self._members}
        self._late_promises: dict[str, Promises] = {}
        self._watermark_us = 0

    def run(self, tuples: Mapping[str, Sequence[Tuple]], punctuations: Mapping[str, Mapping[str, int]]) -> BatchResult:
        """One batch: per stream that is read, its new tuples, and its punctuations at the batch's end offset."""
        emitted: dict[str, Emitted] = {}
        promises: dict[str, Promises] = {}
        for box in self._members:
            stream = self._read_as(box)
            if stream is None:
                emitted[box.name] = self._work(box, emitted, promises)
                promises[box.name] = self._boxes[box.name].promises()
            else:
                emitted[box.name] = {0: list(tuples.get(stream, ()))}
                promised = punctuations.get(stream, {})
                promises[box.name] = {origin: promised.get(origin, 0) for origin in self._origins[box.name]}
        result = BatchResult(
            emitted={each.stream: emitted[each.arrow.box].get(each.arrow.port, []) for each in self._stage.targets},
            punctuations={origin: time for origin, time in promises[self._stage.root].items() if time},
            watermark_us=self._watermark_us,
        )
        self._late_promises = promises
        read = [promises[box.name] for box in self._members if self._read_as(box) is not None]
        self._watermark_us = min(time for promised in read for time in promised.values()) // 1_000 * 1_000
        return result

    @property
    def watermark_us(self) -> int:
        """The watermark that the next batch runs with."""
        return self._watermark_us

    def _read_as(self, box: Box) -> str | None:
        """The stream that brings this box's tuples from outside of the stage; None if the box works in it."""
        if isinstance(box, Source):
            return box.name
        if isinstance(box, Maker) and box.name != self._stage.root:
            return internal_stream(box.name)
        return None

    def _work(self, box: Box, emitted: Mapping[str, Emitted], promises: Mapping[str, Promises]) -> Emitted:
        made: Emitted = {}
        worker = self._boxes[box.name]
        heard = self._late_promises if isinstance(box, Aggregate) else promises
        for port, arrow in enumerate(box.inputs):
            _add(made, worker.process(port, emitted[arrow.box].get(arrow.port, [])))
        for port, arrow in enumerate(box.inputs):
            _add(made, worker.punctuate(port, heard.get(arrow.box, {})))
        return made


def _add(made: Emitted, more: Emitted) -> None:
    for port, tuples in more.items():
        made.setdefault(port, []).extend(tuples)


def _below(diagram: Diagram, box: str) -> Iterator[str]:
    """Everything under a root that its stage reads or works through."""
    for arrow in diagram.box(box).inputs:
        yield arrow.box
        if not isinstance(diagram.box(arrow.box), Source | Maker):
            yield from _below(diagram, arrow.box)
