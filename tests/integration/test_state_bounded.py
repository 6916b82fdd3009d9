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
from anabranch.query.catalog import KINDS
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
FAMILIES: dict[str, tuple[str, ...]] = {
    "of Spark": ("sums", "join", "session"),
    "windows in order": ("counts", "timed", "tumble", "slide", "section"),
    "others in order": ("dedup", "latest", "resample", "wsort"),
}
"""Every kind of box with state, and how it is used: with a bound on time, where it has one."""
UNCOUNTED = ("section",)
"""All others have one result for each group."""

CONF = {
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "true",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
}

pytestmark = [pytest.mark.spark, pytest.mark.long]


def query(family: str) -> ab.Query:
    q = ab.Query("groups")
    left = q.source("left", "key bigint, at timestamp", time="at")
    right = q.source("right", "other bigint, at timestamp", time="at")
    other = right.map("other", name="others")
    twice = q.union(left, right.map("other AS key, at", name="renamed"), name="both")
    made = {
        "sums": lambda: left.aggregate("count(*) AS n", by="key", window="1s", name="sums"),
        "join": lambda: left.join(other, on="key = other", within="1s", name="join"),
        "session": lambda: left.session("count(*) AS n", by="key", gap="1s", name="session"),
        "counts": lambda: twice.aggregate("count(*) AS n", by="key", rows=2, name="counts"),
        "timed": lambda: left.aggregate("count(*) AS n", by="key", rows=2, timeout="1s", name="timed"),
        "tumble": lambda: left.tumble("count(*) AS n", by="key", name="tumble"),
        "slide": lambda: left.slide("count(*) AS n", by="key", window="1s", name="slide"),
        "section": lambda: left.xsection("count(*) AS n", by="key", window="1s", every="500ms", name="section"),
        "dedup": lambda: left.dedup("key", horizon="1s", name="dedup"),
        "latest": lambda: left.latest(other, on="key = other", within="1s", name="latest"),
        "resample": lambda: left.resample(
            right.map("other, CAST(other AS double) AS x", name="numbers"),
            "x",
            how="nearest",
            within="1s",
            on="key = other",
            name="resample",
        ),
        "wsort": lambda: left.wsort("key", timeout="1s", name="wsort")[0],
    }
    for name in FAMILIES[family]:
        q.output(f"out_{name}", made[name]())
    q.output("some", left.drop(0.5, name="drop"))
    if family == "of Spark":
        q.output("all", twice)
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
        assert time.monotonic() < deadline, node.statistics().stages
    time.sleep(1)  # Spark tells of a batch after it is logged


@pytest.fixture
def compacting() -> Iterator[dict[str, str]]:
    """Settings of the session that other tests, which share it, do not have."""
    yield CONF
    session = SparkSession.builder.getOrCreate()
    for name in CONF:
        session.conf.unset(name)


def test_every_box_with_state_is_looked_at() -> None:
    used = {type(box).__name__.lower() for family in FAMILIES for box in query(family).diagram().boxes}
    assert used >= {name for name, kind in KINDS.items() if kind.state != "none"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_million_groups_leave_nothing_behind(tmp_path: Path, compacting: dict[str, str], family: str) -> None:
    boxes = FAMILIES[family]
    with (
        running(
            query(family), tmp_path / "state", conf=compacting, boundary_interval_us=HOUR_US, batch_rows=100_000
        ) as node,
        ab.connect(node.address) as connection,
    ):
        producers = {name: connection.producer(name, "test") for name in ("left", "right")}
        push_groups(producers, 0, GROUPS // 2)
        settle(node)
        half = {stage: states(node, stage)[-1] for stage in boxes}
        push_groups(producers, GROUPS // 2, GROUPS)
        settle(node)
        for stage in boxes:
            now = states(node, stage)[-1]
            told = f"{stage}: {half[stage]} after half of the groups, {now} after all"
            assert 0 < now.rows <= 2.5 * HELD, told
            assert 0 < now.file_bytes <= 1.5 * half[stage].file_bytes, told
        for producer in producers.values():
            producer.close_lane()
        settle(node)
        made = {name: node.stream(f"out_{name}").last_id for name in boxes if name not in UNCOUNTED}
        assert made == dict.fromkeys(made, GROUPS)
        assert node.stream("some").last_id == pytest.approx(GROUPS / 2, rel=0.01)
        assert states(node, "left") == [], "a Drop remembers nothing"
        for stage in boxes:
            all_batches = states(node, stage)
            told = f"{stage}: {all_batches}"
            assert max(each.rows for each in all_batches) < GROUPS // 2, told
            assert all(each.memory_bytes <= each.stores * CACHE_BYTES for each in all_batches), told
            assert (all_batches[-1].rows, all_batches[-1].file_bytes) == (0, 0), told
