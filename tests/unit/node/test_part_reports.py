"""What a part reports of its slowest origin, and by what the lanes that enter there are held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.core.horizon import UNKNOWN, Slowest
from anabranch.node.part_reports import PartReports
from anabranch.query.boxes import Diagram
from anabranch.query.parts import parts
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from tests.assigning import assigned

S = 1_000_000
ELSEWHERE = {"elsewhere": "127.0.0.1:1"}


def joined(horizon: str | None = "10s") -> Diagram:
    query = ab.Query("q")
    left = query.source("left", "k int, at timestamp", time="at", producers=("p", "q"), horizon=horizon)
    right = query.source("right", "k2 int, seen timestamp", time="seen", producers=("r",))
    query.output("pairs", left.join(right, on="k = k2", within="2s", name="join"))
    return query.checked()


class Logs(dict[str, tuple[Store, Log]]):
    """Of the sources, each with what its lanes have promised."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def promise(self, source: str, **seconds: int) -> None:
        if source not in self:
            store = Store.open(self._directory / f"{source}.db")
            origins = ("left/p", "left/q", "right/r")
            spec = LogSpec(
                name=source,
                schema=pa.schema([("k", pa.int32())]),
                origins=origins,
                kind="source",
                retention_us=S,
                limit_bytes=1 << 30,
            )
            self[source] = store, store.create_log(spec)
        promises = {f"{source}/{lane}": time * S for lane, time in seconds.items()}
        with self[source][0].transaction() as transaction:
            transaction.append(source, None, promises, now_us=0)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    made = Logs(tmp_path)
    yield made
    for store, _ in made.values():
        store.close()


def replica(diagram: Diagram, logs: Logs, **what: object) -> PartReports:
    """Of the Join, which reads both sources from elsewhere."""
    upstream = {"left": ELSEWHERE, "right": ELSEWHERE}
    (part,) = parts(assigned(diagram, "here", stages=["join"], upstream=upstream, **what))  # type: ignore[arg-type]
    return PartReports(part, logs)


def test_a_replica_reports_the_slowest_origin_of_all_its_inlets(logs: Logs) -> None:
    reports = replica(joined(), logs)
    assert reports.slowest() == UNKNOWN
    logs.promise("left", p=50, q=40)
    assert reports.slowest() == UNKNOWN
    logs.promise("right", r=45)
    assert reports.slowest() == (40 * S, "left/q")
    logs.promise("left", q=60)
    assert reports.slowest() == (45 * S, "right/r")


def test_a_lane_that_has_promised_nothing_is_unknown(logs: Logs) -> None:
    reports = replica(joined(), logs)
    logs.promise("left", p=50)
    logs.promise("right", r=45)
    assert reports.slowest().time_us == 0


def test_without_a_horizon_nothing_is_reported(logs: Logs) -> None:
    reports = replica(joined(None), logs)
    logs.promise("left", p=50, q=40)
    logs.promise("right", r=45)
    assert reports.slowest() == UNKNOWN


def test_what_readers_report_is_passed_on(logs: Logs) -> None:
    reports = replica(joined(), logs, readers={"pairs": ("count@a", "count@b", "writer")})
    logs.promise("left", p=50, q=40)
    logs.promise("right", r=45)
    assert reports.slowest().time_us == 0
    reports.told("replica:count@a", Slowest(20 * S, "join"))
    reports.told("replica:count@b", Slowest(30 * S, "join"))
    reports.told("replica:writer", Slowest(1 * S, "join"))
    assert reports.slowest() == (30 * S, "join")


def test_lanes_are_held_by_the_fragments_that_read_their_source(logs: Logs) -> None:
    readers = {"left": ("join@a", "join@b"), "right": ("join@a", "join@b")}
    (part,) = parts(assigned(joined(), "here", entries=["left", "right"], readers=readers))
    reports = PartReports(part, logs)
    assert reports.may_enter("left", 50 * S, 500 * S)
    reports.told("replica:join@a", Slowest(40 * S, "right/r"))
    assert not reports.may_enter("left", 50 * S, 51 * S)
    assert reports.may_enter("left", 50 * S, 50 * S)
    assert reports.waits_for("left") == (40 * S, "right/r")
    reports.told("replica:join@b", Slowest(41 * S, "right/r"))
    assert reports.may_enter("left", 50 * S, 51 * S)


def test_on_one_host_lanes_are_held_by_what_the_stages_there_read(logs: Logs) -> None:
    (part,) = parts(assigned(joined(), "", stages=["join"], entries=["left", "right"]))
    reports = PartReports(part, logs)
    logs.promise("left", p=50, q=50)
    assert reports.may_enter("left", 50 * S, 500 * S)
    logs.promise("right", r=30)
    assert not reports.may_enter("left", 50 * S, 51 * S)
    logs.promise("right", r=41)
    assert reports.may_enter("left", 50 * S, 51 * S)
