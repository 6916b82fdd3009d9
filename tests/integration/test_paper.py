"""``anabranch paper racing --quick`` as a process of its own, and Ctrl-C in the middle of it.

Whether the paper's claims hold depends on the machine and what else it does: that is for whoever runs it, not for a
test. What must hold anywhere is that the failure stops the output without replication, and with no other technique.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.waiting import HANG_S, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.long]

TECHNIQUES = ("no replication", "replication", "synchronization", "deterministic")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the nodes keep their state. Spark makes a socket there, whose path must be short: pytest's are not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def paper(temporary: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch.cli", "paper", "racing", "--quick", "--out", str(out)],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )


def nodes(temporary: Path) -> list[int]:
    """The processes that run on a state below this directory."""
    running = psutil.process_iter(["cmdline"])
    return [each.pid for each in running if any(str(temporary) in word for word in each.info["cmdline"] or ())]


def test_both_figures_are_told_and_drawn(tmp_path: Path, temporary: Path) -> None:
    process = paper(temporary, tmp_path / "out")
    output, _ = process.communicate(timeout=2 * HANG_S)
    assert process.returncode in (0, 1), output
    told = json.loads((tmp_path / "out" / "racing.json").read_text())
    assert process.returncode == (0 if all(result["ok"] for result in told["results"]) else 1)
    results = {result["name"]: result for result in told["results"]}
    assert results["figure 9: without replication nothing comes out after the failure"]["ok"]
    curves = told["details"]["figure_8"]["curves"]
    assert list(curves) == ["Union", "Join", "input 1", "input 2"]
    assert all(curve["tuples"] > 0 for curve in curves.values())
    techniques = told["details"]["figure_9"]["techniques"]
    assert tuple(techniques) == TECHNIQUES
    assert all(techniques[name]["median_after_s"] is not None for name in TECHNIQUES[1:]), output
    for name in ("figure-8.png", "figure-9.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    assert output.count("holds: ") + output.count("does not hold in this run: ") == len(results)
    assert nodes(temporary) == []


def test_ctrl_c_ends_all_nodes(tmp_path: Path, temporary: Path) -> None:
    process = paper(temporary, tmp_path / "out")
    wait_for(lambda: len(nodes(temporary)) >= 7, lambda: nodes(temporary))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, output
    assert "stopped: nothing was written" in output
    assert nodes(temporary) == []
    assert not (tmp_path / "out" / "racing.json").exists()
