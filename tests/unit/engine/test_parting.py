"""Windows that do not overlap, with results before their end: on whole columns the same as one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.counting import CLOSES, FROM, TO
from anabranch.engine.ordered import work_off
from anabranch.engine.parting import PartedWindows, Runs, SessionWindows, TimedCountWindows, TimeWindows
from tests.unit.engine.test_counting import Row, batch, rows_in, rows_of_groups, valued

EARLY = (TimedCountWindows(3, None, 2), SessionWindows(5, 2), TimeWindows(20, 2), Runs(None, 2))
FAR = 10**9
Result = tuple[int | None, list[tuple[int, ...]]]
"""When its window ended, None if it has not, and the rows that it is over."""

emit_rows = st.none() | st.integers(1, 4)
parted_windows: st.SearchStrategy[PartedWindows] = st.one_of(
    st.builds(TimedCountWindows, st.integers(1, 5), st.none() | st.integers(1, 12), emit_rows),
    st.builds(Runs, st.none() | st.integers(1, 12), emit_rows),
    st.builds(SessionWindows, st.integers(1, 6), emit_rows),
    st.builds(TimeWindows, st.integers(1, 9), emit_rows),
)


def end_of(box: PartedWindows, window: list[Row], following: Row | None) -> int:
    """When a window ends, if this row follows it, or none does for now."""
    time = FAR if following is None else following[2]
    match box:
        case SessionWindows():
            return window[-1][2] + box.gap_us
        case TimeWindows():
            return (window[0][2] // box.window_us + 1) * box.window_us
        case Runs():
            changed = time if following is not None and following[:2] != window[0][:2] else FAR
            return min(changed, FAR if box.timeout_us is None else window[0][2] + box.timeout_us)
        case TimedCountWindows():
            return FAR if box.timeout_us is None else window[0][2] + box.timeout_us
    raise AssertionError


def group_one_by_one(rows: list[Row], box: PartedWindows, until: int) -> list[Result]:
    found: list[Result] = []
    window: list[Row] = []
    for row in [*sorted(rows, key=lambda row: row[2:5]), None]:
        if window and (end := end_of(box, window, row)) <= (until if row is None else row[2]):
            found.append((end, [each[2:] for each in window]))
            window = []
        if row is None:
            break
        window.append(row)
        if isinstance(box, TimedCountWindows) and len(window) == box.size:
            found.append((row[2], [each[2:] for each in window]))
            window = []
        elif box.emit_rows is not None and len(window) % box.emit_rows == 0:
            found.append((None, [each[2:] for each in window]))
    return found


def one_by_one(rows: list[Row], box: PartedWindows, until: int) -> list[Result]:
    groups = {0} if isinstance(box, Runs) else {row[:2] for row in rows}
    own = [rows if isinstance(box, Runs) else [row for row in rows if row[:2] == group] for group in groups]
    return sorted([each for some in own for each in group_one_by_one(some, box, until)], key=str)


def results_in(made: pa.RecordBatch, group_of: dict[tuple[int, ...], object]) -> list[Result]:
    found: dict[tuple[object, int], Result] = {}
    columns = [made.column(name).cast(pa.int64()).to_pylist() for name in (FROM, TO, CLOSES)]
    for row, first, last, end in zip(rows_in(made), *columns, strict=True):
        for number in range(first, last + 1):
            result = found.setdefault((group_of[row[:3]], number), (end, []))
            assert result[0] == end
            result[1].append(row)
    return list(found.values())


@given(rows_of_groups, parted_windows, st.lists(st.integers(0, 25), max_size=4))
def test_windows_with_early_results_on_whole_columns_are_those_of_one_by_one(
    rows: list[Row], box: PartedWindows, watermarks: list[int]
) -> None:
    as_rows = valued if isinstance(box, Runs) else batch
    group_of: dict[tuple[int, ...], object] = {row[2:5]: 0 if isinstance(box, Runs) else row[:2] for row in rows}
    kept, since, now = as_rows([]), 0, 0
    found: list[Result] = []
    for watermark in [*sorted(watermarks), 30, 60]:
        new = [row for row in rows if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        made, kept, wake_us = work_off(box, pa.concat_batches([kept, as_rows(new)]), since, watermark)
        since = watermark
        found += results_in(made, group_of)
        assert wake_us > watermark
    assert sorted(found, key=str) == one_by_one(rows, box, 60)


@pytest.mark.parametrize("box", EARLY)
def test_a_result_before_the_end_comes_once(box: PartedWindows) -> None:
    as_rows = valued if isinstance(box, Runs) else batch
    rows: list[Row] = [(1, 1, 1, 0, 1, None), (1, 1, 2, 0, 2, None)]
    made, kept, _ = work_off(box, as_rows(rows), 0, 3)
    assert made.column(CLOSES).to_pylist() == [None, None]
    made, kept, _ = work_off(box, kept, 3, 4)
    assert made.num_rows == 0
    assert kept.num_rows == 2
