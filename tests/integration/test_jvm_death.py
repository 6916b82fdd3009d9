"""A JVM that dies alone, at the worst moments: the node says so, starts another, and no tuple is lost or repeated."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.runtime.status import SparkStatus
from tests.chaos.processes import NodeProcess
from tests.spark import LIGHT_OPTIONS
from tests.waiting import wait_for

pytestmark = pytest.mark.processes

ROWS = 3_000
QUERY = """
query: carried
boxes:
  - source:
      name: made
      schema: n bigint
      feed: {{generator: {{rate: 1000, rows: {rows}, seed: 5, columns: {{n: sequence}}}}}}
  - source: {{name: pushed, schema: n bigint}}
  - source: {{name: ticks, schema: value bigint, feed: "spark:rate,rowsPerSecond=20"}}
  - filter: {{name: some, input: made, where: ["n % 3 = 0"]}}
outputs:
  some:
    input: some
    to: ["jsonl:{path}/some.jsonl", "spark:parquet,path={path}/spark,every=50ms"]
  passed: pushed
  ticked: ticks
"""


@contextmanager
def node_at(directory: Path, failpoint: str | None = None) -> Iterator[NodeProcess]:
    (directory / "q.yaml").write_text(QUERY.format(path=directory, rows=ROWS))
    port = free_ports(1)[0]
    node = NodeProcess(
        directory / "q.yaml",
        directory / "state",
        port,
        directory / "log",
        failpoint=failpoint,
        options=LIGHT_OPTIONS,
    )
    try:
        yield node
    finally:
        node.kill()


def spark_of(node: NodeProcess) -> SparkStatus | None:
    status = node.status()
    return None if status is None else status.spark


def starts_of(node: NodeProcess) -> int:
    spark = spark_of(node)
    return 0 if spark is None else spark.starts


def numbers(connection: ab.Connection, stream: str, column: str) -> list[int]:
    batches = connection.subscribe(stream, start="start", follow=False)
    return [row[column] for batch in batches for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]


@pytest.mark.parametrize("place", ["stage.offsets_written:4", pytest.param("stage.logged:4", marks=pytest.mark.long)])
def test_a_jvm_that_is_killed_twice_leaves_the_output_as_it_would_have_been(tmp_path: Path, place: str) -> None:
    """Once between two steps of a batch, once while it starts again. All else goes on meanwhile."""
    with node_at(tmp_path, place) as node:
        node.wait_stopped()
        node.kill_jvm()
        os.kill(node.pid, signal.SIGCONT)
        node.wait(lambda: starts_of(node) == 2 and node.jvm() is not None, "starts Spark again")
        node.kill_jvm()

        with ab.connect(node.address) as connection:
            node.wait(lambda: node.status().state == "restarting Spark", "says what it is at")
            told = spark_of(node).error
            assert "killed by SIGKILL, perhaps because this machine ran out of memory" in told
            assert "spark.driver.memory, which is 2g" in told
            connection.push("pushed", [{"n": 1}, {"n": 2}])  # taken while there is no Spark
            logged = numbers(connection, "some", "n")  # and logs are read

            node.wait_running()
            expected = list(range(0, ROWS, 3))
            wait_for(lambda: len(numbers(connection, "some", "n")) >= len(expected), node.log_tail)
            wait_for(lambda: numbers(connection, "passed", "n") == [1, 2], node.log_tail)
            assert numbers(connection, "some", "n") == expected
            assert logged == expected[: len(logged)]
            ticked = len(numbers(connection, "ticked", "value"))
            wait_for(lambda: len(numbers(connection, "ticked", "value")) > ticked, node.log_tail)
            values = sorted(numbers(connection, "ticked", "value"))
            assert values == list(range(len(values)))
            wait_for(lambda: written(node, tmp_path) == (expected, expected), node.log_tail)
            found = node.status()
            assert found is not None
            assert (found.spark.state, found.spark.starts, found.spark.error) == ("running", 3, None)
        said = node.log_tail()
        assert "Traceback" not in said, said
        assert "py4j" not in said, said
        told_lines = [line for line in said.splitlines() if "Spark's JVM was killed by SIGKILL" in line]
        assert ["Spark restarts in 0.5 s" in told_lines[0], "Spark restarts in 1.0 s" in told_lines[1]] == [True] * 2, (
            said
        )


def written(node: NodeProcess, directory: Path) -> tuple[list[int], list[int]]:
    """By the file writer, and by Spark's."""
    lines = [json.loads(line)["n"] for line in (directory / "some.jsonl").read_text().splitlines()]
    return lines, pq.read_table(directory / "spark").sort_by("_id").column("n").to_pylist()
