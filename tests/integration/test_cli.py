"""The README's two shells: run a query, push, subscribe, look, and stop it with Ctrl-C. Real processes, real Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from tests.chaos.processes import alive
from tests.integration.foreground import running
from tests.spark import LIGHT_OPTIONS
from tests.waiting import HANG_S

EXAMPLE = Path(__file__).parents[2] / "examples" / "slow_paths.py"

pytestmark = pytest.mark.processes


def anabranch(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "anabranch.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def here(*arguments: str) -> str:
    """What it says, without a process of its own."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_two_shells(tmp_path: Path) -> None:
    loads = tmp_path / "loads.csv"
    loads.write_text("server,cpu\nweb,0.25\ndb,0.95\n")
    pings = tmp_path / "pings.jsonl"
    rows = [{"source": "a", "target": target, "rtt_ms": rtt} for rtt in (10.0, 2000.0) for target in ("web", "db")]
    pings.write_text("".join(json.dumps(row) + "\n" for row in rows))

    patient = tmp_path / "slow_paths.yaml"  # rows are stamped on arrival, and a process may take a second to start
    patient.write_text(EXAMPLE.with_suffix(".yaml").read_text().replace("within: 1s", "within: 10m"))
    with running(patient, tmp_path / "state", *LIGHT_OPTIONS) as node:
        address = node.wait_address()

        assert here("push", address, "load", str(loads), "--producer", "agent")
        first = anabranch("push", address, "ping", str(pings), "--producer", "agent")
        again = here("push", address, "ping", str(pings), "--producer", "agent")
        assert first.stdout == "4 rows accepted, 0 repeated, 0 late\n", first.stderr
        assert again == "0 rows accepted, 4 repeated, 0 late\n"

        one = here("subscribe", address, "network_problems", "--from", "start", "--limit", "1")
        (row,) = map(json.loads, one.splitlines())
        assert (row["_id"], row["target"], row["rtt_ms"], row["cpu"]) == (1, "web", 2000.0, 0.25)
        everything = here("subscribe", address, "network_problems", "--no-follow")
        assert [json.loads(line)["_id"] for line in everything.splitlines()] == [1]

        status = json.loads(here("status", address, "--json"))
        assert status["state"] == "running"
        assert status["queries"]["slow_paths"]["sources"]["ping"]["rows_in"] == 4
        assert "No lane holds the others" in here("status", address)

        children = node.children()
        node.signal_group(signal.SIGINT)  # as a terminal does
        assert node.wait_end() == 130
        assert node.lines[-1] == "stopped"
        assert node.errors == ["", "stopping; Ctrl-C again ends it at once"]
        assert children
        assert not [child for child in children if alive(child)]


def test_a_foreign_directory_is_refused_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "precious.txt").write_text("not ours")
    refused = anabranch("run", str(EXAMPLE), "--state", str(state))
    assert refused.returncode == 3
    assert "precious.txt" in refused.stderr
    assert "Traceback" not in refused.stderr
