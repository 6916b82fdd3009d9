"""What a node does of its query: which stages it runs, what it takes in, from whom it reads, and who reads it.

A node on its own does everything. In a deployment each does its part; the plan of the deployment says which.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from anabranch.model.names import lane_origin
from anabranch.model.techniques import Technique
from anabranch.query.boxes import Diagram
from anabranch.query.connectors import SparkFeed
from anabranch.query.graph import Stage, origins, stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Streams are named as in the query; nodes are named as in the deployment."""

    node: str
    stages: tuple[Stage, ...]
    all_stages: tuple[Stage, ...]
    """Of the whole query, in the order of flow: their types follow from each other."""
    entries: frozenset[str]
    """Sources whose rows come in here."""
    feeds: frozenset[str] = frozenset()
    """Those of them whose feeds run here."""
    peers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Per source that comes in here, its other entry points, and their addresses."""
    writes: frozenset[str] = frozenset()
    """Outputs whose writers run here."""
    upstream: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Per stream that comes from elsewhere, the nodes that have a copy, and their addresses."""
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per stream that is read elsewhere, the nodes that do."""
    siblings: Mapping[str, str] = field(default_factory=dict)
    """The other nodes that do the same, from any of which this one can be rebuilt, and their addresses."""
    compared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Per output that is made here and read by no node, the others that have a copy, and their addresses."""
    shares_tables: Mapping[str, str] = field(default_factory=dict)
    """The other nodes that read a table which is read here, and their addresses."""
    technique: Technique = Technique.RACE
    """What holds back what others would race for; for experiments."""

    @classmethod
    def whole(cls, diagram: Diagram) -> Part:
        """Everything, on a node that has no name because there is no other."""
        made = stages(diagram)
        entries = frozenset(source.name for source in diagram.sources)
        writes = frozenset(output.name for output in diagram.outputs)
        return cls(node="", stages=made, all_stages=made, entries=entries, feeds=entries, writes=writes)

    def needs_spark(self, diagram: Diagram) -> bool:
        return needs_spark(diagram, stages=self.stages, upstream=self.upstream, feeds=self.feeds)

    def origins(self, diagram: Diagram) -> dict[str, frozenset[str]]:
        """Per stream of the query, the origins that its tuples can have."""
        found = {
            source.name: frozenset(lane_origin(source.name, lane) for lane in source.lanes)
            for source in diagram.sources
        }
        return found | {
            target.stream: origins(diagram, target.arrow) for stage in self.all_stages for target in stage.targets
        }


def needs_spark(
    diagram: Diagram, *, stages: Collection[Stage], upstream: Collection[str], feeds: Collection[str]
) -> bool:
    """Whether a node starts Spark: to run stages or a feed of Spark's, or to find out the types of what it reads from
    other nodes. A node with writers has one of the first two; an entry point alone has neither."""
    fed = any(isinstance(source.feed, SparkFeed) for source in diagram.sources if source.name in feeds)
    return bool(stages) or bool(upstream) or fed


Route = Callable[[str, str], str]
"""The address at which to reach a node, given its name and the address in the deployment."""


def direct(node: str, address: str) -> str:
    """Nothing lies between."""
    return address


def replica_reader(node: str) -> str:
    """The name under which a node reads the copies of others. No client can have it."""
    return f"replica:{node}"
