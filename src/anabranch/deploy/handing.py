"""Hands the queries of a deployment to hosts that already run: each to all hosts that it names, or to none.

Whether a host takes a query, the host decides. A query that all its hosts have already is left alone, so a file can be
deployed again when it has got another query, and after a hand-over that was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anabranch.deploy.plan import Plan, load_plan
from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable
from anabranch.model.ids import QueryId
from anabranch.query.text import diagram_to_dict
from anabranch.transport.client import Client
from anabranch.transport.ports import HandOver

Given = Mapping[str, list[HandOver]]
"""Per host, what it is to be given."""


def hand_over(file: Path) -> tuple[Plan, dict[str, list[QueryId]]]:
    """The plan, and per host the queries that it was given. All are asked before the first one is given anything."""
    plan = load_plan(file)
    given = _given(plan)
    if not any(given.values()):
        raise ConfigError(f"{file} has no query to deploy.", remedy="Add a table [queries.NAME].")
    wanted, reasons = _ask(plan, given)
    if reasons:
        told = "".join(f"\n  - {reason}" for reason in reasons)
        raise NodeUnreachable(f"Nothing was deployed: not all nodes can accept it.{told}")
    if not any(wanted.values()):
        raise ConfigError("Nothing to deploy: all nodes already have all queries of the file.")
    for name, queries in wanted.items():
        with Client(str(plan.nodes[name].address)) as client:
            for each in queries:
                client.take(each)
    return plan, {name: [each.assignment.query for each in queries] for name, queries in wanted.items() if queries}


def _given(plan: Plan) -> Given:
    diagrams = {name: diagram_to_dict(query.diagram) for name, query in plan.queries.items()}
    return {
        name: [
            HandOver(assignment=assignment, query=diagrams[query])
            for query, assignment in node.assignment.queries.items()
        ]
        for name, node in plan.nodes.items()
    }


def _ask(plan: Plan, given: Given) -> tuple[Given, list[str]]:
    """What each host would take, and why one would not."""
    wanted: dict[str, list[HandOver]] = {}
    reasons: list[str] = []
    for name, queries in given.items():
        wanted[name] = []
        with Client(str(plan.nodes[name].address)) as client:
            for each in queries:
                try:
                    if client.may_take(each):
                        wanted[name].append(each)
                except NodeUnreachable as error:
                    reasons.append(f"{name}: {error} Start it: anabranch node FILE {name}")
                    break
                except AnabranchError as error:
                    reasons.append(f"{name}: {error}")
    return wanted, reasons
