"""What every node of a deployment needs to know, as frozen values: the outcome of a file without mistakes.

What each host is to run is its ``model.assignment``, which follows from where boxes are placed (``query.query_plan``).
A node may run several fragments of a query, each with other peers, and any number of queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch import limits
from anabranch.deploy import links
from anabranch.deploy.addresses import Address, parse_address
from anabranch.deploy.description import Description, EntryTable, LinkTable, QueryTable, SparkTable
from anabranch.deploy.query_checks import fed_lane, placement
from anabranch.deploy.validate import Checked, check_file
from anabranch.errors import DeploymentError
from anabranch.model.assignment import Assignment, QueryAssignment
from anabranch.model.ids import QueryId
from anabranch.model.links import Link
from anabranch.model.names import lane_origin
from anabranch.model.techniques import Technique
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram, Source
from anabranch.query.connectors import is_database
from anabranch.query.query_plan import Entrance, QueryPlan, assignments, placed_query

DEFAULT_MASTER = "local[*]"


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
        query = queries[name] = _query_plan(table, diagram, (checked.path.parent / table.file).resolve().parent)
        for host, assignment in assignments(query, addresses).items():
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


def _query_plan(table: QueryTable, diagram: Diagram, directory: Path) -> QueryPlan:
    return placed_query(
        diagram,
        placement(table, diagram),
        {source.name: _entrance(source, table.entry[source.name]) for source in diagram.sources},
        mode=table.mode,
        writers=table.write,
        technique=Technique(table.technique),
        directory=directory,
    )


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
