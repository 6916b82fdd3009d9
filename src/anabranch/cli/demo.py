"""``anabranch demo``: the racing paper's example, live, with a summary and a plot at the end."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli.stopping import Signals
from anabranch.cli.values import duration_us
from anabranch.cli.waiting import Waiting
from anabranch.errors import ConfigError
from anabranch.model.times import SECOND, format_duration

if TYPE_CHECKING:
    from anabranch.demo.play import Play
    from anabranch.demo.scenario import Scenario
    from anabranch.demo.summary import Summary

SHORTEST_US: Final = 5 * SECOND
"""Below this a server is not busy long enough for anyone to notice."""

NOT_RIGHT: Final = 1


def demo(
    for_us: Annotated[
        int, typer.Option("--for", parser=duration_us, metavar="DURATION", help="How long data flows; at least 5s.")
    ] = "30s",  # type: ignore[assignment]
    rate: Annotated[float, typer.Option(min=1, max=20_000, help="Pings a second, all servers together.")] = 300,
    seed: Annotated[int, typer.Option(help="A different seed makes a different story.")] = 7,
    plot: Annotated[Path, typer.Option(help="File for the latency plot, a PNG.")] = Path("anabranch-demo.png"),
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Do not draw a plot.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the summary to this file.")
    ] = None,
) -> None:
    """Watch a query find slow network paths among six servers.

    The servers ping each other and report their load. A slow ping is the network's fault only if its target was not
    busy. One server gets busy and one path degrades for a while. At the end the demo reports what the query found,
    compares it with what really happened, and plots the latency of results. It leaves nothing behind but the plot.
    Exit code 0 if the answer is right, and after SIGTERM, 1 if it is not, 130 after Ctrl-C.

    \b
    Examples:
      anabranch demo
      anabranch demo --for 1m --rate 2000 --seed 3 --plot latency.png --json summary.json
    """
    if for_us < SHORTEST_US:
        raise typer.BadParameter(f"At least {format_duration(SHORTEST_US)}.", param_hint="--for")
    for file in (None if no_plot else plot, json_file):
        if file is not None:
            _check_writable(file)
    from anabranch.demo.scenario import Scenario

    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    signals = Signals()
    began = time.monotonic()
    play = _perform(Scenario(for_us / SECOND, rate, seed), signals)
    if play is None:
        typer.echo("stopped before anything happened")
        raise typer.Exit(signals.exit_code)
    summary = play.summary()
    _tell(summary)
    if not no_plot:
        _draw(play, plot)
    if json_file is not None:
        _write(summary, json_file)
    typer.echo(f"The demo took {time.monotonic() - began:.0f} s in total.")
    cut_short = signals.received is not None
    raise typer.Exit(signals.exit_code if cut_short or summary.is_right else NOT_RIGHT)


def _check_writable(file: Path) -> None:
    """Told before the demo, not after it."""
    directory = file.absolute().parent
    if not directory.is_dir():
        raise ConfigError(f"The directory of {file} does not exist.", remedy="Create it first, or name another file.")
    if file.is_dir() or not os.access(file if file.exists() else directory, os.W_OK):
        raise ConfigError(f"{file} cannot be written.", remedy="Name another file.")


def _perform(scenario: Scenario, signals: Signals) -> Play | None:
    """The play after its end; None if someone stopped it while Spark was starting."""
    from anabranch.cli.colours import can_move, console
    from anabranch.demo.play import Play
    from anabranch.demo.scenario import query
    from anabranch.demo.screen import LineScreen, TableScreen
    from anabranch.engine.session import close_session
    from anabranch.node.node import Node

    page = console()
    performed: Play | None = None
    waiting = Waiting(signals.check, done=f"six servers report for {scenario.seconds:.0f} s; Ctrl-C ends it early")
    with tempfile.TemporaryDirectory(prefix="anabranch-demo-") as state:
        node = Node(query(), state, progress=waiting.progress)
        try:
            with signals.obeyed():
                with waiting:
                    node.start()
                signals.check()
                with Play(node, scenario) as play:
                    with TableScreen(page) if can_move(sys.stdout) else LineScreen(page) as screen:
                        play.run(screen.show, lambda: signals.received is not None)
                    performed = play
        finally:
            node.stop()
            close_session()
    return performed


def _tell(summary: Summary) -> None:
    from anabranch.cli.colours import console
    from anabranch.demo.screen import latency_line, summary_table

    page = console()
    page.print()
    page.print(summary_table(summary))
    for line in (latency_line(summary), "", *summary.words(), ""):
        page.print(line, soft_wrap=True, markup=False)


def _draw(play: Play, file: Path) -> None:
    from anabranch.demo.plot import INSTALL, can_plot, plot_latencies

    if not can_plot():
        typer.echo(f"No plot: matplotlib is not installed. Install it with {INSTALL}.")
        return
    plot_latencies(file, play.latencies, play.scenario.phases, seconds=play.seconds)
    typer.echo(f"Latency over time: {file}")


def _write(summary: Summary, file: Path) -> None:
    import json

    file.write_text(json.dumps(summary.as_json(), indent=2) + "\n", encoding="utf-8")
