"""A whole diagram at once: what comes out of it when everything that was fed has been worked off.

No batches, no stages: tuples and punctuations go through all boxes at once, as in the racing paper. The final outputs
do not depend on how the input was cut, nor do the final punctuations: that makes this the oracle for any run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from anabranch.errors import check
from anabranch.model.names import internal_stream
from anabranch.query.boxes import Arrow, Diagram, Source, Stateful
from anabranch.query.graph import order, ports
from anabranch.reference.box import Emitted, Promises
from anabranch.reference.network import make_boxes, readers
from anabranch.reference.tuples import Tuple


class ReferenceRun:
    """Feed the sources, then read the streams: outputs by name, boxes that hold state as ``box:<name>``."""

    def __init__(self, diagram: Diagram) -> None:
        self._diagram = diagram
        self._boxes = make_boxes(diagram)
        self._readers = readers(diagram)
        self._passed: defaultdict[Arrow, list[Tuple]] = defaultdict(list)
        self._promises: dict[str, Promises] = {
            source.name: dict.fromkeys(source.origins, 0) for source in diagram.sources
        }

    def feed(self, source: str, tuples: Sequence[Tuple], punctuations: Mapping[str, int]) -> None:
        """Tuples of a source, and what it promises after them; origins whose promise did not change may be left out."""
        self._emit(source, {0: list(tuples)})
        promised = self._promises[source]
        for origin, time in punctuations.items():
            check(time >= promised[origin], f"The punctuation of {origin!r} went back to {time}.")
            promised[origin] = time
        for box in order(self._diagram):
            if isinstance(box, Source):
                continue
            for port, arrow in enumerate(box.inputs):
                self._emit(box.name, self._boxes[box.name].punctuate(port, self._promises[arrow.box]))
            self._promises[box.name] = self._boxes[box.name].promises()

    def _emit(self, box: str, emitted: Emitted) -> None:
        for port, tuples in emitted.items():
            self._passed[Arrow(box, port)] += tuples
            for reader, reader_port in self._readers.get(Arrow(box, port), ()):
                self._emit(reader, self._boxes[reader].process(reader_port, tuples))

    def results(self) -> dict[str, list[Tuple]]:
        """All tuples of each stream so far."""
        return {stream: self.tuples_on(arrow) for stream, arrow in self._streams().items()}

    def punctuations(self) -> dict[str, dict[str, int]]:
        """What each stream promises, origins that promised nothing left out."""
        return {stream: self.promises_on(arrow) for stream, arrow in self._streams().items()}

    def tuples_on(self, arrow: Arrow) -> list[Tuple]:
        """All tuples of any arrow so far."""
        return list(self._passed[arrow])

    def promises_on(self, arrow: Arrow) -> dict[str, int]:
        """What any arrow promises, origins that promised nothing left out."""
        return {origin: time for origin, time in self._promises.get(arrow.box, {}).items() if time}

    def _streams(self) -> dict[str, Arrow]:
        made = [box for box in self._diagram.boxes if isinstance(box, Stateful)]
        arrows = [Arrow(box.name, port) for box in made for port in range(ports(box))]
        outputs = {output.name: output.input for output in self._diagram.outputs}
        return outputs | {internal_stream(str(arrow)): arrow for arrow in arrows}
