"""What every node of a deployment needs to know, as frozen values: the outcome of a file without mistakes.

What each host is to run is its ``model.assignment``. A query is cut where a box runs on other nodes than what it reads
(``flow``). The *fragments* are what lies between: all stages that the same nodes run. A node may run several, each with
other peers, and any number of queries.

    stream     made on               read by
    source     its entry points      stages; each entry point holds all lanes
    box:NAME   a fragment's nodes    stages of the same fragment, or inlets of others
    output     a fragment's nodes    clients; an inlet, where its writers run on another node
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch import limits
from anabranch.deploy import links
from anabranch.deploy.addresses import Address, parse_address
from anabranch.deploy.description import Description, EntryTable, LinkTable, QueryTable, SparkTable
from anabranch.deploy.flow import Flow, Reading, cuts, flow
from anabranch.deploy.query_checks import fed_lane, placement
from anabranch.deploy.validate import Checked, check_file
from anabranch.errors import DeploymentError
from anabranch.model.assignment import AssignedEntry, AssignedReplica, AssignedWriter, Assignment, QueryAssignment
from anabranch.model.ids import QueryId
from anabranch.model.links import Link
from anabranch.model.names import lane_origin
from anabranch.model.techniques import Technique
from anabranch.node.tables import tables_read
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Arrow, Diagram, Source
from anabranch.query.connectors import is_database
from anabranch.query.graph import Cut, Stage, boxes_of, origins
from anabranch.query.parts import parts, reads

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
    feeds: tuple[str, ...] = ()
    """The nodes that have the feed of the source, the first at home; the others wait until it is gone."""
    takeover_us: int = limits.FEED_TAKEOVER_US
    """How long the node that brings rows may be gone before the next one goes on."""


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
    cuts: tuple[tuple[str, int, str], ...]
    """The arrows that lead to boxes on other nodes, as box, output and reading box."""
    directory: Path
    """From where relative paths in the query lead: where its file is."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(stage for fragment in self.fragments for stage in fragment.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One host: where it is, its Spark, and what it runs. One that runs nothing waits for a query."""

    name: str
    address: Address
    site: str
    state: Path | None
    master: str
    batch_interval_us: int
    conf: Mapping[str, str]
    assignment: Assignment
    tables: Mapping[str, str]
    """Where tables of its queries are, if not where these say; paths begin at the file of the deployment."""
    needs_spark: bool
    """As ``query.assigned`` decides it: an entry point alone does not."""


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
    assigned: dict[str, dict[QueryId, QueryAssignment]] = {name: {} for name in description.nodes}
    addresses = {name: str(parse_address(table.address)) for name, table in description.nodes.items()}
    for name, diagram in checked.diagrams.items():
        table = description.queries[name]
        placed = placement(table, diagram)
        found = flow(diagram, placed)
        directory = (checked.path.parent / table.file).resolve().parent
        query = queries[name] = _query_plan(table, diagram, found, cuts(diagram, placed), directory)
        for host, assignment in _assignments(query, addresses).items():
            assigned[host][assignment.query] = assignment
    return Plan(
        nodes={
            name: _node_plan(name, description, checked.path.parent, queries, Assignment(host=name, queries=given))
            for name, given in assigned.items()
        },
        queries=queries,
        links={pair: _link(link) for pair, link in links.resolve(description).items()},
        faults=description.faults,
    )


def _link(table: LinkTable) -> Link:
    return Link(delay_us=table.delay_us or 0, jitter_us=table.jitter_us or 0, rate_bytes_s=table.rate_bytes_s)


# --- queries -------------------------------------------------------------------------------------------------------


def _query_plan(table: QueryTable, diagram: Diagram, found: Flow, cut: Collection[Cut], directory: Path) -> QueryPlan:
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
        cuts=tuple(sorted((arrow.box, arrow.port, reader) for arrow, reader in cut)),
        directory=directory,
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
    fed = fed_lane(source)
    homes = {**entry.producers, **({fed: entry.feed[0]} if fed is not None and entry.feed else {})}
    lanes = {
        lane_origin(source.name, lane): _beginning(homes.get(lane, entry.nodes[0]), entry.nodes)
        for lane in source.lanes
    }
    feeds = () if fed is None else entry.feed or lanes[lane_origin(source.name, fed)][:1]
    takeover_us = limits.FEED_TAKEOVER_US if entry.takeover_us is None else entry.takeover_us
    return Entrance(source=source.name, nodes=entry.nodes, lanes=lanes, feeds=feeds, takeover_us=takeover_us)


def _beginning(first: str, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes in their order, going round from this one."""
    at = nodes.index(first)
    return (*nodes[at:], *nodes[:at])


# --- nodes ---------------------------------------------------------------------------------------------------------


def _assignments(query: QueryPlan, addresses: Mapping[str, str]) -> dict[str, QueryAssignment]:
    """What each host runs of a query, for those that run anything."""
    hosts = [host for fragment in query.fragments for host in fragment.nodes]
    hosts += [host for entrance in query.entrances.values() for host in entrance.nodes]
    hosts = list(dict.fromkeys([*hosts, *query.writers.values()]))
    found = {host: _assignment(host, query, addresses) for host in hosts}
    readings = [reading for each in found.values() for reading in _readings(AssignedQuery(query.diagram, each))]
    return {host: _completed(found, host, query, readings) for host in hosts}


def _assignment(host: str, query: QueryPlan, addresses: Mapping[str, str]) -> QueryAssignment:
    """What it does, and not yet for whom."""
    replicated = [fragment for fragment in query.fragments if len(fragment.nodes) > 1]
    return QueryAssignment(
        query=QueryId(query.name),
        host=host,
        cuts=query.cuts,
        replicas=tuple(_replicas(host, query)),
        entries=tuple(
            AssignedEntry(
                source=name,
                peers=_others(entrance.nodes, host),
                feeds=host in entrance.feeds,
                feed_hosts=entrance.feeds if host in entrance.feeds and len(entrance.feeds) > 1 else (),
                takeover_us=entrance.takeover_us,
            )
            for name, entrance in query.entrances.items()
            if host in entrance.nodes
        ),
        writers=tuple(
            AssignedWriter(output=output, made_on=query.copies[output])
            for output, writer in query.writers.items()
            if writer == host
        ),
        technique=query.technique if any(host in each.nodes for each in replicated) else Technique.RACE,
        addresses=addresses,
    )


def _readings(whole: AssignedQuery) -> Iterator[Reading]:
    """What the parts of a host read through inlets."""
    for part in parts(whole):
        for stream, copies in part.upstream.items():
            yield Reading(part.reader, stream, tuple(copies))


def _replicas(host: str, query: QueryPlan) -> Iterator[AssignedReplica]:
    for fragment in query.fragments:
        for stage in fragment.stages if host in fragment.nodes else ():
            inputs = {stream: query.copies[stream] for stream in stage.inputs}
            yield AssignedReplica(stage=stage.name, inputs=inputs, peers=_others(fragment.nodes, host))


def _others(hosts: tuple[str, ...], host: str) -> tuple[str, ...]:
    return tuple(other for other in hosts if other != host)


def _compared(host: str, query: QueryPlan, readers: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The outputs that a host makes beside others, unless a host reads them and compares them so."""
    outputs = [output.name for output in query.diagram.outputs if output.name not in readers]
    made = {output: query.copies[output] for output in outputs if host in query.copies[output]}
    return {output: _others(hosts, host) for output, hosts in made.items() if len(hosts) > 1}


def _completed(
    found: Mapping[str, QueryAssignment], host: str, query: QueryPlan, readings: list[Reading]
) -> QueryAssignment:
    """With whom it has to know: those that read from it, those that have the same, and where all of them are."""
    readers: dict[str, tuple[str, ...]] = {}
    for reading in readings:
        if host in reading.copies and reading.reader not in readers.get(reading.stream, ()):
            readers[reading.stream] = (*readers.get(reading.stream, ()), reading.reader)
    mine = found[host]
    sharers, compared = _sharers(found, host, query), _compared(host, query, readers)
    named = {*sharers, *(other for hosts in compared.values() for other in hosts)}
    named.update(other for each in mine.entries for other in each.peers)
    named.update(other for each in mine.replicas for other in each.peers)
    named.update(copy for copies in reads(AssignedQuery(query.diagram, mine)).values() for copy in copies)
    return replace(
        mine,
        readers=readers,
        compared=compared,
        shares_tables=sharers,
        addresses={other: mine.addresses[other] for other in sorted(named)},
    )


def _sharers(found: Mapping[str, QueryAssignment], host: str, query: QueryPlan) -> tuple[str, ...]:
    """The other hosts that read a table which this one reads."""
    stages = {stage.name: stage for stage in query.stages}
    read = {
        name: set(tables_read(query.diagram, [stages[each.stage] for each in assignment.replicas]))
        for name, assignment in found.items()
    }
    return tuple(other for other in found if other != host and read[other] & read[host])


def _node_plan(
    name: str, description: Description, base: Path, queries: Mapping[str, QueryPlan], assignment: Assignment
) -> NodePlan:
    table = description.nodes[name]
    return NodePlan(
        name=name,
        address=parse_address(table.address),
        site=table.site or name,
        state=None if table.state is None else base / table.state,
        master=table.spark.master or description.spark.master or DEFAULT_MASTER,
        batch_interval_us=_batch_interval_us(table.spark, description.spark),
        conf={**description.spark.conf, **table.spark.conf},
        assignment=assignment,
        tables={name: _place(base, place) for name, place in table.tables.items()},
        needs_spark=any(
            AssignedQuery(queries[query].diagram, each).needs_spark for query, each in assignment.queries.items()
        ),
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
