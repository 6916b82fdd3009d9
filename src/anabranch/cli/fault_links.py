"""The verbs of ``anabranch fault`` that are about links: cut, delay, slow, heal; and ``run``, for whole scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli import completing
from anabranch.cli.values import duration_us, rate_bytes_s

if TYPE_CHECKING:
    from anabranch.deploy.plan import Plan
    from anabranch.model.links import LinkFault

LOOK_S: Final = 0.2
"""How soon Ctrl-C is noticed."""

End = Annotated[str, typer.Argument(metavar="A", help="A node or a site.", autocompletion=completing.running_node)]
OtherEnd = Annotated[str, typer.Argument(metavar="B", help="Another one.", autocompletion=completing.running_node)]
Deployment = Annotated[
    Path | None,
    typer.Option(
        "--deployment",
        metavar="FILE",
        help="Which deployment, if not the only one that runs on this machine.",
        autocompletion=completing.deployment_file,
    ),
]


def cut(a: End, b: OtherEnd, deployment: Deployment = None) -> None:
    """Cut the link between two nodes or sites.

    Nothing arrives, in either direction, and nobody is told. Connections stay open and are silent, as when a router
    dies. After `fault heal` they go on, unless someone has given up. Clients and producers connect directly and are not
    touched. A node that does not answer is told; what it opens to the other goes on as before.

    \b
    Examples:
      anabranch fault cut wisc osu
      anabranch fault cut wisc osu --deployment examples/planetlab.toml
    """
    from anabranch.model.links import Cut

    _do(a, b, Cut(), deployment)


def delay(
    a: End,
    b: OtherEnd,
    by: Annotated[int, typer.Argument(metavar="DELAY", parser=duration_us, help="How long everything takes.")],
    jitter: Annotated[
        int | None, typer.Argument(metavar="JITTER", parser=duration_us, help="By how much more or less.")
    ] = None,
    deployment: Deployment = None,
) -> None:
    """Delay what goes between two nodes or sites.

    Everything takes this long, in each direction.

    \b
    Examples:
      anabranch fault delay wisc osu 200ms
      anabranch fault delay wisc osu 200ms 50ms
    """
    from anabranch.model.links import Delay

    _do(a, b, Delay(by, jitter or 0), deployment)


def slow(
    a: End,
    b: OtherEnd,
    rate: Annotated[int, typer.Argument(metavar="RATE", parser=rate_bytes_s, help="As 500kbit/s, 10Mbit/s, 1Gbit/s.")],
    deployment: Deployment = None,
) -> None:
    """Slow the link between two nodes or sites.

    No more than this goes through, in each direction.

    \b
    Examples:
      anabranch fault slow wisc osu 1Mbit/s
    """
    from anabranch.model.links import Slow

    _do(a, b, Slow(rate), deployment)


def heal(a: End, b: OtherEnd, deployment: Deployment = None) -> None:
    """Undo all faults of a link.

    Between two nodes or sites it is then as the deployment file says.

    \b
    Examples:
      anabranch fault heal wisc osu
    """
    from anabranch.model.links import Heal

    _do(a, b, Heal(), deployment)


def run(
    script: Annotated[
        Path,
        typer.Argument(
            metavar="SCRIPT", help="What is done when: a .toml file.", autocompletion=completing.deployment_file
        ),
    ],
    deployment: Deployment = None,
) -> None:
    """Carry out a fault script.

    Returns after its last step. All mistakes of the script are told before anything is done. A step that fails is told,
    and the others follow. Ctrl-C ends it; what was done stays done. Exit code 3 if a step failed.

    \b
    Examples:
      anabranch fault run faults.toml
    """
    import time

    from anabranch.cli.stopping import Signals
    from anabranch.deploy.control import Request, ask
    from anabranch.deploy.fault_run import FaultRun
    from anabranch.deploy.fault_script import load_script
    from anabranch.deploy.running import find
    from anabranch.errors import OperatorError

    plan = _plan(deployment)
    steps = load_script(script, plan)

    def hurt_node(request: Request) -> None:
        ask(find(deployment).control(), request)

    signals = Signals()
    running = FaultRun(steps, plan, hurt_node=hurt_node, tell=typer.echo)
    while not running.is_over and signals.received is None:
        running.advance()
        time.sleep(min(LOOK_S, running.wait_s))
    if signals.received is not None:
        raise typer.Exit(signals.exit_code)
    if running.failed:
        raise typer.Exit(OperatorError.exit_code)


def _do(a: str, b: str, fault: LinkFault, deployment: Path | None) -> None:
    from anabranch.deploy.link_faults import fault_links, unheard

    outcomes = fault_links(_plan(deployment), a, b, fault)
    for sentence in unheard(outcomes):
        typer.echo(f"warning: {sentence}", err=True)
    typer.echo(f"{a} - {b}: {fault}")


def _plan(deployment: Path | None) -> Plan:
    """Of this file, wherever its nodes run; without one, of the only deployment on this machine."""
    from anabranch.deploy.plan import load_plan
    from anabranch.deploy.running import find

    return load_plan(deployment or find().file)
