"""The program around its verbs: help, exit codes, errors in one paragraph, and what it does not load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli import GRPC_SETTINGS, explain
from anabranch.cli.values import duration_us, settings, size_bytes
from anabranch.cli.waiting import ways_in_and_out, ways_through
from anabranch.deploy.plan import load_plan
from anabranch.errors import InvariantBroken
from anabranch.query.files import load
from tests.unit.cli.conftest import Cli, TalkingNode
from tests.unit.deploy.files import GOOD, write
from tests.unit.docs.commands import commands_in, parse, program

EXAMPLES = Path(__file__).parents[3] / "examples"


def every_command(command: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """The program, its groups and its verbs, each as the words that name it."""
    yield names
    for name, each in getattr(command, "commands", {}).items():
        yield from every_command(each, *names, name)


COMMANDS = list(every_command(program()))


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_everything_explains_itself_with_examples_that_the_program_takes(cli: Cli, names: tuple[str, ...]) -> None:
    result = cli(*names, "--help")
    assert result.exit_code == 0
    text = result.stdout.partition("Example")[2].partition("\n\n")[0].partition(":\n")[2]
    examples = [words for words in commands_in(text) if words[0] == "anabranch"]
    assert [words for words in examples if tuple(words[1:][: len(names)]) == names]
    for words in examples:
        parse(words[1:])


def test_the_list_of_verbs_is_not_cut(cli: Cli) -> None:
    assert {" ".join(names) for names in COMMANDS} >= {"run", "source close", "reader forget", "version"}
    assert "..." not in cli("--help").stdout.partition("Commands:")[2]


def test_grpc_knows_what_the_program_asks_of_it() -> None:
    """An experiment that a later gRPC does not know would be a line of complaint in front of every command."""
    code = (
        "import pyarrow.flight as flight\n"
        "server = flight.FlightServerBase('grpc://127.0.0.1:0')\n"
        "client = flight.FlightClient(f'grpc://127.0.0.1:{server.port}')\n"
        "try:\n    list(client.list_actions())\nexcept NotImplementedError:\n    pass\n"
        "server.shutdown()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | GRPC_SETTINGS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--help"], ["push", "--help"], ["version"], ["run", "--sate"]], ids=" ".join)
def test_what_needs_neither_spark_nor_arrow_does_not_load_them(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom anabranch.cli.app import app\n"
        f"try:\n    app({arguments})\nexcept SystemExit:\n    pass\n"
        "sys.exit(str({'pyspark', 'pyarrow', 'pandas', 'matplotlib', 'anabranch.deploy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.splitlines()[-1] == "set()"


def test_a_mistyped_option_is_explained_by_the_parser(cli: Cli) -> None:
    result = cli("run", "query.py", "--for", "a while")
    assert result.exit_code == 2
    assert "--for" in result.stderr
    assert "is not a duration" in result.stderr


def test_a_node_that_does_not_answer_is_for_the_operator(cli: Cli) -> None:
    result = cli("status", "127.0.0.1:1")
    assert result.exit_code == 3
    assert result.stderr.startswith("error[node-unreachable]: No node answers at 127.0.0.1:1")
    assert "Traceback" not in result.stderr


def test_all_problems_of_a_query_come_together(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "query.yaml"
    file.write_text(
        "query: q\nboxes:\n  - source: {name: s, schema: 'a int'}\n"
        "  - filter: {name: f, input: s, where: 'b > 1'}\n  - filter: {name: g, input: s, where: 'c > 1'}\n"
        "outputs: {o: f}\n"
    )
    result = cli("explain", str(file))
    assert result.exit_code == 2
    assert result.stderr.count("\n  - ") >= 2


def test_a_bug_is_one_line_and_a_hint_and_with_debug_a_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("nothing divided by nothing")

    monkeypatch.setattr("anabranch.query.files.load", broken)
    result = cli("explain", "query.py")
    assert result.exit_code == 70
    assert result.stderr.splitlines()[0] == "error[unexpected]: ZeroDivisionError: nothing divided by nothing"
    assert "--debug" in result.stderr
    with_debug = cli("--debug", "explain", "query.py")
    assert "Traceback" in with_debug.stderr
    assert "--debug" not in with_debug.stderr


def test_a_broken_invariant_has_its_own_exit_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise InvariantBroken("Ids have a hole.", remedy="Report it.")

    monkeypatch.setattr("anabranch.query.files.load", broken)
    result = cli("explain", "query.py")
    assert (result.exit_code, result.stderr) == (70, "error[invariant]: Ids have a hole. Report it.\n")


@pytest.mark.parametrize("name", ["slow_paths.py", "slow_paths.sql", "slow_paths.yaml"])
def test_explain_draws_as_text_and_as_mermaid(cli: Cli, name: str) -> None:
    text = cli("explain", str(EXAMPLES / name))
    assert text.stdout.startswith("query slow_paths\n")
    mermaid = cli("explain", str(EXAMPLES / name), "--mermaid")
    assert mermaid.stdout.startswith("flowchart LR\n")
    assert (text.exit_code, mermaid.exit_code) == (0, 0)


def test_explain_with_a_plan_shows_each_stage(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "_plans", lambda diagram: {"join_1": f"plans of {diagram.name}"})
    assert "plans of slow_paths" in cli("explain", str(EXAMPLES / "slow_paths.py"), "--plan").stdout


def test_a_lane_is_closed_and_a_reader_forgotten(cli: Cli, node: TalkingNode, address: str) -> None:
    node.readers = {("ping", "desk"): None}  # type: ignore[dict-item]
    assert cli("source", "close", address, "ping").stdout == "closed ping\n"
    assert cli("source", "close", address, "ping", "agent").stdout == "closed ping/agent\n"
    assert cli("reader", "forget", address, "ping", "desk").stdout == "forgot reader desk of ping\n"
    assert node.closed == [("ping", None), ("ping", "agent")]
    assert node.readers == {}


def test_the_version_says_what_it_runs_on(cli: Cli) -> None:
    assert "pyspark" in cli("version").stdout


@pytest.mark.parametrize(
    ("text", "count"),
    [("1048576", 1 << 20), ("256MB", 256_000_000), ("256MiB", 256 << 20), ("1.5 gb", 1_500_000_000), ("1k", 1000)],
)
def test_sizes(text: str, count: int) -> None:
    assert size_bytes(text) == count


@pytest.mark.parametrize("read", [size_bytes, duration_us])
@pytest.mark.parametrize("text", ["", "many", "-1", "1 furlong"])
def test_what_is_no_size_or_duration_is_refused(read: object, text: str) -> None:
    with pytest.raises(Exception, match="is not a"):
        read(text)  # type: ignore[operator]


def test_settings_are_pairs_and_a_value_may_have_equal_signs() -> None:
    assert settings(["spark.a=1", "spark.b=-Dx=y"]) == {"spark.a": "1", "spark.b": "-Dx=y"}
    with pytest.raises(Exception, match="key=value"):
        settings(["spark.a"])


def test_the_commands_to_copy_are_those_of_the_query() -> None:
    told = ways_in_and_out(load(EXAMPLES / "slow_paths.py").diagram(), "127.0.0.1:7700")
    assert """echo '{"server": "a", "cpu": 1.5}' | anabranch push 127.0.0.1:7700 load""" in told
    assert "anabranch subscribe 127.0.0.1:7700 network_problems --from start" in told


def test_the_commands_to_copy_of_a_deployment_reach_all_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, GOOD.replace('load = ["a"]', 'load = ["a", "b"]'))
    told = ways_through(load_plan(file), file)
    assert "| anabranch push 127.0.0.1:7001 load --node 127.0.0.1:7002\n" in told
    assert f"anabranch subscribe quick --deployment {file}\n" in told
    monkeypatch.chdir(tmp_path)
    assert f"anabranch status {file.name}\n" in ways_through(load_plan(file), file)


def test_nobody_is_told_to_push_where_a_feed_does() -> None:
    file = EXAMPLES / "planetlab.toml"
    assert "push" not in ways_through(load_plan(file), file)
