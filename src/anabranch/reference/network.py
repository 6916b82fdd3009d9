"""The reference boxes of a diagram, made in order, each knowing the columns and origins of what it reads."""

from __future__ import annotations

from typing import assert_never

from anabranch.query import boxes, floats
from anabranch.query.boxes import Arrow, Diagram
from anabranch.query.graph import order, origins, union_hashes
from anabranch.reference.box import Columns, ReferenceBox
from anabranch.reference.joins import JoinBox, LatestBox, ResampleBox
from anabranch.reference.lookups import LookupBox
from anabranch.reference.ordered import DedupBox, WSortBox
from anabranch.reference.steps import DropBox, FilterBox, MapBox, PythonBox, UnionBox
from anabranch.reference.windows import (
    AggregateBox,
    CountAggregateBox,
    EarlyAggregateBox,
    SessionBox,
    SlideBox,
    TumbleBox,
    XSectionBox,
)


def make_boxes(diagram: Diagram) -> dict[str, ReferenceBox]:
    """A box for each that is no source, after those it reads."""
    columns: dict[str, Columns] = {
        source.name: {column.name: column.type or "?" for column in source.schema} for source in diagram.sources
    }
    made: dict[str, ReferenceBox] = {}
    scales = floats.exact_scales(diagram)
    for box in order(diagram):
        if not isinstance(box, boxes.Source):
            made[box.name] = _make(diagram, box, columns, scales.get(box.name, {}))
            columns[box.name] = made[box.name].columns
    return made


def _make(diagram: Diagram, box: boxes.Box, columns: dict[str, Columns], scales: dict[str, int]) -> ReferenceBox:
    reached = [origins(diagram, arrow) for arrow in box.inputs]
    below = [columns[arrow.box] for arrow in box.inputs]
    match box:
        case boxes.Filter():
            return FilterBox(box, below[0], reached[0])
        case boxes.Map():
            return MapBox(box, below[0], reached[0])
        case boxes.Python():
            return PythonBox(box, below[0], reached[0])
        case boxes.Drop():
            return DropBox(box, below[0], reached[0])
        case boxes.Union():
            return UnionBox(box, below[0], reached, hashes=union_hashes(diagram, box))
        case boxes.Lookup():
            return LookupBox(box, below[0], reached[0])
        case boxes.Join():
            return JoinBox(box, below[0], below[1], reached)
        case boxes.Aggregate(rows=int()):
            return CountAggregateBox(box, below[0], reached[0], scales)
        case boxes.Aggregate(emit_rows=int()):
            return EarlyAggregateBox(box, below[0], reached[0], scales)
        case boxes.Aggregate():
            return AggregateBox(box, below[0], reached[0], scales)
        case boxes.Session():
            return SessionBox(box, below[0], reached[0], scales)
        case boxes.Tumble():
            return TumbleBox(box, below[0], reached[0], scales)
        case boxes.Slide():
            return SlideBox(box, below[0], reached[0], scales)
        case boxes.XSection():
            return XSectionBox(box, below[0], reached[0], scales)
        case boxes.Latest():
            return LatestBox(box, below[0], below[1], reached)
        case boxes.Resample():
            return ResampleBox(box, below[0], below[1], reached)
        case boxes.Dedup():
            return DedupBox(box, below[0], reached[0])
        case boxes.WSort():
            return WSortBox(box, below[0], reached[0])
        case boxes.Source():
            raise TypeError("a source has no box: its tuples are given")
        case _:
            assert_never(box)


def readers(diagram: Diagram) -> dict[Arrow, list[tuple[str, int]]]:
    """Per arrow, the boxes that read it and on which port; a box that reads it twice is there twice."""
    found: dict[Arrow, list[tuple[str, int]]] = {}
    for box in order(diagram):
        for port, arrow in enumerate(box.inputs):
            found.setdefault(arrow, []).append((box.name, port))
    return found
