"""``anabranch version``: which Anabranch this is, and on what it runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import typer


def version() -> None:
    """Show the version of Anabranch, Python, PySpark and PyArrow.

    \b
    Example:
      anabranch version
    """
    from platform import python_version

    typer.echo(f"anabranch {_version_of('anabranch')}")
    typer.echo(f"python {python_version()}, pyspark {_version_of('pyspark')}, pyarrow {_version_of('pyarrow')}")


def _version_of(package: str) -> str:
    try:
        return version_of(package)
    except PackageNotFoundError:
        return "(not installed)"
