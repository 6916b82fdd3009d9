"""``anabranch demo`` as a process of its own, short and without a terminal; and Ctrl-C in the middle of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import HANG_S

pytestmark = pytest.mark.processes


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo keeps its state. Spark makes a socket there, whose path must be short: pytest's are not."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def demo(directory: Path, temporary: Path, *options: str) -> subprocess.Popen[str]:
    """Started as a terminal would: in a process group of its own."""
    files = ["--json", str(directory / "summary.json"), "--plot", str(directory / "latency.png")]
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch.cli", "demo", *files, *options],
        env=os.environ | {"TMPDIR": str(temporary), "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def test_the_demo_finds_what_went_wrong_and_leaves_only_a_plot(tmp_path: Path, temporary: Path) -> None:
    process = demo(tmp_path, temporary, "--for", "5s")
    output, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, output + errors
    assert "starting Spark" in output
    assert "\nCorrect: the query found the true cause of all " in output
    assert "median " in output
    assert (tmp_path / "latency.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["rows_in"] == {"load": 60, "ping": 1500}
    assert summary["rows_out"]["network_problems"] > 0
    assert summary["rows_out"]["busy_servers"] > 0
    assert 0 < summary["latency_median_s"] <= summary["latency_p95_s"]
    assert not list(temporary.glob("anabranch-demo-*"))


@pytest.mark.long
def test_ctrl_c_ends_it_with_the_summary_so_far(tmp_path: Path, temporary: Path) -> None:
    process = demo(tmp_path, temporary, "--for", "10m", "--no-plot")
    assert process.stdout is not None
    for line in process.stdout:
        if " in " in line and " out " in line:  # data flows
            break
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, output + errors
    assert "Right: " in output
    assert "Traceback" not in errors
    assert json.loads((tmp_path / "summary.json").read_text())["rows_in"]["ping"] > 0
    assert not list(temporary.glob("anabranch-demo-*"))
    assert not (tmp_path / "latency.png").exists()
