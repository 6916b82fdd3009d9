"""Questions about the shape of a diagram: order, origins, sources, and where it is cut into stages.

A *stage* is one Spark query. Every box that holds state (a Join, an Aggregate, a Dedup …) is the root of a stage of its
own, so that a shared one is computed once and none delays the watermark of another; so is every Source or Union that an
output hangs on. Steps (Filters, Maps, Drops and Lookups) above a root belong to it: several outputs of one root are
split when the batch is logged. Steps and Unions below a root are part of it too, down to the sources and the internal
streams of other roots.

A deployment that places boxes on different nodes adds *cuts*: an arrow and a box that reads it on other nodes. A cut
arrow becomes an internal stream, whatever box it comes from, and is a target of the stage that makes it. Where a step
reads a cut arrow, a stage begins there that is named after it: its root is the box that is read, as it is for a stage
on a source, and the box itself is the first of the way to the targets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from anabranch.model.names import Origins, internal_stream
from anabranch.query.boxes import (
    Arrow,
    Box,
    Diagram,
    Filter,
    Lookup,
    Maker,
    Source,
    Stateful,
    Step,
    Table,
    Union,
    WSort,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A stream that a stage writes: the steps (box, port) from the root up to it, and its arrow."""

    stream: str
    path: tuple[tuple[str, int], ...]
    arrow: Arrow


Cut = tuple[Arrow, str]
"""An arrow, and the box that reads it on other nodes than it is made on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One Spark query: the box it is named after, the streams it reads and the streams it writes.

    ``port`` is the output of the root that the stage works on. It is 0 but where a cut arrow of a Filter is read, or
    for the further outputs of a box that holds state: each that is used has a stage of its own, called ``box.1``.
    """

    name: str
    root: str
    inputs: tuple[str, ...]
    targets: tuple[Target, ...]
    port: int = 0

    @property
    def box(self) -> str:
        """The box that it is named after, and runs where that is placed."""
        return self.name.partition(".")[0]

    @property
    def reads_root(self) -> bool:
        """Whether the root's tuples come from elsewhere: the stage computes only what hangs on it."""
        return internal_stream(str(Arrow(self.root, self.port))) in self.inputs


def ports(box: Box) -> int:
    """How many outputs a box has."""
    return box.ports if isinstance(box, Filter | WSort) else 1


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


def stages(diagram: Diagram, cuts: Collection[Cut] = ()) -> tuple[Stage, ...]:
    """The Spark queries of a valid diagram, each after those it reads."""
    return _Cutting(diagram, frozenset(cuts)).stages()


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
    found = {name for target in stage.targets for name, _ in target.path}
    below: list[Arrow] = []
    if not stage.reads_root:
        found.add(stage.root)
        below += boxes[stage.root].inputs
    while below:
        arrow = below.pop()
        box = boxes[arrow.box]
        if read_as(diagram, stage, arrow) is None and box.name not in found:
            found.add(box.name)
            below += box.inputs
    return tuple(box for name, box in boxes.items() if name in found)


def tables_read(diagram: Diagram, stages: Collection[Stage]) -> tuple[Table, ...]:
    """The static tables that these stages read."""
    found = (box.table for stage in stages for box in boxes_of(diagram, stage) if isinstance(box, Lookup))
    return tuple(dict.fromkeys(found))


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
        if isinstance(box, Source):
            found[box.name] = frozenset(box.origins)
        elif isinstance(box, Maker):
            found[box.name] = frozenset({box.name})
        else:
            found[box.name] = frozenset().union(*(found[arrow.box] for arrow in box.inputs))
    return found


@lru_cache(maxsize=16)
def _sources(diagram: Diagram) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for box in order(diagram):
        own = {box.name} if isinstance(box, Source) else set()
        found[box.name] = frozenset(own).union(*(found[arrow.box] for arrow in box.inputs))
    return found


def stream_of(diagram: Diagram, arrow: Arrow) -> str:
    """The stream that an arrow is where it is read from elsewhere: a source's own, otherwise an internal one."""
    return arrow.box if isinstance(diagram.box(arrow.box), Source) else internal_stream(str(arrow))


def read_as(diagram: Diagram, stage: Stage, arrow: Arrow) -> str | None:
    """The stream that brings an arrow's tuples into a stage; None if the stage computes them."""
    stream = stream_of(diagram, arrow)
    return stream if stream in stage.inputs else None


def is_stateful(diagram: Diagram, stage: Stage) -> bool:
    """Whether a stage computes a box that holds state. There is no more than one, its root."""
    return isinstance(diagram.box(stage.root), Stateful) and not stage.reads_root


@dataclass(frozen=True, slots=True)
class _Root:
    """Where a stage begins: the box it is named after, and the arrow that everything else in it hangs on."""

    name: str
    arrow: Arrow

    @property
    def stage(self) -> str:
        return str(self.arrow) if self.name == self.arrow.box else self.name


class _Cutting:
    """One diagram, cut into stages."""

    def __init__(self, diagram: Diagram, cuts: frozenset[Cut]) -> None:
        self._diagram = diagram
        self._cuts = cuts
        self._boxes = _by_name(diagram)

    def stages(self) -> tuple[Stage, ...]:
        hanging: dict[_Root, list[Target]] = {}
        for stream, arrow in self._wanted():
            root, path = self._way_to(arrow)
            hanging.setdefault(root, []).append(Target(stream=stream, path=path, arrow=arrow))
        stateful = [_Root(arrow.box, arrow) for arrow in self._of_stateful_boxes()]
        rank = {box.name: index for index, box in enumerate(order(self._diagram))}
        roots = sorted({*hanging, *stateful}, key=lambda root: (rank[root.name], root.arrow.port))
        inputs = {root: tuple(self._streams_below(root)) for root in roots}
        read = {stream for streams in inputs.values() for stream in streams}
        return tuple(
            Stage(
                name=root.stage,
                root=root.arrow.box,
                port=root.arrow.port,
                inputs=inputs[root],
                targets=(*hanging.get(root, ()), *self._internal(root, read)),
            )
            for root in roots
        )

    def _of_stateful_boxes(self) -> Iterator[Arrow]:
        """The outputs of boxes that hold state: those that are used, and at least one."""
        used = {arrow for box in self._diagram.boxes for arrow in box.inputs}
        used |= {output.input for output in self._diagram.outputs}
        for box in self._diagram.boxes:
            if isinstance(box, Stateful):
                arrows = [Arrow(box.name, port) for port in range(ports(box))]
                yield from [arrow for arrow in arrows if arrow in used] or arrows[:1]

    def _wanted(self) -> Iterator[tuple[str, Arrow]]:
        """The streams that hang on roots: outputs, and cut arrows of boxes that would not be roots by themselves."""
        for output in self._diagram.outputs:
            yield output.name, output.input
        for arrow in sorted({arrow for arrow, _ in self._cuts}):
            if isinstance(self._boxes[arrow.box], Step | Union):
                yield internal_stream(str(arrow)), arrow

    def _way_to(self, arrow: Arrow) -> tuple[_Root, tuple[tuple[str, int], ...]]:
        """The root that an arrow hangs on, and the way up from there."""
        path: list[tuple[str, int]] = []
        box = self._boxes[arrow.box]
        while isinstance(box, Step):
            path.insert(0, (box.name, arrow.port))
            arrow = box.input
            if (arrow, box.name) in self._cuts:
                return _Root(box.name, arrow), tuple(path)
            box = self._boxes[arrow.box]
        return _Root(box.name, arrow), tuple(path)

    def _streams_below(self, root: _Root) -> Iterator[str]:
        """The streams that a stage reads, in the order of its inputs, each once."""
        box = self._boxes[root.arrow.box]
        if isinstance(box, Source) or root.name != root.arrow.box:
            yield stream_of(self._diagram, root.arrow)
            return
        below = [(arrow, box.name) for arrow in reversed(box.inputs)]
        seen: set[str] = set()
        while below:
            arrow, reader = below.pop()
            box = self._boxes[arrow.box]
            if isinstance(box, Source | Stateful) or (arrow, reader) in self._cuts:
                stream = stream_of(self._diagram, arrow)
                yield from () if stream in seen else (stream,)
                seen.add(stream)
            elif box.name not in seen:
                seen.add(box.name)  # no stream that is read has the name of such a box
                below.extend((each, box.name) for each in reversed(box.inputs))

    def _internal(self, root: _Root, read: set[str]) -> tuple[Target, ...]:
        """What other stages read of a box that holds state."""
        stream = internal_stream(root.stage)
        if not isinstance(self._boxes[root.name], Stateful) or stream not in read:
            return ()
        return (Target(stream=stream, path=(), arrow=root.arrow),)
