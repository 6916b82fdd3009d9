"""``anabranch version``: which Anabranch this is, and on what it runs."""

from __future__ import annotations

from typing import Annotated, Final

import typer

PACKAGES: Final = ("anabranch", "pyspark", "pyarrow")


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the version of Anabranch, Python, PySpark and PyArrow.

    \b
    Examples:
      anabranch version
      anabranch version --json | jq -r .pyspark
    """
    from platform import python_version

    found = {"python": python_version()} | {package: _version_of(package) for package in PACKAGES}
    if as_json:
        import json

        typer.echo(json.dumps(found))
        return
    told = {package: each or "(not installed)" for package, each in found.items()}
    typer.echo(f"anabranch {told['anabranch']}")
    typer.echo(f"python {told['python']}, pyspark {told['pyspark']}, pyarrow {told['pyarrow']}")


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
