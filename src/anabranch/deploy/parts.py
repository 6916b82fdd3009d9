"""From the plan of a deployment to what a node is told to do."""

from __future__ import annotations

from anabranch.deploy.plan import NodePlan, Plan, Role
from anabranch.model.links import Link
from anabranch.model.techniques import Technique
from anabranch.node.part import Part
from anabranch.node.relays import Relays
from anabranch.node.settings import NodeSettings
from anabranch.node.tables import tables_read


def part_of(plan: Plan, name: str) -> Part:
    """What this node does of its query. It has a role."""
    role = plan.nodes[name].role
    assert role is not None
    return Part(
        node=name,
        stages=role.stages,
        all_stages=plan.queries[role.query].stages,
        entries=frozenset(entrance.source for entrance in role.entrances),
        feeds=frozenset(role.feeds),
        peers={
            entrance.source: {peer: _address(plan, peer) for peer in entrance.nodes if peer != name}
            for entrance in role.entrances
        },
        writes=frozenset(role.writers),
        upstream={stream: {copy: _address(plan, copy) for copy in copies} for stream, copies in role.upstream.items()},
        readers=role.readers,
        siblings={other: _address(plan, other) for other in siblings(plan, name)},
        compared=_compared(plan, name, role),
        shares_tables={other: _address(plan, other) for other in _sharers(plan, name, role)},
        technique=plan.queries[role.query].technique if siblings(plan, name) else Technique.RACE,
    )


def _compared(plan: Plan, name: str, role: Role) -> dict[str, dict[str, str]]:
    """The outputs that this node makes beside others, unless a node reads them and compares them so."""
    query = plan.queries[role.query]
    made = {target.stream for stage in role.stages for target in stage.targets}
    outputs = [output.name for output in query.diagram.outputs if output.name in made - role.readers.keys()]
    others = {output: [node for node in query.copies[output] if node != name] for output in outputs}
    return {output: {node: _address(plan, node) for node in nodes} for output, nodes in others.items() if nodes}


def _sharers(plan: Plan, name: str, role: Role) -> list[str]:
    """The other nodes that read a table which this one reads."""
    mine = set(tables_read(plan.queries[role.query].diagram, role.stages))
    roles = {other: node.role for other, node in plan.nodes.items() if other != name and node.role is not None}
    return [
        other
        for other, theirs in roles.items()
        if theirs.query == role.query and mine & set(tables_read(plan.queries[role.query].diagram, theirs.stages))
    ]


def siblings(plan: Plan, name: str) -> tuple[str, ...]:
    """The nodes from which this one can be rebuilt: they run the same stages, and read the same streams from elsewhere.

    A state is one of all stages of a node together, so that a node which runs several fragments, each with other
    peers, has no sibling. Neither has one that is an entry point, too: what its stages read of the source is in its own
    log there, in an order of its own.
    """
    role = plan.nodes[name].role
    if role is None or not role.stages or role.entrances:
        return ()
    return tuple(
        other
        for other, node in plan.nodes.items()
        if other != name
        and node.role is not None
        and not node.role.entrances
        and node.role.stages == role.stages
        and node.role.upstream.keys() == role.upstream.keys()
    )


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


def _address(plan: Plan, node: str) -> str:
    return str(plan.nodes[node].address)
