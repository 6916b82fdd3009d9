"""A stage with a trickle of rows runs few batches; the first row, many rows and whoever waits for results wait for
none."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.node.node import Node
from tests.spark import running
from tests.waiting import HANG_S, wait_for

pytestmark = pytest.mark.spark

T0 = datetime(2026, 5, 1, tzinfo=UTC)
INTERVAL_S = 0.5
HOUR_US = 3_600_000_000


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches begin as far apart as the setting says, however little they take; and no held question is given up."""
    monkeypatch.setattr(limits, "PACE_BATCHES", 1_000_000)
    monkeypatch.setattr(limits, "NEWS_WAIT_S", limits.SPARK_ANSWER_S / 2)


def row(number: int) -> dict[str, Any]:
    return {"x": number, "at": T0 + timedelta(seconds=number)}


def batches(node: Node) -> int:
    (stage,) = node.statistics().stages.values()
    return int(stage.batches)


def rows_of(connection: ab.Connection, stream: str) -> list[dict[str, Any]]:
    read = connection.subscribe(stream, start="start", follow=False)
    return [row for batch in read for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]


def test_ten_rows_a_second_make_few_batches_and_all_results(tmp_path: Path) -> None:
    query = ab.Query("trickle")
    events = query.source("events", "x int, at timestamp", time="at")
    query.output("sums", events.aggregate("sum(x) AS total, count(*) AS n", window="20s"))
    with (
        running(query, tmp_path / "state", batch_interval_us=round(INTERVAL_S * 1_000_000)) as node,
        ab.connect(node.address) as connection,
    ):
        before, began = batches(node), time.monotonic()
        for number in range(50):
            connection.push("events", [row(number)])
            time.sleep(0.1)
        windows = 2
        wait_for(lambda: len(rows_of(connection, "sums")) == windows)
        made, took_s = batches(node) - before, time.monotonic() - began
        assert [(each["total"], each["n"]) for each in rows_of(connection, "sums")] == [(190, 20), (590, 20)]
        assert made <= 2 + windows + took_s / INTERVAL_S


def test_the_first_row_and_many_rows_wait_for_nothing(tmp_path: Path) -> None:
    query = ab.Query("first")
    query.output("all", query.source("events", "x int, at timestamp", time="at").filter("x >= 0"))
    with (
        running(query, tmp_path / "state", batch_interval_us=HOUR_US) as node,
        ab.connect(node.address) as connection,
    ):
        connection.push("events", [row(0)])
        wait_for(lambda: len(rows_of(connection, "all")) == 1)
        before = batches(node)
        connection.push("events", [row(1)])
        connection.push("events", [row(number) for number in range(2, limits.PACE_ROWS + 1)])
        wait_for(lambda: len(rows_of(connection, "all")) == 1 + limits.PACE_ROWS)
        assert batches(node) == before + 1, "the one row and the many have one batch"
        connection.push("events", [row(1_000)])
        assert node.wait_caught_up(HANG_S)
        assert len(rows_of(connection, "all")) == 2 + limits.PACE_ROWS


@pytest.mark.parametrize("box", ["filter", "join", "window"])
def test_boundaries_reach_the_output_without_a_batch(box: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UPKEEP_WAIT_S", limits.NEWS_WAIT_S)
    query = ab.Query("quiet")
    left, right = query.source("left", "x int"), query.source("right", "y int")
    made = {
        "filter": lambda: query.union(left, right.map("y AS x")),
        "join": lambda: left.join(right, on="x = y", within="1s"),
        "window": lambda: query.union(left, right.map("y AS x")).aggregate("count(*) AS n", window="1000d"),
    }[box]()
    query.output("out", made)
    with (
        running(query, tmp_path / "state", batch_interval_us=100_000) as node,
        ab.connect(node.address) as connection,
    ):
        connection.push("left", [{"x": 1}])
        assert node.wait_caught_up(HANG_S)

        def promised() -> int:
            return min(node.statistics().streams["out"].punctuations.values(), default=0)

        before, promises = batches(node), [promised()]
        while len(promises) < 4:
            wait_for(lambda: promised() > promises[-1], lambda: str(promises))
            promises.append(promised())
        assert batches(node) == before
        connection.push("left", [{"x": 2}])
        connection.push("right", [{"y": 2}])
        assert node.wait_caught_up(HANG_S)
        assert len(rows_of(connection, "out")) == {"filter": 3, "join": 1, "window": 0}[box]
