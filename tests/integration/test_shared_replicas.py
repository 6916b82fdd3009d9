"""Three hosts, each an entry point and a replica: of one fragment on a and c, of two with different peers on b.

    a    entry point    totals
    b    entry point    totals    sums
    c    entry point              sums

Each replica is rebuilt by itself. What else runs on its host runs on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.deploy.parts import assigned
from anabranch.deploy.plan import Plan, load_plan
from anabranch.errors import NotLeading
from anabranch.model.times import CLOSED_US
from anabranch.node.hosted_part import HostedPart
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query.builder import Query
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from anabranch.runtime.status import SharedLaneStatus
from tests.chaos.checkers import Row, nothing_twice, rows_of, same_rows
from tests.chaos.clients import read_stream
from tests.integration.test_parts import START, rows
from tests.spark import LIGHT, QUICK_JVM
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.spark

QUERY = """\
query: layers
boxes:
  - source: {name: events, schema: "k int, x bigint, at timestamp", time: at, producers: [p]}
  - aggregate: {name: totals, input: events, columns: "sum(x) AS total", by: k, window: 1s}
  - aggregate: {name: sums, input: totals, columns: "sum(total) AS total, count(*) AS n", window: 10s}
outputs:
  sums: sums
  every_second: totals
"""

PLACED = """\
[queries.layers]
file = "layers.yaml"
mode = "race"

[queries.layers.place]
totals = ["a", "b"]
sums = ["b", "c"]

[queries.layers.entry]
events = ["a", "b", "c"]
"""


class Hosts:
    """By name, in this process, which has one Spark for all of them."""

    def __init__(self, directory: Path, opened: ExitStack) -> None:
        ports = zip("abc", free_ports(3), strict=True)
        nodes = "".join(f'{name} = {{address = "127.0.0.1:{port}"}}\n' for name, port in ports)
        (directory / "layers.yaml").write_text(QUERY)
        (directory / "layers.toml").write_text(f"[nodes]\n{nodes}\n{PLACED}")
        self._directory = directory
        self._opened = opened
        self.plan: Plan = load_plan(directory / "layers.toml")
        self.said: dict[str, list[str]] = {}
        self.nodes: dict[str, Node] = {}

    def start(self, name: str) -> None:
        settings = NodeSettings(
            master="local[2]",
            conf={"spark.driver.extraJavaOptions": QUICK_JVM, **LIGHT},
            port=self.plan.nodes[name].address.port,
            disk_reserve_bytes=1 << 20,
        )
        said = self.said[name] = []
        part = assigned(self.plan, name, "layers")
        diagram = self.plan.queries["layers"].diagram
        node = self.nodes[name] = Node(diagram, self._directory / name, settings, part=part, progress=said.append)
        node.start()
        self._opened.callback(node.stop)

    def lose_disk(self, name: str) -> None:
        self.nodes.pop(name).stop()
        shutil.rmtree(self._directory / name)

    def part(self, host: str, name: str) -> HostedPart:
        (found,) = [each for each in self.nodes[host].parts.parts if each.part.assignment.part == name]
        return found

    def address(self, host: str) -> str:
        return str(self.plan.nodes[host].address)

    def results(self, host: str) -> list[Row]:
        return rows_of(read_stream(self.address(host), "sums"))

    @contextmanager
    def producer(self, first: str) -> Iterator[ab.Producer]:
        """One that begins at the first of these hosts, and sends again until it is answered."""
        with (
            ab.connect([self.address(host) for host in first]) as connection,
            connection.producer("events", "p", deadline_s=HANG_S) as producer,
        ):
            yield producer

    def close_lane(self) -> None:
        """At the host that leads it."""
        wait_for(lambda: any(self._closes(host) for host in self.nodes))

    def _closes(self, host: str) -> bool:
        with suppress(NotLeading), ab.connect(self.address(host)) as connection:
            connection.client.close_lane("events", "p")
            return True
        return False

    def lane(self, host: str) -> SharedLaneStatus:
        found = self.nodes[host].statistics().sources["events"].lanes["events/p"].shared
        assert found is not None
        return found

    def batches(self, host: str) -> dict[str, int]:
        return {name: stage.batches for name, stage in self.nodes[host].statistics().stages.items()}


@contextmanager
def deployed(directory: Path) -> Iterator[Hosts]:
    with ExitStack() as opened:
        hosts = Hosts(directory, opened)
        for name in hosts.plan.nodes:
            hosts.start(name)
        yield hosts


@cache
def expected(count: int) -> list[Row]:
    run = ReferenceRun(Query.from_yaml(QUERY).checked())
    start_us = int(START.timestamp()) * 1_000_000
    tuples = [
        Tuple(origin="events/p", stime=start_us + 50_000 * number, tid=number + 1, values=row)
        for number, row in enumerate(rows(0, count))
    ]
    run.feed("events", tuples, {"events/p": CLOSED_US})
    return [Row.of(each) for each in run.results()["sums"]]


def is_complete(hosts: Hosts, host: str, count: int) -> bool:
    return len(hosts.results(host)) == len(expected(count))


def test_a_replica_is_rebuilt_while_all_else_of_its_host_runs_on(tmp_path: Path) -> None:
    """The entry point of b and its replica of ``sums`` are neither closed nor begun anew, and go on meanwhile."""
    with deployed(tmp_path) as hosts, hosts.producer("bc") as producer:
        producer.push(rows(0, 600))
        wait_for(lambda: len(hosts.results("b")) == 2 and len(hosts.results("c")) == 2)
        totals, sums, entry = hosts.part("b", "totals"), hosts.part("b", "sums"), hosts.part("b", "")
        runner, streams, life = sums.runners["sums"], entry.streams, sums._directory.life
        before, old = hosts.batches("b")["sums"], totals._directory.life
        held = totals._rebuild
        states: list[str] = []

        def slow() -> Any:
            """While it is closed, rows come in here, and the other replica makes batches of what a sends."""
            producer.push(rows(600, 1_200))
            wait_for(lambda: entry.streams.logs["events"][1].last_id() == 1_200)
            wait_for(lambda: len(hosts.results("b")) == 5)
            found = hosts.nodes["b"].statistics().parts
            states.extend(f"{name} {part.state}" for name, part in found.items())
            return held()

        totals._rebuild = slow  # type: ignore[method-assign]
        totals._needs_rebuild("The test says so.")
        wait_for(lambda: "totals: rebuilt" in hosts.said["b"], lambda: hosts.said["b"])
        wait_for(lambda: totals.state() == "running")
        assert sorted(states) == ["entry running", "sums running", "totals rebuilding"]
        assert sums.runners["sums"] is runner
        assert entry.streams is streams
        assert (sums._directory.life, totals._directory.life != old) == (life, True)
        assert hosts.batches("b")["sums"] > before
        hosts.lose_disk("a")  # only the rebuilt one has what its windows held before
        producer.push(rows(1_200, 1_800))
        hosts.close_lane()
        wait_for(lambda: all(is_complete(hosts, host, 1_800) for host in "bc"), hosts.nodes["b"].statistics)
        for host in "bc":
            assert same_rows(expected(1_800), hosts.results(host)) == []
            assert nothing_twice(hosts.results(host)) == []


def test_a_host_that_is_both_and_loses_its_disk_has_all_of_it_back(tmp_path: Path) -> None:
    """Its entry point learns from the others, and each of its replicas is rebuilt from its own peer."""
    with deployed(tmp_path) as hosts, hosts.producer("cb") as producer:
        producer.push(rows(0, 600))
        wait_for(lambda: len(hosts.results("b")) == 2 and len(hosts.results("c")) == 2)
        hosts.lose_disk("b")
        producer.push(rows(600, 1_200))
        wait_for(lambda: len(hosts.results("c")) == 5)
        hosts.start("b")
        wait_for(lambda: {"totals: rebuilt", "sums: rebuilt"} <= set(hosts.said["b"]), lambda: hosts.said["b"])
        assert {"totals: rebuilding from a", "sums: rebuilding from c"} <= set(hosts.said["b"])
        wait_for(lambda: hosts.nodes["b"].statistics().state == "running")
        wait_for(lambda: hosts.lane("b").state != "learns", lambda: hosts.lane("b"))
        hosts.lose_disk("a")
        producer.push(rows(1_200, 1_800))
        hosts.close_lane()
        wait_for(lambda: all(is_complete(hosts, host, 1_800) for host in "bc"), hosts.nodes["b"].statistics)
        for host in "bc":
            assert same_rows(expected(1_800), hosts.results(host)) == []
            assert nothing_twice(hosts.results(host)) == []
