"""A shard gives the same windows whatever its parts are, touches only the parts it must, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues
from pyspark.sql.streaming.tws_tester import TwsTester

from anabranch.engine import shards
from anabranch.engine.counting import FROM, TO, CountWindows
from anabranch.engine.packing import ROWS, decode, encode
from anabranch.engine.shards import OrderedRows, Shard
from anabranch.errors import StateError
from anabranch.model.header import STIME
from tests.unit.engine.test_counting import Row, batch, put_into_windows, rows_in, rows_of_groups


class Parts:
    """A part store in memory, which notes what is asked of it."""

    def __init__(self) -> None:
        self.held: dict[int, bytes] = {}
        self.asked: list[str] = []

    def get(self, part: int) -> bytes:
        self.asked.append(f"get {part}")
        return self.held[part]

    def put(self, part: int, rows: bytes) -> None:
        self.asked.append(f"put {part}")
        self.held[part] = rows

    def remove(self, part: int) -> None:
        self.asked.append(f"remove {part}")
        del self.held[part]


class Kept:
    """A shard as Spark keeps it: nothing but its parts and its summary outlives a visit."""

    def __init__(self, size: int, every: int) -> None:
        self.parts = Parts()
        self.summary: bytes | None = None
        self.box = CountWindows(size, every)

    def visit(self, rows: list[Row], watermark_us: int) -> list[tuple[int, ...]]:
        shard = Shard(self.parts, self.summary, self.box)
        made = shard.visit([batch(rows)] if rows else [], watermark_us)
        self.summary = shard.summary
        return sorted(row for each in made for row in numbered(each))

    @property
    def waits_for_us(self) -> int | None:
        """The time of the earliest row that waits."""
        wake_us = Shard(self.parts, self.summary, self.box).wake_us
        return None if wake_us is None else wake_us - 1


def numbered(made: pa.RecordBatch) -> Iterator[tuple[int, ...]]:
    bounds = (made.column(name).to_pylist() for name in (FROM, TO))
    return ((*row[:3], first, last) for row, first, last in zip(rows_in(made), *bounds, strict=True))


def row(group: int, time: int) -> Row:
    return (1, group, time, 0, time, None)


@pytest.fixture
def tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "WINDOW_PART_BYTES", 1_500)
    monkeypatch.setattr(shards, "WINDOW_PARTS", 8)


@given(rows=rows_of_groups, size=st.integers(1, 4), every=st.integers(1, 4), cuts=st.lists(st.integers(0, 25)))
@pytest.mark.usefixtures("tiny_parts")
def test_the_parts_make_no_difference(rows: list[Row], size: int, every: int, cuts: list[int]) -> None:
    every = min(every, size)
    shard, rest = Kept(size, every), batch([])
    now = 0
    for watermark in [*sorted(cuts), 30]:
        new = [each for each in rows if now <= each[2] < watermark + 5]
        now = max(now, watermark + 5)
        made, rest = put_into_windows(pa.concat_batches([rest, batch(new)]), watermark, size, every)
        assert shard.visit(new, watermark) == sorted(numbered(made))
        waiting = [time for time in rest.column(STIME).cast(pa.int64()).to_pylist() if time >= watermark]
        assert shard.waits_for_us == min(waiting, default=None)
        assert (shard.summary is None) == (rest.num_rows == 0) == (not shard.parts.held)


@pytest.mark.usefixtures("tiny_parts")
def test_more_rows_are_divided_into_more_parts_and_fewer_are_put_together() -> None:
    shard = Kept(2, 2)
    shard.visit([row(group, 1) for group in range(200)], 10)
    assert sorted(shard.parts.held) == list(range(8)), "and no more than the limit says"
    shard.visit([row(group, 11) for group in range(1, 200)], 20)
    assert sorted(shard.parts.held) == [0]
    shard.visit([row(0, 21)], 30)
    assert (shard.parts.held, shard.summary) == ({}, None)


@pytest.mark.usefixtures("tiny_parts")
def test_only_parts_with_news_are_touched() -> None:
    shard = Kept(3, 3)
    shard.visit([row(group, 1) for group in range(200)], 10)
    shard.parts.asked.clear()
    shard.visit([row(5, 50)], 10)
    assert shard.parts.asked == ["get 5", "put 5"]
    assert shard.waits_for_us == 50
    shard.parts.asked.clear()
    shard.visit([], 50)
    assert shard.parts.asked == [], "the row at 50 is not below the watermark"
    shard.visit([], 51)
    assert shard.parts.asked == ["get 5", "put 5"]
    assert shard.waits_for_us is None


def test_a_small_shard_is_one_part_and_one_trip_each_way() -> None:
    shard = Kept(3, 3)
    shard.visit([row(group, 1) for group in range(50)], 10)
    shard.visit([row(group, 11) for group in range(50)], 20)
    assert shard.parts.asked == ["put 0", "get 0", "put 0"]


class Visited(OrderedRows):
    """Tells how often it goes to its state."""

    visits = 0

    def _visit(self, new: list[pa.RecordBatch], watermark_ms: int) -> Iterator[pd.DataFrame]:
        self.visits += 1
        return super()._visit(new, watermark_ms)


def test_a_timer_has_nothing_to_do_where_new_rows_came_in_the_same_batch() -> None:
    processor = Visited(CountWindows(2, 2))
    spark = TwsTester(processor, timeMode="EventTime", eventTimeExtractor=lambda _: 99)
    spark.setWatermark(5)
    spark.testInPandas(0, pd.DataFrame({ROWS: [encode(batch([row(7, 8_000), row(7, 12_000)]))]}))
    timer = ((0,), TimerValues(0, 5), ExpiredTimerInfo(5))
    assert (list(processor.handleExpiredTimer(*timer)), processor.visits) == ([], 1)
    made = [time for value in spark.setWatermark(20)[ROWS] for _, _, time, *_ in numbered(decode(value))]
    assert (made, processor.visits) == ([8_000, 12_000], 2), "in a later batch it wakes the rows that waited"


def test_what_an_older_version_wrote_is_refused_with_a_sentence() -> None:
    """It had the bytes and the earliest time of each part, and no watermark before them."""
    older = np.stack([np.array([100]), np.array([7])]).tobytes()
    with pytest.raises(StateError, match="written by an older version of Anabranch") as told:
        Shard(Parts(), older, CountWindows(3, 3))
    assert "new state directory" in told.value.remedy
