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

    A node waits if `anabranch node FILE NAME` started it with a file that has no query for it. All nodes that the
    queries name must be waiting; otherwise no node gets anything. Each node keeps its query, and resumes it after a
    restart. A query written in Python is sent as the diagram that it builds, not as a program.

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
