"""The README's two shells: run a query, push, subscribe, look, and stop it with Ctrl-C. Real processes, real Spark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.chaos.processes import alive
from tests.spark import QUICK_JVM
from tests.waiting import wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "slow_paths.py"
START_S = 240
STOP_S = 40

pytestmark = pytest.mark.processes


def anabranch(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "anabranch.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


class Running:
    """``anabranch run`` as a process, as a terminal would start it: in a process group of its own."""

    def __init__(self, query: Path, state: Path, *options: str) -> None:
        command = [sys.executable, "-m", "anabranch.cli", "run", str(query), "--state", str(state), *options]
        command += ["--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._collect, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._collect, args=(self.process.stderr, self.errors)),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _collect(stream: IO[str], into: list[str]) -> None:
        with stream:
            into.extend(line.rstrip("\n") for line in stream)  # line by line: others look while it grows

    def wait_address(self) -> str:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in list(self.lines):
                if match := re.fullmatch(r"address: (\S+)", line):
                    return match[1]
            time.sleep(0.1)
        raise AssertionError(f"no address: {self.lines} {self.errors}")

    def interrupt(self) -> list[psutil.Process]:
        """Ctrl-C: the whole foreground group gets it. Returns the processes that the node had."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        os.killpg(self.process.pid, signal.SIGINT)
        return children

    def wait_end(self) -> int:
        code = self.process.wait(STOP_S)
        for reader in self._readers:
            reader.join(STOP_S)
        return code


@contextmanager
def running(query: Path, state: Path, *options: str) -> Iterator[Running]:
    node = Running(query, state, *options)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.process.kill()
        node.wait_end()


def test_two_shells(tmp_path: Path) -> None:
    loads = tmp_path / "loads.csv"
    loads.write_text("server,cpu\nweb,0.25\ndb,0.95\n")
    pings = tmp_path / "pings.jsonl"
    rows = [{"source": "a", "target": target, "rtt_ms": rtt} for rtt in (10.0, 2000.0) for target in ("web", "db")]
    pings.write_text("".join(json.dumps(row) + "\n" for row in rows))

    patient = tmp_path / "slow_paths.yaml"  # rows are stamped on arrival, and a process may take a second to start
    patient.write_text(EXAMPLE.with_suffix(".yaml").read_text().replace("within: 1s", "within: 10m"))
    with running(patient, tmp_path / "state", "--master", "local[2]") as node:
        address = node.wait_address()

        assert anabranch("push", address, "load", str(loads), "--producer", "agent").returncode == 0
        first = anabranch("push", address, "ping", str(pings), "--producer", "agent")
        again = anabranch("push", address, "ping", str(pings), "--producer", "agent")
        assert first.stdout == "4 rows accepted, 0 repeated, 0 late\n", first.stderr
        assert again.stdout == "0 rows accepted, 4 repeated, 0 late\n", again.stderr

        one = anabranch("subscribe", address, "network_problems", "--from", "start", "--limit", "1")
        (row,) = map(json.loads, one.stdout.splitlines())
        assert (row["_id"], row["target"], row["rtt_ms"], row["cpu"]) == (1, "web", 2000.0, 0.25)
        everything = anabranch("subscribe", address, "network_problems", "--no-follow")
        assert [json.loads(line)["_id"] for line in everything.stdout.splitlines()] == [1]

        status = json.loads(anabranch("status", address, "--json").stdout)
        assert status["state"] == "running"
        assert status["sources"]["ping"]["rows_in"] == 4
        assert "No lane holds the others" in anabranch("status", address).stdout

        children = node.interrupt()
        assert node.wait_end() == 130
        assert node.lines[-1] == "stopped"
        assert node.errors == ["", "stopping; Ctrl-C again ends it at once"]
        assert children
        assert not [child for child in children if alive(child)]


def test_a_stop_during_the_start_is_clean_too(tmp_path: Path) -> None:
    with running(EXAMPLE, tmp_path / "state", "--master", "local[2]") as node:
        wait_for(lambda: any("starting Spark" in line for line in list(node.lines)))
        node.process.send_signal(signal.SIGTERM)
        assert node.wait_end() == 0
        assert node.lines[-1] == "stopped"
        assert not any(line.startswith("address:") for line in node.lines)


def test_a_foreign_directory_is_refused_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "precious.txt").write_text("not ours")
    refused = anabranch("run", str(EXAMPLE), "--state", str(state))
    assert refused.returncode == 3
    assert "precious.txt" in refused.stderr
    assert "Traceback" not in refused.stderr
