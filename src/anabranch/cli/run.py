"""``anabranch run``: a query on this machine until it is stopped."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from anabranch import limits
from anabranch.cli import completing
from anabranch.cli.colours import can_move
from anabranch.cli.connecting import connect_query, table_places
from anabranch.cli.foreground import run_host
from anabranch.cli.stopping import Signals
from anabranch.cli.values import duration_us, settings, size_bytes, wait_us
from anabranch.cli.waiting import Waiting, ways_in_and_out
from anabranch.model.times import format_duration


def run(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The query: a .py, .sql or .yaml file.", autocompletion=completing.query_file
        ),
    ],
    state: Annotated[
        Path | None, typer.Option(help="The state directory. [default: .anabranch/QUERY in the current directory]")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FEED", help="The feed of a source, e.g. ping=file:pings.csv; repeatable."),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WRITER", help="A writer of an output, besides Flight, e.g. slow=jsonl:out.jsonl; repeatable."
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PLACE",
            help="The location of a table, if not the one in the query, e.g. hosts=hosts.csv; repeatable.",
        ),
    ] = None,
    for_us: Annotated[
        int | None,
        typer.Option("--for", parser=duration_us, metavar="DURATION", help="Stop this long after starting."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port to listen on; 0 picks a free one.")] = 0,
    master: Annotated[str, typer.Option(help="The Spark master: local[*], spark://host:7077, yarn ...")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting; repeatable.")] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="The maximum number of rows per batch.")] = limits.BATCH_ROWS,
    batch_interval: Annotated[
        int,
        typer.Option(
            parser=wait_us,
            metavar="DURATION",
            help="The maximum time between batches while few rows wait; 0s for no wait.",
        ),
    ] = format_duration(limits.BATCH_INTERVAL_US),  # type: ignore[assignment]
    boundary_interval: Annotated[
        int, typer.Option(parser=duration_us, metavar="DURATION", help="How often an idle source sends a boundary.")
    ] = format_duration(limits.BOUNDARY_INTERVAL_US),  # type: ignore[assignment]
    retention: Annotated[
        int, typer.Option(parser=duration_us, metavar="DURATION", help="How long a log without readers keeps rows.")
    ] = format_duration(limits.LOG_RETENTION_US),  # type: ignore[assignment]
    log_bytes: Annotated[
        int, typer.Option(parser=size_bytes, metavar="SIZE", help="How much one log may hold for its readers.")
    ] = f"{limits.LOG_BYTES >> 30}GiB",  # type: ignore[assignment]
    disk_reserve: Annotated[
        int, typer.Option(parser=size_bytes, metavar="SIZE", help="Free space below which intake stops.")
    ] = f"{limits.DISK_RESERVE_BYTES >> 20}MiB",  # type: ignore[assignment]
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one line of JSON once it is running; everything else goes to standard error."
        ),
    ] = False,
) -> None:
    """Run a query on this machine until Ctrl-C, SIGTERM or --for.

    The state directory holds all durable state: run the same query on it again, and it resumes where it was, even after
    a crash. A stage that fails at every retry stops; the node reports it, and the other stages continue. Exit code 0
    after SIGTERM and --for, 130 after Ctrl-C, 3 when every stage has failed.

    \b
    Examples:
      anabranch run examples/slow_paths.py --state /var/lib/slow_paths --port 7700
      anabranch run examples/slow_paths.py --source load=generator:rate=100 --output slow_per_target=jsonl:slow.jsonl
    """
    from anabranch.node.node import Node
    from anabranch.node.settings import NodeSettings
    from anabranch.query.files import load

    query = load(file)
    connect_query(query, source or [], output or [])
    chosen = NodeSettings(
        host=host,
        port=port,
        master=master,
        conf=settings(conf or []),
        batch_rows=batch_rows,
        batch_interval_us=batch_interval,
        boundary_interval_us=boundary_interval,
        retention_us=retention,
        log_bytes=log_bytes,
        disk_reserve_bytes=disk_reserve,
        tables=table_places(table or []),
    )
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    where = state or Path(".anabranch", query.name)
    signals = Signals()
    waiting = Waiting(signals.check, err=as_json)
    node = Node(query, where, chosen, progress=waiting.progress)
    other = "" if state else " (change it with --state)"
    typer.echo(f"query {query.name}, state directory {where}{other}", err=as_json)

    def running() -> None:
        if as_json:
            typer.echo(json.dumps({"query": query.name, "state": str(where.absolute()), "address": node.address}))
        else:
            typer.echo(f"address: {node.address}")
            typer.echo(ways_in_and_out(node.diagram, node.address))

    live = can_move(sys.stdout) and not as_json
    run_host(node.host, signals, waiting, running=running, for_us=for_us, live=live)
    typer.echo("stopped", err=as_json)
    raise typer.Exit(signals.exit_code)
