"""What ``anabranch bench`` says before Spark starts."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import Cli


def test_a_file_that_cannot_be_written_is_told_before_the_benchmark(cli: Cli, tmp_path: Path) -> None:
    result = cli("bench", "engine", "--quick", "--json", str(tmp_path / "nowhere" / "file"))
    assert result.exit_code == 2
    assert "The directory of" in result.stderr


def test_it_lists_what_it_measures(cli: Cli) -> None:
    assert "engine" in cli("bench", "--help").stdout
