"""What a stage may promise on its output after a batch (racing paper, section 3.4).

Boxes that never wait pass on what their inputs promised at the batch's end offsets; what waits for the watermark emits
what the batch's watermark allows, so its promise follows from that watermark. How far behind or ahead of it the promise
is, the kind of box says. Knows only the diagram and the promises.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.model.punctuation import Punctuations, merge_min
from anabranch.query import catalog
from anabranch.query.boxes import Arrow, Diagram, Maker, Source, Stateful
from anabranch.query.graph import origins, stream_of


def output_punctuations(
    diagram: Diagram, root: str, inputs: Mapping[str, Punctuations], watermark_us: int, *, port: int = 0
) -> dict[str, int]:
    """The punctuations of the stage with this root and port, whatever steps its outputs hang on.

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
    box = diagram.box(root.box)
    after_us = catalog.waits_us(box)
    if after_us is not None:
        return dict.fromkeys(origins(diagram, root), max(0, watermark_us + after_us) if watermark_us > 0 else 0)
    if isinstance(box, Maker):
        sides = (_of_arrow(diagram, arrow, inputs) for arrow in box.inputs)
        return {box.name: min(min(side.values(), default=0) for side in sides)}
    return _of_arrow(diagram, root, inputs)


def _of_arrow(diagram: Diagram, arrow: Arrow, inputs: Mapping[str, Punctuations]) -> dict[str, int]:
    box, stream = diagram.box(arrow.box), stream_of(diagram, arrow)
    if stream in inputs or isinstance(box, Source | Stateful):
        return {origin: inputs[stream].get(origin, 0) for origin in origins(diagram, arrow)}
    return merge_min(_of_arrow(diagram, below, inputs) for below in box.inputs)


def held_back_us(diagram: Diagram) -> int:
    """How far what outputs promise may be behind what the lanes have promised when everything has been worked off."""
    return sum(max(0, -(catalog.waits_us(box) or 0)) for box in diagram.boxes)
