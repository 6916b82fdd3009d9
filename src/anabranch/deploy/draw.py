"""A plan for people, as text, and for scripts, as plain data: who runs what, in how many copies, and who reads whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.deploy.plan import NodePlan, Plan
from anabranch.model.assignment import QueryAssignment
from anabranch.model.times import format_duration
from anabranch.query.assigned import AssignedQuery
from anabranch.query.connectors import without_password
from anabranch.query.graph import Stage, tables_read
from anabranch.query.parts import parts, reads
from anabranch.query.query_plan import Entrance, QueryPlan


def as_text(plan: Plan) -> str:
    """One paragraph per query, fragment and node, then the links."""
    paragraphs: list[list[str]] = []
    for query in plan.queries.values():
        tried = f", technique {query.technique}: an experiment" if query.technique else ""
        paragraphs.append([f"query {query.name}, mode {query.mode}{tried}", *_entrances(query)])
        paragraphs += _fragments(query)
    paragraphs += [list(_node(node, plan)) for node in plan.nodes.values()]
    if plan.links:
        told = (f"  {first} - {second}: {link}" for (first, second), link in plan.links.items())
        paragraphs.append(["links", *told])
    paragraphs.append([f"faults {'allowed' if plan.faults else 'not allowed'}"])
    return "\n\n".join("\n".join(lines) for lines in paragraphs) + "\n"


def as_data(plan: Plan) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "queries": {name: _query_data(query) for name, query in plan.queries.items()},
        "nodes": {name: _node_data(node, plan) for name, node in plan.nodes.items()},
        "links": [
            {
                "between": list(pair),
                "delay_us": link.delay_us,
                "jitter_us": link.jitter_us,
                "rate_bytes_s": link.rate_bytes_s,
            }
            for pair, link in plan.links.items()
        ],
        "faults": plan.faults,
    }


# --- queries -------------------------------------------------------------------------------------------------------


def _entrances(query: QueryPlan) -> Iterator[str]:
    for entrance in query.entrances.values():
        yield f"  source {entrance.source} enters at {', '.join(entrance.nodes)}{_fed(entrance)}"


def _fed(entrance: Entrance) -> str:
    if not entrance.feeds:
        return ""
    home, *others = entrance.feeds
    if not others:
        return f", fed by {home}"
    return f", fed by {home}, or by {' or '.join(others)} when it is gone for {format_duration(entrance.takeover_us)}"


def _fragments(query: QueryPlan) -> Iterator[list[str]]:
    for fragment in query.fragments:
        copies = "1 copy" if len(fragment.nodes) == 1 else f"{len(fragment.nodes)} copies"
        lines = [f"fragment {fragment.name} on {', '.join(fragment.nodes)} ({copies})"]
        if fragment.boxes:
            lines.append(f"  boxes {', '.join(fragment.boxes)}")
        lines += [line for stage in fragment.stages for line in _stage(stage, query)]
        yield lines


def _stage(stage: Stage, query: QueryPlan) -> Iterator[str]:
    yield f"  stage {stage.name} <- {', '.join(stage.inputs)}"
    outputs = {output.name for output in query.diagram.outputs}
    for target in stage.targets:
        yield f"    -> {'output ' if target.stream in outputs else ''}{target.stream}"


def _query_data(query: QueryPlan) -> dict[str, Any]:
    return {
        "mode": query.mode,
        "technique": query.technique or None,
        "fragments": {
            each.name: {
                "boxes": list(each.boxes),
                "stages": [stage.name for stage in each.stages],
                "nodes": list(each.nodes),
            }
            for each in query.fragments
        },
        "copies": {stream: list(nodes) for stream, nodes in query.copies.items()},
        "entry": {name: _entrance_data(entrance) for name, entrance in query.entrances.items()},
        "writers": dict(query.writers),
    }


def _entrance_data(entrance: Entrance) -> dict[str, Any]:
    lanes = {origin: list(nodes) for origin, nodes in entrance.lanes.items()}
    home, *others = entrance.feeds or (None,)
    return {
        "nodes": list(entrance.nodes),
        "lanes": lanes,
        "feed": home,
        "feed_standby": others,
        "takeover_us": entrance.takeover_us if others else None,
    }


# --- nodes ---------------------------------------------------------------------------------------------------------


def _node(node: NodePlan, plan: Plan) -> Iterator[str]:
    site = f", site {node.site}" if node.site != node.name else ""
    spark = f", Spark {node.master}" if node.needs_spark else ", no Spark"
    yield f"node {node.name} at {node.address}{site}{spark}"
    if not node.assignment.queries:
        yield "  has nothing to do yet"
    several = len(node.assignment.queries) > 1
    for name, assignment in node.assignment.queries.items():
        if several:
            yield f"  query {name}"
        query = plan.queries[name]
        for line in (*_assignment(assignment, query), *_tables(node, assignment, query), *_rebuilt(assignment, query)):
            yield f"    {line}" if several else f"  {line}"


def _tables(node: NodePlan, assignment: QueryAssignment, query: QueryPlan) -> Iterator[str]:
    for table in tables_read(query.diagram, AssignedQuery(query.diagram, assignment).stages):
        place = node.tables.get(table.name) or table.file or table.database or "the query"
        yield f"reads the table {table.name} from {without_password(place)}"


def _rebuilt(assignment: QueryAssignment, query: QueryPlan) -> Iterator[str]:
    """For each replica: what happens if it loses its disk."""
    cut = [part for part in parts(AssignedQuery(query.diagram, assignment)) if part.siblings]
    for part in cut:
        which = f"{part.assignment.part} " if len(cut) > 1 else ""
        yield f"{which}can be rebuilt from {' or '.join(part.siblings)}"


def _assignment(assignment: QueryAssignment, query: QueryPlan) -> Iterator[str]:
    host = assignment.host
    for sources, peers in _together({each.source: each.peers for each in assignment.entries}):
        yield f"entry point of {sources}" + (f", with {', '.join(peers)}" if peers else "")
    feeds = [each.source for each in assignment.entries if each.feeds and each.feed_hosts[:1] in ((), (host,))]
    if feeds:
        yield f"runs the feed of {', '.join(feeds)}"
    waiting = [each.source for each in assignment.entries if each.feeds and each.source not in feeds]
    if waiting:
        yield f"goes on with the feed of {', '.join(waiting)} when its node is gone"
    for fragment in query.fragments:
        if host in fragment.nodes:
            others = tuple(other for other in fragment.nodes if other != host)
            yield f"runs {fragment.name}" + (f", as {_do(others)}" if others else "")
    for streams, nodes in _together(reads(AssignedQuery(query.diagram, assignment))):
        yield f"reads {streams} from {', '.join(nodes)}"
    for streams, nodes in _together(assignment.readers):
        yield f"sends {streams} to {', '.join(nodes)}"
    for writer in assignment.writers:
        yield f"writes {writer.output}" + ("" if host in writer.made_on else ", which it reads from other nodes")


def _together(nodes: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Streams with the same nodes in one line."""
    found: dict[frozenset[str], list[str]] = {}
    for stream, names in nodes.items():
        found.setdefault(frozenset(names), []).append(stream)
    for streams in found.values():
        yield ", ".join(streams), nodes[streams[0]]


def _do(names: tuple[str, ...]) -> str:
    return f"does {names[0]}" if len(names) == 1 else f"do {', '.join(names)}"


def _node_data(node: NodePlan, plan: Plan) -> dict[str, Any]:
    return {
        "address": str(node.address),
        "site": node.site,
        "state": None if node.state is None else str(node.state),
        "needs_spark": node.needs_spark,
        "master": node.master,
        "batch_interval_us": node.batch_interval_us,
        "conf": dict(node.conf),
        "tables": dict(node.tables),
        "queries": {
            name: {
                "fragments": [each.name for each in plan.queries[name].fragments if node.name in each.nodes],
                "replicas": {
                    str(each.replica(replica.stage)): {
                        "inputs": {stream: list(hosts) for stream, hosts in replica.inputs.items()},
                        "peers": list(replica.peers),
                    }
                    for replica in each.replicas
                },
                "upstream": {
                    stream: list(copies)
                    for stream, copies in reads(AssignedQuery(plan.queries[name].diagram, each)).items()
                },
                "readers": {stream: list(readers) for stream, readers in each.readers.items()},
                "entry": [entry.source for entry in each.entries],
                "feeds": [entry.source for entry in each.entries if entry.feeds],
                "writers": [writer.output for writer in each.writers],
            }
            for name, each in node.assignment.queries.items()
        },
    }
