"""``anabranch deploy``: gives queries to nodes that already run."""

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
    """Hand the queries of a deployment to nodes that already run.

    A node that `anabranch node FILE NAME` started takes any number of queries, besides those of its own file. All nodes
    that the queries name must be running; otherwise no node gets anything. Queries that the nodes already run are left
    alone. Each node keeps its queries, and resumes them after a restart. A query written in Python is sent as the
    diagram that it builds, not as a program.

    \b
    Examples:
      anabranch deploy deployment.toml
    """
    from anabranch.deploy.handing import hand_over

    plan, given = hand_over(file)
    for name, queries in given.items():
        typer.echo(f"{name}: starting its part of {', '.join(queries)}")
    typer.echo(ways_through(plan, file))
