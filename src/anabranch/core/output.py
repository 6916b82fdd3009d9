"""What a stage may promise on its output after a batch (racing paper, section 3.4).

Boxes that never wait pass on what their inputs promised at the batch's end offsets; an Aggregate emits what the batch's
watermark closed, so its promise follows from that watermark. Knows only the diagram and the promises.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.model.names import internal_stream
from anabranch.model.punctuation import Punctuations, merge_min
from anabranch.query.boxes import Aggregate, Arrow, Box, Diagram, Drop, Filter, Join, Map, Source, Union


def output_punctuations(
    diagram: Diagram, root: str, inputs: Mapping[str, Punctuations], watermark_us: int
) -> dict[str, int]:
    """The punctuations of the stage with this root box, whatever Filters, Maps and Drops its outputs hang on.

    ``inputs`` holds, per stream that the stage reads (a source, or ``box:<name>`` for a Join or Aggregate below the
    root), the punctuations at the end of the batch; ``watermark_us`` is the watermark that the batch ran with. Only
    origins that reach the root appear, and only if something is promised for them.
    """
    promised = _of_root(diagram, diagram.box(root), inputs, watermark_us)
    return {origin: time for origin, time in promised.items() if time > 0}


def _of_root(diagram: Diagram, root: Box, inputs: Mapping[str, Punctuations], watermark_us: int) -> dict[str, int]:
    """Every origin that reaches the root is in the map: one that promised nothing holds the others at 0."""
    match root:
        case Aggregate(rows=int()):
            # All tuples before the watermark are worked off; the next window ends with one at or after it.
            return {root.name: watermark_us}
        case Aggregate():
            # All windows that end at or before the watermark are out; a later one ends at least one unit after it.
            return {root.name: watermark_us + 1 if watermark_us > 0 else 0}
        case Join():
            sides = (_of_arrow(diagram, arrow, inputs) for arrow in root.inputs)
            return {root.name: min(min(side.values(), default=0) for side in sides)}
        case _:
            return _of_arrow(diagram, Arrow(root.name), inputs)


def _of_arrow(diagram: Diagram, arrow: Arrow, inputs: Mapping[str, Punctuations]) -> dict[str, int]:
    match diagram.box(arrow.box):
        case Source(name=name) as source:
            return {origin: inputs[name].get(origin, 0) for origin in source.origins}
        case Join(name=name) | Aggregate(name=name):
            return {name: inputs[internal_stream(name)].get(name, 0)}
        case Filter(input=below) | Map(input=below) | Drop(input=below):
            return _of_arrow(diagram, below, inputs)
        case Union(inputs=below):
            return merge_min(_of_arrow(diagram, each, inputs) for each in below)
