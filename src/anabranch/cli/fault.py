"""``anabranch fault``: injects faults into a running deployment, to see that readers of its results do not notice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli import completing, fault_links

fault = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Inject faults into a running deployment, if its file allows it.\n\n\b\nExamples:\n"
    "  anabranch fault kill wisc\n  anabranch fault restart wisc --lose-disk\n  anabranch fault cut wisc osu",
)

Name = Annotated[str, typer.Argument(metavar="NODE", help="Which node.", autocompletion=completing.running_node)]
Deployment = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Which deployment, if several run on this machine.",
        autocompletion=completing.deployment_file,
    ),
]


@fault.command()
def kill(node: Name, deployment: Deployment = None) -> None:
    """End a node at once, as a crash would.

    Sends SIGKILL to the node, its JVM and Spark's workers. Its state directory stays: `anabranch fault restart` starts
    the node again.

    \b
    Examples:
      anabranch fault kill wisc
    """
    _ask(deployment, do="kill", node=node)


@fault.command()
def pause(node: Name, deployment: Deployment = None) -> None:
    """Suspend a node.

    Its processes do not run, its connections stay open, and nothing answers.

    \b
    Examples:
      anabranch fault pause wisc
    """
    _ask(deployment, do="pause", node=node)


@fault.command()
def resume(node: Name, deployment: Deployment = None) -> None:
    """Resume a paused node.

    \b
    Examples:
      anabranch fault resume wisc
    """
    _ask(deployment, do="resume", node=node)


@fault.command()
def restart(
    node: Name,
    lose_disk: Annotated[bool, typer.Option("--lose-disk", help="Delete its state directory first.")] = False,
    deployment: Deployment = None,
) -> None:
    """Restart a node on its state directory.

    If the node still runs, it is killed first.

    \b
    Examples:
      anabranch fault restart wisc
      anabranch fault restart wisc --lose-disk
    """
    _ask(deployment, do="restart", node=node, lose_disk=lose_disk)


for verb in (fault_links.cut, fault_links.delay, fault_links.slow, fault_links.heal, fault_links.run):
    fault.command()(verb)


def _ask(deployment: Path | None, **request: Any) -> None:
    from anabranch.deploy.control import ask
    from anabranch.deploy.running import find

    answer = ask(find(deployment).control(), request)
    typer.echo(f"{request['node']}: {answer['state']}")
