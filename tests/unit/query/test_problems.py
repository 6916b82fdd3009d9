"""Codes and candidates: what every problem has."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import InvariantBroken
from anabranch.query.problems import CODES, Report, candidates


def test_every_code_has_a_test() -> None:
    here = Path(__file__).parent
    files = [*here.glob("test_*.py"), here.parents[1] / "integration" / "test_engine.py"]  # what only Spark finds
    stories = "".join(path.read_text() for path in files)
    assert [code for code in CODES if f'"{code}"' not in stories] == []


def test_a_code_that_nobody_documented_is_a_bug() -> None:
    with pytest.raises(InvariantBroken):
        Report().add("made-up", "box", "field", "message")


def test_a_place_that_was_told_is_not_told_again() -> None:
    report = Report(told={("a", "window")})
    report.add("bad-window", "a", "window", "again")
    report.add("bad-window", "a", "every", "new")
    report.add("bad-window", "a", "every", "new")
    assert [problem.message for problem in report.problems] == ["new"]


def test_candidates_begin_with_the_closest_and_end_at_a_dozen() -> None:
    assert candidates("tagret", ["source", "target"]) == "Candidates: target, source."
    assert candidates("x", []) == ""
    assert candidates("x", [f"column{n}" for n in range(15)]).endswith("column11 and 3 more.")
