"""Tables at any width: nothing is left out, and no number or state is cut or folded."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from anabranch.cli.shown import GrowingTable
from anabranch.cli.tables import narrowest_width, print_table, table
from tests.unit.cli.conftest import Cli, TalkingNode
from tests.unit.cli.terminal import on_a_terminal, plain
from tests.unit.cli.test_status import NOON_US, a_node, lane

LONG = "a_stage_with_a_name_that_is_longer_than_half_of_a_terminal"


@pytest.fixture
def wide(node: TalkingNode, address: str) -> str:
    """A node with long names and large numbers."""
    node.told = a_node(ping=lane(NOON_US), load=lane(NOON_US - 65_000_000, silent_s=70))
    queries: Any = node.told["queries"]
    stages: dict[str, object] = queries["slow_paths"]["stages"]
    stages[LONG] = stages["join_1"] | {"rows_out": 987_654_321_000}  # type: ignore[operator]
    return address


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_status_fits_the_terminal_and_loses_nothing(wide: str, columns: int) -> None:
    code, shown = on_a_terminal("status", wide, columns=columns)
    lines = plain(shown).splitlines()
    sentences = [line for line in lines if line.startswith("Windows wait")]
    assert code == 0
    assert max(len(line) for line in lines if line not in sentences) <= columns
    assert all(any(word in line.split() for line in lines) for word in ("running", "987,654,321,000", "1,234", "a1"))
    assert LONG in plain(shown)
    assert sentences[0].endswith("anabranch source close 127.0.0.1:7700 load 0"), "a command can be copied as a whole"


def test_a_pipe_has_no_width(cli: Cli, wide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = cli("status", wide).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith(LONG)]
    assert line.split()[1:] == [
        "running",
        "42",
        "987,654,321,000",
        "3",
        "210",
        *"load/0 at 2026-01-31 12:00:00.000000".split(),
    ]
    assert [line for line in lines if line != line.rstrip()] == []


def printed(width: int) -> list[str]:
    made = table("things", "name", ">count", "=state", "remark")
    made.add_row("first", "1,234,567", "running", "a remark that goes on and on and on")
    made.add_row("second", "1", "failed", "")
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        print_table(console, made)
    assert narrowest_width(made) == len("second") + len("1,234,567") + len("running") + 15 + 3 * 2
    return [line.rstrip() for line in captured.get().splitlines()]


def test_texts_are_folded_first() -> None:
    lines = printed(45)
    assert lines[4] == "first   1,234,567  running  a remark that"
    assert lines[5].split() == ["goes", "on", "and", "on"]


def test_what_cannot_stand_side_by_side_stands_below() -> None:
    assert printed(42) == [
        "",
        "things",
        "first",
        "  count   1,234,567",
        "  state   running",
        "  remark  a remark that goes on and on and",
        "          on",
        "second",
        "  count  1",
        "  state  failed",
    ]


def test_rows_of_a_stream_are_cut_to_the_terminal_with_a_sign_and_numbers_are_not() -> None:
    rows = [{"id": 1_234_567_890_123, "text": "x" * 40, "other": "short"}]
    assert GrowingTable(list(rows[0]), 40).lines(rows) == [
        "id             text                other",
        "─────────────  ──────────────────  ─────",
        f"1234567890123  {'x' * 17}…  short",
    ]
    assert GrowingTable(list(rows[0])).lines(rows)[2] == f"1234567890123  {'x' * 40}  short"
    narrow = GrowingTable(list(rows[0]), 10).lines(rows)[2]
    assert narrow == "1234567890123  xxxxxxx…  short", "a number is never cut, a text keeps its beginning"
