"""Which faults a run has, drawn from its seed: every kind in every round, each where least has happened so far.

A run may hurt what the deployment promises to bear, and no more. So nodes are in *groups* of which one member may be
hurt at a time: the copies of a fragment, and all entry points (any two of them may be the majority of some lane). A
fault of a link counts for the groups of both ends. A disk is lost only where another copy is left.

When a fault begins and how long it lasts is counted in entries that the producers push meanwhile, of all lanes
together: a slow machine takes longer, and is hurt in the same way.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Final

from anabranch.deploy.plan import Plan
from anabranch.model.links import Cut, Delay, LinkFault, Slow
from anabranch.model.times import SECOND
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import reads

ENTRIES_S: Final = 8
"""How many entries the producers push in a second, at most: two or three rows of each lane, as in the paper."""

LASTS: Final[Mapping[str, tuple[int, int]]] = {
    "kill": (1 * ENTRIES_S, 15 * ENTRIES_S),
    "lose disk": (1 * ENTRIES_S, 15 * ENTRIES_S),
    "pause": (2 * ENTRIES_S, 12 * ENTRIES_S),
    "starve": (4 * ENTRIES_S, 15 * ENTRIES_S),
    "cut": (3 * ENTRIES_S, 35 * ENTRIES_S),  # at times longer than a connection may be silent: 30 s
    "delay": (5 * ENTRIES_S, 20 * ENTRIES_S),
    "slow": (5 * ENTRIES_S, 20 * ENTRIES_S),
}
"""Every kind, and how many entries it may last."""

ON_NODES: Final = ("kill", "lose disk", "pause", "starve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that is done to a node, or to the link between two, and undone after so many entries, or never."""

    kind: str
    where: tuple[str, ...]
    lasts: float
    after: int = 0
    """How many entries after the one before, at least."""
    link: LinkFault | None = None

    def __str__(self) -> str:
        what = self.kind if self.link is None else str(self.link)
        lasts = "for good" if isinf(self.lasts) else f"for {self.lasts:.0f} entries"
        return f"{what} {' - '.join(self.where)} {lasts}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Of a deployment: which nodes stand in for each other, and which talk to each other."""

    groups: Mapping[str, tuple[str, ...]]
    links: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, plan: Plan) -> Layout:
        """Links are those over which rows go: between entry points of a source, and from a copy to its reader."""
        (query,) = plan.queries.values()
        servers = [node for entrance in query.entrances.values() for node in entrance.nodes]
        groups = {"entry points": tuple(dict.fromkeys(servers))}
        groups |= {" and ".join(fragment.boxes): fragment.nodes for fragment in query.fragments}
        pairs = [(a, b) for entrance in query.entrances.values() for a in entrance.nodes for b in entrance.nodes]
        pairs += [
            (copy, name)
            for name, node in plan.nodes.items()
            for assignment in node.assignment.queries.values()
            for copies in reads(AssignedQuery(query.diagram, assignment)).values()
            for copy in copies
        ]
        return cls(groups, tuple(sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})))

    def groups_of(self, fault: Fault) -> frozenset[str]:
        return frozenset(name for name, nodes in self.groups.items() if set(nodes) & set(fault.where))

    def places(self, kind: str) -> list[tuple[str, ...]]:
        """Where such a fault may happen."""
        if kind not in ON_NODES:
            return list(self.links)
        least = 2 if kind == "lose disk" else 1
        return [(node,) for nodes in self.groups.values() if len(nodes) >= least for node in nodes]


def draw_faults(seed: int, layout: Layout) -> Iterator[Fault]:
    """Faults without end, in rounds: each has every kind once, in any order."""
    rng = random.Random(f"{seed}/faults")
    hurt: Counter[str] = Counter()
    while True:
        kinds = rng.sample(list(LASTS), len(LASTS))
        yield from [_draw(rng, kind, layout, hurt) for kind in kinds]


def lasting(seconds: float, faults: Iterator[Fault], layout: Layout) -> Iterator[Fault]:
    """For so long, and for as much longer as it takes until every kind was done and every node was hurt."""
    deadline = time.monotonic() + seconds
    done: list[Fault] = []
    for fault in faults:
        if time.monotonic() > deadline and not missing_coverage(done, layout):
            return
        done.append(fault)
        yield fault


def _draw(rng: random.Random, kind: str, layout: Layout, hurt: Counter[str]) -> Fault:
    where = min(layout.places(kind), key=lambda place: (sum(hurt[node] for node in place) / len(place), rng.random()))
    hurt.update(where)
    link: LinkFault | None = None
    match kind:
        case "cut":
            link = Cut()
        case "delay":
            link = Delay(rng.randint(SECOND // 10, SECOND), SECOND // 20)
        case "slow":
            link = Slow(rng.randint(4_000, 40_000))
    after = rng.randint(0, 6 * ENTRIES_S)
    return Fault(kind=kind, where=where, lasts=rng.randint(*LASTS[kind]), after=after, link=link)


def missing_coverage(done: Sequence[Fault], layout: Layout) -> list[str]:
    """Kinds that did not happen, and nodes that nothing happened to: such a run has shown too little."""
    kinds = LASTS.keys() - {fault.kind for fault in done}
    nodes = {node for group in layout.groups.values() for node in group} - {n for fault in done for n in fault.where}
    return [f"no {kind} was done" for kind in sorted(kinds)] + [f"{node} was never hurt" for node in sorted(nodes)]
