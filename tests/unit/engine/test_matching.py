"""Latest on whole columns: each tuple finds what it would find one by one, for any rows, cuts and keys."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.matching import LatestMatched
from anabranch.engine.ordered import NEVER, SIDE, work_off
from anabranch.engine.packing import GROUP
from anabranch.model.header import STIME
from tests.unit.engine.test_counting import Row, batch, rows_of_groups

Found = tuple[int, int, int, int | None, int | None]
"""Time, origin, tid and value of the first, and the value of its partner."""

sides = st.lists(st.booleans(), min_size=30, max_size=30)


def two_sided(rows: list[Row], right: list[bool]) -> pa.RecordBatch:
    """Values of the first input are in ``v``, those of the second in ``w``; the other is NULL."""
    one = batch([(*row[:5], None if side else row[5]) for row, side in zip(rows, right, strict=False)])
    other = pa.array([row[5] if side else None for row, side in zip(rows, right, strict=False)], pa.int64())
    side = pa.array([int(each) for each in right[: len(rows)]], pa.int32())
    return one.append_column("w", other).add_column(0, SIDE, side)


def found_in(made: pa.RecordBatch) -> list[Found]:
    columns = [made.column(name).cast(pa.int64()).to_pylist() for name in (STIME, "_origin", "_tid", "v", "w")]
    return list(zip(*columns, strict=True))  # type: ignore[arg-type]


def one_by_one(rows: list[Row], right: list[bool], outer: bool, within: int | None) -> list[Found]:
    newest: dict[tuple[int, int], Row] = {}
    found: list[Found] = []
    for row, side in sorted(zip(rows, right, strict=False), key=lambda each: (each[0][2], not each[1], each[0][3:5])):
        if side:
            newest[row[:2]] = row
            continue
        partner = newest.get(row[:2])
        if partner is not None and within is not None and row[2] - partner[2] >= within:
            partner = None
        if partner is not None or outer:
            found.append((*row[2:], None if partner is None else partner[5]))
    return sorted(found, key=str)


@given(rows_of_groups, sides, st.booleans(), st.none() | st.integers(1, 15), st.lists(st.integers(0, 25), max_size=4))
def test_whole_columns_find_what_one_by_one_does(
    rows: list[Row], right: list[bool], outer: bool, within: int | None, watermarks: list[int]
) -> None:
    box, kept, found, since = LatestMatched(("w",), outer, within), two_sided([], []), [], 0
    now = 0
    for watermark in [*sorted(watermarks), 30]:
        new = [place for place, row in enumerate(rows) if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        arrived = two_sided([rows[place] for place in new], [right[place] for place in new])
        made, kept, _ = work_off(box, pa.concat_batches([kept, arrived]), since, watermark)
        since = watermark
        assert not {*GROUP, SIDE} & set(made.schema.names)
        found += found_in(made)
    assert sorted(found, key=str) == one_by_one(rows, right, outer, within)
    assert kept.column("v").null_count == kept.num_rows <= len({row[:2] for row in rows}), "one of the second per key"


def test_what_is_too_old_to_be_found_is_forgotten() -> None:
    box = LatestMatched(("w",), outer=False, within_us=100)
    rows = two_sided([(1, 1, 10, 0, 1, 5), (2, 2, 50, 0, 2, 6)], [True, True])
    _, kept, wake_us = work_off(box, rows, 0, 60)
    assert (kept.num_rows, wake_us) == (2, 10 + 100 + 25)
    _, kept, wake_us = work_off(box, kept, 60, wake_us)
    assert kept.column("w").to_pylist() == [6]
    _, kept, wake_us = work_off(box, kept, 135, wake_us)
    assert (kept.num_rows, wake_us) == (0, NEVER)
    for_ever = LatestMatched(("w",), outer=False, within_us=None)
    assert work_off(for_ever, rows, 0, 60)[2] == NEVER
