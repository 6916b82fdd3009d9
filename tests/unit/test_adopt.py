"""``scripts/adopt.py``: whatever outlives a command is named and killed, and its processor time counts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.processes import ROOT
from tests.waiting import HANG_S

ADOPT = "import adopt, sys; adopt.ENDING_S = float(sys.argv.pop(1)); sys.exit(adopt.main())"

ORPHAN = """
import subprocess, sys
def orphan(code):
    parent = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {code!r}]).pid, flush=True)"
    subprocess.run([sys.executable, "-c", parent], start_new_session=True)
"""
SLEEPS = "import time; time.sleep(600)"
WORKS = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def adopt(file: Path, code: str, *, ending_s: float = HANG_S) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ADOPT, str(ending_s), str(file), sys.executable, "-c", ORPHAN + code]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def is_alive(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()


def test_a_command_that_leaves_nothing_ends_as_it_does(tmp_path: Path) -> None:
    for code in (0, 3):
        process = adopt(tmp_path / "processor_s", f"sys.exit({code})")
        assert process.communicate(timeout=HANG_S) == ("", None)
        assert process.returncode == code


def test_an_orphan_that_ends_by_itself_is_no_failure_and_its_time_counts(tmp_path: Path) -> None:
    process = adopt(tmp_path / "processor_s", f"orphan({WORKS!r})")
    process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert float((tmp_path / "processor_s").read_text()) > 0.5


def test_a_process_that_outlives_its_test_is_named_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_that_forgets (call)")
    process = adopt(tmp_path / "processor_s", f"orphan({SLEEPS!r})", ending_s=0.1)
    output, _ = process.communicate(timeout=HANG_S)
    pid = int(output.split()[0])
    assert process.returncode == 1
    assert f"{pid}, started by test_that_forgets (call): {sys.executable} -c {SLEEPS}" in output
    assert not is_alive(pid)


def test_a_stop_ends_the_command_as_ctrl_c_does_and_all_that_is_left(tmp_path: Path) -> None:
    code = f"orphan({SLEEPS!r})\ntry: print(flush=True); {SLEEPS}\n"
    code += "except KeyboardInterrupt: print('cleaned up'); sys.exit(7)"
    process = adopt(tmp_path / "processor_s", code)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.stdout.readline()  # it sleeps
    os.kill(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=HANG_S)
    assert (process.returncode, output) == (7, "cleaned up\n")
    assert not is_alive(pid)
