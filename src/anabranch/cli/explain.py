"""``anabranch explain``: a query drawn, and the plan that Spark makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from anabranch.query.boxes import Diagram


def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The query: a .py or .yaml file.")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw it as a Mermaid flowchart.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Start Spark, and show the plan of each stage too.")] = False,
) -> None:
    """Check a query and draw it, with the columns on its arrows, and say what a failure would show.

    Each box has a class, which says what a restart does to it, and the query has that of its most general box; see
    docs/classes.md. Nothing runs, and without --plan no Spark starts.

    \b
    Examples:
      anabranch explain examples/slow_paths.py
      anabranch explain examples/slow_paths.yaml --mermaid > slow_paths.mmd
    """
    from anabranch.errors import QueryError
    from anabranch.query import classes
    from anabranch.query.draw import as_mermaid, as_text
    from anabranch.query.files import load
    from anabranch.query.validate import validate

    diagram = load(file).diagram()
    typer.echo(as_mermaid(diagram) if mermaid else f"{as_text(diagram)}\n{classes.as_text(diagram)}", nl=False)
    problems = validate(diagram)
    if problems:
        raise QueryError(diagram.name, problems)
    if plan:
        _show_plans(diagram)


def _show_plans(diagram: Diagram) -> None:
    from anabranch.engine.plan import stage_plans
    from anabranch.engine.session import close_session

    typer.echo("starting Spark for the plans ...", err=True)
    try:
        for stage, text in stage_plans(diagram):
            typer.echo(f"\nstage {stage}\n{text}")
    finally:
        close_session()
