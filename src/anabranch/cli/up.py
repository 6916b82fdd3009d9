"""``anabranch up``: a whole deployment on this machine, until it is stopped."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli import completing
from anabranch.cli.stopping import Signals
from anabranch.cli.values import duration_us

if TYPE_CHECKING:
    from anabranch.deploy.fault_script import FaultStep
    from anabranch.deploy.plan import Plan

LOOK_S: Final = 0.2
"""How often the nodes are looked at: also how long a stop may wait to be noticed."""


def up(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The deployment: a .toml file.", autocompletion=completing.deployment_file),
    ],
    embedded: Annotated[bool, typer.Option("--embedded", help="Run all nodes in one process, with one Spark.")] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Nodes keep their state in DIR/NAME. [default: from the file, or .anabranch/FILE/NAME beside it]",
        ),
    ] = None,
    for_us: Annotated[
        int | None,
        typer.Option("--for", parser=duration_us, metavar="DURATION", help="Stop this long after all nodes started."),
    ] = None,
    faults: Annotated[
        Path | None,
        typer.Option(
            metavar="SCRIPT",
            help="A fault script to run once all nodes have started.",
            autocompletion=completing.deployment_file,
        ),
    ] = None,
) -> None:
    """Run a whole deployment here until Ctrl-C, SIGTERM or --for.

    Each node is a separate process, with its own Spark if it runs a box; its messages go to a file beside its state
    directory. Nothing starts unless every node can start. If a node exits on its own, its last messages are printed
    and the others continue. `anabranch status` in another shell shows all of them; `anabranch fault` injects faults, if
    the file allows it. However the command ends, no node outlives it. Exit code 0 after SIGTERM and --for, 130 after
    Ctrl-C, 3 when every node has exited on its own.

    \b
    Examples:
      anabranch up examples/planetlab.toml
      anabranch up deployment.toml --state /tmp/trial --for 10m
      anabranch up deployment.toml --faults faults.toml
    """
    from anabranch.deploy.fault_script import load_script
    from anabranch.deploy.plan import load_plan
    from anabranch.deploy.running import registered
    from anabranch.errors import ConfigError

    plan = load_plan(file)
    steps = None if faults is None else load_script(faults, plan)
    if embedded and steps is not None:
        raise ConfigError("--faults needs one process per node.", remedy="Omit --embedded, or use anabranch fault run.")
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    signals = Signals()
    with registered(file, state=state, embedded=embedded) as entry:
        if embedded:
            from anabranch.cli.embedded import run_embedded

            run_embedded(file, plan, state, entry.control(), signals, for_us)
        else:
            _run_processes(file, plan, state, entry.control(), signals, for_us, steps)
    typer.echo("stopped")
    raise typer.Exit(signals.exit_code)


def _run_processes(
    file: Path,
    plan: Plan,
    state: Path | None,
    socket: Path,
    signals: Signals,
    for_us: int | None,
    steps: list[FaultStep] | None,
) -> None:
    from anabranch.cli.scene import Scene
    from anabranch.deploy.control import Control
    from anabranch.deploy.fault_run import FaultRun
    from anabranch.deploy.faults import Faults
    from anabranch.deploy.supervisor import Supervisor
    from anabranch.errors import OperatorError

    with Supervisor(file, state=state, plan=plan) as supervisor, Control(socket) as control, Scene(supervisor) as scene:
        faults = Faults(supervisor)
        supervisor.start()
        end, script = None, None
        while signals.received is None and (end is None or time.monotonic() < end):
            scene.update(supervisor.look())
            states = {name: facts["state"] for name, facts in supervisor.statistics().items()}
            if set(states.values()) == {"ended"}:
                raise OperatorError(
                    "All nodes have exited.", remedy="Their last lines are above; their logs have the rest."
                )
            started = "starting" not in states.values()
            if for_us is not None and end is None and started:
                end = time.monotonic() + for_us / 1_000_000
            if steps is not None and script is None and started:
                script = FaultRun(steps, plan, hurt_node=faults.handle, tell=scene.tell_fault)
            if script is not None:
                script.advance()
            control.serve(faults.handle, LOOK_S)
