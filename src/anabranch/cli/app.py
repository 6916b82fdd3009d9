"""The program itself: its verbs, the one global option, and what becomes of an error that a verb raises."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from anabranch.cli import (
    INTERRUPTED,
    demo,
    deploy,
    explain,
    node,
    operators,
    prepare,
    push,
    run,
    sim,
    status,
    subscribe,
    up,
    version,
)
from anabranch.cli.bench import bench
from anabranch.cli.colours import Tone, painted
from anabranch.cli.fault import fault
from anabranch.cli.paper import paper
from anabranch.cli.reader import reader
from anabranch.cli.source import source
from anabranch.errors import AnabranchError, DiskFull, InvariantBroken


class _Program(TyperGroup):
    """Turns what a verb raises into one readable paragraph and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _let_go_of_output()  # whoever read our output has seen enough: `anabranch subscribe ... | head`
            raise typer.Exit(0) from None
        except Exception as error:
            if hasattr(error, "format_message"):  # a mistake in the arguments: the parser explains it itself
                raise
            if ctx.params["debug"]:
                traceback.print_exc()
            raise typer.Exit(_report(error, hint=not ctx.params["debug"])) from None


app = typer.Typer(
    name="anabranch",
    cls=_Program,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def program(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Streaming queries as replicas that race across sites, on Apache Spark.

    \b
    Examples:
      anabranch demo
      anabranch run examples/slow_paths.py --port 7700
      anabranch up examples/planetlab.toml
      anabranch status 127.0.0.1:7700
      anabranch --install-completion
    """


for verb in (run.run, up.up, node.node, deploy.deploy, explain.explain, push.push, subscribe.subscribe, status.status):
    app.command()(verb)
app.add_typer(source, name="source")
app.add_typer(reader, name="reader")
app.add_typer(fault, name="fault")
app.add_typer(bench, name="bench")
app.add_typer(paper, name="paper")
app.command()(operators.operators)
app.command()(demo.demo)
app.command()(prepare.prepare)
app.command()(sim.sim)
app.command()(version.version)


def _report(error: Exception, *, hint: bool) -> int:
    """Prints the error for people and returns its exit code."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        error = DiskFull("No space left for the output.", remedy="Free some space, or write elsewhere.")
    if isinstance(error, AnabranchError):
        typer.echo(f"{painted(f'error[{error.code}]:', Tone.bad, err=True)} {error}", err=True)
        return error.exit_code
    label = painted("error[unexpected]:", Tone.bad, err=True)
    typer.echo(f"{label} {type(error).__name__}: {error}", err=True)
    if hint:
        typer.echo("This is a bug in Anabranch: run `anabranch --debug ...` for the traceback.", err=True)
    return InvariantBroken.exit_code


def _let_go_of_output() -> None:
    """Python flushes standard output when it ends, and would complain about the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
