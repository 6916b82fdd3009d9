"""What ``anabranch demo`` says before Spark starts, and without matplotlib."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli import demo
from anabranch.demo import plot
from tests.unit.cli.conftest import Cli


def test_a_demo_too_short_to_show_anything_is_refused(cli: Cli) -> None:
    result = cli("demo", "--for", "2s")
    assert (result.exit_code, "At least 5s" in result.stderr) == (2, True)


@pytest.mark.parametrize("option", ["--plot", "--json"])
def test_a_file_that_cannot_be_written_is_told_before_the_demo(cli: Cli, tmp_path: Path, option: str) -> None:
    result = cli("demo", option, str(tmp_path / "nowhere" / "file"))
    assert result.exit_code == 2
    assert "The directory of" in result.stderr


def test_without_matplotlib_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(plot, "can_plot", lambda: False)
    demo._draw(None, tmp_path / "latency.png")  # type: ignore[arg-type]
    assert (
        capsys.readouterr().out
        == "No plot: matplotlib is not installed. Install it with pip install 'anabranch[demo]'.\n"
    )
    assert not list(tmp_path.iterdir())
