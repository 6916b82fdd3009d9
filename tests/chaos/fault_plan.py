"""Which faults a run has, drawn from its seed: every kind in every round, each where least has happened so far.

A run may hurt what the deployment promises to bear, and no more. So nodes are in *groups* of which one member may be
hurt at a time: the copies of a fragment, and all entry points (any two of them may be the majority of some lane). A
fault of a link counts for the groups of both ends. A disk is lost only where another copy is left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Final

from anabranch.deploy.plan import Plan
from anabranch.model.links import Cut, Delay, LinkFault, Slow
from anabranch.model.times import SECOND

LASTS_S: Final[Mapping[str, tuple[float, float]]] = {
    "kill": (1.0, 15.0),
    "lose disk": (1.0, 15.0),
    "pause": (2.0, 12.0),
    "starve": (4.0, 15.0),
    "cut": (3.0, 35.0),  # at times longer than a connection may be silent: 30 s
    "delay": (5.0, 20.0),
    "slow": (5.0, 20.0),
}
"""Every kind, and how long it may last."""

ON_NODES: Final = ("kill", "lose disk", "pause", "starve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that is done to a node, or to the link between two, and undone after a while, or never."""

    kind: str
    where: tuple[str, ...]
    lasts_s: float
    after_s: float = 0.0
    """How long after the one before, at least."""
    link: LinkFault | None = None

    def __str__(self) -> str:
        what = self.kind if self.link is None else str(self.link)
        lasts = "for good" if isinf(self.lasts_s) else f"for {self.lasts_s:.1f} s"
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
            if node.role is not None
            for copies in node.role.upstream.values()
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
        kinds = rng.sample(list(LASTS_S), len(LASTS_S))
        yield from [_draw(rng, kind, layout, hurt) for kind in kinds]


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
    return Fault(kind=kind, where=where, lasts_s=rng.uniform(*LASTS_S[kind]), after_s=rng.uniform(0.0, 6.0), link=link)


def missing_coverage(done: Sequence[Fault], layout: Layout) -> list[str]:
    """Kinds that did not happen, and nodes that nothing happened to: such a run has shown too little."""
    kinds = LASTS_S.keys() - {fault.kind for fault in done}
    nodes = {node for group in layout.groups.values() for node in group} - {n for fault in done for n in fault.where}
    return [f"no {kind} was done" for kind in sorted(kinds)] + [f"{node} was never hurt" for node in sorted(nodes)]
