"""Hurts and heals the links between the nodes of a deployment that runs, wherever it runs.

A node has in its hands the connections that it opens itself (``node.relays``), so both ends of a link are told. One
that cannot be reached does not obey: what it opens goes on as before. If it is dead that is nothing, but when it comes
back it begins with the links of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from anabranch.deploy.plan import Plan
from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable
from anabranch.model.links import LinkFault
from anabranch.query.problems import candidates
from anabranch.transport.client import Client

ANSWER_S: Final = 3.0
"""How long a node may take to obey: one that is paused never does, and the other end should not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed:
    """What became of a fault at one end of a link."""

    node: str
    other: str
    error: AnabranchError | None
    """Why the node did not obey."""


def ends(plan: Plan, name: str) -> tuple[str, ...]:
    """The nodes that a name means: one node, or all of a site."""
    if name in plan.nodes:
        return (name,)
    found = tuple(node.name for node in plan.nodes.values() if node.site == name)
    if not found:
        known = dict.fromkeys([*plan.nodes, *(node.site for node in plan.nodes.values())])
        raise ConfigError(f"There is no node or site {name!r}.", remedy=candidates(name, known))
    return found


def links_between(plan: Plan, one: str, other: str) -> list[tuple[str, str]]:
    """The pairs of nodes between two nodes or sites."""
    found = {(min(a, b), max(a, b)) for a, b in product(ends(plan, one), ends(plan, other)) if a != b}
    if not found:
        raise ConfigError(
            f"There is no link between {one} and {other}: they are the same node.", remedy="Name two nodes."
        )
    return sorted(found)


def fault_links(plan: Plan, one: str, other: str, fault: LinkFault) -> list[Obeyed]:
    """Does this to all links between two nodes or sites, at both ends of each.

    ConfigError where the deployment allows no faults, NodeUnreachable if nobody obeyed.
    """
    check_allowed(plan)
    outcomes: list[Obeyed] = []
    for pair in links_between(plan, one, other):
        outcomes += [_told(plan, node, far, fault) for node, far in (pair, pair[::-1])]
    errors = [outcome.error for outcome in outcomes]
    if None not in errors:
        refused = [error for error in errors if not isinstance(error, NodeUnreachable)]
        raise next(iter(refused), None) or NodeUnreachable(
            f"Neither {one} nor {other} can be reached.", remedy="Start the deployment first."
        )
    return outcomes


def check_allowed(plan: Plan) -> None:
    if not plan.faults:
        raise ConfigError(
            "The deployment does not allow faults.", remedy="Write faults = true in its file, and restart it."
        )


def unheard(outcomes: Sequence[Obeyed]) -> list[str]:
    """A sentence for each end that did not obey, saying what that means."""
    return [
        f"{each.node} did not apply the fault ({each.error.message}) Its connections to {each.other} are unchanged."
        for each in outcomes
        if each.error is not None
    ]


def _told(plan: Plan, node: str, other: str, fault: LinkFault) -> Obeyed:
    try:
        with Client(str(plan.nodes[node].address), timeout_s=ANSWER_S) as client:
            client.fault_link(other, fault)
    except AnabranchError as error:
        return Obeyed(node=node, other=other, error=error)
    return Obeyed(node=node, other=other, error=None)
