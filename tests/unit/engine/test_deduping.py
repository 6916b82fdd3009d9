"""Dedup on whole columns: the same tuples pass as one by one, for any rows, cuts and keys."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.deduping import Deduped
from anabranch.engine.ordered import NEVER, work_off
from anabranch.engine.packing import GROUP
from anabranch.model.header import STIME
from tests.unit.engine.test_counting import Row, batch, rows_in, rows_of_groups


def one_by_one(rows: list[Row], horizon: int) -> list[tuple[int, ...]]:
    last: dict[tuple[int, int], int] = {}
    passed = []
    for row in sorted(rows, key=lambda row: row[2:5]):
        if row[2] - last.get(row[:2], -horizon) >= horizon:
            last[row[:2]] = row[2]
            passed.append(row[2:])
    return sorted(passed, key=str)


@given(rows_of_groups, st.integers(1, 30), st.lists(st.integers(0, 25), max_size=4))
def test_whole_columns_let_pass_what_one_by_one_does(rows: list[Row], horizon: int, watermarks: list[int]) -> None:
    box, kept, found, since = Deduped(horizon), batch([]), [], 0
    now = 0
    for watermark in [*sorted(watermarks), 30]:
        new = [row for row in rows if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        made, kept, _ = work_off(box, pa.concat_batches([kept, batch(new)]), since, watermark)
        since = watermark
        found += list(rows_in(made))
        assert not set(GROUP) & set(made.schema.names)
    assert sorted(found, key=str) == one_by_one(rows, horizon)


def test_a_key_is_forgotten_when_the_horizon_is_over() -> None:
    box = Deduped(100)
    rows = batch([(1, 1, 10, 0, 1, 5), (2, 2, 50, 0, 2, 6)])
    _, kept, wake_us = work_off(box, rows, 0, 60)
    assert kept.column(STIME).cast(pa.int64()).to_pylist() == [10, 50]
    assert kept.column("v").null_count == 2, "only its time is kept"
    assert wake_us == 10 + 100 + 25, "a while later, so that several go together"
    _, kept, wake_us = work_off(box, kept, 60, wake_us)
    assert kept.column(STIME).cast(pa.int64()).to_pylist() == [50]
    _, kept, wake_us = work_off(box, kept, 135, wake_us)
    assert (kept.num_rows, wake_us) == (0, NEVER)
