"""A query on four nodes: an entry point, two replicas, and a node behind them, which reads both and misses neither."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.bench.processes import free_ports
from anabranch.model.names import reader_name
from anabranch.model.times import CLOSED_US, format_time
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.graph import stages
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.assigning import assigned
from tests.chaos.checkers import Row, ids_contiguous, nothing_twice, rows_of, same_rows
from tests.chaos.clients import read_stream
from tests.spark import LIGHT, QUICK_JVM
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, tzinfo=UTC)
REPLICAS = ("a", "b")


def diagram(**source: Any) -> Diagram:
    query = ab.Query("layers")
    events = query.source("events", "k int, x bigint, at timestamp", time="at", **source)
    totals = events.aggregate("sum(x) AS total", by="k", window="1s", name="totals")
    query.output("sums", totals.aggregate("sum(total) AS total, count(*) AS n", window="10s", name="sums"))
    query.output("every_second", totals)
    return query.checked()


def rows(first: int, last: int) -> list[dict[str, object]]:
    """Two a tenth of a second."""
    return [
        {"k": number % 3, "x": number, "at": START + timedelta(milliseconds=50 * number)}
        for number in range(first, last)
    ]


class Deployment:
    """The nodes, by name, in this process. Each can stop and start again where it was."""

    def __init__(
        self, directory: Path, opened: ExitStack, log_bytes: int = limits.LOG_BYTES, query: Diagram | None = None
    ) -> None:
        self._directory = directory
        self._opened = opened
        self._log_bytes = log_bytes
        self._ports = dict(zip(("entry", *REPLICAS, "end"), free_ports(4), strict=True))
        self.said: dict[str, list[str]] = {}
        self.nodes: dict[str, Node] = {}
        self._diagram = query or diagram()

    def start(self, name: str) -> None:
        conf = {"spark.driver.extraJavaOptions": QUICK_JVM, **LIGHT}
        settings = NodeSettings(
            master="local[2]",
            conf=conf,
            port=self._ports[name],
            disk_reserve_bytes=1 << 20,
            log_bytes=self._log_bytes,
        )
        said = self.said[name] = []
        node = Node(self._diagram, self._directory / name, settings, part=self._part(name), progress=said.append)
        node.start()
        self.nodes[name] = node
        self._opened.callback(node.stop)

    def stop(self, name: str) -> None:
        self.nodes.pop(name).stop()

    def lose_disk(self, name: str) -> None:
        self.stop(name)
        shutil.rmtree(self._directory / name)

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def _part(self, name: str) -> AssignedQuery:
        totals, sums = (stage.name for stage in stages(self._diagram))
        if name == "entry":
            readers = [reader_name(totals, replica) for replica in REPLICAS]
            return assigned(self._diagram, name, entries=["events"], readers={"events": readers})
        if name in REPLICAS:
            others = {other: self.address(other) for other in REPLICAS if other != name}
            return assigned(
                self._diagram,
                name,
                stages=[totals],
                upstream={"events": {"entry": self.address("entry")}},
                readers={"box:totals": (reader_name(sums, "end"),)},
                siblings=others,
                compared={"every_second": others},
            )
        copies = {replica: self.address(replica) for replica in REPLICAS}
        return assigned(self._diagram, name, stages=[sums], upstream={"box:totals": copies})


@contextmanager
def deployed(directory: Path, log_bytes: int = limits.LOG_BYTES, query: Diagram | None = None) -> Iterator[Deployment]:
    with ExitStack() as opened:
        deployment = Deployment(directory, opened, log_bytes, query)
        for name in ("entry", *REPLICAS, "end"):
            deployment.start(name)
        yield deployment


def results(deployment: Deployment) -> list[Row]:
    return rows_of(read_stream(deployment.address("end"), "sums"))


def compared(node: Node) -> dict[str, dict[str, str]]:
    """By copy and origin, up to when the output that clients read is the same here and there."""
    return {copy: facts.compared for copy, facts in node.statistics().compared["every_second"].items()}


@cache
def expected(count: int) -> list[Row]:
    run = ReferenceRun(diagram())
    start_us = int(START.timestamp()) * 1_000_000
    tuples = [
        Tuple(origin="events/0", stime=start_us + 50_000 * number, tid=number + 1, values=row)
        for number, row in enumerate(rows(0, count))
    ]
    run.feed("events", tuples, {"events/0": CLOSED_US})
    return [Row.of(each) for each in run.results()["sums"]]


@pytest.mark.long
def test_a_replica_that_stops_interrupts_changes_and_repeats_nothing(tmp_path: Path) -> None:
    with deployed(tmp_path) as deployment:
        assert deployment.nodes["entry"].hosted._spark is None
        with ab.connect(deployment.address("entry")) as connection:
            connection.push("events", rows(0, 600))  # 30 s
            wait_for(lambda: len(results(deployment)) == 2)
            deployment.stop("a")
            connection.push("events", rows(600, 1_200))
            wait_for(lambda: len(results(deployment)) == 5)
            deployment.start("a")
            deployment.stop("b")
            connection.push("events", rows(1_200, 1_800))
            wait_for(lambda: len(results(deployment)) == 8)
            deployment.start("b")
            connection.client.close_lane("events")
            wait_for(lambda: len(results(deployment)) == len(expected(1_800)))
        found = results(deployment)
        assert same_rows(expected(1_800), found) == []
        assert nothing_twice(found) == ids_contiguous(found) == []
        copies = deployment.nodes["end"].statistics().inlets["box:totals"]
        assert all(copies[replica].state == "read" for replica in REPLICAS)
        assert copies["b"].first > 0  # while the other was away


def test_a_replica_that_lost_its_disk_is_rebuilt_while_the_other_goes_on(tmp_path: Path) -> None:
    with deployed(tmp_path) as deployment, ab.connect(deployment.address("entry")) as connection:
        before = deployment.nodes["a"].stream("box:totals").incarnation
        connection.push("events", rows(0, 600))
        wait_for(lambda: len(results(deployment)) == 2)
        deployment.lose_disk("a")
        connection.push("events", rows(600, 1_200))
        wait_for(lambda: len(results(deployment)) == 5)
        deployment.start("a")
        assert {"rebuilding from b", "rebuilt"} <= set(deployment.said["a"])
        after = deployment.nodes["a"].stream("box:totals")
        assert after.incarnation not in (before, deployment.nodes["b"].stream("box:totals").incarnation)
        deployment.lose_disk("b")
        connection.push("events", rows(1_200, 1_800))  # only the rebuilt one has it, and what its windows held before
        wait_for(lambda: len(results(deployment)) == 8)
        deployment.start("b")
        assert {"rebuilding from a", "rebuilt"} <= set(deployment.said["b"])
        connection.client.close_lane("events")
        wait_for(lambda: len(results(deployment)) == len(expected(1_800)))
        found = results(deployment)
        assert same_rows(expected(1_800), found) == []
        assert nothing_twice(found) == ids_contiguous(found) == []
        wait_for(lambda: compared(deployment.nodes["a"]) == {"b": {"totals": "closed"}})
        assert all(node.statistics().alarms == {} for node in deployment.nodes.values())


def test_a_replica_that_computes_something_else_is_found_where_no_node_reads_it(tmp_path: Path) -> None:
    """The smallest deployment: an entry point, two replicas, and a client. One of them has another version of a box."""
    ports = dict(zip(("entry", *REPLICAS), free_ports(3), strict=True))
    with ExitStack() as opened:
        for name, port in ports.items():
            query = ab.Query("odd")
            events = query.source("events", "x bigint, at timestamp", time="at")
            query.output("odd", events.filter("x % 2 = 1" if name != "b" else "x % 2 = 1 AND x <> 333", name="odd"))
            settings = NodeSettings(
                master="local[1]",
                conf={"spark.driver.extraJavaOptions": QUICK_JVM, **LIGHT},
                port=port,
                disk_reserve_bytes=1 << 20,
            )
            made, addresses = query.checked(), {each: f"127.0.0.1:{ports[each]}" for each in ports}
            entry = assigned(made, name, entries=["events"], readers={"events": [f"odd@{each}" for each in REPLICAS]})
            replica = assigned(
                made,
                name,
                stages=[stage.name for stage in stages(made)],
                upstream={"events": {"entry": addresses["entry"]}},
                compared={"odd": {other: addresses[other] for other in REPLICAS if other != name}},
            )
            part = entry if name == "entry" else replica
            node = opened.enter_context(Node(query, tmp_path / name, settings, part=part))
            if name == "a":
                first = node
        with ab.connect(addresses["entry"]) as connection:
            connection.push("events", [{"x": x, "at": START + timedelta(milliseconds=50 * x)} for x in range(1_000)])
            connection.client.close_lane("events")
        wait_for(lambda: bool(first.statistics().alarms))
        (alarm,) = first.statistics().alarms["odd"].latest
        assert (alarm.stream, alarm.origin) == ("odd", "events/0")
        begin = START + timedelta(seconds=10)  # 333 comes after 16.65 s
        assert (alarm.start, alarm.end) == tuple(
            format_time(int(each.timestamp()) * 1_000_000) for each in (begin, begin + timedelta(seconds=10))
        )
        assert {copy: facts.rows for copy, facts in alarm.copies.items()} == {"a": 100, "b": 99}


@pytest.mark.long
def test_a_replica_that_was_cut_off_is_rebuilt_while_it_runs(tmp_path: Path) -> None:
    """The log of the entry point was full, and waited for the faster replica only."""
    with deployed(tmp_path, log_bytes=40_000) as deployment, ab.connect(deployment.address("entry")) as connection:
        connection.push("events", rows(0, 600))
        wait_for(lambda: len(results(deployment)) == 2)
        deployment.stop("a")
        for first in range(600, 1_800, 100):
            connection.push("events", rows(first, first + 100))
        entry = deployment.nodes["entry"]
        wait_for(lambda: entry.hosted.streams._served["events"].is_cut_off("replica:totals@a"))
        deployment.start("a")
        wait_for(lambda: "rebuilt" in deployment.said["a"])
        a = deployment.nodes["a"]
        wait_for(lambda: a.statistics().state == "running")
        assert any(
            said.startswith("must be rebuilt: It lacks tuples that no reachable copy") for said in deployment.said["a"]
        )
        assert not entry.hosted.streams._served["events"].is_cut_off("replica:totals@a")
        wait_for(lambda: len(results(deployment)) == 8)
        deployment.stop("b")
        connection.push("events", rows(1_800, 2_400))
        connection.client.close_lane("events")
        wait_for(lambda: len(results(deployment)) == len(expected(2_400)))
        found = results(deployment)
        assert same_rows(expected(2_400), found) == []
        assert nothing_twice(found) == ids_contiguous(found) == []
