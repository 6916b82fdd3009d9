"""From the plan of a deployment to what a node is told to do."""

from __future__ import annotations

from anabranch.deploy.plan import Plan
from anabranch.node.part import Part


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
    )


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


def _address(plan: Plan, node: str) -> str:
    return str(plan.nodes[node].address)
