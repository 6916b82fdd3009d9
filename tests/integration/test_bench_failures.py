"""The benches that run nodes as processes of their own, with ``--quick``, and Ctrl-C while these run.

Whether bounds of time are kept depends on the machine and what else it does: that is for whoever runs them. That
nothing is lost or repeated does not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch.bench.processes import jvm_of, kill_tree, tree
from tests.waiting import HANG_S, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.long]

WAYS = ("plain Spark", "single", "race")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the benchmark keeps its state. Spark makes a socket there, whose path must be short: pytest's are not."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@contextmanager
def bench(temporary: Path, what: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "anabranch.cli", "bench", what, "--quick", *options],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        finally:
            kill_tree(process.pid)


def results_of(temporary: Path, what: str, file: Path) -> dict[str, dict[str, Any]]:
    with bench(temporary, what, "--json", str(file)) as process:
        output, errors = process.communicate(timeout=2 * HANG_S)
    assert process.returncode in (0, 1), output + errors
    results = {result["name"]: result for result in json.loads(file.read_text())["results"]}
    assert process.returncode == (0 if all(result["ok"] for result in results.values()) else 1)
    assert all(name in output for name in results)
    assert not list(temporary.iterdir())
    return results


def test_three_ways_lose_and_repeat_nothing_and_two_of_them_stand_still_for_a_restart(
    tmp_path: Path, temporary: Path
) -> None:
    results = results_of(temporary, "failover", tmp_path / "failover.json")
    for way in WAYS:
        assert results[f"{way}: results lost"]["value"] == 0
        assert results[f"{way}: results repeated"]["value"] == 0
        assert results[f"{way}: largest gap between results"]["baseline"] > 0
    gaps = {way: results[f"{way}: largest gap between results"] for way in WAYS}
    assert gaps["race"]["bound"] == "<= 1.5"
    assert gaps["race"]["value"] < min(gaps["single"]["value"], gaps["plain Spark"]["value"])
    assert results["single: until latency is normal"]["value"] > results["race: until latency is normal"]["value"]


def test_two_copies_are_compared_with_one(tmp_path: Path, temporary: Path) -> None:
    results = results_of(temporary, "racing", tmp_path / "racing.json")
    assert results["latency, 99 %"]["bound"] == "<= 0.7"
    assert results["processor time"]["bound"] == results["bytes on the wire"]["bound"] == "<= 2.2"
    assert results["latency, 99 %"]["baseline"] > 2_000, "a pause of four seconds must show with one copy"
    assert results["bytes on the wire"]["ratio"] > 1.5
    for share in ("median", "95 %"):
        assert 0 < results[f"latency, {share}"]["value"] <= results["latency, 99 %"]["value"]


def test_both_sides_start_the_same_queries(tmp_path: Path, temporary: Path) -> None:
    results = results_of(temporary, "start", tmp_path / "start.json")
    assert results["one stage"]["bound"] == "<= 1"
    assert results["four stages, to one stage"]["bound"] == "<= 1.5"
    assert results["the same, in seconds"]["bound"] == "<= 1"
    for what in ("one stage", "restart after kill -9, with state", "four stages", "one more query, warm"):
        assert results[what]["value"] > 0
        assert results[what]["baseline"] > 0
    assert results["one more query, warm"]["value"] < results["one stage"]["value"]


def test_hosts_at_rest_are_measured_and_figure_7(tmp_path: Path, temporary: Path) -> None:
    results = results_of(temporary, "idle", tmp_path / "idle.json")
    for host in ("entry point with two peers", "replica with one stage", "replica with four stages"):
        assert results[f"{host}, at rest"]["bound"] == results[f"{host}, ten rows/s"]["bound"] == "<= 2"
        assert results[f"{host}, ten rows/s"]["value"] > 0
        assert results[f"{host}: threads"]["value"] > 1
    assert results["replica with one stage, at rest: JVM"]["value"] > 0
    assert results["figure 7, in all"]["bound"] == "<= 0.8"
    assert results["figure 7, in all"]["value"] > results["figure 7: JVM"]["value"] > 0


@pytest.mark.parametrize(
    ("what", "when"),
    [
        ("failover", "plain Spark: kill 1 of 1"),
        ("racing", "slow period 1 of 4: a pause of copy a"),
        ("start", "anabranch: killed, and started again"),
        ("idle", "one stage, at rest: measuring"),
    ],
)
def test_ctrl_c_ends_it_and_all_that_it_started(temporary: Path, what: str, when: str) -> None:
    with bench(temporary, what) as process:
        assert process.stdout is not None
        assert any(when in line for line in process.stdout)
        wait_for(lambda: jvm_of(process.pid) is not None)
        started = set(tree(process.pid)) - {process.pid}
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, errors
    assert "the table is incomplete" in output
    assert "Traceback" not in errors
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), lambda: started)
    assert not list(temporary.iterdir())
