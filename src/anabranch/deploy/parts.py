"""From the plan of a deployment to what a host is made of: its queries, its links and its settings."""

from __future__ import annotations

from anabranch.deploy.plan import NodePlan, Plan
from anabranch.model.ids import QueryId
from anabranch.model.links import Link
from anabranch.node.relays import Relays
from anabranch.node.settings import NodeSettings
from anabranch.query.assigned import AssignedQuery


def assigned_queries(plan: Plan, name: str) -> tuple[AssignedQuery, ...]:
    """What this host runs, query by query."""
    return tuple(assigned(plan, name, query) for query in plan.nodes[name].assignment.queries)


def assigned(plan: Plan, name: str, query: str) -> AssignedQuery:
    """What this host runs of one query."""
    planned = plan.queries[query]
    return AssignedQuery(planned.diagram, plan.nodes[name].assignment.queries[QueryId(query)], planned.directory)


def relays_of(plan: Plan, name: str) -> Relays:
    """The links of this node: those that the file says something of, and, where they may be hurt, all others."""
    others = [other for other in plan.nodes if other != name]
    links = {other: plan.links.get((min(name, other), max(name, other)), Link()) for other in others}
    emulated = {other: link for other, link in links.items() if plan.faults or not link.is_plain}
    return Relays(name, emulated, allow_faults=plan.faults)


def settings_of(node: NodePlan) -> NodeSettings:
    """Where it listens, its Spark, and where its tables are; all else as it is by default."""
    return NodeSettings(
        host=node.address.host,
        port=node.address.port,
        master=node.master,
        conf=node.conf,
        batch_interval_us=node.batch_interval_us,
        tables=node.tables,
    )
