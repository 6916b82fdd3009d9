"""Who is there in a run: which hosts have which boxes and entry points, and what follows from that.

A topology says where boxes are, as a deployment file does. Where the query is cut, which parts a host has and who reads
from whom is decided by the code that decides it for a deployment (``query.query_plan``, ``query.parts``), so a run has
roles that a host can have. The classic topology (three entry points, two replicas of a Join, two of what follows) is
the one for which scenarios were written; any other is drawn from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Final

from anabranch.core.lane_state import LaneRules
from anabranch.model.names import reader_name
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Arrow, Diagram, Source
from anabranch.query.flow import Placement, circles, flow
from anabranch.query.graph import sources_of
from anabranch.query.parts import parts
from anabranch.query.query_plan import Entrance, QueryPlan, assignments, placed_query
from anabranch.sim.diagrams import PAIRS, TOTALS, layered_boxes
from anabranch.sim.role import Role

CLIENT: Final = "client"
ENTRIES: Final = ("entry-1", "entry-2", "entry-3")
JOINERS: Final = ("join-1", "join-2")
SUMMERS: Final = ("sum-1", "sum-2")
SHARED: Final = (("entry-1", "join-1"), ("entry-2", "join-2", "sum-1"), ("entry-3", "sum-2"))
"""What runs together where hosts of the classic topology do several things: entry points that are replicas, and
replicas with other peers."""

HOSTS: Final = ("a", "b", "c", "d", "e", "f", "g", "h")
ENTRY_POINTS: Final = (1, 2, 3, 3, 3, 4, 5)
REPLICAS: Final = (1, 2, 2, 3)
LAYERS: Final = (1, 2, 3, 3)

Named = tuple[str, str]
"""A part of the query, and a host that has it."""


@dataclass(frozen=True)
class Topology:
    """Where everything is. ``names`` has what a part of a host is called, if not as those that read it call it."""

    diagram: Diagram
    placed: Placement
    names: Mapping[Named, str] = field(default_factory=dict)

    @classmethod
    def classic(cls, diagram: Diagram, *, shared: bool = False) -> Topology:
        hosts = SHARED if shared else tuple((name,) for name in (*ENTRIES, *JOINERS, *SUMMERS))
        host_of = {name: host[0] for host in hosts for name in host}
        entries, joiners, summers = (tuple(map(host_of.__getitem__, each)) for each in (ENTRIES, JOINERS, SUMMERS))
        names = {("", host_of[name]): name for name in ENTRIES}
        names |= {(PAIRS, host_of[name]): name for name in JOINERS}
        names |= {(TOTALS, host_of[name]): name for name in SUMMERS}
        placed = {box.name: entries if isinstance(box, Source) else joiners for box in diagram.boxes}
        return cls(diagram, {**placed, TOTALS: summers}, names)

    @classmethod
    def drawn(cls, diagram: Diagram, random: Random) -> Topology:
        """As drawn, and again if a deployment would refuse it: nodes must not wait for each other in a cycle."""
        while True:
            hosts = HOSTS[: random.randrange(3, len(HOSTS) + 1)]
            placed: dict[str, tuple[str, ...]] = {}
            for source in diagram.sources:
                placed[source.name] = _some(random, hosts, ENTRY_POINTS)
            for boxes in _layers(random, layered_boxes(diagram)):
                placed |= dict.fromkeys(boxes, _some(random, hosts, REPLICAS))
            if not circles(diagram, flow(diagram, placed)):
                return cls(diagram, placed)

    # --- what follows ----------------------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> QueryPlan:
        lanes = {
            source.name: dict.fromkeys(source.origins, self.placed[source.name]) for source in self.diagram.sources
        }
        entrances = {
            source: Entrance(source=source, nodes=self.placed[source], lanes=mine) for source, mine in lanes.items()
        }
        return placed_query(self.diagram, self.placed, entrances, mode="race")

    @cached_property
    def parts(self) -> Mapping[str, AssignedQuery]:
        """By name: entry points first, then in the order of flow."""
        hosts = {host: None for source in self.diagram.sources for host in self.placed[source.name]}
        hosts |= {host: None for fragment in self.plan.fragments for host in fragment.nodes}
        given = assignments(self.plan, dict.fromkeys(hosts, ""))
        whole = {host: parts(AssignedQuery(self.diagram, given[host])) for host in hosts}
        rank = {"": 0} | {stage.name: number for number, stage in enumerate(self.plan.stages, start=1)}
        found = [
            (rank[part.assignment.part], number, part) for number, cut in enumerate(whole.values()) for part in cut
        ]
        return {self._name(part): part for *_, part in sorted(found, key=lambda each: each[:2])}

    @cached_property
    def hosts(self) -> Mapping[str, tuple[str, ...]]:
        """Per part, and for the client, all that its host has."""
        found: dict[str, list[str]] = {}
        for name, part in self.parts.items():
            found.setdefault(part.host, []).append(name)
        return {name: tuple(host) for host in found.values() for name in host} | {CLIENT: (CLIENT,)}

    @cached_property
    def entries(self) -> Mapping[str, tuple[str, ...]]:
        """Per source, its entry points."""
        return {source.name: self._at(self.placed[source.name], source.name) for source in self.diagram.sources}

    @property
    def groups(self) -> list[tuple[str, tuple[str, ...]]]:
        """The entry points of each source, unless another source has the same."""
        return [
            (source, names)
            for number, (source, names) in enumerate(self.entries.items())
            if set(names) not in [set(earlier) for earlier in list(self.entries.values())[:number]]
        ]

    @cached_property
    def entry_points(self) -> tuple[str, ...]:
        """Of all sources."""
        return tuple(dict.fromkeys(name for names in self.entries.values() for name in names))

    @cached_property
    def fragments(self) -> tuple[tuple[str, ...], ...]:
        """The replicas of each, in the order of flow."""
        found: dict[str, list[str]] = {}
        for name, part in self.parts.items():
            if part.stages:
                found.setdefault(part.assignment.part, []).append(name)
        return tuple(map(tuple, found.values()))

    @cached_property
    def lanes(self) -> Mapping[str, str]:
        """Per origin, its source."""
        return {origin: source.name for source in self.diagram.sources for origin in source.origins}

    @property
    def layers(self) -> int:
        """How many fragments a tuple passes on its longest way."""
        depth: dict[str, int] = {}
        for stages in (self.parts[names[0]].stages for names in self.fragments):
            deepest = 1 + max((depth.get(stream, 0) for stage in stages for stream in stage.inputs), default=0)
            depth |= {target.stream: deepest for stage in stages for target in stage.targets}
        return max(depth.values())

    @cached_property
    def arrows(self) -> Mapping[str, Arrow]:
        """Per stream that is made."""
        return {target.stream: target.arrow for stage in self.plan.stages for target in stage.targets}

    @property
    def reads_at_home(self) -> bool:
        """Whether a stage reads the log of a source directly, because neither has peers."""
        return any(part.entries and part.stages for part in self.parts.values())

    def told(self) -> Iterator[str]:
        """For the trace."""
        for source, names in self.entries.items():
            yield f"{source} enters at {', '.join(names)}"
        for names in self.fragments:
            boxes = ", ".join(stage.name for stage in self.parts[names[0]].stages)
            yield f"{boxes} on {', '.join(names)}"

    def tolerated(self, source: str) -> int:
        """How many entry points of a source may be gone or have forgotten what they had (docs/replication.md)."""
        return (len(self.entries[source]) - 1) // 2

    def behind(self, source: str) -> tuple[tuple[str, ...], ...]:
        """The fragments that a source reaches."""
        return tuple(
            names
            for names in self.fragments
            if any(source in sources_of(self.diagram, stage.root) for stage in self.parts[names[0]].stages)
        )

    # --- roles -----------------------------------------------------------------------------------------------------

    def roles(
        self, *, limit: int, lane_limit: int, horizon_us: int | None, owned: Sequence[str], greets: bool = False
    ) -> dict[str, Role]:
        """Who does what, with logs and lanes of these limits, and lanes that stay together; ``greets`` for entry points
        that do not know each other yet."""
        roles = {name: replace(self._role(part, owned), greets=greets) for name, part in self.parts.items()}
        outputs = {output.name: self._at(self.plan.copies[output.name], output.name) for output in self.diagram.outputs}
        roles[CLIENT] = Role(diagram=self.diagram, upstream=outputs)
        return {
            name: role.bounded(self.plan.origins, limit=limit, lane_limit=lane_limit, horizon_us=horizon_us)
            for name, role in roles.items()
        }

    def _role(self, part: AssignedQuery, owned: Sequence[str]) -> Role:
        outputs = [output.name for output in self.diagram.outputs if output.name in part.made]
        readers = {stream: tuple(map(self._called, names)) for stream, names in part.readers.items()}
        readers |= {output: (*readers.get(output, ()), CLIENT) for output in outputs}
        return Role(
            diagram=self.diagram,
            stages=part.stages,
            upstream={stream: self._at(tuple(copies), stream) for stream, copies in part.upstream.items()},
            lanes={origin: source for origin, source in self.lanes.items() if source in part.entries},
            owned=dict(self._rules(part, owned)),
            readers=readers,
            fragment_of={name: self.parts[name].assignment.part for names in self.fragments for name in names},
            peers=tuple(self._called(part.reader_at(host)) for host in part.siblings) if part.stages else (),
            entry_peers={
                source: tuple(name for name in self.entries[source] if name != self._name(part))
                for source in self.entries
                if source in part.entries
            },
            clients=frozenset({CLIENT}),
        )

    def _rules(self, part: AssignedQuery, owned: Sequence[str]) -> Iterator[tuple[str, LaneRules]]:
        for source in self.diagram.sources:
            for lane, origin in zip(source.lanes, source.origins, strict=True):
                if origin in owned and source.name in part.entries:
                    yield origin, LaneRules.of(source, lane)

    def _at(self, hosts: Sequence[str], stream: str) -> tuple[str, ...]:
        """The parts of these hosts that have the stream as their own."""
        made = {part.host: name for name, part in self.parts.items() if stream in part.made}
        return tuple(made[host] for host in hosts)

    def _name(self, part: AssignedQuery) -> str:
        return self._called(part.reader)

    def _called(self, reader: str) -> str:
        part, _, host = reader.rpartition("@")
        return self.names.get((part, host), reader_name(part, host))


def _some(random: Random, hosts: Sequence[str], numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(random.sample(hosts, min(random.choice(numbers), len(hosts))))


def _layers(random: Random, groups: Sequence[Sequence[tuple[str, ...]]]) -> Iterator[tuple[str, ...]]:
    """Boxes that are placed together: groups that follow each other are a layer. What is side by side in a group is
    placed apart, where that group is a layer by itself."""
    cuts = sorted(random.sample(range(1, len(groups)), min(random.choice(LAYERS), len(groups)) - 1))
    for begin, end in zip((0, *cuts), (*cuts, len(groups)), strict=True):
        if end - begin == 1:
            yield from groups[begin]
        else:
            yield tuple(box for group in groups[begin:end] for boxes in group for box in boxes)
