"""``anabranch deploy``: gives a query to nodes that already run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import completing
from anabranch.cli.waiting import ways_through


def deploy(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The deployment: a .toml file.", autocompletion=completing.deployment_file),
    ],
) -> None:
    """Hand the queries of a deployment to nodes that wait for one.

    Nodes wait that were started with a file that names them and no query for them: `anabranch node FILE NAME`. All that
    the queries name must wait; otherwise none is given anything. Each keeps what it was given, and goes on by itself
    when it is started again. A query written in Python is sent as what it builds, not as a program.

    \b
    Examples:
      anabranch deploy deployment.toml
    """
    from anabranch.deploy.handing import hand_over

    plan = hand_over(file)
    for name, node in plan.nodes.items():
        if node.role is not None:
            typer.echo(f"{name}: starts its part of {node.role.query}")
    typer.echo(ways_through(plan, file))
