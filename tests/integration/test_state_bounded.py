"""State stays bounded: a million groups that come and go leave nothing behind, in any box that holds some.

Rows and bytes are Spark's own account of its state. Its files hold what was overwritten or removed until they are
compacted, which Spark otherwise does when it likes; here it does so with every batch, so that the bytes are those of
what is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.node.node import Node
from tests.recording import HOUR_US
from tests.spark import running

GROUPS = 1_000_000
PIECE = 50_000
ROW_US = 100
"""Ten thousand groups a second of stream time."""
HELD = 10_000
"""Groups that a window of a second, or either side of a Join, holds while the lanes are open."""
CACHE_BYTES = 12 << 20
"""What one store of Spark may keep in memory: a cache of 8 MiB, which fills up, and what it needs to write."""
STATEFUL = ("sums", "join", "counts", "dedup", "session", "latest")

CONF = {
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "true",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
}

pytestmark = [pytest.mark.spark, pytest.mark.long]


def query() -> ab.Query:
    q = ab.Query("groups")
    left = q.source("left", "key bigint, at timestamp", time="at")
    right = q.source("right", "other bigint, at timestamp", time="at")
    q.output("sums", left.aggregate("count(*) AS n", by="key", window="1s", name="sums"))
    q.output("pairs", left.join(right.map("other", name="others"), on="key = other", within="1s", name="join"))
    twice = q.union(left, right.map("other AS key, at", name="renamed"), name="both")
    q.output("counts", twice.aggregate("count(*) AS n", by="key", rows=2, name="counts"))
    q.output("once", left.dedup("key", horizon="1s", name="dedup"))
    q.output("visits", left.session("count(*) AS n", by="key", gap="1s", name="session"))
    q.output("known", left.latest(right.map("other", name="table"), on="key = other", within="1s", name="latest"))
    q.output("some", left.drop(0.5, name="drop"))
    return q


@dataclass(frozen=True, slots=True)
class State:
    """What the state of a stage holds after a batch, as Spark tells it."""

    rows: int
    file_bytes: int
    memory_bytes: int
    stores: int

    @classmethod
    def of(cls, progress: Any) -> State:
        operators = progress.stateOperators
        return cls(
            rows=sum(each.numRowsTotal for each in operators),
            file_bytes=sum(each.customMetrics["rocksdbSstFileSize"] for each in operators),
            memory_bytes=sum(each.memoryUsedBytes for each in operators),
            stores=sum(each.numStateStoreInstances for each in operators),
        )


def states(node: Node, stage: str) -> list[State]:
    """After each batch of a stage; none where it has no state."""
    handle: Any = node.hosted.runners[stage]._run._query.handle
    return [State.of(progress) for progress in handle.recentProgress if progress.stateOperators]


def push_groups(producers: dict[str, ab.Producer], first_group: int, end_group: int) -> None:
    for first in range(first_group, end_group, PIECE):
        numbers = np.arange(first, first + PIECE, dtype=np.int64)
        at = pa.array((numbers + 10_000) * ROW_US).cast(pa.timestamp("us", "UTC"))
        producers["left"].push(pa.RecordBatch.from_pydict({"key": pa.array(numbers), "at": at}))
        producers["right"].push(pa.RecordBatch.from_pydict({"other": pa.array(numbers), "at": at}))


def settle(node: Node) -> None:
    deadline = time.monotonic() + 900
    while not node.wait_caught_up(30):
        assert node.failure() is None
        assert time.monotonic() < deadline, node.statistics()["stages"]
    time.sleep(1)  # Spark tells of a batch after it is logged


@pytest.fixture
def compacting() -> Iterator[dict[str, str]]:
    """Settings of the session that other tests, which share it, do not have."""
    yield CONF
    session = SparkSession.builder.getOrCreate()
    for name in CONF:
        session.conf.unset(name)


def test_a_million_groups_leave_nothing_behind(tmp_path: Path, compacting: dict[str, str]) -> None:
    with (
        running(query(), tmp_path / "state", conf=compacting, boundary_interval_us=HOUR_US, batch_rows=100_000) as node,
        ab.connect(node.address) as connection,
    ):
        producers = {name: connection.producer(name, "test") for name in ("left", "right")}
        push_groups(producers, 0, GROUPS // 2)
        settle(node)
        half = {stage: states(node, stage)[-1] for stage in STATEFUL}
        push_groups(producers, GROUPS // 2, GROUPS)
        settle(node)
        for stage in STATEFUL:
            now = states(node, stage)[-1]
            told = f"{stage}: {half[stage]} after half of the groups, {now} after all"
            assert 0 < now.rows <= 2.5 * HELD, told
            assert 0 < now.file_bytes <= 1.5 * half[stage].file_bytes, told
        for producer in producers.values():
            producer.close_lane()
        settle(node)
        outputs = ("sums", "pairs", "counts", "once", "visits", "known")
        assert {name: node.stream(name).last_id for name in outputs} == dict.fromkeys(outputs, GROUPS)
        assert node.stream("some").last_id == pytest.approx(GROUPS / 2, rel=0.01)
        assert states(node, "left") == [], "a Drop remembers nothing"
        for stage in STATEFUL:
            all_batches = states(node, stage)
            told = f"{stage}: {all_batches}"
            assert max(each.rows for each in all_batches) < GROUPS // 2, told
            assert all(each.memory_bytes <= each.stores * CACHE_BYTES for each in all_batches), told
            assert (all_batches[-1].rows, all_batches[-1].file_bytes) == (0, 0), told
