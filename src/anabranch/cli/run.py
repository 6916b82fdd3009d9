"""``anabranch run``: a query on this machine until it is told to stop."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch import limits
from anabranch.cli import completing
from anabranch.cli.colours import Tone, can_move, painted
from anabranch.cli.connecting import connect_query
from anabranch.cli.stopping import Signals, StopAsked
from anabranch.cli.values import duration_us, settings, size_bytes
from anabranch.cli.waiting import Waiting, running_line, ways_in_and_out
from anabranch.model.times import format_duration

if TYPE_CHECKING:
    from anabranch.node.node import Node

LOOK_S: Final = 0.2
"""How often a running node is asked whether it has failed, and the time whether it is over."""


def run(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The query: a .py or .yaml file.", autocompletion=completing.query_file),
    ],
    state: Annotated[
        Path | None, typer.Option(help="Where the node keeps its state. [default: .anabranch/QUERY here]")
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FEED", help="What brings the rows of a source, e.g. ping=file:pings.csv; repeatable."
        ),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WRITER", help="Where an output goes besides Flight, e.g. slow=jsonl:out.jsonl; repeatable."
        ),
    ] = None,
    for_us: Annotated[
        int | None,
        typer.Option("--for", parser=duration_us, metavar="DURATION", help="Stop this long after it has started."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port to listen at; 0 takes any free one.")] = 0,
    master: Annotated[str, typer.Option(help="Which Spark: local[*], spark://host:7077, yarn ...")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; repeatable.")] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="Rows that one batch reads at most.")] = limits.BATCH_ROWS,
    boundary_interval: Annotated[
        int, typer.Option(parser=duration_us, metavar="DURATION", help="How often an idle source says the time.")
    ] = format_duration(limits.BOUNDARY_INTERVAL_US),  # type: ignore[assignment]
    retention: Annotated[
        int, typer.Option(parser=duration_us, metavar="DURATION", help="How long a log without readers keeps rows.")
    ] = format_duration(limits.LOG_RETENTION_US),  # type: ignore[assignment]
    log_bytes: Annotated[
        int, typer.Option(parser=size_bytes, metavar="SIZE", help="What one log may hold for its readers.")
    ] = f"{limits.LOG_BYTES >> 30}GiB",  # type: ignore[assignment]
    disk_reserve: Annotated[
        int, typer.Option(parser=size_bytes, metavar="SIZE", help="Free space below which intake stops.")
    ] = f"{limits.DISK_RESERVE_BYTES >> 20}MiB",  # type: ignore[assignment]
    as_json: Annotated[
        bool, typer.Option("--json", help="When it runs, one line of JSON; all else goes to standard error.")
    ] = False,
) -> None:
    """Run a query on this machine until Ctrl-C, SIGTERM or --for.

    The state directory holds everything that must last: run the same query on it again, and it goes on where it was,
    also after a crash. A stage that fails at every try stands still, which is told, and the others go on. Exit code 0
    after SIGTERM and --for, 130 after Ctrl-C, 3 when every stage has failed.

    \b
    Examples:
      anabranch run examples/slow_paths.py --state /var/lib/slow_paths --port 7700
      anabranch run examples/slow_paths.py --source load=generator:rate=100 --output slow_per_target=jsonl:slow.jsonl
    """
    from anabranch.engine.session import close_session
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
        boundary_interval_us=boundary_interval,
        retention_us=retention,
        log_bytes=log_bytes,
        disk_reserve_bytes=disk_reserve,
    )
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    where = state or Path(".anabranch", query.name)
    signals = Signals()
    waiting = Waiting(signals.check, err=as_json)
    node = Node(query, where, chosen, progress=waiting.progress)
    other = "" if state else " (--state gives another)"
    typer.echo(f"query {query.name}, state directory {where}{other}", err=as_json)
    try:
        with waiting:
            node.start()
        signals.check()
        if as_json:
            typer.echo(json.dumps({"query": query.name, "state": str(where.absolute()), "address": node.address}))
        else:
            typer.echo(f"address: {node.address}")
            typer.echo(ways_in_and_out(node.diagram, node.address))
        _wait(node, signals, for_us, live=can_move(sys.stdout) and not as_json)
    except StopAsked:
        pass
    except KeyboardInterrupt:  # for a moment of its start, Ctrl-C belongs to Spark
        signals.received = signal.SIGINT
    finally:
        node.stop()
        close_session()
    typer.echo("stopped", err=as_json)
    raise typer.Exit(signals.exit_code)


def _wait(node: Node, signals: Signals, for_us: int | None, *, live: bool) -> None:
    """Until someone asks us to stop, the time is over, or the node has failed."""
    started = time.monotonic()
    told: set[str] = set()
    new_line = "\n" if live else ""  # below the line that moves
    while signals.received is None and (for_us is None or time.monotonic() - started < for_us / 1_000_000):
        failure, failed = node.failure(), node.failed_stages()
        for stage, error in failed.items():
            if stage not in told and error is not failure:
                others = "" if failure else " The other stages go on."
                label = painted(f"error[{error.code}]:", Tone.bad, err=True)
                typer.echo(f"{new_line}{label} {error}{others}", err=True)
        told |= failed.keys()
        if failure is not None:
            raise failure
        if live:
            line = running_line(node.statistics(), shutil.get_terminal_size().columns - 1)
            typer.echo(f"\r\x1b[K{line}", nl=False)
        time.sleep(LOOK_S)
    if live:
        typer.echo()
