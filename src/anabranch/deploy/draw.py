"""A plan for people, as text, and for scripts, as plain data: who runs what, in how many copies, and who reads whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.deploy.parts import siblings
from anabranch.deploy.plan import Entrance, NodePlan, Plan, QueryPlan, Role
from anabranch.node.tables import tables_read
from anabranch.query.connectors import without_password
from anabranch.query.graph import Stage


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
        fed = f", fed by {entrance.feed}" if entrance.feed is not None else ""
        yield f"  source {entrance.source} enters at {', '.join(entrance.nodes)}{fed}"


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
    return {"nodes": list(entrance.nodes), "lanes": lanes, "feed": entrance.feed}


# --- nodes ---------------------------------------------------------------------------------------------------------


def _node(node: NodePlan, plan: Plan) -> Iterator[str]:
    site = f", site {node.site}" if node.site != node.name else ""
    spark = f", Spark {node.master}" if node.needs_spark else ", no Spark"
    yield f"node {node.name} at {node.address}{site}{spark}"
    if node.role is None:
        yield "  has nothing to do yet"
    else:
        yield from _role(node.name, node.role, plan.queries[node.role.query])
        yield from _tables(node, node.role, plan)
        yield from _rebuilt(node.name, node.role, plan)


def _tables(node: NodePlan, role: Role, plan: Plan) -> Iterator[str]:
    for table in tables_read(plan.queries[role.query].diagram, role.stages):
        place = node.tables.get(table.name) or table.file or table.database or "the query"
        yield f"  reads the table {table.name} from {without_password(place)}"


def _rebuilt(name: str, role: Role, plan: Plan) -> Iterator[str]:
    """For a replica: what happens if it loses its disk."""
    others = siblings(plan, name)
    if others:
        yield f"  can be rebuilt from {' or '.join(others)}"
    elif any(role.peers.values()):
        yield "  cannot be rebuilt: no other node does the same"


def _role(name: str, role: Role, query: QueryPlan) -> Iterator[str]:
    for sources, nodes in _together({each.source: each.nodes for each in role.entrances}):
        others = [other for other in nodes if other != name]
        peers = f", with {', '.join(others)}" if others else ""
        yield f"  entry point of {sources}{peers}"
    if role.feeds:
        yield f"  runs the feed of {', '.join(role.feeds)}"
    for fragment in role.fragments:
        peers = f", as {_do(role.peers[fragment.name])}" if role.peers[fragment.name] else ""
        yield f"  runs {fragment.name}{peers}"
    for streams, nodes in _together(role.upstream):
        yield f"  reads {streams} from {', '.join(nodes)}"
    for streams, nodes in _together(role.readers):
        yield f"  gives {streams} to {', '.join(nodes)}"
    for output in role.writers:
        yield f"  writes {output}" + ("" if name in query.copies[output] else ", which it reads for that")


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
    data: dict[str, Any] = {
        "address": str(node.address),
        "site": node.site,
        "state": None if node.state is None else str(node.state),
        "needs_spark": node.needs_spark,
        "master": node.master,
        "batch_interval_us": node.batch_interval_us,
        "conf": dict(node.conf),
        "tables": dict(node.tables),
        "role": None,
    }
    if node.role is not None:
        data["role"] = {
            "query": node.role.query,
            "fragments": [fragment.name for fragment in node.role.fragments],
            "peers": {name: list(peers) for name, peers in node.role.peers.items()},
            "upstream": {stream: list(copies) for stream, copies in node.role.upstream.items()},
            "readers": {stream: list(readers) for stream, readers in node.role.readers.items()},
            "entry": [entrance.source for entrance in node.role.entrances],
            "feeds": list(node.role.feeds),
            "writers": list(node.role.writers),
            "siblings": list(siblings(plan, node.name)),
        }
    return data
