"""What the start says while it waits."""

from __future__ import annotations

import pytest

from anabranch.cli.waiting import Waiting


def test_a_line_is_said_once_and_a_stop_is_looked_for_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    looks: list[int] = []
    waiting = Waiting(lambda: looks.append(1))
    for text in ("a", "b", "b", "b"):
        waiting.progress(text)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
    assert len(looks) == 4
