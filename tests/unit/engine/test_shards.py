"""A shard gives the same windows whatever its parts are, touches only the parts it must, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine import shards
from anabranch.engine.counting import FROM, TO, CountWindows
from anabranch.engine.ordered import NEVER
from anabranch.engine.packing import decode, encode
from anabranch.engine.shards import Shard, visitor
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
        numbers = [] if self.summary is None else np.frombuffer(self.summary, np.int64)[2:].reshape(2, -1)[1].tolist()
        earliest = min(numbers, default=NEVER)
        return None if earliest == NEVER else earliest - 1


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
    shard.visit([], 10)
    assert sorted(shard.parts.held) == list(range(8)), "at the next visit, and no more than the limit says"
    shard.visit([row(group, 11) for group in range(1, 200)], 20)
    shard.visit([], 20)
    assert sorted(shard.parts.held) == [0]
    shard.visit([row(0, 21)], 30)
    assert (shard.parts.held, shard.summary) == ({}, None)


@pytest.mark.usefixtures("tiny_parts")
def test_only_parts_with_news_are_touched() -> None:
    shard = Kept(3, 3)
    shard.visit([row(group, 1) for group in range(200)], 10)
    shard.visit([], 10)
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


def sent(summary: bytes | None, rows: list[Row], parts: dict[int, bytes], watermark_ms: int) -> list[pa.RecordBatch]:
    """What the JVM sends, in two pieces."""
    new = [(1, 0, encode(batch(rows)))] if rows else []
    entries = [(0, 0, summary), *new, *[(2, part, value) for part, value in parts.items()]]
    kinds, numbers, values = zip(*entries, strict=True)
    columns = [pa.array(kinds, pa.int32()), pa.array(numbers, pa.int32())]
    columns += [pa.array([watermark_ms] * len(entries), pa.int64()), pa.array(values, pa.binary())]
    whole = pa.record_batch(columns, names=["kind", "part", "watermark", "value"])
    return [whole[:1], whole[1:]]


def returned(batches: Iterator[pa.RecordBatch]) -> tuple[list[int], dict[int, bytes | None]]:
    """The times of the rows that were made, and what is to be kept."""
    made, kept = [], {}
    for each in batches:
        for kind, part, value in zip(*(column.to_pylist() for column in each.columns), strict=True):
            if kind == 0:
                made += [time for time, *_ in numbered(decode(value))]
            else:
                kept[part] = value
    return made, kept


def test_a_worker_gets_what_is_kept_and_returns_what_is_to_be_kept() -> None:
    visit = visitor(CountWindows(2, 2))
    made, kept = returned(visit(iter(sent(None, [row(7, 8_000), row(7, 12_000)], {}, 5))))
    assert (made, sorted(kept)) == ([], [-1, 0]), "the punctuation has not passed them"
    summary, part = kept[-1], kept[0]
    assert summary is not None
    assert part is not None
    assert np.frombuffer(summary, np.int64).tolist() == [5_000, 1, len(part), 8_001]
    made, kept = returned(visit(iter(sent(summary, [], {0: part}, 20))))
    assert (made, kept) == ([8_000, 12_000], {-1: None, 0: None}), "and nothing is left"


@pytest.mark.usefixtures("tiny_parts")
def test_a_summary_says_how_many_parts_there_shall_be_and_gets_all_of_them_then() -> None:
    visit = visitor(CountWindows(3, 3))
    _, first = returned(visit(iter(sent(None, [row(group, 1) for group in range(200)], {}, 10))))
    summary = first.pop(-1)
    assert summary is not None
    assert (sorted(first), np.frombuffer(summary, np.int64)[1]) == ([0], 8)
    parts = {part: value for part, value in first.items() if value is not None}
    _, second = returned(visit(iter(sent(summary, [row(5, 11)], parts, 20))))
    assert sorted(second) == [-1, *range(8)]
