"""What people get wrong on a command line: one paragraph says what to change, and the exit code who must act."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.unit.cli.conftest import Cli, TalkingNode
from tests.unit.cli.test_status import NOON_US, a_node, lane
from tests.waiting import HANG_S, wait_for

Program = Callable[..., subprocess.Popen[bytes]]
EXAMPLE = str(Path(__file__).parents[3] / "examples" / "slow_paths.py")
BINARY = b"\x91\x00\xff\xfe,\x80\n\xff"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that are not what they seem, in the working directory."""
    for suffix in ("yaml", "py", "jsonl", "csv"):
        (tmp_path / f"binary.{suffix}").write_bytes(BINARY)
        (tmp_path / f"empty.{suffix}").touch()
        (tmp_path / f"directory.{suffix}").mkdir()
    (tmp_path / "broken.yaml").write_text("a: [b")
    (tmp_path / "key.yaml").write_text(
        "query: q\nboxes:\n  - source: {name: s, schema: 'a int', disorderr: 1s}\noutputs: {o: s}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("rnu query.py", "Did you mean 'run'?"),
        ("run query.py --sate here", "Possible options:"),
        ("run", "Missing argument 'FILE'"),
        ("run query.py --port 65536", "Invalid value for '--port'"),
        ("run query.py --port -1", "Invalid value for '--port'"),
        ("run query.py --batch-rows -5", "Invalid value for '--batch-rows'"),
        ("run query.py --log-bytes lots", "Write bytes, or a number and a unit: 256MB, 8GiB."),
        ("run query.py --for soon", "Write a number and a unit"),
        ("explain query.py --mermaid --json", "Give --mermaid or --json, not both."),
        ("subscribe a:1 s --limit -1", "Invalid value for '--limit'"),
        ("subscribe a:1 s --format xml", "'xml' is not one of 'table', 'jsonl'"),
        ("push a:1 s --batch 0", "Invalid value for '--batch'"),
        ("demo --rate 0", "Invalid value for '--rate'"),
        ("demo --plot directory.py", "directory.py cannot be written. Name another file."),
        ("demo --no-plot --json directory.py", "directory.py cannot be written. Name another file."),
        ("explain absent.py", "absent.py cannot be read: No such file or directory. Check the path."),
        ("explain directory.yaml", "directory.yaml cannot be read: Is a directory. Check the path."),
        ("explain query.txt", "query.txt is not a query file. Give a .py, .sql, .yaml or .yml file."),
        ("explain broken.yaml", "broken.yaml, line 1: expected ',' or ']'"),
        ("explain binary.yaml", "binary.yaml cannot be read: it is not UTF-8."),
        ("explain binary.py", "binary.py: source code string cannot contain null bytes. Correct the program."),
        ("explain empty.yaml", "empty.yaml is empty. Write a query: the keys query, boxes and outputs."),
        ("explain empty.py", "empty.py defines no query. Write q = anabranch.Query"),
        ("explain key.yaml", "unknown key `disorderr`. Candidates: disorder,"),
        ("status nowhere", "'nowhere' is not the address of a node. Write host:port, as 127.0.0.1:7700."),
        ("status 127.0.0.1:99999", "Write host:port"),
        (f"run {EXAMPLE} --source load", "--source load: it has no name. Write --source NAME=KIND:OPTION=VALUE"),
        (f"run {EXAMPLE} --source load=fil:x", "There is no feed or writer 'fil' here. Candidates: file,"),
        (f"run {EXAMPLE} --conf spark.x", "'spark.x' is not key=value."),
    ],
)
def test_what_must_change_is_said(cli: Cli, shelf: Path, command: str, told: str) -> None:
    result = cli(*command.split())
    assert (result.exit_code, told in result.stderr, "Traceback" in result.stderr) == (2, True, False), result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["push", "ping", "binary.csv"], "binary.csv: The header is not UTF-8. Write the text as UTF-8."),
        (["push", "ping", "binary.jsonl"], "binary.jsonl, line 1: it is not JSON"),
        (["push", "ping", "directory.csv"], "directory.csv cannot be read: Is a directory"),
        (["push", "pong", "empty.csv"], "has no stream 'pong'. It has: ping"),
        (["subscribe", "ping", "--from", "yesterday"], "Write start, end, or incarnation:id as `status` shows it."),
        (["subscribe", "ping", "--from", "b7:3"], "Subscribe again from start"),
    ],
)
def test_what_must_change_for_a_node_is_said(
    cli: Cli, shelf: Path, address: str, arguments: list[str], told: str
) -> None:
    verb, *rest = arguments
    result = cli(verb, address, *rest)
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


def test_an_empty_file_of_rows_is_no_mistake(cli: Cli, shelf: Path, address: str) -> None:
    for name in ("empty.csv", "empty.jsonl"):
        assert cli("push", address, "ping", name).stdout == "0 rows accepted, 0 repeated, 0 late\n"


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1:1", "nothing listens there"), ("no-such-host.invalid:7700", "unknown host")],
)
def test_why_a_node_cannot_be_reached_is_said_in_plain_words(cli: Cli, address: str, why: str) -> None:
    result = cli("status", address)
    assert result.exit_code == 3
    assert result.stderr == (
        f"error[node-unreachable]: No node answers at {address}: {why}. "
        "Check the address and that the node is running.\n"
    )


def test_something_else_at_the_address_is_no_node(cli: Cli) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        result = cli("status", f"127.0.0.1:{server.server_port}")
        server.shutdown()
    assert (result.exit_code, "what listens there is not an Anabranch node" in result.stderr) == (3, True), (
        result.stderr
    )


def test_a_state_directory_that_cannot_be_made_is_for_the_operator(cli: Cli, shelf: Path) -> None:
    result = cli("run", EXAMPLE, "--state", str(shelf / "empty.py" / "state"))
    assert result.exit_code == 3
    assert "Give a directory that this user can write to" in result.stderr


def test_a_file_without_permission_is_said(cli: Cli, shelf: Path) -> None:
    assert cli("explain", "empty.py").exit_code == 2  # imports what it needs, while it may read everything
    (shelf / "empty.py").chmod(0)
    with as_nobody():
        assert "empty.py cannot be read: Permission denied" in cli("explain", "empty.py").stderr


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, where we have them: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# --- how it ends ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["status", "explain"])
def test_a_reader_that_has_seen_enough_is_no_error(
    program: Program, node: TalkingNode, address: str, verb: str
) -> None:
    node.told = a_node(ping=lane(NOON_US)) | {"address": "q" * 200_000}  # more than a pipe holds
    arguments = ["status", address] if verb == "status" else ["explain", EXAMPLE]
    with program(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(HANG_S), process.stderr.read()) == (0, b"")


def test_a_full_disk_under_the_output_is_not_called_a_bug() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "anabranch.cli", "version"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (run.returncode, run.stderr) == (
        3,
        b"error[disk-full]: No space left for the output. Free some space, or write elsewhere.\n",
    )


def test_ctrl_c_while_it_waits_for_rows_tells_what_was_done(program: Program, node: TalkingNode, address: str) -> None:
    row = b'{"source": "a", "target": "b", "rtt_ms": 1.5, "hops": 1, "sent": null}\n'
    with program("push", address, "ping") as process:
        assert process.stdin is not None
        for count in (1, 2):  # the second is sent when the first has been answered
            process.stdin.write(row)
            process.stdin.flush()
            with node.changed:
                assert node.changed.wait_for(lambda: node.last_id == count, HANG_S)  # noqa: B023
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=HANG_S)
        assert (process.returncode, errors) == (130, b"")
        assert out in (b"1 rows accepted, 0 repeated, 0 late\n", b"2 rows accepted, 0 repeated, 0 late\n")


def test_ctrl_c_before_the_program_has_loaded_is_silent_too(tmp_path: Path) -> None:
    """The signal comes while the verbs are imported: a module of that name, found first, stands for a slow one."""
    (tmp_path / "typer.py").write_text(
        "import pathlib, time\npathlib.Path('loading').touch()\nfor _ in range(6_000):\n    time.sleep(0.1)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", "from anabranch.cli import main; main()", "version"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_for((tmp_path / "loading").exists)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=HANG_S) == (b"", b"")
        assert process.returncode == 130
