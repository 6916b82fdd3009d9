"""``anabranch bench``: measurements against a baseline in the same run."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli.stopping import Signals, StopAsked
from anabranch.cli.waiting import Waiting
from anabranch.errors import ConfigError

if TYPE_CHECKING:
    from anabranch.bench.report import Report

WIDTH: Final = 120
"""Columns of a table that goes to a file or a pipe."""

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@bench.callback()
def _verbs() -> None:
    """Measure Anabranch against a baseline in the same run.

    \b
    Example:
      anabranch bench engine --quick
    """


@bench.command()
def engine(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows, one round: under a minute, rough.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results there, too.")
    ] = None,
) -> None:
    """Compare with plain Spark: a filter, a window sum over 1000 keys and a join, on the same rows and settings.

    Tells rows per second, milliseconds of a micro-batch at 1000 rows/s, latency, processor time, seconds from command
    to first result, and peak memory with a backlog. Plain Spark reads Parquet files; Anabranch takes pushes over Flight
    and keeps journal and log. Exit code 0 if all bounds are kept, 1 if one is missed, 130 after Ctrl-C.

    \b
    Examples:
      anabranch bench engine --quick
      anabranch bench engine --json engine.json
    """
    from anabranch.bench.engine import FULL, QUICK, EngineBench
    from anabranch.bench.processes import check_system
    from anabranch.bench.report import Report
    from anabranch.engine.session import close_session

    check_system()
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ConfigError(f"There is no directory for {json_file}.", remedy="Make it first, or name another file.")
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    signals = Signals()
    waiting = Waiting(signals.check, done="done")
    report = Report(command=f"anabranch bench engine{' --quick' if quick else ''}", baseline="plain Spark")
    try:
        with waiting, tempfile.TemporaryDirectory(prefix="anabranch-bench-") as directory:
            EngineBench(QUICK if quick else FULL, Path(directory), waiting.progress, signals.check).run(report)
    except StopAsked:
        pass
    except KeyboardInterrupt:  # for a moment of its start, Ctrl-C belongs to Spark
        signals.received = signal.SIGINT
    finally:
        close_session()
    if report.results:
        _tell(report)
    if signals.received is not None:
        typer.echo("stopped: the table is not complete, and nothing was written")
        raise typer.Exit(signals.exit_code)
    if json_file is not None:
        report.write(json_file)
    raise typer.Exit(report.exit_code)


def _tell(report: Report) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print()
    console.print(report.table())
    for result in report.missed:
        console.print(f"Missed: {result.name}: {result.bound}.", markup=False)
