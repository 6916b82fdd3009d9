"""Batches of a Spark source into lanes, without Spark: partitions and offsets as in Kafka, batches that come again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.engine.feed import FeedBatch, bounded
from anabranch.errors import NodeUnreachable, PushRefused, StateError
from anabranch.node.spark_feeding import Intake
from anabranch.query.boxes import Column, Source
from anabranch.query.connectors import SparkFeed
from tests.unit.node.test_entry import Bench, held, open_bench

KAFKA = SparkFeed(format="kafka", lane="partition", number="offset")
PARTITIONED = Source(name="s", schema=(Column("x", "bigint"),), producers=("p0", "p1"), feed=KAFKA)
PLAIN = Source(name="s", schema=(Column("x", "bigint"),), feed=SparkFeed(format="json"))


@pytest.fixture
def partitioned(tmp_path: Path) -> Iterator[Bench]:
    bench = open_bench(tmp_path / "s.db", PARTITIONED)
    yield bench
    bench.store.close()


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Bench]:
    bench = open_bench(tmp_path / "plain.db", PLAIN)
    yield bench
    bench.store.close()


def intake(bench: Bench, stopping: threading.Event | None = None) -> Intake:
    """As after a restart."""
    feed = bench.entry.source.feed
    assert isinstance(feed, SparkFeed)
    return Intake(bench.entry, feed, "feed/x", stopping or threading.Event())


def messages(*found: tuple[str | None, int | None, int], batch_id: int = 0) -> FeedBatch:
    lanes, numbers, values = zip(*found, strict=True)
    rows = pa.table(
        {
            "_lane": pa.array(lanes, pa.string()),
            "_number": pa.array(numbers, pa.int64()),
            "x": pa.array(values, pa.int64()),
        }
    )
    return FeedBatch(lineage="l", batch_id=batch_id, offsets="", rows=rows)


def values(bench: Bench) -> list[tuple[int, int]]:
    return [(tid, x) for tid, _, x in held(bench)]


def test_partition_and_offset_are_lane_and_number(partitioned: Bench) -> None:
    batch = messages(("p1", 0, 10), ("p0", 1, 2), ("p0", 0, 1), ("p1", 1, 11))
    intake(partitioned).take(batch)
    assert values(partitioned) == [(1, 1), (2, 2), (1, 10), (2, 11)]


def test_a_batch_that_comes_again_changes_nothing(partitioned: Bench) -> None:
    batch = messages(("p0", 0, 1), ("p0", 1, 2), ("p1", 0, 10))
    for _ in range(3):
        intake(partitioned).take(batch)
    longer = messages(("p0", 0, 1), ("p0", 1, 2), ("p0", 2, 3), ("p0", 2, 3))
    intake(partitioned).take(longer)
    assert sorted(values(partitioned)) == [(1, 1), (1, 10), (2, 2), (3, 3)]


def test_offsets_that_are_missing_are_given_up(partitioned: Bench) -> None:
    intake(partitioned).take(messages(("p0", 5, 5), ("p0", 6, 6), ("p0", 9, 9)))
    assert values(partitioned) == [(6, 5), (7, 6), (10, 9)]
    lanes = partitioned.entry.statistics().lanes
    assert lanes["s/p0"].next_number == 11


@pytest.mark.parametrize(
    ("message", "words"),
    [(("p2", 0, 1), "p0, p1"), ((None, 0, 1), "no lane"), (("p0", None, 1), "no number"), (("p0", -1, 1), "below 0")],
)
def test_a_message_that_fits_no_lane_is_refused(
    partitioned: Bench, message: tuple[str | None, int | None, int], words: str
) -> None:
    with pytest.raises(PushRefused) as caught:
        intake(partitioned).take(messages(("p0", 0, 0), message))
    assert words in str(caught.value)
    assert values(partitioned) == []


def rows(*found: int, batch_id: int, lineage: str = "l", offsets: str | None = None) -> FeedBatch:
    table = pa.table({"x": pa.array(found, pa.int64())})
    return FeedBatch(lineage=lineage, batch_id=batch_id, offsets=offsets or f"to {batch_id}", rows=table)


def test_without_numbers_a_batch_is_taken_once(plain: Bench) -> None:
    for _ in range(2):  # Spark runs a batch again, whose rows may come in another order
        intake(plain).take(rows(1, 2, batch_id=0))
        intake(plain).take(rows(2, 1, batch_id=0))
    intake(plain).take(rows(3, batch_id=1))
    intake(plain).take(rows(3, batch_id=1))
    assert [x for _, x in values(plain)] == [1, 2, 3]


def test_a_batch_that_was_noted_and_not_pushed_is_pushed(plain: Bench) -> None:
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(NodeUnreachable):
        intake(plain, stopping).take(rows(1, 2, batch_id=0))
    assert values(plain) == []
    intake(plain).take(rows(1, 2, 3, batch_id=0, offsets="planned anew"))
    assert [x for _, x in values(plain)] == [1, 2, 3]


def test_what_is_known_to_be_taken_is_where_spark_may_go_on(plain: Bench, partitioned: Bench) -> None:
    assert intake(plain).taken() is None
    intake(plain).take(rows(1, batch_id=0))
    assert intake(plain).taken() == 0
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(NodeUnreachable):
        intake(plain, stopping).take(rows(2, batch_id=1))
    assert intake(plain).taken() == 0
    intake(partitioned).take(messages(("p0", 0, 1), batch_id=3))
    assert intake(partitioned).taken() == 3


@pytest.mark.parametrize(
    "again",
    [
        rows(1, batch_id=0),
        rows(4, batch_id=1, offsets="elsewhere"),
        rows(4, batch_id=1, lineage="another checkpoint"),
    ],
)
def test_a_checkpoint_that_was_set_back_is_told(plain: Bench, again: FeedBatch) -> None:
    intake(plain).take(rows(1, 2, batch_id=0))
    intake(plain).take(rows(3, batch_id=1))
    with pytest.raises(StateError, match="older than the source's log"):
        intake(plain).take(again)
    assert [x for _, x in values(plain)] == [1, 2, 3]


def test_a_batch_is_bounded_where_spark_would_take_all(plain: Bench) -> None:
    assert bounded(KAFKA) == {"maxOffsetsPerTrigger": "250000"}
    assert bounded(SparkFeed(format="json")) == {"maxBytesPerTrigger": str(128 << 20)}
    given = SparkFeed(format="json", options=(("maxFilesPerTrigger", "3"),))
    assert bounded(given) == {"maxFilesPerTrigger": "3"}
