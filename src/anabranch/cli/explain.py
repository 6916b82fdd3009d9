"""``anabranch explain``: a query drawn, and the plan that Spark makes of it; a deployment, and what each node does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import completing
from anabranch.cli.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.errors import Problem
    from anabranch.query.boxes import Diagram
    from anabranch.query.builder import Query


def explain(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The query: a .py, .sql or .yaml file. Or a deployment: a .toml file.",
            autocompletion=completing.query_or_deployment,
        ),
    ],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw it as a Mermaid flowchart.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Start Spark, and also show the plan of each stage.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, even if the query has problems.")
    ] = False,
) -> None:
    """Check a query or a deployment, and draw it.

    Shows each arrow with its columns. Each box has a class, which says what a restart does to it, and the query has
    the class of its most general box; see docs/classes.md. Lists floating-point aggregates with the boxes that decide
    by them, and whether they are computed exactly; then the state of each box. Runs nothing, and without --plan starts
    no Spark. Exit code 2 if the query has problems.

    For a deployment, shows what each node runs and reads, and which nodes need Spark; or all mistakes of the file and
    its queries.

    \b
    Examples:
      anabranch explain examples/slow_paths.py
      anabranch explain examples/slow_paths.sql
      anabranch explain examples/slow_paths.yaml --mermaid > slow_paths.mmd
      anabranch explain examples/slow_paths.yaml --json | jq -r '.problems[].message'
      anabranch explain examples/planetlab.toml
    """
    from anabranch.errors import QueryError
    from anabranch.query import classes
    from anabranch.query.draw import as_mermaid, as_text
    from anabranch.query.files import load

    if as_json and mermaid:
        raise typer.BadParameter("Give --mermaid or --json, not both.", param_hint="--json")
    if file.suffix.lower() == ".toml":
        if mermaid or plan:
            raise typer.BadParameter(
                "These options apply to queries, not to deployments.", param_hint="--mermaid, --plan"
            )
        _explain_deployment(file, as_json=as_json)
        return
    query = load(file)
    diagram, problems = query.diagram(), query.validate()
    if not as_json:
        typer.echo(as_mermaid(diagram) if mermaid else f"{as_text(diagram)}\n{classes.as_text(diagram)}", nl=False)
    warnings = _missing_functions(diagram)
    plans = _plans(diagram) if plan and not problems else {}
    if as_json:
        import json

        typer.echo(json.dumps({**_found(query, problems, plans), "warnings": warnings}, indent=2))
    for warning in [] if as_json else warnings:
        typer.echo(f"warning: {warning}", err=True)
    for stage, text in {} if as_json else plans.items():
        typer.echo(f"\nstage {stage}\n{text}")
    if problems:
        raise QueryError(diagram.name, problems)


def _explain_deployment(file: Path, *, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    from anabranch.deploy.draw import as_data, as_text
    from anabranch.deploy.plan import make_plan
    from anabranch.deploy.validate import check_file
    from anabranch.errors import DeploymentError

    checked = check_file(file)
    made = None if checked.mistakes else make_plan(checked)
    if as_json:
        told = {"mistakes": [asdict(mistake) for mistake in checked.mistakes], "plan": made and as_data(made)}
        typer.echo(json.dumps(told, indent=2))
    elif made is not None:
        typer.echo(as_text(made), nl=False)
    if made is None:
        raise DeploymentError(str(file), checked.mistakes)


def _found(query: Query, problems: Sequence[Problem], plans: dict[str, str]) -> dict[str, Any]:
    """What scripts get. A query with problems has no diagram: it may be one that cannot be written down."""
    from dataclasses import asdict

    from anabranch.query import classes
    from anabranch.query.schemas import schemas

    columns = schemas(query.diagram())
    return {
        "query": query.name,
        "problems": [asdict(problem) for problem in problems],
        "diagram": None if problems else query.to_dict(),
        "columns": {str(arrow): {each.name: each.type for each in schema} for arrow, schema in columns.items()},
        **classes.as_data(query.diagram()),
        "plans": plans,
    }


def _missing_functions(diagram: Diagram) -> list[str]:
    """Functions that this machine does not have. Hosts need them, and may have them."""
    from anabranch.errors import ConfigError
    from anabranch.functions import find
    from anabranch.query.boxes import Python

    told = []
    for box in diagram.boxes:
        if isinstance(box, Python):
            try:
                find(box.function)
            except ConfigError as error:
                told.append(f"{box.name}: {error}")
    return told


def _plans(diagram: Diagram) -> dict[str, str]:
    from anabranch.engine.plan import stage_plans
    from anabranch.engine.session import close_session

    try:
        with Waiting(done="planned", err=True) as waiting:
            waiting.progress("starting Spark for the plans")
            return dict(stage_plans(diagram))
    finally:
        close_session()
