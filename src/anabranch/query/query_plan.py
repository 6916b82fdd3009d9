"""A query that is placed: which hosts run which part of it, and what follows from that for each of them.

Whoever places boxes (a deployment file, a simulation) says only where. Where the query is cut, what its fragments are,
who reads what from whom, and so the assignment of each host, is decided here, from names alone.

    stream     made on               read by
    source     its entry points      stages; each entry point holds all lanes
    box:NAME   a fragment's nodes    stages of the same fragment, or inlets of others
    output     a fragment's nodes    clients; an inlet, where its writers run on another node
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch import limits
from anabranch.model.assignment import AssignedEntry, AssignedReplica, AssignedWriter, QueryAssignment
from anabranch.model.ids import QueryId
from anabranch.model.techniques import Technique
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Arrow, Diagram, Source
from anabranch.query.flow import Flow, Placement, Reading, cuts, flow
from anabranch.query.graph import Stage, boxes_of, origins, tables_read
from anabranch.query.parts import parts, reads


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


def placed_query(
    diagram: Diagram,
    placed: Placement,
    entrances: Mapping[str, Entrance],
    *,
    mode: str,
    writers: Mapping[str, str] | None = None,
    technique: Technique = Technique.RACE,
    directory: Path | None = None,
) -> QueryPlan:
    """The plan of a valid query of which every box is placed. ``writers`` has the node of each output that is written
    elsewhere than on the first that makes it; ``entrances`` say more of entry points than where they are."""
    found = flow(diagram, placed)
    arrows = {source.name: Arrow(source.name) for source in diagram.sources}
    arrows |= {target.stream: target.arrow for stage in found.stages for target in stage.targets}
    return QueryPlan(
        name=diagram.name,
        mode=mode,
        diagram=diagram,
        fragments=_fragments(diagram, found),
        entrances=entrances,
        copies=found.made_on,
        origins={stream: tuple(sorted(origins(diagram, arrow))) for stream, arrow in arrows.items()},
        writers={
            output.name: (writers or {}).get(output.name, found.made_on[output.name][0])
            for output in diagram.outputs
            if output.to
        },
        technique=technique,
        cuts=tuple(sorted((arrow.box, arrow.port, reader) for arrow, reader in cuts(diagram, placed))),
        directory=directory or Path(),
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


def assignments(query: QueryPlan, addresses: Mapping[str, str]) -> dict[str, QueryAssignment]:
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
