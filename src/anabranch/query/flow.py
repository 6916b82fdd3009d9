"""How the boxes of a query, once they are placed, pass streams between nodes.

A query is cut wherever a box runs on other nodes than what it reads (racing paper, section 2.1: each operator has
replicas of its own). The stream of a cut arrow is a log on every node that makes it. What lies between cuts is formed
into stages as it is on one node (``query.graph``), so all boxes of a stage run on the same nodes, and a stage is the
same Spark query on each: that is what lets one replica be rebuilt from another.

A fragment that makes a stream reads its own copy of it, as on one node. One that does not, reads all copies there are
(``query.parts``), also on a node that runs both. So every copy is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from anabranch.query.boxes import Diagram
from anabranch.query.graph import Cut, Stage, stages

Placement = Mapping[str, tuple[str, ...]]
"""Per box the nodes that run it; for a source, its entry points."""


class Reading(NamedTuple):
    """Who reads a stream that it does not make, and the nodes that have a copy."""

    reader: str
    stream: str
    copies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The stages of a placed query, and where each stream is made."""

    stages: tuple[Stage, ...]
    run_on: Mapping[str, tuple[str, ...]]
    """By the name of a stage."""
    made_on: Mapping[str, tuple[str, ...]]
    """By the name of a stream: sources, outputs and internal streams."""

    def readings(self) -> Iterator[Reading]:
        """Who reads what from elsewhere, in the order of flow."""
        for stage in self.stages:
            for stream in stage.inputs:
                for node in self.run_on[stage.name]:
                    if node not in self.made_on[stream]:
                        yield Reading(node, stream, self.made_on[stream])


def cuts(diagram: Diagram, placed: Placement) -> frozenset[Cut]:
    """The arrows that lead to boxes on other nodes."""
    return frozenset(
        (arrow, box.name)
        for box in diagram.boxes
        for arrow in box.inputs
        if set(placed[arrow.box]) != set(placed[box.name])
    )


def flow(diagram: Diagram, placed: Placement) -> Flow:
    """The flow of a valid query of which every box is placed."""
    cut = stages(diagram, cuts(diagram, placed))
    run_on = {stage.name: placed[stage.box] for stage in cut}
    made_on = {source.name: placed[source.name] for source in diagram.sources}
    made_on |= {target.stream: run_on[stage.name] for stage in cut for target in stage.targets}
    return Flow(stages=cut, run_on=run_on, made_on=made_on)


def circles(diagram: Diagram, flow: Flow) -> list[list[Reading]]:
    """Nodes that read each other's results in a circle, each as the readings that make it, one circle per knot.

    Rows of sources do not count: an entry point waits for nobody.
    """
    sources = {source.name for source in diagram.sources}
    upstream: dict[str, dict[str, Reading]] = {}
    for reading in flow.readings():
        if reading.stream not in sources:
            for copy in reading.copies:
                upstream.setdefault(reading.reader, {}).setdefault(copy, reading)
    _forget_free(upstream)
    found = []
    while upstream:
        path = [next(iter(upstream))]
        while len(set(path)) == len(path):
            path.append(next(node for node in upstream[path[-1]] if node in upstream))
        circle = path[path.index(path[-1]) :]
        found.append([upstream[reader][copy] for reader, copy in pairwise(circle)])
        for node in set(circle):
            del upstream[node]
        _forget_free(upstream)
    return found


def _forget_free(upstream: dict[str, dict[str, Reading]]) -> None:
    """Take out nodes that wait for none of the others, until there is none."""
    while free := [node for node, copies in upstream.items() if not copies.keys() & upstream.keys()]:
        for node in free:
            del upstream[node]
