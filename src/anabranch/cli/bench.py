"""``anabranch bench``: measurements against a baseline in the same run."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from anabranch.cli.stopping import Signals
from anabranch.cli.waiting import Waiting
from anabranch.errors import ConfigError

if TYPE_CHECKING:
    from anabranch.bench.bench import Bench
    from anabranch.bench.report import Report

WIDTH: Final = 120
"""Columns of a table that goes to a file or a pipe."""

_Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the results to this file.")]
_QuickFailover = Annotated[bool, typer.Option("--quick", help="One kill each: two to three minutes, rough numbers.")]
_QuickIdle = Annotated[bool, typer.Option("--quick", help="Shorter intervals: two to three minutes, rough numbers.")]
_QuickStart = Annotated[bool, typer.Option("--quick", help="One round: about a minute, rough numbers.")]
_QuickRacing = Annotated[bool, typer.Option("--quick", help="Four slow periods: about two minutes, rough numbers.")]

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@bench.callback()
def _verbs() -> None:
    """Measure Anabranch against a baseline in the same run.

    \b
    Examples:
      anabranch bench engine --quick
      anabranch bench failover --quick
    """


@bench.command()
def engine(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rows, one round: under a minute, rough numbers.")
    ] = False,
    json_file: _Json = None,
) -> None:
    """Compare with plain Spark: a filter, a window sum over 1000 keys and a join, on the same rows and settings.

    Reports rows per second, milliseconds per micro-batch at 1000 rows/s, latency, processor time, seconds from command
    to first result, and peak memory with a backlog. Plain Spark reads Parquet files; Anabranch accepts pushes over
    Flight and keeps journal and log. Exit code 0 if all bounds hold, 1 if one is missed, 130 after Ctrl-C, 143 after
    SIGTERM.

    \b
    Examples:
      anabranch bench engine --quick
      anabranch bench engine --json engine.json
    """
    from anabranch.bench.engine import FULL, QUICK, EngineBench
    from anabranch.engine.session import close_session

    try:
        _run("engine", partial(EngineBench, QUICK if quick else FULL), quick, json_file, baseline="plain Spark")
    finally:
        close_session()


@bench.command()
def operators(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer rows, one round: two to three minutes, rough numbers.")
    ] = False,
    json_file: _Json = None,
) -> None:
    """Measure each box by itself: rows per second, and milliseconds per micro-batch at 1000 rows/s.

    Boxes that Spark also has are compared with plain Spark. Boxes that work in canonical order must do 100,000 rows/s
    with 1000 groups, and their micro-batch is compared with that of a time window. A full run takes about 10 minutes.
    Exit code 0 if all bounds hold, 1 if one is missed, 130 after Ctrl-C, 143 after SIGTERM.

    \b
    Examples:
      anabranch bench operators --quick
      anabranch bench operators --json operators.json
    """
    from anabranch.bench.operators import FULL, QUICK, OperatorsBench
    from anabranch.engine.session import close_session

    try:
        _run("operators", partial(OperatorsBench, QUICK if quick else FULL), quick, json_file, baseline="baseline")
    finally:
        close_session()


@bench.command()
def start(quick: _QuickStart = False, json_file: _Json = None) -> None:
    """Measure the time from a command to the first result, compared with plain Spark.

    Measures a query of one stage, the same query killed with SIGKILL and restarted on its state, a query of four
    stages, and one more query in a host whose JVM is warm; medians of five rounds, in which both take turns. A full run
    takes about 10 minutes. Exit code 0 if all bounds hold, 1 if one is missed, 130 after Ctrl-C, 143 after SIGTERM.

    \b
    Examples:
      anabranch bench start --quick
      anabranch bench start --json start.json
    """
    from anabranch.bench.start import FULL, QUICK, StartBench
    from anabranch.engine.session import close_session

    try:
        _run("start", partial(StartBench, QUICK if quick else FULL), quick, json_file, baseline="plain Spark")
    finally:
        close_session()


@bench.command()
def idle(quick: _QuickIdle = False, json_file: _Json = None) -> None:
    """Measure the cost of idle hosts: processor time, threads and memory.

    Measures an entry point with two peers, a replica with one stage and one with four, at rest and with ten rows a
    second; and the whole of figure 7 of the racing paper (examples/planetlab.toml): seven hosts, three Sparks, 16 rows
    a second. Reports processor time separately for a host, its JVM and its Python workers. A full run takes about 10
    minutes. Exit code 0 if all bounds hold, 1 if one is missed, 130 after Ctrl-C, 143 after SIGTERM.

    \b
    Examples:
      anabranch bench idle --quick
      anabranch bench idle --json idle.json
    """
    from anabranch.bench.idle import FULL, QUICK, IdleBench

    _run("idle", partial(IdleBench, QUICK if quick else FULL), quick, json_file, baseline=None)


@bench.command()
def entry(
    quick: Annotated[bool, typer.Option("--quick", help="A second each: about a minute, rough.")] = False,
    json_file: _Json = None,
) -> None:
    """Measure pushes to one and to three entry points, beside a plain append of the same bytes with a sync for each.

    Pushes of 1, 100 and 10,000 rows, from 1 and from 20 producers, each of which waits for its answer. Reports rows per
    second and the time to the answer (median, 95 %). 20 producers with one row a push must get 4 times the answers of
    one, and large pushes to one entry point half the bytes per second of the plain append. Needs no Spark. A full run
    takes two to three minutes. Exit code 0 if all bounds hold, 1 if one is missed, 130 after Ctrl-C, 143 after SIGTERM.

    \b
    Examples:
      anabranch bench entry --quick
      anabranch bench entry --json entry.json
    """
    from anabranch.bench.entry import FULL, QUICK, EntryBench

    _run("entry", partial(EntryBench, QUICK if quick else FULL), quick, json_file, baseline="plain append")


@bench.command()
def failover(quick: _QuickFailover = False, json_file: _Json = None) -> None:
    """Kill the process that computes: plain Spark and Anabranch `single` restart at once, `race` has a second copy.

    All three run the same filter on the same steady flow of 100 rows/s, made and read here. Reports the largest gap
    between results around a kill -9, and in intervals without one, the time until latency is normal, and how many
    results are lost or repeated; medians of five kills. A full run takes about 10 minutes, and at most two Sparks run
    at a time. Exit code 0 if all bounds hold, 1 if one is missed, 130 after Ctrl-C, 143 after SIGTERM.

    \b
    Examples:
      anabranch bench failover --quick
      anabranch bench failover --json failover.json
    """
    from anabranch.bench.failover import FULL, QUICK, FailoverBench

    made = partial(FailoverBench, QUICK if quick else FULL)
    _run("failover", made, quick, json_file, baseline="without a kill", measured="with a kill")


@bench.command()
def racing(quick: _QuickRacing = False, json_file: _Json = None) -> None:
    """Slow copies down in turn, by pauses and long-tailed delays: the effect of a second copy on latency, and its cost.

    Runs the same filter on the same steady flow of 100 rows/s with the same slow periods, with one copy and with two.
    Reports latency (median, 95 %, 99 %), processor time of all nodes, and bytes on the wire. A full run takes about 5
    minutes. Exit code 0 if all bounds hold, 1 if one is missed, 130 after Ctrl-C, 143 after SIGTERM.

    \b
    Examples:
      anabranch bench racing --quick
      anabranch bench racing --json racing.json
    """
    from anabranch.bench.racing import FULL, QUICK, RacingBench

    made = partial(RacingBench, QUICK if quick else FULL)
    _run("racing", made, quick, json_file, baseline="one copy", measured="two copies")


@bench.command()
def nexmark(
    quick: Annotated[bool, typer.Option("--quick", help="20,000 events, no race: about three minutes.")] = False,
    json_file: _Json = None,
) -> None:
    """Run the queries of the Nexmark benchmark, on a node and on plain Spark, over a million events of its streams.

    Reports events per second of each query in examples/nexmark, and with two racing copies for q1, q5 and q8. Results
    must match those that DuckDB computes in batch. Exit code 0 if they do, 70 if they do not, 130 after Ctrl-C, 143
    after SIGTERM.

    \b
    Examples:
      anabranch bench nexmark --quick
      anabranch bench nexmark --json nexmark.json
    """
    from anabranch.bench.nexmark import FULL, QUICK, NexmarkBench
    from anabranch.engine.session import close_session

    try:
        _run("nexmark", partial(NexmarkBench, QUICK if quick else FULL), quick, json_file, baseline="plain Spark")
    finally:
        close_session()


def _run(
    name: str,
    made: Callable[[Path, Callable[[str], None], Callable[[], None]], Bench[Any]],
    quick: bool,
    json_file: Path | None,
    *,
    baseline: str | None,
    measured: str = "anabranch",
) -> NoReturn:
    """Carries it out in a directory of its own, tells what it found, and exits as that is."""
    from anabranch.bench.processes import check_system
    from anabranch.bench.report import Report

    check_system()
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise ConfigError(
            f"The directory of {json_file} does not exist.", remedy="Create it first, or name another file."
        )
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    signals = Signals()
    waiting = Waiting(signals.check, done="done")
    command = f"anabranch bench {name}{' --quick' if quick else ''}"
    report = Report(command=command, baseline=baseline, measured=measured)
    with signals.obeyed(), waiting, tempfile.TemporaryDirectory(prefix="anabranch-bench-") as directory:
        made(Path(directory), waiting.progress, signals.check).run(report)
    if report.results:
        _tell(report)
    if signals.received is not None:
        typer.echo("stopped: the table is incomplete, and nothing was written")
        raise typer.Exit(signals.cut_short_code)
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
