"""Told to stop as service managers do it, at bad moments, a node stops cleanly, and the next start goes on exactly."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.amounts import is_long
from tests.chaos.processes import alive
from tests.integration.foreground import Foreground, Running, running
from tests.spark import LIGHT_OPTIONS
from tests.waiting import wait_for

pytestmark = pytest.mark.processes

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = 3_000
QUERY = """
query: counted
boxes:
  - source:
      name: made
      schema: n bigint
      feed: {{generator: {{rate: 1500, rows: {rows}, seed: 5, columns: {{n: sequence}}}}}}
  - filter: {{name: some, input: made, where: ["n % 3 = 0"]}}
outputs:
  some: {{input: some, to: "jsonl:{path}/some.jsonl"}}
"""


@pytest.fixture
def query(tmp_path: Path) -> Path:
    file = tmp_path / "q.yaml"
    file.write_text(QUERY.format(path=tmp_path, rows=ROWS))
    return file


def written(file: Path) -> list[int]:
    lines = (file.parent / "some.jsonl").read_text().splitlines(keepends=True)
    return [json.loads(line)["n"] for line in lines if line.endswith("\n")]


def expect_clean_stop(node: Running, code: int, signalled: Callable[[], None]) -> None:
    children = node.children()
    signalled()
    node.process.send_signal(signal.SIGCONT)  # a node that stands at its failpoint goes on from there
    assert node.wait_end() == code, (node.lines, node.errors)
    assert node.lines[-1] == "stopped"
    assert node.errors == ["", "stopping; Ctrl-C again ends it at once"]
    wait_for(lambda: not [child for child in children if alive(child)], lambda: children)


def test_however_a_node_is_told_to_stop_it_stops_cleanly_and_goes_on_exactly(query: Path, tmp_path: Path) -> None:
    state, options = tmp_path / "state", (*LIGHT_OPTIONS, "--batch-rows", "300")

    with running(query, state, *options, failpoint="stage.offsets_written:3") as node:  # in the middle of a batch
        node.wait_stopped()
        assert node.children()

        def twice() -> None:
            node.signal_all(signal.SIGTERM)
            node.signal_all(signal.SIGTERM)

        expect_clean_stop(node, 0, twice)

    with running(query, state, *options) as node:  # while Spark starts
        wait_for(lambda: any("starting Spark" in line for line in list(node.lines)))
        wait_for(node.children)
        expect_clean_stop(node, 0, lambda: node.signal_all(signal.SIGTERM))
        assert not any(line.startswith("address:") for line in node.lines)

    if is_long():
        with running(query, state, *options, failpoint="stage.logged:2") as node:  # logged, not committed by Spark
            node.wait_stopped()
            expect_clean_stop(node, 130, lambda: node.signal_all(signal.SIGINT))

    with running(query, state, *options) as node:
        expected = list(range(0, ROWS, 3))
        wait_for(lambda: any(line.startswith("address:") for line in list(node.lines)), lambda: node.errors)
        wait_for(lambda: len(written(query)) >= len(expected), lambda: (node.lines, node.errors))
        expect_clean_stop(node, 0, lambda: node.signal_group(signal.SIGTERM))
    assert written(query) == expected


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where a command keeps what it makes. Spark makes a socket there, whose path must be short: pytest's are not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "demo --for 10m --no-plot",
        "bench engine --quick",
        "bench failover --quick",
        "up {examples}/planetlab.toml --state {temporary}/nodes",
        "up {examples}/planetlab.toml --state {temporary}/nodes --embedded",
        "paper racing --quick --out {temporary}/figures",
    ],
)
def test_every_command_that_starts_spark_stops_when_all_its_processes_are_told_to(
    command: str, temporary: Path
) -> None:
    arguments = command.format(examples=EXAMPLES, temporary=temporary).split()
    shell = Foreground(*arguments, environment={"TMPDIR": str(temporary)})
    try:
        wait_for(shell.has_jvm, lambda: shell.errors)
        children = shell.children()
        shell.signal_all(signal.SIGTERM)
        measures = arguments[0] in ("bench", "paper")  # which is not done then; a service is
        assert shell.wait_end() == (143 if measures else 0), (shell.lines, shell.errors)
        assert shell.errors == ["", "stopping; Ctrl-C again ends it at once"]
        wait_for(lambda: not [child for child in children if alive(child)], lambda: children)
    finally:
        if shell.process.poll() is None:
            shell.process.kill()
        shell.wait_end()
