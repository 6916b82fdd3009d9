"""Pushing from files and pipes: exactly once with a name, and errors that say where."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli, TalkingNode
from tests.unit.cli.terminal import on_a_terminal
from tests.waiting import HANG_S

Program = Callable[..., subprocess.Popen[bytes]]


def row(rtt_ms: object = 1.5, hops: object = 2) -> dict[str, object]:
    return {"source": "a", "target": "b", "rtt_ms": rtt_ms, "hops": hops, "sent": "2026-01-31T12:00:00Z"}


def json_lines(path: Path, *rows: object) -> str:
    path.write_text("".join(f"{text if isinstance(text, str) else json.dumps(text)}\n" for text in rows))
    return str(path)


def rtts(node: TalkingNode) -> list[float]:
    return [rtt for batch in node.batches for rtt in batch.column("rtt_ms").to_pylist()]


def test_json_lines_go_in_batches(cli: Cli, node: TalkingNode, address: str, tmp_path: Path) -> None:
    file = json_lines(tmp_path / "pings.jsonl", *[row(float(rtt)) for rtt in range(25)])
    result = cli("push", address, "ping", file, "--batch", "10")
    assert result.exit_code == 0, result.output
    assert result.stdout == "25 rows accepted, 0 repeated, 0 late\n"
    assert [push.count for push in node.pushes] == [10, 10, 5]
    assert rtts(node) == [float(rtt) for rtt in range(25)]


def test_csv_is_known_by_its_suffix_and_may_have_newlines_in_quotes(
    cli: Cli, node: TalkingNode, address: str, tmp_path: Path
) -> None:
    file = tmp_path / "pings.csv"
    file.write_text('\ufeffhops,rtt_ms,source,target,sent\r\n1,1.5,"a\nb",c,\r\n\r\n2,2.5,"d ""e""",f,2026-01-31\r\n')
    result = cli("push", address, "ping", str(file))
    assert result.exit_code == 0, result.output
    assert [batch.column("source").to_pylist() for batch in node.batches] == [["a\nb", 'd "e"']]


def test_a_named_producer_may_push_the_same_file_again(
    cli: Cli, node: TalkingNode, address: str, tmp_path: Path
) -> None:
    file = json_lines(tmp_path / "pings.jsonl", *[row(float(rtt)) for rtt in range(5)])
    cli("push", address, "ping", file, "--producer", "agent")
    again = cli("push", address, "ping", file, "--producer", "agent")
    assert again.stdout == "0 rows accepted, 5 repeated, 0 late\n"
    grown = json_lines(tmp_path / "pings.jsonl", *[row(float(rtt)) for rtt in range(7)])
    more = cli("push", address, "ping", grown, "--producer", "agent", "--batch", "2")
    assert more.stdout == "2 rows accepted, 5 repeated, 0 late\n"
    assert rtts(node) == [float(rtt) for rtt in range(7)]


def test_a_bad_row_names_file_and_line_and_nothing_of_its_batch_is_kept(
    cli: Cli, node: TalkingNode, address: str, tmp_path: Path
) -> None:
    file = json_lines(tmp_path / "pings.jsonl", row(), row(), "", row(), row("fast"))
    result = cli("push", address, "ping", file, "--batch", "2")
    assert result.exit_code == 2
    assert f"error[push-refused]: {file}, line 5: column 'rtt_ms': \"fast\" is not a double" in result.stderr
    assert "begins at line 4" in result.stderr
    assert "2 rows before it were accepted" in result.stderr
    assert result.stdout == "2 rows accepted, 0 repeated, 0 late\n"
    assert node.last_id == 2


def test_a_row_that_the_node_refuses_is_located_too(cli: Cli, node: TalkingNode, address: str, tmp_path: Path) -> None:
    file = json_lines(tmp_path / "pings.jsonl", row(), row(hops=-1))
    result = cli("push", address, "ping", file)
    assert result.exit_code == 2
    assert "line 2: hops is negative." in result.stderr


def test_skipped_rows_keep_their_numbers(cli: Cli, node: TalkingNode, address: str, tmp_path: Path) -> None:
    file = json_lines(tmp_path / "pings.jsonl", row(1.0), row("bad"), "{", row(4.0), row(hops=-1), row(6.0))
    result = cli("push", address, "ping", file, "--producer", "agent", "--skip-bad")
    assert result.exit_code == 0, result.output
    assert result.stdout == "3 rows accepted, 0 repeated, 0 late, 3 skipped\n"
    assert rtts(node) == [1.0, 4.0, 6.0]
    assert node.counters == {"agent": 6}
    assert [line.split(": ")[0][-6:] for line in result.stderr.splitlines()] == ["line 2", "line 3", "line 5"]
    again = cli("push", address, "ping", file, "--producer", "agent", "--skip-bad")
    assert again.stdout == "0 rows accepted, 6 repeated, 0 late\n"


def test_wrong_columns_cannot_be_skipped(cli: Cli, address: str, tmp_path: Path) -> None:
    file = tmp_path / "pings.csv"
    file.write_text("source,target\na,b\n")
    result = cli("push", address, "ping", str(file), "--skip-bad")
    assert result.exit_code == 2
    assert "missing 'rtt_ms', 'hops', 'sent'" in result.stderr


@pytest.mark.parametrize(
    ("file", "why"),
    [("pings.txt", "Give --format"), ("absent.jsonl", "cannot be read: No such file"), ("", "Give --format")],
)
def test_a_file_that_cannot_be_read_is_an_error_of_the_user(
    cli: Cli, address: str, tmp_path: Path, file: str, why: str
) -> None:
    result = cli("push", address, "ping", str(tmp_path / file))
    assert result.exit_code == 2
    assert why in result.stderr


def test_an_unknown_source_is_named(cli: Cli, address: str, tmp_path: Path) -> None:
    result = cli("push", address, "pong", json_lines(tmp_path / "pings.jsonl", row()))
    assert result.exit_code == 2
    assert "error[stream-not-found]" in result.stderr
    assert "ping" in result.stderr


def test_someone_who_types_is_told_so(address: str) -> None:
    code, shown = on_a_terminal("push", address, "ping", typed=b"\x04", NO_COLOR="1")
    assert code == 0
    assert "waiting for rows typed here; Ctrl-D ends the input\n" in shown
    assert shown.endswith("0 rows accepted, 0 repeated, 0 late\n")


def test_a_pipe_is_not_held_back_until_a_batch_is_full(program: Program, node: TalkingNode, address: str) -> None:
    process = program("push", address, "ping")
    assert process.stdin is not None
    process.stdin.write(json.dumps(row(1.0)).encode() + b"\n" + b'{"source": "half')
    process.stdin.flush()
    with node.changed:
        assert node.changed.wait_for(lambda: node.last_id == 1, HANG_S)
    assert process.poll() is None
    out, errors = process.communicate(b' a row", "target": "b", "rtt_ms": 2.0, "hops": 1, "sent": null}')
    assert (process.returncode, out) == (0, b"2 rows accepted, 0 repeated, 0 late\n"), errors
    assert rtts(node) == [1.0, 2.0]
