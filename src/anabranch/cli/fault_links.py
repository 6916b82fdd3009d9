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
        help="Which deployment, if several run on this machine.",
        autocompletion=completing.deployment_file,
    ),
]


def cut(a: End, b: OtherEnd, deployment: Deployment = None) -> None:
    """Cut the link between two nodes or sites.

    Nothing arrives, in either direction, and neither side gets an error. Connections stay open and are silent, as when
    a router dies. After `fault heal` they continue, unless one side has given up. Clients and producers connect
    directly and are not affected. If a node does not answer, the command reports it, and connections that this node
    opens continue as before.

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
    by: Annotated[int, typer.Argument(metavar="DELAY", parser=duration_us, help="Delay of all traffic on the link.")],
    jitter: Annotated[
        int | None,
        typer.Argument(metavar="JITTER", parser=duration_us, help="How much the delay varies, in either direction."),
    ] = None,
    deployment: Deployment = None,
) -> None:
    """Delay the traffic between two nodes or sites.

    All traffic takes this long, in each direction.

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
    rate: Annotated[
        int, typer.Argument(metavar="RATE", parser=rate_bytes_s, help="For example 500kbit/s, 10Mbit/s, 1Gbit/s.")
    ],
    deployment: Deployment = None,
) -> None:
    """Limit the rate of the link between two nodes or sites.

    The limit applies to each direction.

    \b
    Examples:
      anabranch fault slow wisc osu 1Mbit/s
    """
    from anabranch.model.links import Slow

    _do(a, b, Slow(rate), deployment)


def heal(a: End, b: OtherEnd, deployment: Deployment = None) -> None:
    """Undo all faults of the link between two nodes or sites.

    The link is then as the deployment file says.

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
            metavar="SCRIPT", help="The steps and their times: a .toml file.", autocompletion=completing.deployment_file
        ),
    ],
    deployment: Deployment = None,
) -> None:
    """Run a fault script.

    Returns after its last step. Reports all mistakes of the script before it does anything. If a step fails, it reports
    this and continues with the others. Ctrl-C ends it; steps that are done stay done. Exit code 3 if a step failed.

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
