"""``anabranch node``: one node of a deployment on this machine, until it is stopped."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import completing
from anabranch.cli.colours import can_move
from anabranch.cli.foreground import run_node
from anabranch.cli.stopping import Signals, StopAsked
from anabranch.cli.values import duration_us
from anabranch.cli.waiting import Waiting

if TYPE_CHECKING:
    from anabranch.deploy.addresses import Address


def node(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The deployment: a .toml file.", autocompletion=completing.deployment_file),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which of its nodes.")],
    state: Annotated[
        Path | None,
        typer.Option(help="Where it keeps its state. [default: as the file says, or .anabranch/FILE/NAME beside it]"),
    ] = None,
    for_us: Annotated[
        int | None,
        typer.Option("--for", parser=duration_us, metavar="DURATION", help="Stop this long after the start."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON when it runs; all else goes to standard error.")
    ] = False,
) -> None:
    """Run one node of a deployment until Ctrl-C, SIGTERM or --for.

    The node runs its part of the query, and waits for the nodes that it reads from, however long they take. Every
    machine has the same file. The state directory holds all durable state: run the node on it again, and it resumes
    where it was. A node that is only an entry point starts no Spark; a node that no query names waits for `anabranch
    deploy`. Exit codes as for `anabranch run`.

    \b
    Examples:
      anabranch node deployment.toml boston
      anabranch node deployment.toml boston --state /var/lib/anabranch
    """
    from anabranch.deploy.awaiting import await_role
    from anabranch.deploy.parts import part_of, relays_of, settings_of
    from anabranch.deploy.plan import load_plan
    from anabranch.deploy.states import state_of
    from anabranch.errors import ConfigError
    from anabranch.node.node import Node
    from anabranch.query.problems import candidates

    plan = load_plan(file)
    if name not in plan.nodes:
        raise ConfigError(f"{file} has no node {name!r}.", remedy=candidates(name, plan.nodes))
    planned = plan.nodes[name]
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    where = state or state_of(planned, file)
    signals = Signals()
    if planned.role is None:
        try:
            handed = await_role(planned, where, _waiting(planned.address, signals, err=as_json))
        except StopAsked:
            raise typer.Exit(signals.exit_code) from None
        # Whoever hands over a query cannot allow faults where the file of this machine does not.
        plan = replace(handed, faults=handed.faults and plan.faults)
        planned = plan.nodes[name]
    assert planned.role is not None
    waiting = Waiting(signals.check, err=as_json)
    query = plan.queries[planned.role.query]
    made = Node(
        query.diagram,
        where,
        settings_of(planned),
        part=part_of(plan, name),
        relays=relays_of(plan, name),
        directory=planned.directory,
        progress=waiting.progress,
    )
    typer.echo(f"node {name} of query {query.name}, state directory {where}", err=as_json)

    def running() -> None:
        facts = {"node": name, "query": query.name, "state": str(where.absolute()), "address": made.address}
        typer.echo(json.dumps(facts) if as_json else f"address: {made.address}")

    live = can_move(sys.stdout) and not as_json
    run_node(made, signals, waiting, running=running, for_us=for_us, live=live)
    typer.echo("stopped", err=as_json)
    raise typer.Exit(signals.exit_code)


def _waiting(address: Address, signals: Signals, *, err: bool) -> Callable[[], None]:
    """Says once that it waits, and from then on whether to stop."""
    said = False

    def check() -> None:
        nonlocal said
        if not said:
            typer.echo(f"waiting for a query at {address}: anabranch deploy FILE", err=err)
            said = True
        signals.check()

    return check
