"""``anabranch bench engine --quick`` as a process of its own, and Ctrl-C in the middle of it.

Whether its bounds are kept depends on the machine and what else it does: that is for whoever runs it, not for a test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.bench.engine import QUICK, EngineBench
from anabranch.bench.nexmark import QUICK as NEXMARK
from anabranch.bench.nexmark import NexmarkBench
from anabranch.bench.report import Report
from tests.waiting import HANG_S

pytestmark = [pytest.mark.processes, pytest.mark.long]

KEYS = {"name", "value", "unit", "baseline", "ratio", "bound", "ok"}


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the benchmark keeps its state. Spark makes a socket there, whose path must be short: pytest's are not."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def bench(temporary: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch.cli", "bench", "engine", "--quick", *options],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def test_it_compares_both_sides_and_writes_what_it_found(tmp_path: Path, temporary: Path) -> None:
    file = tmp_path / "engine.json"
    process = bench(temporary, "--json", str(file))
    output, errors = process.communicate(timeout=2 * HANG_S)
    assert process.returncode in (0, 1), output + errors
    told = json.loads(file.read_text())
    results = {result["name"]: result for result in told["results"]}
    assert all(result.keys() == KEYS for result in results.values())
    assert process.returncode == (0 if all(result["ok"] for result in results.values()) else 1)
    bounds = {"filter": (0.8, 0.9), "filter that keeps all": (0.8, 0.9), "window sum": (0.9, 0.9), "join": (1, 1)}
    for workload, (throughput, batch) in bounds.items():
        assert results[f"{workload}: throughput"]["bound"] == f">= {throughput}"
        assert results[f"{workload}: micro-batch at 1000 rows/s"]["bound"] == f"<= {batch}"
        assert results[f"{workload}: latency, median"]["bound"] == f"<= {batch}"
        assert 0 < results[f"{workload}: latency, median"]["value"] <= results[f"{workload}: latency, 95 %"]["value"]
    assert all(result["value"] > 0 and result["baseline"] > 0 for result in results.values())
    assert told["command"] == "anabranch bench engine --quick"
    assert "filter: throughput" in output
    assert "round 1 of 1" in output
    assert not list(temporary.iterdir())


def test_ctrl_c_ends_it_and_all_that_it_started(temporary: Path) -> None:
    process = bench(temporary)
    assert process.stdout is not None
    for line in process.stdout:
        if "window sum: round" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, errors
    assert "filter: throughput" in output
    assert "the table is incomplete" in output
    assert "Traceback" not in errors
    assert not list(temporary.iterdir())


def test_start_and_memory_are_measured_in_processes_of_their_own(temporary: Path) -> None:
    report = Report(command="a test", baseline="plain Spark")
    plan = replace(QUICK, backlog_rows=100_000, rows=10_000, warm_rows=1_000)
    EngineBench(plan, temporary, print, lambda: None).run(report)
    results = {result.name: result for result in report.results}
    assert results["command to first result"].unit == "s"
    assert results["backlog of 100,000 rows, from journal to log"].unit == "rows/s"
    assert {name for name in results if name.startswith("peak memory")} == {
        f"peak memory, {what}, backlog of 100,000 rows" for what in ("all", "JVM", "Python")
    }
    assert all(result.value > 0 and result.baseline for result in report.results)


def test_nexmark_has_a_number_for_each_query(temporary: Path) -> None:
    """Results that DuckDB does not have would end it."""
    plan = replace(NEXMARK, events=2_000, warm_events=500, queries=("q1", "q8", "q19"))
    report = Report(command="a test", baseline="plain Spark")
    NexmarkBench(plan, temporary, print, lambda: None).run(report)
    assert [result.name for result in report.results] == ["q1: throughput", "q8: throughput", "q19: throughput"]
    assert [result.baseline is None for result in report.results] == [False, False, True]


def test_nexmark_with_two_copies_that_race(temporary: Path) -> None:
    plan = replace(NEXMARK, events=2_000, racing=("q8",), queries=())
    report = Report(command="a test", baseline="plain Spark")
    NexmarkBench(plan, temporary, print, lambda: None).run(report)
    assert [result.name for result in report.results] == ["q8: race, two copies"]
