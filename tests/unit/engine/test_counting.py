"""Windows of tuples on whole columns: the same as counting one by one, for any rows, cuts and groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.counting import (
    AFTER,
    BEFORE,
    CLOSES,
    FROM,
    MOMENT,
    NUMBER,
    TO,
    VALUE,
    CountWindows,
    CrossSections,
    Slides,
)
from anabranch.engine.ordered import work_off
from anabranch.engine.packing import GROUP, decode, encode
from anabranch.engine.parting import Runs, TimedCountWindows
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


@given(rows=rows_of_groups, size=st.integers(1, 4), every=st.integers(1, 4))
def test_each_window_has_one_first_and_one_last_row(rows: list[Row], size: int, every: int) -> None:
    group_of = {(row[2], row[3], row[4]): row[:2] for row in rows}
    made, _ = put_into_windows(batch(rows), 15, size, min(every, size))
    numbers = zip(*(made.column(name).to_pylist() for name in (FROM, TO, AFTER, BEFORE)), strict=True)
    windows: dict[object, list[tuple[tuple[int, ...], bool, bool]]] = {}
    for row, (first, last, after, before) in zip(rows_in(made), numbers, strict=True):
        for number in range(first, last + 1):
            key = (group_of[row[0], row[1], row[2]], number)
            windows.setdefault(key, []).append((row[:3], number > after, number < before))
    for each in windows.values():
        members = sorted(row for row, _, _ in each)
        assert [row for row, is_first, _ in each if is_first] == members[:1]
        assert [row for row, _, is_last in each if is_last] == members[-1:]


def test_a_group_that_is_used_up_leaves_nothing() -> None:
    rows: list[Row] = [(1, 1, time, 0, time, None) for time in range(6)]
    made, kept = put_into_windows(batch(rows), 10, 3, 3)
    assert (made.num_rows, kept.num_rows) == (6, 0)


def test_rows_at_the_watermark_wait() -> None:
    made, kept = put_into_windows(batch([(1, 1, 10, 0, 1, None), (1, 1, 9, 0, 1, None)]), 10, 1, 1)
    assert [row[0] for row in rows_in(made)] == [9]
    assert kept.column(STIME).cast(pa.int64()).to_pylist() == [10]


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


# --- runs ----------------------------------------------------------------------------------------------------------


def valued(rows: list[Row]) -> pa.RecordBatch:
    """All rows in one group; what was their group is their value."""
    made = batch([(0, 0, *row[2:]) for row in rows])
    for name, place in zip(VALUE, (0, 1), strict=True):
        made = made.add_column(0, name, pa.array([row[place] for row in rows], pa.int64()))
    return made


def runs_in(made: pa.RecordBatch) -> dict[int, tuple[int, list[tuple[int, ...]]]]:
    """By number: when a run ended, and its rows."""
    found: dict[int, tuple[int, list[tuple[int, ...]]]] = {}
    columns = (made.column(name).cast(pa.int64()).to_pylist() for name in (FROM, CLOSES))
    for row, number, end in zip(rows_in(made), *columns, strict=True):
        found.setdefault(number, (end, []))[1].append(row)
    return found


def runs_one_by_one(rows: list[Row], timeout: int | None, until: int) -> list[tuple[int, list[tuple[int, ...]]]]:
    ended, run = [], []
    for row in [*sorted(rows, key=lambda row: row[2:5]), None]:
        deadline = run[0][2] + timeout if run and timeout is not None else 10**9
        if run and (row is None or row[:2] != run[0][:2] or row[2] >= deadline):
            end = min(deadline, row[2] if row is not None else 10**9)
            ended += [(end, [each[2:] for each in run])] if end <= until else []
            run = []
        if row is not None:
            run.append(row)
    return sorted(ended, key=str)  # type: ignore[return-value]


@given(rows_of_groups, st.none() | st.integers(1, 12), st.lists(st.integers(0, 25), max_size=4))
def test_runs_on_whole_columns_are_those_of_one_by_one(
    rows: list[Row], timeout: int | None, watermarks: list[int]
) -> None:
    box, kept, found, since = Runs(timeout), valued([]), [], 0
    now = 0
    for watermark in [*sorted(watermarks), 30]:
        new = [row for row in rows if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        made, kept, wake_us = work_off(box, pa.concat_batches([kept, valued(new)]), since, watermark)
        since = watermark
        found += list(runs_in(made).values())
        assert wake_us > watermark
    assert sorted(found, key=str) == runs_one_by_one(rows, timeout, 30)


# --- the last rows -------------------------------------------------------------------------------------------------

Result = tuple[int, list[tuple[int, ...]]]
"""The time of a result, and the rows that it is over."""


def unnumbered(rows: list[Row]) -> pa.RecordBatch:
    return batch(rows).add_column(0, NUMBER, pa.array([0] * len(rows), pa.int64()))


def slides_one_by_one(rows: list[Row], box: Slides, until: int) -> list[Result]:
    found: list[Result] = []
    for group in {row[:2] for row in rows}:
        own = [row[2:] for row in sorted(rows, key=lambda row: row[2:5]) if row[:2] == group]
        for number, row in enumerate(own, start=1):
            if box.every_us is not None:
                time = (row[0] // box.every_us + 1) * box.every_us
                triggers = time <= until and (number == len(own) or own[number][0] >= time)
            else:
                time, triggers = row[0], number % box.step == 0
            if triggers and box.rows is not None:
                found.append((time, own[max(0, number - box.rows) : number]))  # type: ignore[arg-type]
            elif triggers and box.window_us is not None:
                first = row[0] + 1 if box.every_us is None else time
                last = [each for each in own[:number] if each[0] >= first - box.window_us]
                found.append((time, last))  # type: ignore[arg-type]
    return sorted(found, key=str)


def results_in(made: pa.RecordBatch, box: Slides, group_of: dict[tuple[int, ...], tuple[int, int]]) -> list[Result]:
    results = []
    for window in windows_in(made, group_of):
        time = window[-1][0]
        if box.every_us is not None:
            time = (time // box.every_us + 1) * box.every_us
        results.append((time, window))
    return results


all_slides = st.one_of(
    st.builds(Slides, st.integers(1, 4), st.none(), st.integers(1, 3), st.none()),
    st.builds(Slides, st.none(), st.integers(1, 12), st.integers(1, 3), st.none()),
    st.builds(Slides, st.integers(1, 4), st.none(), st.just(1), st.integers(1, 9)),
    st.integers(1, 9).flatmap(
        lambda every: st.builds(Slides, st.none(), st.integers(every, 12), st.just(1), st.just(every))
    ),
)


@given(rows_of_groups, all_slides, st.lists(st.integers(0, 25), max_size=4))
def test_the_last_rows_on_whole_columns_are_those_of_one_by_one(
    rows: list[Row], box: Slides, watermarks: list[int]
) -> None:
    group_of = {row[2:5]: row[:2] for row in rows}
    kept, found, since = unnumbered([]), [], 0
    now = 0
    for watermark in [*sorted(watermarks), 30]:
        new = [row for row in rows if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        made, kept, wake_us = work_off(box, pa.concat_batches([kept, unnumbered(new)]), since, watermark)
        since = watermark
        found += results_in(made, box, group_of)
        assert wake_us > watermark
    assert sorted(found, key=str) == slides_one_by_one(rows, box, 30)


def test_only_what_next_results_need_is_kept() -> None:
    rows: list[Row] = [(1, 1, time, 0, time, None) for time in (1, 2, 3, 4, 20)]
    for box, left in [
        (Slides(3, None, 1, None), [4, 20]),
        (Slides(1, None, 1, None), []),
        (Slides(1, None, 2, None), [20]),
        (Slides(2, None, 1, 7), [4, 20]),
        (Slides(None, 10, 1, None), [20]),
        (Slides(None, 10, 2, None), [20]),
        (Slides(None, 3, 1, None), []),
        (Slides(None, 3, 2, None), [20]),
    ]:
        _, kept, _ = work_off(box, unnumbered(rows), 0, 23)
        assert kept.column(STIME).cast(pa.int64()).to_pylist() == left, box


# --- moments -------------------------------------------------------------------------------------------------------


def sections_in(made: pa.RecordBatch, group_of: dict[tuple[int, ...], tuple[int, int]]) -> list[Result]:
    """The moment of each result, and its rows, without the one that stands for it."""
    moments: dict[tuple[tuple[int, int], int], int] = {}
    rows: dict[tuple[tuple[int, int], int], list[tuple[int, ...]]] = {}
    columns = (made.column(name).cast(pa.int64()).to_pylist() for name in (FROM, TO, MOMENT))
    for row, first, last, moment in zip(rows_in(made), *columns, strict=True):
        for number in range(first, last + 1):
            key = group_of[row[:3]], number
            if moment is None:
                rows.setdefault(key, []).append(row)
            else:
                assert key not in moments
                moments[key] = moment
    assert rows.keys() <= moments.keys()
    return [(moment, sorted(rows.get(key, []), key=lambda row: row[:3])) for key, moment in moments.items()]


def sections_one_by_one(rows: list[Row], box: CrossSections, until: int) -> list[Result]:
    found: list[Result] = []
    for group in {row[:2] for row in rows}:
        own = [row[2:] for row in sorted(rows, key=lambda row: row[2:5]) if row[:2] == group]
        for moment in range(box.every_us, until + 1, box.every_us):
            before = [row for row in own if row[0] < moment]
            if before and before[-1][0] >= moment - box.expire_us:
                found.append((moment, [row for row in before if row[0] >= moment - box.window_us]))  # type: ignore[misc]
    return sorted(found, key=str)


@given(
    rows_of_groups, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9), st.lists(st.integers(0, 25), max_size=4)
)
def test_sections_on_whole_columns_are_those_of_one_by_one(
    rows: list[Row], window: int, every: int, longer: int, watermarks: list[int]
) -> None:
    box = CrossSections(window, every, window + longer)
    group_of = {row[2:5]: row[:2] for row in rows}
    kept, found, since = batch([]), [], 0
    now = 0
    for watermark in [*sorted(watermarks), 30, 60]:
        new = [row for row in rows if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        made, kept, wake_us = work_off(box, pa.concat_batches([kept, batch(new)]), since, watermark)
        since = watermark
        found += sections_in(made, group_of)
        assert wake_us > watermark
    assert sorted(found, key=str) == sections_one_by_one(rows, box, 60)
    assert kept.num_rows == 0, "all groups have expired"


# --- windows of rows that end by a timeout -------------------------------------------------------------------------


def timed_one_by_one(rows: list[Row], size: int, timeout: int, until: int) -> list[Result]:
    found: list[Result] = []
    for group in {row[:2] for row in rows}:
        window: list[tuple[int, ...]] = []
        own = [row[2:] for row in sorted(rows, key=lambda row: row[2:5]) if row[:2] == group]
        for row in [*own, (10**9,)]:
            if window and row[0] >= window[0][0] + timeout:
                end = window[0][0] + timeout
                found += [(end, window)] if end <= until else []
                window = []
            window = [*window, row]  # type: ignore[list-item]
            if len(window) == size and row[0] < 10**9:
                found.append((row[0], window))
                window = []
    return sorted(found, key=str)


@given(rows_of_groups, st.integers(1, 4), st.integers(1, 12), st.lists(st.integers(0, 25), max_size=4))
def test_windows_with_a_timeout_on_whole_columns_are_those_of_one_by_one(
    rows: list[Row], size: int, timeout: int, watermarks: list[int]
) -> None:
    box, kept, found, since = TimedCountWindows(size, timeout), batch([]), [], 0
    now = 0
    for watermark in [*sorted(watermarks), 30, 60]:
        new = [row for row in rows if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        made, kept, wake_us = work_off(box, pa.concat_batches([kept, batch(new)]), since, watermark)
        since = watermark
        found += list(runs_in(made).values())
        assert wake_us > watermark
    assert sorted(found, key=str) == timed_one_by_one(rows, size, timeout, 60)
    assert kept.num_rows == 0
