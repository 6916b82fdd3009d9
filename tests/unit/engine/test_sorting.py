"""WSort on whole columns: what leaves when, and what is late, is what the reference says, for any rows and cuts."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.ordered import work_off
from anabranch.engine.packing import GROUP
from anabranch.engine.sorting import Sorted, ranks
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.query.boxes import Arrow, WSort
from anabranch.reference.ordered import WSortBox
from anabranch.reference.tuples import Tuple
from tests.unit.engine.test_counting import TIME

Row = tuple[int, int, int, int | None, str | None]
"""Time, origin, tid, and the two columns to sort by."""
Left = tuple[int, int, int, object, object]

rows_to_sort = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.integers(0, 2),
        st.integers(-3, 3),
        st.none() | st.integers(0, 3),
        st.none() | st.sampled_from("ab"),
    ),
    max_size=25,
    unique_by=lambda row: row[:3],
)


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    types = (TIME, pa.int32(), pa.int64(), pa.int64(), pa.string())
    names = (STIME, ORIGIN, TID, "v", "s")
    made = pa.record_batch([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)
    for name in GROUP:
        made = made.add_column(0, name, pa.array([0] * len(rows), pa.int64()))
    return made


def rows_in(made: pa.RecordBatch) -> list[Left]:
    numbers = [made.column(name).cast(pa.int64()).to_pylist() for name in (STIME, ORIGIN, TID)]
    return list(zip(*numbers, made.column("v").to_pylist(), made.column("s").to_pylist(), strict=True))


class Counted:
    """What an accumulator of Spark is to a worker."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, term: int) -> None:
        self.value += term


def by_reference(rows: list[Row], timeout: int) -> tuple[list[Left], list[Left]]:
    """In milliseconds, because the reference follows Spark's watermark."""
    box = WSort(name="w", input=Arrow("a"), by=("v", "S"), timeout_us=timeout * 1_000)
    reference = WSortBox(box, {"v": "bigint", "s": "string"}, ["0", "1", "2"])
    for time, origin, tid, v, s in rows:
        values = {"v": v, "s": s}
        reference.process(0, [Tuple(origin=str(origin), stime=time * 1_000, tid=tid, values=values)])
    made = reference.close(10**9)

    def of_port(port: int) -> list[Left]:
        return [
            (each.stime // 1_000, int(each.origin), each.tid, each.values["v"], each.values["s"]) for each in made[port]
        ]

    return of_port(0), of_port(1)


@given(rows_to_sort, st.integers(1, 8), st.lists(st.integers(0, 25), max_size=4))
def test_whole_columns_leave_as_one_by_one(rows: list[Row], timeout: int, watermarks: list[int]) -> None:
    for late in (False, True):
        counter = Counted()
        box, kept, found, since = Sorted(("v", "s"), timeout, late, counter), batch([]), [], 0
        now = 0
        for watermark in [*sorted(watermarks), 30, 60]:
            new = [row for row in rows if now <= row[0] < watermark + 5]
            now = max(now, watermark + 5)
            made, kept, wake_us = work_off(box, pa.concat_batches([kept, batch(new)]), since, watermark)
            since = watermark
            found += rows_in(made)
            assert wake_us > watermark
        wanted = by_reference(rows, timeout)[late]
        assert found == wanted if not late else sorted(found, key=str) == sorted(wanted, key=str)
        assert kept.num_rows <= 1, "the last that took others along"
        assert counter.value == len(by_reference(rows, timeout)[True]), "whichever stream is wanted"


@pytest.mark.parametrize(
    ("type_", "ascending"),
    [
        (pa.float64(), [None, -math.inf, -1.5, 0.0, 2.0, math.inf, math.nan]),
        (pa.string(), [None, "", "B", "a", "ab", "é"]),
        (pa.bool_(), [None, False, True]),
        (pa.int8(), [None, -128, 0, 127]),
        (pa.decimal128(6, 2), [None, Decimal("-1.50"), Decimal("0.00"), Decimal("9.25")]),
        (pa.date32(), [None, date(1969, 1, 1), date(2026, 1, 1)]),
        (pa.binary(), [None, b"", b"\x00", b"\xff"]),
    ],
)
def test_values_have_the_order_of_spark(type_: pa.DataType, ascending: list[object]) -> None:
    column = pa.array([*reversed(ascending), ascending[-1]], type_)
    found = ranks(column).tolist()
    assert found[:-1] == sorted(found[:-1], reverse=True)
    assert len(set(found)) == len(ascending)
    assert found[-1] == found[0], "equal ones are equal"
    assert ranks(pa.array([], type_)).tolist() == []


def test_zeros_are_equal() -> None:
    assert ranks(pa.array([0.0, -0.0, 1.0])).tolist() == [0, 0, 1]
