"""Windows of tuples on whole columns: the same as counting one by one, for any rows, cuts and groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.counting import FROM, TO, CountWindows
from anabranch.engine.ordered import work_off
from anabranch.engine.packing import EARLIEST, GROUP, ROWS, SHARD, decode, encode, pack
from anabranch.model.header import ORIGIN, STIME, TID

TIME = pa.timestamp("us", tz="UTC")
Row = tuple[int, int, int, int, int, int | None]
"""Both hashes of the group, time, origin, tid, and a value."""

rows_of_groups = st.lists(
    st.tuples(
        st.sampled_from([-5, 0, 5]),
        st.sampled_from([1, 2]),
        st.integers(0, 20),
        st.integers(0, 2),
        st.integers(-3, 3),
        st.none() | st.integers(2**53, 2**63 - 1),
    ),
    max_size=30,
    unique_by=lambda row: row[2:5],
)


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    types = (pa.int64(), pa.int64(), TIME, pa.int32(), pa.int64(), pa.int64())
    names = (*GROUP, STIME, ORIGIN, TID, "v")
    return pa.record_batch([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)


def put_into_windows(
    rows: pa.RecordBatch, watermark: int, size: int, every: int
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    made, kept, _ = work_off(CountWindows(size, every), rows, 0, watermark)
    return made, kept


def rows_in(made: pa.RecordBatch) -> Iterator[tuple[int, ...]]:
    numbers = made.column(STIME).cast(pa.int64()).to_pylist()
    others = (made.column(name).to_pylist() for name in (ORIGIN, TID, "v"))
    return zip(numbers, *others, strict=True)


def windows_in(made: pa.RecordBatch, group_of: dict[tuple[int, ...], tuple[int, int]]) -> list[list[tuple[int, ...]]]:
    """The rows of each window that came out, windows and rows in order."""
    found: dict[tuple[tuple[int, int], int], list[tuple[int, ...]]] = {}
    bounds = zip(made.column(FROM).to_pylist(), made.column(TO).to_pylist(), strict=True)
    for row, (first, last) in zip(rows_in(made), bounds, strict=True):
        for number in range(first, last + 1):
            found.setdefault((group_of[row[:3]], number), []).append(row)
    return sorted(sorted(window, key=lambda row: row[:3]) for window in found.values())


def one_by_one(rows: list[Row], watermark: int, size: int, every: int) -> list[list[tuple[int, ...]]]:
    groups: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for row in sorted(rows, key=lambda row: row[2:5]):
        if row[2] < watermark:
            groups.setdefault(row[:2], []).append(row[2:])  # type: ignore[arg-type]
    return sorted(
        group[start : start + size] for group in groups.values() for start in range(0, len(group) - size + 1, every)
    )


@given(rows_of_groups, st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(0, 25), max_size=4))
def test_whole_columns_count_as_one_by_one_does(rows: list[Row], size: int, every: int, watermarks: list[int]) -> None:
    every = min(every, size)
    group_of = {row[2:5]: row[:2] for row in rows}
    kept, found = batch([]), []
    now = 0
    for watermark in [*sorted(watermarks), 30]:
        new = [row for row in rows if now <= row[2] < watermark + 5]  # some of them wait for the next watermark
        now = max(now, watermark + 5)
        made, kept = put_into_windows(pa.concat_batches([kept, batch(new)]), watermark, size, every)
        found += windows_in(made, group_of)
    assert sorted(found) == one_by_one(rows, 30, size, every)


@given(rows_of_groups, st.integers(1, 4), st.integers(1, 4))
def test_only_what_windows_under_way_need_is_kept(rows: list[Row], size: int, every: int) -> None:
    every = min(every, size)
    _, kept = put_into_windows(batch(rows), 30, size, every)
    left = dict.fromkeys({row[:2] for row in rows}, 0)
    for group in zip(*(kept.column(name).to_pylist() for name in GROUP), strict=True):
        left[group] += 1
    for group, count in left.items():
        whole = sum(row[:2] == group for row in rows)
        full = max(0, (whole - size) // every + 1)
        assert count == whole - full * every < size


def test_a_group_that_is_used_up_leaves_nothing() -> None:
    rows: list[Row] = [(1, 1, time, 0, time, None) for time in range(6)]
    made, kept = put_into_windows(batch(rows), 10, 3, 3)
    assert (made.num_rows, kept.num_rows) == (6, 0)


def test_rows_at_the_watermark_wait() -> None:
    made, kept = put_into_windows(batch([(1, 1, 10, 0, 1, None), (1, 1, 9, 0, 1, None)]), 10, 1, 1)
    assert [row[0] for row in rows_in(made)] == [9]
    assert kept.column(STIME).cast(pa.int64()).to_pylist() == [10]


def test_rows_are_packed_by_shard_with_the_earliest_time() -> None:
    rows = batch([(1, 1, time, 0, time, None) for time in (7, 3, 9, 1)])
    shards = pa.array([2, 0, 2, 0], pa.int32())
    (packed,) = pack(iter([rows.add_column(0, SHARD, shards), rows.add_column(0, SHARD, shards)[:0]]))
    assert packed.schema.types == [pa.int32(), TIME, pa.binary()]
    assert packed.column(SHARD).to_pylist() == [0, 2]
    assert packed.column(EARLIEST).cast(pa.int64()).to_pylist() == [1, 7]
    assert [list(rows_in(decode(value.as_py()))) for value in packed.column(ROWS)] == [
        [(3, 0, 3, None), (1, 0, 1, None)],
        [(7, 0, 7, None), (9, 0, 9, None)],
    ]


def test_packing_changes_no_value_and_no_type() -> None:
    """What pandas would not keep: NULL beside large numbers and NaN, times outside its years, narrow types."""
    columns = {
        "large": pa.array([2**63 - 1, None]),
        "narrow": pa.array([1, None], pa.int8()),
        "float": pa.array([float("nan"), None]),
        "old": pa.array([-(10**15), None], TIME),
        "day": pa.array([100_000_000, None], pa.date32()),
        "money": pa.array([None, 1], pa.decimal128(38, 2)),
        "text": pa.array(["", None]),
    }
    rows = pa.record_batch(columns)
    again = decode(encode(rows))
    assert again.schema == rows.schema
    for name in columns:
        assert again.column(name).is_null().equals(rows.column(name).is_null())
        if name != "float":
            assert again.column(name).equals(rows.column(name))
    assert np.isnan(again.column("float")[0].as_py())
