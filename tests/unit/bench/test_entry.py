"""What the benchmark of pushes says of its numbers, and a run of it, short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anabranch.bench.entry import LARGE, MANY, ONE, SMALL, Answers, EntryBench, Key, Plan, compared, made
from anabranch.bench.report import Report


def answers(count: int, rows: int, took_s: float = 2.0) -> Answers:
    latencies = np.linspace(0.001, 0.002, count)
    return Answers(latencies_s=latencies, took_s=took_s, rows=rows, bytes=rows * 100)


def test_answers_are_counted_by_the_second() -> None:
    each = answers(100, rows=10)
    assert (each.per_s, each.rows_s, each.bytes_s) == (50, 500, 50_000)
    assert each.latency_ms(0.5) == pytest.approx(1.5)


@pytest.mark.parametrize(("many", "large", "missed"), [(400, 50, 0), (399, 50, 1), (400, 49, 1)])
def test_bounds(many: int, large: int, missed: int) -> None:
    """20 producers get four times the answers of one, and large pushes half the bytes of a plain append."""
    found: dict[Key, Answers] = {
        (1, SMALL, ONE): answers(100, SMALL),
        (1, SMALL, MANY): answers(many, SMALL),
        (1, LARGE, ONE): answers(large, LARGE),
        (1, LARGE, MANY): answers(1, LARGE),
    }
    plain = {SMALL: answers(500, SMALL), LARGE: answers(100, LARGE)}
    results = compared(found, plain)
    assert sum(not result.ok for result in results) == missed
    assert [result.name for result in results[:2]] == [
        "1 entry point, 1 row: 20 producers by one",
        "1 entry point, large pushes",
    ]
    assert len(results) == 2 + 3 * len(found)


def test_a_push_has_so_many_rows_of_the_same_size() -> None:
    assert made(100).num_rows == 100
    assert set(map(len, made(3).column("text").to_pylist())) == {80}


@pytest.mark.long
def test_all_push_to_one_and_to_three_entry_points(tmp_path: Path) -> None:
    report = Report(command="anabranch bench entry", baseline="plain append")
    EntryBench(Plan(seconds=0.1, push_rows=(100,)), tmp_path, lambda _: None, lambda: None).run(report)
    rows_s = {result.name: result.value for result in report.results if result.unit == "rows/s"}
    assert list(rows_s) == [
        f"{points}, 100 rows, {producers}"
        for points in ("1 entry point", "3 entry points")
        for producers in ("1 producer", "20 producers")
    ]
    assert min(rows_s.values()) > 0
