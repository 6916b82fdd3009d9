"""One stage, batch by batch, as Spark runs it.

Spark's watermark in batch N is the smallest punctuation at the end of batch N - 1, in whole milliseconds; it starts
at 0. Boxes that wait, wait for it, so they hear of a punctuation one batch late; everything else hears of it at once.
Given the very batches that a Spark query ran, tuples and punctuations are the same after each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anabranch.query import catalog
from anabranch.query.boxes import Arrow, Box, Diagram
from anabranch.query.graph import Stage, boxes_of, order, origins, ports, read_as
from anabranch.reference.box import Emitted, Promises
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
        self._root = Arrow(stage.root, stage.port)
        self._boxes = make_boxes(diagram)
        self._read = dict(_read(diagram, stage))
        computed = {box.name for box in boxes_of(diagram, stage)} - {arrow.box for arrow in self._read}
        self._members = [box for box in order(diagram) if box.name in computed]
        self._origins = {arrow: origins(diagram, arrow) for arrow in self._read}
        self._late_promises: dict[Arrow, Promises] = {}
        self._watermark_us = 0

    def run(self, tuples: Mapping[str, Sequence[Tuple]], punctuations: Mapping[str, Mapping[str, int]]) -> BatchResult:
        """One batch: per stream that is read, its new tuples, and its punctuations at the batch's end offset."""
        emitted: dict[str, Emitted] = {}
        promises: dict[Arrow, Promises] = {}
        for arrow, stream in self._read.items():
            emitted.setdefault(arrow.box, {})[arrow.port] = list(tuples.get(stream, ()))
            promised = punctuations.get(stream, {})
            promises[arrow] = {origin: promised.get(origin, 0) for origin in self._origins[arrow]}
        for box in self._members:
            emitted[box.name] = self._work(box, emitted, promises)
            promises |= dict.fromkeys(
                [Arrow(box.name, port) for port in range(ports(box))], self._boxes[box.name].promises()
            )
        result = BatchResult(
            emitted={each.stream: emitted[each.arrow.box].get(each.arrow.port, []) for each in self._stage.targets},
            punctuations={origin: time for origin, time in promises[self._root].items() if time},
            watermark_us=self._watermark_us,
        )
        self._late_promises = promises
        self._watermark_us = self.watermark_after(punctuations)
        return result

    def watermark_after(self, punctuations: Mapping[str, Mapping[str, int]]) -> int:
        """The watermark that the streams make which are read, when they promise this."""
        read = [
            punctuations.get(stream, {}).get(each, 0)
            for arrow, stream in self._read.items()
            for each in self._origins[arrow]
        ]
        return min(read) // 1_000 * 1_000

    @property
    def watermark_us(self) -> int:
        """The watermark that the next batch runs with."""
        return self._watermark_us

    def _work(self, box: Box, emitted: Mapping[str, Emitted], promises: Mapping[Arrow, Promises]) -> Emitted:
        made: Emitted = {}
        worker = self._boxes[box.name]
        heard = promises if catalog.waits_us(box) is None else self._late_promises
        for port, arrow in enumerate(box.inputs):
            _add(made, worker.process(port, emitted[arrow.box].get(arrow.port, [])))
        for port, arrow in enumerate(box.inputs):
            _add(made, worker.punctuate(port, heard.get(arrow, {})))
        return made


def _add(made: Emitted, more: Emitted) -> None:
    for port, tuples in more.items():
        made.setdefault(port, []).extend(tuples)


def _read(diagram: Diagram, stage: Stage) -> Iterator[tuple[Arrow, str]]:
    """The arrows whose tuples come from outside of the stage, and the streams that bring them."""
    below = [Arrow(stage.root, stage.port)]
    while below:
        arrow = below.pop()
        stream = read_as(diagram, stage, arrow)
        if stream is not None:
            yield arrow, stream
        else:
            below += diagram.box(arrow.box).inputs
