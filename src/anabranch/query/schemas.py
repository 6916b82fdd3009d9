"""The schema on every arrow of a diagram: each kind of box turns those of its inputs into that of its outputs.

What cannot be known (an input with a mistake in it) is None and stays None behind it: one mistake is one problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.query import catalog, graph
from anabranch.query.boxes import Arrow, Box, Diagram, Schema, Source


def output_schema(box: Box, inputs: Sequence[Schema | None]) -> Schema | None:
    """The schema of each output of a box, or None if the inputs or the box leave it unknown."""
    known = [schema for schema in inputs if schema is not None]
    if len(known) != len(inputs) or not (known or isinstance(box, Source)):
        return None
    return catalog.kind(box).schema(box, known)


def schemas(diagram: Diagram) -> dict[Arrow, Schema]:
    """The schema on every arrow; all of them are there if the diagram is valid."""
    found: dict[Arrow, Schema] = {}
    for box in graph.order(diagram):
        add_outputs(found, box)
    return found


def add_outputs(found: dict[Arrow, Schema], box: Box) -> None:
    """Derive a box's outputs from its inputs; nothing is added when they are unknown."""
    schema = output_schema(box, inputs_of(found, box))
    if schema is not None:
        found.update((Arrow(box.name, port), schema) for port in range(graph.ports(box)))


def inputs_of(found: Mapping[Arrow, Schema], box: Box) -> list[Schema | None]:
    return [found.get(arrow) for arrow in box.inputs]
