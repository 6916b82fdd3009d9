"""A node on a Spark cluster: a master and workers from PySpark's own distribution, on loopback. Either side dies.

The join and the window behind it keep their state on executors. All of them are killed in the middle of the input;
for a while there is no worker at all; then another comes, which has nothing but the checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.engine import archive
from anabranch.engine.session import JAVA_OPTIONS
from anabranch.model.times import CLOSED_US
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from anabranch.runtime.status import HostStatus
from tests.chaos.checkers import Row, ids_contiguous, nothing_twice, rows_of, same_rows
from tests.chaos.clients import read_stream
from tests.chaos.processes import QUICK_START, NodeProcess, kill_session, session_tree
from tests.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.long]

ROWS = 3_000
"""Of each source: a row every 10 ms of stream time makes three windows of 10 s."""

STEP_ROWS = 100
NO_REST = "-Dspark.master.rest.enabled=false"  # a fixed port, and nothing here uses it
OUTPUTS = ("pairs", "per_window")


def query() -> ab.Query:
    q = ab.Query("cluster")
    left = q.source("left", "k int, x bigint, at timestamp", time="at")
    right = q.source("right", "j int, y bigint, at timestamp", time="at")
    pairs = left.join(right.map("j, y", name="bare"), on="k = j", within="300ms", name="pairs")
    q.output("pairs", pairs)
    sums = pairs.aggregate("count(*) AS n, sum(x * y) AS total", by="k", window="10s", name="per_window")
    q.output("per_window", sums)
    return q


def row(source: str, number: int) -> dict[str, Any]:
    key, value = ("k", "x") if source == "left" else ("j", "y")
    return {key: number % 17, value: number, "at": (number + 1) * 10_000}


def expected() -> dict[str, list[Row]]:
    run = ReferenceRun(query().checked())
    for source in ("left", "right"):
        tuples = [
            Tuple(origin=f"{source}/0", stime=(number + 1) * 10_000, tid=number + 1, values=row(source, number))
            for number in range(ROWS)
        ]
        run.feed(source, tuples, {f"{source}/0": CLOSED_US})
    return {stream: [Row.of(each) for each in run.results()[stream]] for stream in OUTPUTS}


class Daemon:
    """A master or a worker, in a session of its own: its executors are found by it. No Python runs on them."""

    def __init__(self, kind: str, arguments: list[str], directory: Path) -> None:
        directory.mkdir()
        home = Path(pyspark.__path__[0])
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(directory),
            "SPARK_LOG_DIR": str(directory),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_START} -XX:+UseSerialGC -Djava.io.tmpdir={directory} {NO_REST}",
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        command += ["--webui-port", "0", *arguments]
        self._log = directory / "log"
        with self._log.open("wb") as output:
            self._popen = subprocess.Popen(
                command, cwd=directory, env=environment, stdout=output, stderr=output, start_new_session=True
            )

    def wait_says(self, text: str) -> None:
        wait_for(lambda: text in self._log.read_text(), lambda: self._log.read_text()[-4_000:])

    def commands(self) -> list[str]:
        return [" ".join(process.cmdline()) for process in session_tree(self._popen.pid)]

    def kill(self) -> int:
        return kill_session(self._popen)


class Cluster:
    """A standalone cluster that begins with no worker."""

    def __init__(self, directory: Path) -> None:
        port = free_ports(1)[0]
        self.url = f"spark://127.0.0.1:{port}"
        self._directory = directory
        self._daemons = [Daemon("master.Master", ["--port", str(port)], directory / "master")]
        self._daemons[0].wait_says("Starting Spark master at")

    def add_worker(self) -> Daemon:
        directory = self._directory / f"worker-{len(self._daemons)}"
        arguments = ["--cores", "2", "--memory", "1g", "--work-dir", str(directory / "work"), self.url]
        self._daemons.append(Daemon("worker.Worker", arguments, directory))
        self._daemons[-1].wait_says("Successfully registered with master")
        return self._daemons[-1]

    def kill(self) -> None:
        for daemon in self._daemons:
            daemon.kill()


@contextmanager
def running(directory: Path) -> Iterator[tuple[Cluster, NodeProcess]]:
    (directory / "query.yaml").write_text(query().to_yaml())
    with ExitStack() as ending:
        cluster = Cluster(directory)
        ending.callback(cluster.kill)
        options = ["--master", cluster.url, "--conf", "spark.executor.memory=512m"]
        options += ["--conf", f"spark.executor.extraJavaOptions={JAVA_OPTIONS} {QUICK_START} {archive.using()}"]
        node = NodeProcess(
            directory / "query.yaml", directory / "state", free_ports(1)[0], directory / "node.log", options=options
        )
        ending.callback(node.kill)
        yield cluster, node


class Pusher:
    """Two named producers, side by side."""

    def __init__(self, connection: ab.Connection) -> None:
        self._connection = connection
        self._producers = {source: connection.producer(source, "writer") for source in ("left", "right")}
        self.pushed = 0

    def push_to(self, number: int) -> None:
        while self.pushed < number:
            for source, producer in self._producers.items():
                producer.push([row(source, self.pushed + index) for index in range(STEP_ROWS)])
            self.pushed += STEP_ROWS
            time.sleep(0.05)

    def close(self) -> None:
        for source in self._producers:
            self._connection.client.close_lane(source)


def status(node: NodeProcess) -> HostStatus:
    found = node.status()
    assert found is not None
    assert found.state == "running"
    return found


def test_a_worker_dies_and_another_comes(tmp_path: Path) -> None:
    with running(tmp_path) as (cluster, node):
        node.wait_serving()
        with ab.connect(node.address) as connection:
            pusher = Pusher(connection)
            node.wait(lambda: "waiting for executors" in node.log.read_text(), "says what it waits for")
            first = cluster.add_worker()
            node.wait_running()
            pusher.push_to(ROWS // 3)
            node.wait(lambda: status(node).only_query.stages["pairs"].rows_out > 0, "joins")
            pusher.push_to(ROWS // 2)
            commands = first.commands()
            assert any("CoarseGrainedExecutorBackend" in command for command in commands), commands
            assert not any("pyspark" in command and "daemon" in command for command in commands), commands
            assert first.kill() >= 2
            pusher.push_to(ROWS * 2 // 3)
            time.sleep(2)  # nobody is there to compute
            found = status(node)
            assert found.executors == 0
            assert [stage.error for stage in found.only_query.stages.values()] == [None, None]
            assert found.only_query.stages["pairs"].inputs["left"].lag_rows > 0
            cluster.add_worker()
            pusher.push_to(ROWS)
            pusher.close()
            node.wait_caught_up()
        expect_results(node)


def test_the_jvm_of_the_node_dies(tmp_path: Path) -> None:
    """The executors of a driver that is gone end; the next driver gets their cores, and has nothing but the
    checkpoint."""
    with running(tmp_path) as (cluster, node):
        cluster.add_worker()
        node.wait_running()
        with ab.connect(node.address) as connection:
            pusher = Pusher(connection)
            pusher.push_to(ROWS // 2)
            node.wait(lambda: status(node).only_query.stages["pairs"].rows_out > 0, "joins")
            node.kill_jvm()
            pusher.push_to(ROWS)
            pusher.close()
            node.wait_caught_up()
        assert status(node).spark.starts == 2
        expect_results(node)


def expect_results(node: NodeProcess) -> None:
    results = {stream: rows_of(read_stream(node.address, stream)) for stream in OUTPUTS}
    for stream, rows in expected().items():
        assert len(rows) > 10
        assert same_rows(rows, results[stream]) == []
        assert nothing_twice(results[stream]) == ids_contiguous(results[stream]) == []
