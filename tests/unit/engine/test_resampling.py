"""Resample on whole columns: each row gets the value that the reference gives it, for any rows, cuts and keys."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.ordered import SIDE, work_off
from anabranch.engine.packing import GROUP
from anabranch.engine.resampling import Resampled, _exact_sums
from anabranch.limits import SUM_SCALE
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.query.boxes import Arrow, Resample
from anabranch.query.kinds.joins import WAYS
from anabranch.reference.exact import exact_sum
from anabranch.reference.joins import ResampleBox
from anabranch.reference.tuples import Tuple
from tests.unit.engine.test_counting import Row, batch, rows_of_groups

sides = st.lists(st.booleans(), min_size=30, max_size=30)
odd = st.sampled_from([0.1, -0.0, 0.3, 1e17, -1e18, 1e18, 1e300, math.inf, -math.inf, math.nan, 1e-10, 123456.789])


def two_sided(rows: list[Row], second: list[bool]) -> pa.RecordBatch:
    one = batch([(*row[:5], None) for row in rows])
    values = [
        row[5] % 1000 / 7 if side and row[5] is not None else None for row, side in zip(rows, second, strict=False)
    ]
    side = pa.array([int(each) for each in second[: len(rows)]], pa.int32())
    return one.append_column("w", pa.array(values, pa.float64())).add_column(0, SIDE, side)


def by_reference(rows: list[Row], second: list[bool], how: str, within: int) -> list[tuple[object, ...]]:
    """In milliseconds, because the reference follows Spark's watermark."""
    box = Resample(
        name="r", left=Arrow("a"), right=Arrow("b"), columns=("w",), how=how, within_us=within * 1_000, on="k = l"
    )
    reference = ResampleBox(
        box, {"k": "string", "o": "int", "t": "int"}, {"l": "string", "w": "double"}, [["x"], ["x"]]
    )
    table = two_sided(rows, second).column("w").to_pylist()
    for row, side, value in zip(rows, second, table, strict=False):
        columns = {"l": str(row[:2]), "w": value} if side else {"k": str(row[:2]), "o": row[3], "t": row[4]}
        # Which of equal times comes first shows: the origin's name has the order of its number.
        reference.process(
            int(side), [Tuple(origin="x", stime=row[2] * 1_000, tid=row[3] * 100 + row[4], values=columns)]
        )
    made = reference.close(10**9)[0]
    return sorted(
        ((each.stime // 1_000, each.values["o"], each.values["t"], each.values["w"]) for each in made), key=str
    )


@pytest.mark.parametrize("how", WAYS)
@given(
    rows=rows_of_groups, second=sides, within=st.integers(1, 12), watermarks=st.lists(st.integers(0, 25), max_size=4)
)
def test_whole_columns_give_what_the_reference_does(
    how: str, rows: list[Row], second: list[bool], within: int, watermarks: list[int]
) -> None:
    waits = 0 if how == "previous" else within
    box, kept, found, since = Resampled(("w",), how, within, waits), two_sided([], []), [], 0
    now = 0
    for watermark in [*sorted(watermarks), 30, 60]:
        new = [place for place, row in enumerate(rows) if now <= row[2] < watermark + 5]
        now = max(now, watermark + 5)
        arrived = two_sided([rows[place] for place in new], [second[place] for place in new])
        made, kept, wake_us = work_off(box, pa.concat_batches([kept, arrived]), since, watermark)
        since = watermark
        assert wake_us > watermark
        assert not {*GROUP, SIDE} & set(made.schema.names)
        columns = [made.column(name).cast(pa.int64()).to_pylist() for name in (STIME, ORIGIN, TID)]
        found += list(zip(*columns, made.column("w").to_pylist(), strict=True))
    assert sorted(found, key=str) == by_reference(rows, second, how, within)
    assert kept.num_rows == 0


@given(st.lists(odd | st.floats(), max_size=12), st.data())
def test_sums_are_exact_wherever_they_begin(values: list[float], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values)))
    last = data.draw(st.integers(first, len(values)))
    (found,) = _exact_sums(np.array(values, np.float64), np.array([first]), np.array([last]))
    wanted = exact_sum(values[first:last], SUM_SCALE) if last > first else 0.0
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))
