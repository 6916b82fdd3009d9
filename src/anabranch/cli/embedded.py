"""``anabranch up --embedded``: all nodes of a deployment in this process, which share its Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from anabranch.cli.foreground import close_spark, tell_error
from anabranch.cli.stopping import Signals
from anabranch.cli.waiting import Waiting, ways_through
from anabranch.errors import AnabranchError, ConfigError

if TYPE_CHECKING:
    from anabranch.deploy.control import Control
    from anabranch.deploy.plan import NodePlan, Plan
    from anabranch.node.host import Host

LOOK_S: Final = 0.2


def run_embedded(
    file: Path, plan: Plan, state: Path | None, socket: Path, signals: Signals, for_us: int | None
) -> None:
    from anabranch.deploy.control import Control
    from anabranch.deploy.preflight import check_start
    from anabranch.deploy.states import state_of

    _check_one_spark(plan)
    states = {name: state_of(node, file, state) for name, node in plan.nodes.items()}
    check_start(file, plan, states)
    nodes: dict[str, Host] = {}
    waiting = Waiting(signals.check)
    try:
        with signals.obeyed():
            with waiting:
                for node in _in_order(plan):
                    nodes[node.name] = _made(node, plan, states[node.name], waiting.progress)
                    nodes[node.name].start()
            signals.check()
            typer.echo(ways_through(plan, file))
            with Control(socket) as control:
                _wait(nodes, control, signals, for_us)
    finally:
        for made in reversed(nodes.values()):
            made.stop()
        close_spark()


def _wait(nodes: dict[str, Host], control: Control, signals: Signals, for_us: int | None) -> None:
    """Until someone asks us to stop, the time is over, or every node has failed. One that fails is stopped."""
    from anabranch.deploy.faults import refuse_embedded

    started = time.monotonic()
    failed: dict[str, AnabranchError] = {}
    while signals.received is None and (for_us is None or time.monotonic() - started < for_us / 1_000_000):
        for name, node in nodes.items():
            failure = None if name in failed else node.failure()
            if failure is not None:
                failed[name] = failure
                tell_error(failure, before=f"node {name}: ")
                node.stop()
        if failed and failed.keys() == nodes.keys():
            raise list(failed.values())[-1]
        control.serve(refuse_embedded, LOOK_S)


def _made(node: NodePlan, plan: Plan, state: Path, progress: Callable[[str], None]) -> Host:
    from anabranch.deploy.parts import assigned_queries, relays_of, settings_of
    from anabranch.node.host import Host

    return Host(
        node.name,
        state,
        settings_of(node),
        queries=assigned_queries(plan, node.name),
        relays=relays_of(plan, node.name),
        progress=lambda text: progress(f"{node.name}: {text}"),
    )


def _in_order(plan: Plan) -> list[NodePlan]:
    """Those without Spark first, so that they take rows while it starts."""
    return sorted((node for node in plan.nodes.values() if node.assignment.queries), key=lambda node: node.needs_spark)


def _check_one_spark(plan: Plan) -> None:
    asked: dict[tuple[object, ...], str] = {}
    for name, node in plan.nodes.items():
        if node.needs_spark:
            asked.setdefault((node.master, *sorted(node.conf.items())), name)
    if len(asked) > 1:
        first, second, *_ = asked.values()
        raise ConfigError(
            f"Nodes {first} and {second} have different Spark settings, but --embedded runs one Spark for all nodes.",
            remedy="Give all nodes the same Spark settings, or omit --embedded.",
        )
