"""``anabranch paper``: experiments of the papers, repeated on real nodes."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli.stopping import Signals
from anabranch.cli.waiting import Waiting
from anabranch.errors import ConfigError

if TYPE_CHECKING:
    from anabranch.bench.report import Report
    from anabranch.paper.claims import Claim
    from anabranch.paper.racing import Found

WIDTH: Final = 120
"""Columns of a table that goes to a file or a pipe."""

RESULTS_FILE: Final = "racing.json"
_OTHER_FOLDER: Final = "Name another directory with --out."

paper = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@paper.callback()
def _verbs() -> None:
    """Repeat an experiment of a paper on real nodes.

    \b
    Example:
      anabranch paper racing --quick
    """


@paper.command()
def racing(
    quick: Annotated[
        bool, typer.Option("--quick", help="A third of the time for each run: about six minutes, rough numbers.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help=f"Directory for {RESULTS_FILE} and the plots; created if missing.")
    ] = Path("paper-racing"),
) -> None:
    """Repeat figures 8 and 9 of "Fast and Reliable Stream Processing over Wide Area Networks".

    Seven nodes run on this machine as separate processes, with delays between them ten times as long as in the paper.
    Figure 8 is the latency of a Union and of a Join with one slow input. Figure 9 is the latency of the Join's output
    when a node is killed, with four techniques: no replication, replication, synchronization by determinants, and
    deterministic order. Prints the numbers, draws both figures, and reports for each claim of the paper whether it
    holds in this run. Takes a quarter of an hour. Exit code 0 if all claims hold, 1 if one does not, 130 after Ctrl-C,
    143 after SIGTERM; both signals end all nodes.

    \b
    Examples:
      anabranch paper racing --quick
      anabranch paper racing --out figures
    """
    from anabranch.bench.report import Report
    from anabranch.paper.racing import FULL, QUICK, RacingExperiment

    _check_plots()
    _make(out)
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    signals = Signals()
    report = Report(command=f"anabranch paper racing{' --quick' if quick else ''}", baseline="against")
    with signals.obeyed(), Waiting(signals.check, done="done") as waiting:
        found = RacingExperiment(QUICK if quick else FULL, waiting.progress, signals.check).run()
    if signals.received is not None:
        typer.echo("stopped: nothing was written")
        raise typer.Exit(signals.cut_short_code)
    claimed = _judge(found, report)
    _tell(found, claimed)
    _write(found, report, out)
    raise typer.Exit(report.exit_code)


def _check_plots() -> None:
    from anabranch.demo.plot import INSTALL, can_plot

    if not can_plot():
        raise ConfigError(
            "The figures cannot be drawn: matplotlib is not installed.", remedy=f"Install it with {INSTALL}."
        )


def _make(folder: Path) -> None:
    """Told before the experiment, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The directory {folder} cannot be created: {error.strerror}.", remedy=_OTHER_FOLDER
        ) from error
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{folder} cannot be written.", remedy=_OTHER_FOLDER)


def _judge(found: Found, report: Report) -> list[Claim]:
    from anabranch.paper import figures
    from anabranch.paper.claims import claims

    judged = claims(found)
    report.add(*(claim.result for claim in judged))
    report.details.update(figures.as_json(found))
    return judged


def _tell(found: Found, judged: list[Claim]) -> None:
    from rich.console import Console

    from anabranch.paper import figures

    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for table in (figures.inputs_table(found), figures.techniques_table(found)):
        console.print()
        console.print(table)
    console.print()
    for claim in judged:
        console.print(claim.verdict(), markup=False, soft_wrap=True)
    console.print()


def _write(found: Found, report: Report, folder: Path) -> None:
    from anabranch.paper import figures

    results = folder / RESULTS_FILE
    report.write(results)
    for file in (results, *figures.plot(folder, found)):
        typer.echo(f"Written: {file}")
