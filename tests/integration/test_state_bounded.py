"""State stays bounded: a million groups that come and go leave nothing behind, in any box that holds some."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.node.node import Node
from tests.recording import HOUR_US
from tests.spark import running

GROUPS = 1_000_000
PIECE = 50_000
ROW_US = 100
"""Ten thousand groups a second of stream time."""

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_800)]


def query() -> ab.Query:
    q = ab.Query("groups")
    left = q.source("left", "key bigint, at timestamp", time="at")
    right = q.source("right", "other bigint, at timestamp", time="at")
    q.output("sums", left.aggregate("count(*) AS n", by="key", window="1s", name="sums"))
    q.output("pairs", left.join(right.map("other", name="others"), on="key = other", within="1s", name="join"))
    twice = q.union(left, right.map("other AS key, at", name="renamed"), name="both")
    q.output("counts", twice.aggregate("count(*) AS n", by="key", rows=2, name="counts"))
    return q


def push_all(connection: ab.Connection) -> None:
    producers = {name: connection.producer(name, "test") for name in ("left", "right")}
    for first in range(0, GROUPS, PIECE):
        numbers = np.arange(first, first + PIECE, dtype=np.int64)
        at = pa.array((numbers + 10_000) * ROW_US).cast(pa.timestamp("us", "UTC"))
        producers["left"].push(pa.RecordBatch.from_pydict({"key": pa.array(numbers), "at": at}))
        producers["right"].push(pa.RecordBatch.from_pydict({"other": pa.array(numbers), "at": at}))
    for producer in producers.values():
        producer.close_lane()


def state_rows(node: Node, stage: str) -> list[int]:
    """How many rows the state of a stage had after each of its last batches."""
    handle: Any = node._runners[stage]._run._query.handle
    return [sum(each.numRowsTotal for each in progress.stateOperators) for progress in handle.recentProgress]


def test_a_million_groups_leave_nothing_behind(tmp_path: Path) -> None:
    settings = {"boundary_interval_us": HOUR_US, "batch_rows": 100_000}
    conf = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
    with running(query(), tmp_path / "state", conf=conf, **settings) as node:
        with ab.connect(node.address) as connection:
            push_all(connection)
        deadline = time.monotonic() + 1_500
        while not node.wait_caught_up(30):
            assert node.failure() is None
            assert time.monotonic() < deadline, node.statistics()["stages"]
        assert [node.stream(name).last_id for name in ("sums", "pairs", "counts")] == [GROUPS, GROUPS, GROUPS]
        time.sleep(1)  # Spark tells of a batch after it is logged
        for stage in ("sums", "join", "counts"):
            rows = state_rows(node, stage)
            assert max(rows) < GROUPS // 2, f"{stage}: {rows}"
            assert rows[-1] <= 64, f"{stage}: {rows}"  # of the one that counts, its empty parts
