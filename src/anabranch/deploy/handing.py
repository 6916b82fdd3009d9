"""Hands the queries of a deployment to nodes that already run and wait for one: to all that they name, or to none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anabranch.deploy.looking import Found, Looker
from anabranch.deploy.plan import NodePlan, Plan, make_plan
from anabranch.deploy.tables import load_tables
from anabranch.deploy.validate import check_file
from anabranch.errors import AnabranchError, DeploymentError, NodeUnreachable
from anabranch.model.node_state import NodeState
from anabranch.query.text import diagram_to_dict
from anabranch.transport.client import Client
from anabranch.transport.ports import Role


def hand_over(file: Path) -> Plan:
    """Every node that has a role gets it. All are asked before the first one is given anything."""
    checked = check_file(file)
    if checked.mistakes:
        raise DeploymentError(str(file), checked.mistakes)
    plan = make_plan(checked)
    named = {name: node for name, node in plan.nodes.items() if node.role is not None}
    with Looker(plan) as looker:
        reasons = list(_reasons(named, looker.ask(named)))
    if reasons:
        told = "".join(f"\n  - {reason}" for reason in reasons)
        raise NodeUnreachable(f"Nothing was handed over: not all nodes wait for a query.{told}")
    queries = {name: diagram_to_dict(diagram) for name, diagram in checked.diagrams.items()}
    tables = _tables(file)
    for name, node in named.items():
        with Client(str(node.address)) as client:
            client.take_role(Role(node=name, tables=tables, queries=queries))
    return plan


def _reasons(named: Mapping[str, NodePlan], found: Found) -> Iterator[str]:
    """Why a node cannot be given anything, for each that cannot."""
    for name, node in named.items():
        said = found[name]
        if isinstance(said, AnabranchError):
            yield f"{name}: {said} Start it: anabranch node FILE {name}"
        elif said["state"] != NodeState.WAITING:
            yield f"{name}: it runs the query {said['query']} already."
        elif said["node"] != name:
            yield f"{name}: the node at {node.address} is called {said['node']}."


def _tables(file: Path) -> dict[str, Any]:
    """The file as it is, but for the files of its queries: a node has those that it is sent."""
    tables = load_tables(file)
    for name, query in tables["queries"].items():
        query["file"] = f"{name}.yaml"
    return tables
