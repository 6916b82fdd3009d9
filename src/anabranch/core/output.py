"""What a stage may promise on its output after a batch (racing paper, section 3.4).

Boxes that never wait pass on what their inputs promised at the batch's end offsets; an Aggregate emits what the batch's
watermark closed, so its promise follows from that watermark. Knows only the diagram and the promises.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.model.punctuation import Punctuations, merge_min
from anabranch.query.boxes import Aggregate, Arrow, Diagram, Join, Maker, Source
from anabranch.query.graph import origins, stream_of


def output_punctuations(
    diagram: Diagram, root: str, inputs: Mapping[str, Punctuations], watermark_us: int, *, port: int = 0
) -> dict[str, int]:
    """The punctuations of the stage with this root and port, whatever Filters, Maps and Drops its outputs hang on.

    ``inputs`` holds, per stream that the stage reads (a source, or ``box:<name>`` for what another stage makes), the
    punctuations at the end of the batch; ``watermark_us`` is the watermark that the batch ran with. Only origins that
    reach the root appear, and only if something is promised for them.
    """
    promised = _of_root(diagram, Arrow(root, port), inputs, watermark_us)
    return {origin: time for origin, time in promised.items() if time > 0}


def _of_root(diagram: Diagram, root: Arrow, inputs: Mapping[str, Punctuations], watermark_us: int) -> dict[str, int]:
    """Every origin that reaches the root is in the map: one that promised nothing holds the others at 0."""
    if stream_of(diagram, root) in inputs:
        return _of_arrow(diagram, root, inputs)
    match diagram.box(root.box):
        case Aggregate(rows=int(), name=name):
            # All tuples before the watermark are worked off; the next window ends with one at or after it.
            return {name: watermark_us}
        case Aggregate(name=name):
            # All windows that end at or before the watermark are out; a later one ends at least one unit after it.
            return {name: watermark_us + 1 if watermark_us > 0 else 0}
        case Join(name=name) as join:
            sides = (_of_arrow(diagram, arrow, inputs) for arrow in join.inputs)
            return {name: min(min(side.values(), default=0) for side in sides)}
        case _:
            return _of_arrow(diagram, root, inputs)


def _of_arrow(diagram: Diagram, arrow: Arrow, inputs: Mapping[str, Punctuations]) -> dict[str, int]:
    box, stream = diagram.box(arrow.box), stream_of(diagram, arrow)
    if stream in inputs or isinstance(box, Source | Maker):
        return {origin: inputs[stream].get(origin, 0) for origin in origins(diagram, arrow)}
    return merge_min(_of_arrow(diagram, below, inputs) for below in box.inputs)
