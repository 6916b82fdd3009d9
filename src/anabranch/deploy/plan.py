"""What every node of a deployment needs to know, as frozen values: the outcome of a file without mistakes.

The same facts that the simulator's nodes go by (``sim.role``), for real ones. A query is cut where a box runs on other
nodes than what it reads (``flow``). The *fragments* are what lies between: all stages that the same nodes run, so that
a fragment is what is replicated, raced and rebuilt as a whole. A node may run several, each with other peers.

    stream     made on               read by
    source     its entry points      stages; each entry point holds all lanes
    box:NAME   a fragment's nodes    stages of the same nodes, or inlets of others
    output     a fragment's nodes    clients; an inlet, where its writers run on another node
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch import limits
from anabranch.deploy import links
from anabranch.deploy.addresses import Address, parse_address
from anabranch.deploy.description import Description, EntryTable, LinkTable, QueryTable, SparkTable
from anabranch.deploy.flow import Flow, Reading, flow
from anabranch.deploy.query_checks import placement
from anabranch.deploy.validate import Checked, check_file
from anabranch.errors import DeploymentError
from anabranch.model.links import Link
from anabranch.model.names import lane_origin
from anabranch.model.techniques import Technique
from anabranch.node.part import needs_spark
from anabranch.query.boxes import Arrow, Diagram, Source
from anabranch.query.connectors import is_database
from anabranch.query.graph import Stage, boxes_of, origins

DEFAULT_MASTER = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A part of a query that the same nodes run, named after its first stage."""

    name: str
    boxes: tuple[str, ...]
    stages: tuple[Stage, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Where the rows of a source come in."""

    source: str
    nodes: tuple[str, ...]
    """The entry points. Each holds all lanes."""
    lanes: Mapping[str, tuple[str, ...]]
    """Per origin, the entry points in the order in which its producer tries them. The first owns an owned lane."""
    feed: str | None
    """The node that runs the feed, if the source has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A whole query: its diagram, its parts, and where each of its streams is made."""

    name: str
    mode: str
    diagram: Diagram
    fragments: tuple[Fragment, ...]
    entrances: Mapping[str, Entrance]
    """By source."""
    copies: Mapping[str, tuple[str, ...]]
    """Per stream (sources, outputs, internal streams) the nodes that have a copy."""
    origins: Mapping[str, tuple[str, ...]]
    """Per stream, the origins that its tuples can have."""
    writers: Mapping[str, str]
    """Per output with writers, the node that runs them."""
    technique: Technique
    """What racing is compared with, in an experiment."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(stage for fragment in self.fragments for stage in fragment.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a node is for in its query."""

    query: str
    fragments: tuple[Fragment, ...]
    peers: Mapping[str, tuple[str, ...]]
    """Per fragment, the other nodes that run it."""
    upstream: Mapping[str, tuple[str, ...]]
    """Per stream that comes from elsewhere, the nodes that have a copy."""
    readers: Mapping[str, tuple[str, ...]]
    """Per stream that is read elsewhere, the nodes that do."""
    entrances: tuple[Entrance, ...]
    """Of the sources that it is an entry point of."""
    feeds: tuple[str, ...]
    """Sources whose feeds it runs."""
    writers: tuple[str, ...]
    """Outputs whose writers it runs."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(stage for fragment in self.fragments for stage in fragment.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node: where it is, its Spark, and its role. Without a role it waits for one."""

    name: str
    address: Address
    site: str
    state: Path | None
    master: str
    batch_interval_us: int
    conf: Mapping[str, str]
    role: Role | None
    directory: Path | None
    """From where relative paths in its query lead: where the query's file is."""
    tables: Mapping[str, str]
    """Where tables of its query are, if not where the query says; paths begin at the file of the deployment."""
    needs_spark: bool
    """As ``node.part`` decides it: an entry point alone does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole deployment."""

    nodes: Mapping[str, NodePlan]
    queries: Mapping[str, QueryPlan]
    links: Mapping[links.Pair, Link]
    faults: bool


def load_plan(path: Path | str) -> Plan:
    """The plan of a deployment file, or DeploymentError with everything that is wrong with it."""
    checked = check_file(path)
    if checked.mistakes:
        raise DeploymentError(str(path), checked.mistakes)
    return make_plan(checked)


def make_plan(checked: Checked) -> Plan:
    """The plan of a file without mistakes."""
    description = checked.description
    queries: dict[str, QueryPlan] = {}
    roles: dict[str, Role] = {}
    for name, diagram in checked.diagrams.items():
        table = description.queries[name]
        found = flow(diagram, placement(table, diagram))
        query = _query_plan(table, diagram, found)
        queries[name] = query
        roles |= _roles(query, [*found.readings(), *_writer_readings(query)])
    return Plan(
        nodes={name: _node_plan(name, description, checked.path.parent, queries, roles) for name in description.nodes},
        queries=queries,
        links={pair: _link(link) for pair, link in links.resolve(description).items()},
        faults=description.faults,
    )


def _link(table: LinkTable) -> Link:
    return Link(delay_us=table.delay_us or 0, jitter_us=table.jitter_us or 0, rate_bytes_s=table.rate_bytes_s)


# --- queries -------------------------------------------------------------------------------------------------------


def _query_plan(table: QueryTable, diagram: Diagram, found: Flow) -> QueryPlan:
    arrows = {source.name: Arrow(source.name) for source in diagram.sources}
    arrows |= {target.stream: target.arrow for stage in found.stages for target in stage.targets}
    return QueryPlan(
        name=diagram.name,
        mode=table.mode,
        diagram=diagram,
        fragments=_fragments(diagram, found),
        entrances={source.name: _entrance(source, table.entry[source.name]) for source in diagram.sources},
        copies=found.made_on,
        origins={stream: tuple(sorted(origins(diagram, arrow))) for stream, arrow in arrows.items()},
        writers={
            output.name: table.write.get(output.name, found.made_on[output.name][0])
            for output in diagram.outputs
            if output.to
        },
        technique=Technique(table.technique),
    )


def _fragments(diagram: Diagram, found: Flow) -> tuple[Fragment, ...]:
    """Stages by the set of nodes that run them, in the order of flow of the first of each."""
    together: dict[frozenset[str], list[Stage]] = {}
    for stage in found.stages:
        together.setdefault(frozenset(found.run_on[stage.name]), []).append(stage)
    return tuple(
        Fragment(
            name=stages[0].name,
            boxes=_boxes(diagram, stages),
            stages=tuple(stages),
            nodes=found.run_on[stages[0].name],
        )
        for stages in together.values()
    )


def _boxes(diagram: Diagram, stages: Iterable[Stage]) -> tuple[str, ...]:
    """What the stages compute, as declared; sources are not computed."""
    names = {box.name for stage in stages for box in boxes_of(diagram, stage) if not isinstance(box, Source)}
    return tuple(box.name for box in diagram.boxes if box.name in names)


def _entrance(source: Source, entry: EntryTable) -> Entrance:
    lanes = {
        lane_origin(source.name, lane): _beginning(entry.producers.get(lane, entry.nodes[0]), entry.nodes)
        for lane in source.lanes
    }
    feed = None
    if source.feed is not None:
        lane = source.feed.producer if source.feed.producer in source.producers else source.lanes[0]
        feed = lanes[lane_origin(source.name, str(lane))][0]
    return Entrance(source=source.name, nodes=entry.nodes, lanes=lanes, feed=feed)


def _beginning(first: str, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes in their order, going round from this one."""
    at = nodes.index(first)
    return (*nodes[at:], *nodes[:at])


def _writer_readings(query: QueryPlan) -> list[Reading]:
    """Writers on a node that does not make their output read it from those that do."""
    return [
        Reading(node, output, query.copies[output])
        for output, node in query.writers.items()
        if node not in query.copies[output]
    ]


# --- nodes ---------------------------------------------------------------------------------------------------------


def _roles(query: QueryPlan, readings: list[Reading]) -> dict[str, Role]:
    names = [node for fragment in query.fragments for node in fragment.nodes]
    names += [node for entrance in query.entrances.values() for node in entrance.nodes]
    return {name: _role(name, query, readings) for name in dict.fromkeys([*names, *query.writers.values()])}


def _role(node: str, query: QueryPlan, readings: list[Reading]) -> Role:
    fragments = tuple(fragment for fragment in query.fragments if node in fragment.nodes)
    readers: dict[str, tuple[str, ...]] = {}
    for reading in readings:
        if node in reading.copies and reading.reader not in readers.get(reading.stream, ()):
            readers[reading.stream] = (*readers.get(reading.stream, ()), reading.reader)
    return Role(
        query=query.name,
        fragments=fragments,
        peers={each.name: tuple(peer for peer in each.nodes if peer != node) for each in fragments},
        upstream={reading.stream: reading.copies for reading in readings if reading.reader == node},
        readers=readers,
        entrances=tuple(entrance for entrance in query.entrances.values() if node in entrance.nodes),
        feeds=tuple(name for name, entrance in query.entrances.items() if entrance.feed == node),
        writers=tuple(output for output, writer in query.writers.items() if writer == node),
    )


def _node_plan(
    name: str, description: Description, base: Path, queries: Mapping[str, QueryPlan], roles: Mapping[str, Role]
) -> NodePlan:
    table, role = description.nodes[name], roles.get(name)
    return NodePlan(
        name=name,
        address=parse_address(table.address),
        site=table.site or name,
        state=None if table.state is None else base / table.state,
        master=table.spark.master or description.spark.master or DEFAULT_MASTER,
        batch_interval_us=_batch_interval_us(table.spark, description.spark),
        conf={**description.spark.conf, **table.spark.conf},
        role=role,
        directory=None if role is None else (base / description.queries[role.query].file).resolve().parent,
        tables={name: _place(base, place) for name, place in table.tables.items()},
        needs_spark=role is not None
        and needs_spark(queries[role.query].diagram, stages=role.stages, upstream=role.upstream, feeds=role.feeds),
    )


def _place(base: Path, place: str) -> str:
    """A file or a database as seen from anywhere."""
    engine, colon, path = place.partition(":")
    if not is_database(place):
        return str(base.absolute() / place)
    return place if engine not in ("sqlite", "duckdb") else f"{engine}{colon}{base.absolute() / path}"


def _batch_interval_us(*tables: SparkTable) -> int:
    """The first that says one."""
    said = (table.batch_interval_us for table in tables if table.batch_interval_us is not None)
    return next(said, limits.BATCH_INTERVAL_US)
