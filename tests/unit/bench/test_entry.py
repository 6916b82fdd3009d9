"""What the benchmark of pushes says of its numbers, and a run of it, short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anabranch.bench.entry import LARGE, MANY, ONE, SMALL, Answers, EntryBench, Key, Plan, Round, compared, made
from anabranch.bench.report import Report


def answers(count: int, rows: int, took_s: float = 2.0) -> Answers:
    latencies = np.linspace(0.001, 0.002, count)
    return Answers(latencies_s=latencies, took_s=took_s, rows=rows, bytes=rows * 100)


def turn(rows: int, *, plain: int, one: int, many: int) -> Round:
    return Round(plain=answers(plain, rows), by={ONE: answers(one, rows), MANY: answers(many, rows)})


def test_answers_are_counted_by_the_second() -> None:
    each = answers(100, rows=10)
    assert (each.per_s, each.rows_s, each.bytes_s) == (50, 500, 50_000)
    assert each.latency_ms(0.5) == pytest.approx(1.5)


@pytest.mark.parametrize(("many", "large", "missed"), [(400, 50, 0), (399, 50, 1), (400, 49, 1)])
def test_bounds(many: int, large: int, missed: int) -> None:
    """20 producers get four times the answers of one, and large pushes half the bytes of a plain append."""
    found: dict[Key, list[Round]] = {
        (1, SMALL): [turn(SMALL, plain=500, one=100, many=many)],
        (1, LARGE): [turn(LARGE, plain=100, one=large, many=1)],
    }
    results = compared(found)
    assert sum(not result.ok for result in results) == missed
    assert [result.name for result in results[:2]] == [
        "1 entry point, 1 row: 20 producers by one",
        "1 entry point, large pushes",
    ]
    assert len(results) == 2 + 3 * 2 * len(found)


def test_the_round_in_the_middle_decides_and_not_the_machine_of_one_moment() -> None:
    """Two rounds on a machine that was four times as slow keep the ratio, and one that was disturbed is passed over."""
    rounds = [
        turn(SMALL, plain=500, one=100, many=400),
        turn(SMALL, plain=100, one=25, many=100),
        turn(SMALL, plain=500, one=100, many=110),
    ]
    bounded = compared({(1, SMALL): rounds})[0]
    assert (bounded.ratio, bounded.ok) == (4, True)


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
