"""What the start says while it waits."""

from __future__ import annotations

import re

import pytest

from anabranch.cli.waiting import Waiting, running_line
from tests.statuses import host_status
from tests.unit.cli.terminal import plain, shown_by


def test_a_line_is_said_once_and_a_stop_is_looked_for_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    looks: list[int] = []
    waiting = Waiting(lambda: looks.append(1))
    for text in ("a", "b", "b", "b"):
        waiting.progress(text)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
    assert len(looks) == 4


TO_STANDARD_ERROR = """
from anabranch.cli.waiting import Waiting, running_line
from tests.unit.cli.terminal import plain, shown_by
with Waiting(err=True, done="it runs") as waiting:
    waiting.progress("first")
    waiting.progress("second")
"""


def test_on_a_terminal_the_line_that_moves_stays_when_its_step_is_over() -> None:
    code, shown = shown_by("-c", TO_STANDARD_ERROR)
    erased = r"[^\n]*\n\x1b\[\?25h\r\x1b\[1A\x1b\[2K"  # the line that moved, at the end: one up, and clear it
    kept = [line.rpartition("\x1b[2K")[2] for line in re.sub(erased, "", plain(shown)).splitlines()]
    assert code == 0
    assert [line.split(" s  ")[1].strip() for line in kept if " s  " in line] == ["first", "second", "it runs"]


def test_a_terminal_that_cannot_move_lines_gets_them_plainly() -> None:
    _, shown = shown_by("-c", TO_STANDARD_ERROR, TERM="dumb")
    assert "\x1b" not in shown
    assert [line.split(" s  ")[1] for line in shown.splitlines()] == ["first", "second", "it runs"]


def test_for_a_script_it_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting(err=True) as waiting:
        waiting.progress("first")
    captured = capsys.readouterr()
    assert (captured.out, [line.split()[-1] for line in captured.err.splitlines()]) == ("", ["first", "running"])


def test_the_line_while_it_runs_ends_with_a_sign_where_it_is_cut() -> None:
    status = host_status(
        {
            "uptime_s": 75.0,
            "intake": "Intake has stopped: 3 MiB are free.",
            "queries": {
                "q": {
                    "sources": {"ping": {"rows_in": 1234}},
                    "stages": {"join_1": {"inputs": {"ping": {"lag_rows": 5}}}},
                    "streams": {"slow": {"kind": "output", "rows_in": 17}, "ping": {"kind": "source", "rows_in": 1234}},
                }
            },
        }
    )
    whole = "INTAKE STOPPED  up 75 s  in 1,234 rows  waiting 5  out: slow 17"
    assert running_line(status, 80) == whole
    assert running_line(status, 30) == f"{whole[:29]}…"
