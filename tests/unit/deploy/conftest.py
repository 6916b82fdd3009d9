"""What the tests of deployments share with those of the program."""

from __future__ import annotations

from tests.unit.cli.conftest import cli

__all__ = ["cli"]
