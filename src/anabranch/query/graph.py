"""Questions about the shape of a diagram: order, origins, sources, and where it is cut into stages.

A *stage* is one Spark query. Every Join and every Aggregate is the root of a stage of its own, so that a shared one is
computed once and none delays the watermark of another; so is every Source or Union that an output hangs on. Filters,
Maps and Drops above a root belong to it: several outputs of one root are split when the batch is logged. Filters, Maps,
Drops and Unions below a root are part of it too, down to the sources and the internal streams of other roots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from anabranch.model.names import Origins, internal_stream
from anabranch.query.boxes import (
    Aggregate,
    Arrow,
    Box,
    Diagram,
    Drop,
    Filter,
    Join,
    Maker,
    Map,
    Output,
    Source,
    Step,
    Union,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A stream that a stage writes: the Filters, Maps and Drops (box, port) from the root up to it, and its arrow."""

    stream: str
    path: tuple[tuple[str, int], ...]
    arrow: Arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One Spark query: the box it is named after, the streams it reads and the streams it writes."""

    name: str
    root: str
    inputs: tuple[str, ...]
    targets: tuple[Target, ...]


def ports(box: Box) -> int:
    """How many outputs a box has."""
    return box.ports if isinstance(box, Filter) else 1


def order(diagram: Diagram) -> tuple[Box, ...]:
    """The boxes, each after those it reads, otherwise as declared. Boxes in or behind a cycle are left out."""
    boxes = _by_name(diagram)
    waiting = {name: {arrow.box for arrow in box.inputs if arrow.box in boxes} for name, box in boxes.items()}
    readers: dict[str, list[str]] = {name: [] for name in boxes}
    for name, inputs in waiting.items():
        for source in inputs:
            readers[source].append(name)
    ready = [name for name, inputs in waiting.items() if not inputs]
    for name in ready:  # grows while it is walked
        for reader in readers[name]:
            waiting[reader].discard(name)
            if not waiting[reader]:
                ready.append(reader)
    return tuple(boxes[name] for name in ready)


def origins(diagram: Diagram, arrow: Arrow) -> frozenset[str]:
    """The origins that tuples on this arrow can have: lanes of sources, and Joins and Aggregates by name."""
    return _origins(diagram)[arrow.box]


def all_origins(diagram: Diagram) -> Origins:
    """The query's table of origins."""
    return Origins(name for names in _origins(diagram).values() for name in names)


def sources_of(diagram: Diagram, box: str) -> frozenset[str]:
    """The names of all sources that a box depends on, through whatever boxes."""
    return _sources(diagram)[box]


def union_hashes(diagram: Diagram, union: Union) -> bool:
    """Whether a Union must give new identities: two of its inputs could bring the same one."""
    sources = [sources_of(diagram, arrow.box) for arrow in union.inputs]
    return any(first & second for first, second in combinations(sources, 2))


def stages(diagram: Diagram) -> tuple[Stage, ...]:
    """The Spark queries of a valid diagram, each after those it reads."""
    boxes = _by_name(diagram)
    hanging: dict[str, list[Target]] = {}
    for output in diagram.outputs:
        root, target = _target(boxes, output)
        hanging.setdefault(root, []).append(target)
    roots = [box for box in order(diagram) if isinstance(box, Maker) or box.name in hanging]
    inputs = {root.name: tuple(_streams_below(boxes, root)) for root in roots}
    read = {stream for streams in inputs.values() for stream in streams}
    return tuple(
        Stage(
            name=root.name,
            root=root.name,
            inputs=inputs[root.name],
            targets=(*hanging.get(root.name, ()), *_internal(root.name, read)),
        )
        for root in roots
    )


def scans(diagram: Diagram) -> dict[str, int]:
    """How many places each box's stage reads a journal in, up to that box: each way down to a source or a cut is one.

    Right also for a diagram with mistakes in it: what cannot be followed counts as nothing.
    """
    found: dict[str, int] = {}
    read: dict[str, int] = {}  # what a reader of the box adds to its own stage
    for box in order(diagram):
        found[box.name] = sum(read.get(arrow.box, 0) for arrow in box.inputs) or 1
        read[box.name] = found[box.name] if isinstance(box, Step | Union) else 1
    return found


def boxes_of(diagram: Diagram, stage: Stage) -> tuple[Box, ...]:
    """The boxes that a stage computes: its root, what lies below it up to other roots, and the ways to its targets."""
    boxes = _by_name(diagram)
    below = [arrow.box for arrow in boxes[stage.root].inputs]
    found = {stage.root, *(name for target in stage.targets for name, _ in target.path)}
    while below:
        box = boxes[below.pop()]
        if box.name not in found and isinstance(box, Step | Union):
            found.add(box.name)
            below += [arrow.box for arrow in box.inputs]
    return tuple(box for name, box in boxes.items() if name in found)


def outputs_behind(diagram: Diagram, stage: Stage) -> tuple[str, ...]:
    """The outputs that a stage writes, and those of all stages that read it, directly or not."""
    made: set[str] = set()
    for each in stages(diagram):  # in the order of flow
        if each.name == stage.name or not made.isdisjoint(each.inputs):
            made |= {target.stream for target in each.targets}
    return tuple(output.name for output in diagram.outputs if output.name in made)


def _by_name(diagram: Diagram) -> dict[str, Box]:
    """Boxes by name, as declared; the first of two with the same one."""
    found: dict[str, Box] = {}
    for box in diagram.boxes:
        found.setdefault(box.name, box)
    return found


@lru_cache(maxsize=16)
def _origins(diagram: Diagram) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for box in order(diagram):
        match box:
            case Source():
                found[box.name] = frozenset(box.origins)
            case Join() | Aggregate():
                found[box.name] = frozenset({box.name})
            case Filter() | Map() | Drop() | Union():
                found[box.name] = frozenset().union(*(found[arrow.box] for arrow in box.inputs))
    return found


@lru_cache(maxsize=16)
def _sources(diagram: Diagram) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for box in order(diagram):
        own = {box.name} if isinstance(box, Source) else set()
        found[box.name] = frozenset(own).union(*(found[arrow.box] for arrow in box.inputs))
    return found


def _target(boxes: dict[str, Box], output: Output) -> tuple[str, Target]:
    """The root that an output hangs on, and the way up from there."""
    path: list[tuple[str, int]] = []
    arrow = output.input
    box = boxes[arrow.box]
    while isinstance(box, Step):
        path.append((arrow.box, arrow.port))
        arrow = box.input
        box = boxes[arrow.box]
    return box.name, Target(stream=output.name, path=tuple(reversed(path)), arrow=output.input)


def _streams_below(boxes: dict[str, Box], root: Box) -> Iterator[str]:
    """The streams that a stage reads, in the order of its inputs, each once."""
    if isinstance(root, Source):
        yield root.name
        return
    below = list(reversed(root.inputs))
    seen: set[str] = set()
    while below:
        box = boxes[below.pop().box]
        if box.name in seen:
            continue
        seen.add(box.name)
        match box:
            case Source():
                yield box.name
            case Join() | Aggregate():
                yield internal_stream(box.name)
            case Filter() | Map() | Drop() | Union():
                below.extend(reversed(box.inputs))


def _internal(root: str, read: set[str]) -> tuple[Target, ...]:
    stream = internal_stream(root)
    return (Target(stream=stream, path=(), arrow=Arrow(root)),) if stream in read else ()
