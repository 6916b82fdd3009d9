"""What ``anabranch paper`` says before any node starts."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.conftest import Cli


def test_a_folder_that_cannot_be_is_told_before_the_experiment(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = cli("paper", "racing", "--quick", "--out", str(tmp_path / "file" / "folder"))
    assert result.exit_code == 2
    assert "The directory" in result.stderr


def test_it_lists_its_experiments(cli: Cli) -> None:
    assert "racing" in cli("paper", "--help").stdout
