"""Colours on a terminal that has them, and nowhere else."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import TalkingNode
from tests.unit.cli.terminal import on_a_terminal, plain
from tests.unit.cli.test_status import NOON_US, a_node, lane
from tests.waiting import HANG_S

GREEN, RED = "\x1b[32m", "\x1b[31m"


@pytest.fixture
def troubled(node: TalkingNode, address: str) -> str:
    """The address of a node that runs, with one stage that has failed."""
    node.told = a_node(ping=lane(NOON_US))
    queries: Any = node.told["queries"]
    queries["slow_paths"]["stages"]["join_1"] |= {"state": "failed", "error": "Stage join_1 failed in Spark."}
    return address


def test_states_and_troubles_have_colours_on_a_terminal(troubled: str) -> None:
    code, shown = on_a_terminal("status", troubled, columns=160)
    assert code == 0
    assert f"{GREEN}running\x1b[0m" in shown
    assert f"{RED}failed\x1b[0m" in shown
    assert f"{RED}stage join_1: Stage join_1 failed in Spark.\x1b[0m" in shown


def test_an_error_is_red_and_its_words_are_not() -> None:
    code, shown = on_a_terminal("status", "127.0.0.1:1")
    assert code == 3
    assert shown.startswith(f"{RED}error[node-unreachable]:\x1b[0m No node answers at 127.0.0.1:1")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_who_wants_no_colours_gets_none(troubled: str, environment: dict[str, str]) -> None:
    for arguments in (["status", troubled], ["explain", "absent.py"]):
        _, shown = on_a_terminal(*arguments, **environment)
        assert shown == plain(shown)


def test_a_dumb_terminal_gets_whole_lines(address: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("bad\n")
    _, shown = on_a_terminal("push", address, "ping", str(rows), "--skip-bad", columns=300, TERM="dumb")
    assert shown.splitlines()[1:] == ["0 rows accepted, 0 repeated, 0 late, 1 skipped"]
    assert shown.startswith(f"skipped {rows}, line 1: ")


def test_json_has_no_colours_on_a_terminal_either(troubled: str) -> None:
    for arguments in (["status", troubled, "--json"], ["version", "--json"]):
        _, shown = on_a_terminal(*arguments)
        assert "\x1b" not in shown


def test_a_pipe_has_no_colours_even_where_others_force_them(
    troubled: str, program: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with program("status", troubled) as process:
        out, errors = process.communicate(timeout=HANG_S)
    assert (process.returncode, b"\x1b" in out, errors) == (0, False, b"")
