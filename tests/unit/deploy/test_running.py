"""Which deployments run here: found by any shell of this user, and no longer than they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.deploy import running
from anabranch.deploy.running import all_running, find, registered
from anabranch.errors import ConfigError, NodeUnreachable


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return running.registry()


def elsewhere(here: Path, file: Path) -> subprocess.Popen[str]:
    """Another process that runs a deployment."""
    program = (
        "import sys; from pathlib import Path; from anabranch.deploy.running import registered\n"
        f"with registered(Path({str(file)!r}), directory=Path({str(here)!r})):\n"
        "    print('registered', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "registered\n"
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_only_this_user_may_look_into_the_registry(here: Path) -> None:
    assert here.stat().st_mode & 0o777 == 0o700
    here.chmod(0o755)
    with pytest.raises(ConfigError, match="not a private directory of this user"):
        running.registry()


def test_a_registry_that_leads_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "theirs").mkdir(mode=0o700)
    (tmp_path / f"anabranch-{os.getuid()}").symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match="not a private directory of this user"):
        running.registry()


def test_what_runs_is_found_without_its_name_and_is_gone_afterwards(here: Path, tmp_path: Path) -> None:
    with registered(tmp_path / "one.toml", state=tmp_path / "state") as mine:
        assert find() == find(tmp_path / "one.toml") == mine
        assert (mine.pid, mine.file) == (os.getpid(), str(tmp_path / "one.toml"))
        assert mine.control().parent == here
    assert all_running() == []
    assert list(here.iterdir()) == []


def test_the_same_file_cannot_run_twice(here: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    other = elsewhere(here, file)
    try:
        with pytest.raises(ConfigError, match=f"is already running: process {other.pid}"), registered(file):
            pass
    finally:
        ended(other)
    with registered(file):  # what was killed is no longer in the way
        assert [each.pid for each in all_running()] == [os.getpid()]


def test_what_a_killed_process_left_is_ignored_and_removed(here: Path, tmp_path: Path) -> None:
    other = elsewhere(here, tmp_path / "one.toml")
    (here / f"{other.pid}.sock").touch()
    assert [each.pid for each in all_running()] == [other.pid]
    ended(other)
    assert (here / f"{other.pid}.json").exists()
    assert all_running() == []
    assert list(here.iterdir()) == []


def test_an_entry_whose_process_number_was_given_to_another_is_stale(here: Path) -> None:
    facts = {"file": "/x.toml", "pid": os.getpid(), "started_s": 1.0, "state": None, "embedded": False}
    (here / f"{os.getpid()}.json").write_text(json.dumps(facts))
    assert all_running() == []


def test_none_several_and_another_are_told_apart(here: Path, tmp_path: Path) -> None:
    with pytest.raises(
        NodeUnreachable, match=r"No deployment is running on this machine. Start one: anabranch up FILE"
    ):
        find()
    one, two, three = (tmp_path / f"{name}.toml" for name in ("one", "two", "three"))
    other = elsewhere(here, one)
    try:
        with pytest.raises(
            NodeUnreachable, match=f"two.toml is not running on this machine. Running deployments: {one}"
        ):
            find(two)
        with registered(two):
            with pytest.raises(ConfigError, match=f"2 deployments are running .* Name the file of one: {one}, {two}"):
                find()
            assert find(one).pid == other.pid
            with pytest.raises(NodeUnreachable, match="three"):
                find(three)
    finally:
        ended(other)
