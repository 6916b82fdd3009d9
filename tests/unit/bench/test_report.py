"""The form of every benchmark: rows with bounds, a verdict, a table, and JSON that may be published."""

from __future__ import annotations

import io
import json
import platform
from pathlib import Path

import pytest
from rich.console import Console

from anabranch.bench.report import MISSED, Bound, Report, Result

THROUGHPUT = Bound(least=0.7)
BATCH_TIME = Bound(most=1.4)


def result(value: float, baseline: float | None = 100.0, bound: Bound | None = THROUGHPUT) -> Result:
    return Result(name="filter: throughput", value=value, unit="rows/s", baseline=baseline, bound=bound)


def report(*results: Result) -> Report:
    made = Report(command="anabranch bench engine --quick", baseline="plain Spark")
    made.add(*results)
    return made


@pytest.mark.parametrize(
    ("value", "baseline", "bound", "ok"),
    [
        (70.0, 100.0, THROUGHPUT, True),
        (69.9, 100.0, THROUGHPUT, False),
        (140.0, 100.0, BATCH_TIME, True),
        (140.1, 100.0, BATCH_TIME, False),
        (0.1, 100.0, None, True),
        (0.8, None, THROUGHPUT, True),
        (0.6, None, THROUGHPUT, False),
        (5.0, None, Bound(least=4, most=6), True),
        (7.0, None, Bound(least=4, most=6), False),
    ],
)
def test_a_bound_is_on_the_ratio_and_without_a_baseline_on_the_value(
    value: float, baseline: float | None, bound: Bound | None, ok: bool
) -> None:
    assert result(value, baseline, bound).ok is ok


def test_one_missed_bound_is_enough_for_exit_code_1() -> None:
    assert report(result(80), result(90)).exit_code == 0
    missed = report(result(80), result(60))
    assert (missed.exit_code, missed.missed) == (MISSED, [missed.results[1]])


def test_json_has_the_agreed_keys_and_says_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    report(result(123_456.7), result(1.0, None, None)).write(file)
    told = json.loads(file.read_text())
    assert told["results"] == [
        {
            "name": "filter: throughput",
            "value": 123_500.0,
            "unit": "rows/s",
            "baseline": 100.0,
            "ratio": 1235.0,
            "bound": ">= 0.7",
            "ok": True,
        },
        {
            "name": "filter: throughput",
            "value": 1.0,
            "unit": "rows/s",
            "baseline": None,
            "ratio": None,
            "bound": None,
            "ok": True,
        },
    ]
    assert told["command"] == "anabranch bench engine --quick"
    assert told["machine"]["cores"] >= 1
    assert told["commit"] is None or len(told["commit"].removesuffix("+")) == 40


def test_json_does_not_tell_which_machine_or_directory_it_was(tmp_path: Path) -> None:
    file = tmp_path / "engine.json"
    report(result(80)).write(file)
    text = file.read_text()
    assert [secret for secret in (platform.node(), str(Path.cwd()), str(tmp_path)) if secret and secret in text] == []


def test_the_table_shows_every_row_and_marks_what_was_missed() -> None:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as shown:
        console.print(report(result(1_234_567, 1_000_000), result(60)).table())
    heading, first, second = (line.split() for line in shown.get().splitlines())
    assert heading == ["anabranch", "plain", "Spark", "ratio", "unit", "bound"]
    assert first == ["filter:", "throughput", "1,234,567", "1,000,000", "1.23", "rows/s", ">=", "0.7", "ok"]
    assert second[-1] == "MISSED"


def test_a_goal_is_shown_and_decides_nothing() -> None:
    goal = Bound(most=0.5)
    reached, missed = (
        Result(name="cores", value=value, unit="cores", bound=Bound(most=0.8), goal=goal) for value in (0.5, 0.7)
    )
    assert (reached.ok, reached.verdict) == (True, "<= 0.8  ok, goal <= 0.5")
    assert (missed.ok, missed.verdict) == (True, "<= 0.8  ok, goal <= 0.5: not yet")
    assert report(missed).as_json()["details"]["goals"] == {"cores": "<= 0.5"}
    assert "goals" not in report(result(80)).as_json()["details"]


def test_without_a_baseline_the_table_has_no_column_for_it() -> None:
    console = Console(width=120, file=io.StringIO())
    alone = Report(command="anabranch bench idle", baseline=None)
    alone.add(result(1.5, None, Bound(most=2)))
    with console.capture() as shown:
        console.print(alone.table())
    heading, row = (line.split() for line in shown.get().splitlines())
    assert heading == ["anabranch", "unit", "bound"]
    assert row == ["filter:", "throughput", "1.5", "rows/s", "<=", "2", "ok"]
