"""Dates and times as text, also where Python's own calendar ends."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.cli.shown import GrowingTable, iso_date, iso_time, json_line, rows
from anabranch.columns import arrow_schema
from anabranch.model.times import from_datetime

EPOCH = date(1970, 1, 1).toordinal()


@given(st.dates())
def test_a_date_of_python_reads_as_python_writes_it(day: date) -> None:
    assert iso_date(day.toordinal() - EPOCH) == day.isoformat()


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_of_python_reads_as_python_writes_it(moment: datetime) -> None:
    expected = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert iso_time(from_datetime(moment)) == expected


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (2_932_897, "+10000-01-01"),
        (3_789_391, "+12345-01-01"),
        (-719_163, "0000-12-31"),
        (-719_529, "-0001-12-31"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_other_years_have_a_sign(days: int, text: str) -> None:
    assert iso_date(days) == text
    assert iso_time(days * 86_400_000_000 + 1) == f"{text}T00:00:00.000001Z"


def test_a_row_beyond_the_calendar_is_shown_as_json_and_as_a_table() -> None:
    schema = arrow_schema([("day", "date"), ("at", "timestamp"), ("x", "int")])
    days, times = pa.array([3_789_391, None], pa.int32()), pa.array([2**63 - 1, None], pa.int64())
    columns = [days.cast(pa.date32()), times.cast(schema.field("at").type), pa.array([1, None], pa.int32())]
    first, second = rows(pa.RecordBatch.from_arrays(columns, schema=schema))
    shown = {"day": "+12345-01-01", "at": "+294247-01-10T04:00:54.775807Z", "x": 1}
    assert json.loads(json_line(first)) == shown
    assert json.loads(json_line(second)) == dict.fromkeys(shown)
    assert "+12345-01-01" in GrowingTable(list(shown)).lines([first, second])[2]
