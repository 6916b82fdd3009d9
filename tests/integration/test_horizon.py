"""The horizon with real entry points and replicas, over real Flight, without Spark: a lane that runs ahead is held, and
nobody is held by what is gone, unknown or closed.

The replicas have no stage: theirs is what their inlets store, and what they report of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.core.horizon import UNKNOWN, Slowest
from anabranch.errors import Overloaded
from anabranch.model.ids import QueryId
from anabranch.node.dialer import Dialer, direct
from anabranch.node.inlets import Inlets
from anabranch.node.part_reports import PartReports
from anabranch.query.boxes import Diagram
from anabranch.query.graph import stages
from anabranch.query.parts import parts
from anabranch.runtime.status import HeldLaneStatus
from anabranch.storage.log import Log
from anabranch.storage.store import Store
from tests.assigning import assigned
from tests.integration.entry_points import EntryPoints, entry_points
from tests.waiting import wait_for

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
REPLICAS = ("one", "two")


def query() -> Diagram:
    made = ab.Query("together")
    events = made.source(
        "events", "x bigint, at timestamp", time="at", producers=["fast", "slow"], horizon="10s", silence="1h"
    )
    made.output("all", events.filter("x >= 0"))
    return made.checked()


STAGE = stages(query())[0].name


class Replica:
    """Reads all copies of the source into a journal, and reports. Its housekeeper is whoever calls ``watch``."""

    def __init__(self, name: str, directory: Path, points: EntryPoints, dialer: Dialer) -> None:
        upstream = {"events": {each: points.address(each) for each in points.names}}
        (part,) = parts(assigned(points.query, name, stages=[STAGE], upstream=upstream))
        spec = next(iter(points.nodes.values())).hosted.streams.logs["events"][1].spec
        self._store = Store.open(directory / f"{name}.db")
        logs: Mapping[str, tuple[Store, Log]] = {"events": (self._store, self._store.create_log(spec))}
        reports = PartReports(part, logs)
        self._inlets = Inlets(
            part, name, clock=time.time_ns, dialer=dialer, rebuild=pytest.fail, holds={}, slowest=reports.slowest
        )
        self._inlets.open(*logs["events"])
        self.slowest = reports.slowest

    def watch(self) -> None:
        self._inlets.watch()

    def stop(self) -> None:
        self._inlets.stop()
        self._store.close()


class Bench:
    """Three entry points, replicas that come and go, and two producers."""

    def __init__(self, directory: Path, points: EntryPoints) -> None:
        self._directory = directory
        self.points = points
        self._dialer = Dialer(direct).about(QueryId(points.query.name))
        self.replicas: dict[str, Replica] = {}

    def start(self, *names: str) -> None:
        for name in names:
            self.replicas[name] = Replica(name, self._directory, self.points, self._dialer)

    def stop(self, *names: str) -> None:
        for name in names:
            self.replicas.pop(name).stop()

    def close(self) -> None:
        self.stop(*list(self.replicas))
        self._dialer.close()

    def push(self, lane: str, *seconds: float, patience_s: float = 60.0) -> None:
        with ab.connect(self.points.addresses()) as connection:
            producer = connection.producer("events", lane, deadline_s=patience_s)
            producer.push([{"x": 1, "at": NOON + timedelta(seconds=each)} for each in seconds])

    def known(self) -> list[Slowest]:
        """What the entry points know of the slowest lane."""
        for replica in self.replicas.values():
            replica.watch()
        return [node.hosted.streams.reports.waits_for("events") for node in self.points.nodes.values()]

    def wait_known(self, seconds: float, lane: str) -> None:
        expected = Slowest(at(seconds), f"events/{lane}")
        wait_for(lambda: all(each == expected for each in self.known()), self.known)

    def held(self, lane: str) -> list[HeldLaneStatus]:
        found = [
            node.statistics().sources["events"].lanes[f"events/{lane}"].held for node in self.points.nodes.values()
        ]
        return [each for each in found if each is not None]


def at(seconds: float) -> int:
    return round((NOON + timedelta(seconds=seconds)).timestamp() * 1_000_000)


@contextmanager
def bench(directory: Path) -> Iterator[Bench]:
    readers = tuple(f"{STAGE}@{name}" for name in REPLICAS)
    with entry_points(directory, query=query(), readers=readers) as points:
        points.start()
        made = Bench(directory, points)
        try:
            yield made
        finally:
            made.close()


def test_a_lane_that_runs_ahead_is_held_until_the_slow_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEAD_WAIT_S", 0.5)
    with bench(tmp_path) as made:
        made.start(*REPLICAS)
        made.push("fast", 0, 5)
        made.push("slow", 1)
        made.wait_known(1, "slow")
        made.push("fast", 11)
        with pytest.raises(Overloaded, match=r"'fast' of source 'events' .* ahead of events/slow, which is at"):
            made.push("fast", 12, patience_s=0)
        (held,) = made.held("fast")
        assert held == HeldLaneStatus(origin="events/slow", punctuation_us=at(1), latest_us=at(12))
        made.push("slow", 300)
        made.wait_known(11, "fast")
        assert made.held("fast") == []
        made.push("fast", 12)
        with pytest.raises(Overloaded, match="ahead of events/fast"):
            made.push("slow", 301, patience_s=0)


def test_neither_an_entry_point_that_restarts_nor_a_replica_that_has_not_reported_holds_anybody(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        made.push("slow", 0)
        made.push("fast", 0)
        made.push("fast", 100)
        made.start("one")
        made.wait_known(0, "slow")
        with pytest.raises(Overloaded):
            made.push("fast", 101, patience_s=0)
        made.stop("one")
        made.points.stop(*made.points.names)
        made.points.start()
        assert set(made.known()) == {UNKNOWN}
        made.push("fast", 200)


def test_a_replica_that_died_holds_nobody_while_another_reports(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        made.start(*REPLICAS)
        made.push("slow", 0)
        made.push("fast", 5)
        made.wait_known(0, "slow")
        with pytest.raises(Overloaded):
            made.push("fast", 60, patience_s=0)
        made.stop("one")
        made.push("slow", 50)
        made.wait_known(5, "fast")
        made.push("fast", 60)


def test_a_lane_that_has_not_begun_and_a_lane_that_is_closed_hold_nobody(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        made.start(*REPLICAS)
        made.push("fast", 0)
        made.push("fast", 100)
        made.push("slow", 0)
        made.wait_known(0, "slow")
        with pytest.raises(Overloaded):
            made.push("fast", 101, patience_s=0)
        with ab.connect(made.points.addresses()) as connection:
            connection.producer("events", "slow").close_lane()
        made.wait_known(100, "fast")
        made.push("fast", 1_000)
