"""``anabranch node``: one node of a deployment on this machine, until it is stopped."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import completing
from anabranch.cli.colours import can_move
from anabranch.cli.foreground import run_host
from anabranch.cli.stopping import Signals
from anabranch.cli.values import duration_us
from anabranch.cli.waiting import Waiting

if TYPE_CHECKING:
    from anabranch.model.ids import QueryId


def node(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The deployment: a .toml file.", autocompletion=completing.deployment_file),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node to run.")],
    state: Annotated[
        Path | None,
        typer.Option(help="The state directory. [default: from the file, or .anabranch/FILE/NAME beside it]"),
    ] = None,
    for_us: Annotated[
        int | None,
        typer.Option("--for", parser=duration_us, metavar="DURATION", help="Stop this long after starting."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one line of JSON once it is running; everything else goes to standard error."
        ),
    ] = False,
) -> None:
    """Run one node of a deployment until Ctrl-C, SIGTERM or --for.

    The node runs its part of every query that names it, and waits for the nodes that it reads from, however long they
    take. Every machine has the same file. The state directory holds all durable state: run the node on it again, and it
    resumes where it was. A node that is only an entry point starts no Spark; a node that no query names waits for
    `anabranch deploy`, which also hands further queries to nodes that run some. Exit codes as for `anabranch run`.

    \b
    Examples:
      anabranch node deployment.toml boston
      anabranch node deployment.toml boston --state /var/lib/anabranch
    """
    from anabranch.deploy.parts import assigned_queries, relays_of, settings_of
    from anabranch.deploy.plan import load_plan
    from anabranch.deploy.states import state_of
    from anabranch.deploy.taking import Taking, given_before, refuse_twice
    from anabranch.errors import ConfigError
    from anabranch.node.host import Host
    from anabranch.query.problems import candidates

    plan = load_plan(file)
    if name not in plan.nodes:
        raise ConfigError(f"{file} has no node {name!r}.", remedy=candidates(name, plan.nodes))
    planned = plan.nodes[name]
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("anabranch.host").setLevel(logging.INFO)
    where = state or state_of(planned, file)
    named, given = assigned_queries(plan, name), given_before(where, planned.tables)
    refuse_twice(file, named, given, where)
    signals = Signals()
    waiting = Waiting(signals.check, err=as_json)
    made = Host(
        name,
        where,
        settings_of(planned),
        queries=[*named, *given],
        relays=relays_of(plan, name),
        progress=waiting.progress,
        assignments=lambda host: Taking(host, name, planned.address, where),
    )
    queries = list(made.queries)
    typer.echo(f"node {name}{_of(queries)}, state directory {where}", err=as_json)

    def running() -> None:
        facts = {"node": name, "queries": queries, "state": str(where.absolute()), "address": made.address}
        typer.echo(json.dumps(facts) if as_json else f"address: {made.address}")
        if not queries:
            typer.echo(f"waiting for a query at {made.address}: anabranch deploy FILE", err=as_json)

    live = can_move(sys.stdout) and not as_json
    run_host(made, signals, waiting, running=running, for_us=for_us, live=live)
    typer.echo("stopped", err=as_json)
    raise typer.Exit(signals.exit_code)


def _of(queries: list[QueryId]) -> str:
    if not queries:
        return ""
    return f" of query {queries[0]}" if len(queries) == 1 else f" of queries {', '.join(queries)}"
