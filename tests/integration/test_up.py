"""``anabranch up`` and its shells beside it: a deployment with Spark, looked at, hurt, healed and ended."""

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
from typer.testing import CliRunner

import anabranch as ab
from anabranch.cli.app import app
from anabranch.deploy.plan import Plan, load_plan
from anabranch.deploy.sessions import members
from tests.chaos.checkers import ids_contiguous, nothing_twice, rows_of
from tests.chaos.clients import read_stream
from tests.integration.deployments import write
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.processes


class Shell:
    """A shell in which a deployment runs, with a registry of its own, and those beside it.

    Of these only one is a process: a Python that starts costs more than what it is to say.
    """

    def __init__(self, folder: Path) -> None:
        self.file = write(folder)
        self.plan: Plan = load_plan(self.file)
        self.out = folder / "out"
        self.script = folder / "faults.toml"
        self.script.write_text('steps = [{at = "0s", do = "cut", between = ["a", "c"]}]')
        self._environment = {**os.environ, "TMPDIR": str(folder)}
        with self.out.open("w") as out:
            self.up = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "anabranch.cli",
                    "up",
                    str(self.file),
                    "--for",
                    "10m",
                    "--faults",
                    str(self.script),
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )

    def says(self, *arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, done.output
        return done.stdout

    def says_as_a_process(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "anabranch.cli", *arguments],
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def states(self) -> dict[str, str]:
        return {name: node["state"] for name, node in json.loads(self.says("status", "--json"))["nodes"].items()}

    def push(self, name: str, first: int, last: int) -> None:
        with ab.connect(str(self.plan.nodes[name].address)) as connection:
            connection.push({"a": "numbers", "b": "others"}[name], [{"n": n} for n in range(first, last)])

    def link(self, name: str, other: str) -> str:
        with ab.connect(str(self.plan.nodes[name].address)) as connection:
            links = connection.status().links
        return links[other].state

    def even(self) -> list[int]:
        found = rows_of(read_stream(str(self.plan.nodes["c"].address), "even"))
        assert nothing_twice(found) == ids_contiguous(found) == []
        return sorted(dict(row.values)["n"] for row in found)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.up.kill()  # its nodes end with it
        shell.up.wait()


def test_up(shell: Shell) -> None:
    wait_for(lambda: "all nodes running" in shell.out.read_text() or shell.up.poll() is not None, shell.out.read_text)
    wait_for(lambda: shell.link("c", "a") == "cut")  # by its script
    assert shell.says("fault", "heal", "a", "c") == "a - c: heal\n"
    shell.push("a", 0, 10)
    shell.push("b", 100, 110)
    wait_for(lambda: len(shell.even()) == 10)
    found = json.loads(shell.says_as_a_process("status", "--json"))
    assert {node["state"] for node in found["nodes"].values()} == {"running"}
    streams = found["queries"]["numbers"]["streams"]
    assert {stream: streams[stream]["readers"]["c"][copy]["first"] for stream, copy in
            (("numbers", "a"), ("others", "b"))} == {"numbers": 10, "others": 10}  # fmt: skip

    assert shell.says("fault", "run", str(shell.script)).strip().endswith("a - c: cut")
    shell.push("a", 20, 30)
    shell.push("b", 110, 120)
    wait_for(lambda: len(shell.even()) == 15)
    assert max(shell.even()) == 118
    assert shell.link("c", "a") == "cut"
    assert shell.says("fault", "heal", "a", "c") == "a - c: heal\n"
    wait_for(lambda: len(shell.even()) == 20)

    (session,) = {os.getsid(pid) for pid in _children(shell.up.pid) if "c" in _arguments(pid)}
    assert any("java" in _arguments(pid)[0] for pid in members(session))
    assert shell.says("fault", "kill", "c") == "c: killed\n"
    assert members(session) == {}
    assert shell.says("fault", "kill", "a") == "a: killed\n"
    assert shell.states() == {"a": "killed", "b": "running", "c": "killed"}
    assert shell.says("fault", "restart", "a", "--deployment", str(shell.file)) == "a: starting\n"
    wait_for(lambda: shell.states()["a"] == "running")
    shell.push("a", 10, 20)

    sessions = [os.getsid(pid) for pid in _children(shell.up.pid)]
    assert len(sessions) == 3  # the guardian is one of them
    shell.up.send_signal(signal.SIGINT)
    assert shell.up.wait(HANG_S) == 130, shell.out.read_text()
    assert [members(session) for session in sessions] == [{}] * 3
    assert list(shell.file.parent.glob(f"anabranch-{os.getuid()}/*")) == []


def _children(parent: int) -> list[int]:
    told = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in told.split()]


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
