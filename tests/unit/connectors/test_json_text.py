"""Tuples as JSON lines: what every JSON reader reads, and what a push reads back exactly."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.columns import arrow_schema
from anabranch.connectors.json_text import json_lines
from anabranch.transport.rows import from_json_lines

SCHEMA = arrow_schema(
    [
        ("a", "boolean"),
        ("b", "tinyint"),
        ("c", "bigint"),
        ("d", "double"),
        ("e", "string"),
        ("f", "binary"),
        ("g", "date"),
        ("h", "timestamp"),
    ]
)
finite = st.floats(allow_nan=False, allow_infinity=False)
moments = st.integers(1, 10**17).map(lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us))
values = [
    st.booleans(),
    st.integers(-128, 127),
    st.integers(-(2**63), 2**63 - 1),
    finite,
    st.text(),
    st.binary(max_size=9),
    st.dates(date(1970, 1, 2)),
    moments,
]
rows = st.lists(st.tuples(*(st.none() | value for value in values)), min_size=1, max_size=8)


@given(rows)
def test_lines_are_json_and_read_back_as_the_same_rows(found: list[tuple[object, ...]]) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*found, strict=True), SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    text = json_lines(batch)
    assert text.count(b"\n") == len(found)
    parsed = [json.loads(line) for line in text.splitlines()]
    assert [line["e"] for line in parsed] == [row[4] for row in found]
    assert [line["c"] for line in parsed] == [row[2] for row in found]
    assert from_json_lines(text, SCHEMA).equals(batch)


def test_what_json_has_no_word_for_is_text() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"x": [math.nan, math.inf, -math.inf, 1e300], "d": [Decimal("1.50"), None, Decimal("-2.00"), Decimal("0.01")]}
    )
    parsed = [json.loads(line) for line in json_lines(batch).splitlines()]
    assert [line["x"] for line in parsed] == ["nan", "inf", "-inf", 1e300]
    assert [line["d"] for line in parsed] == ["1.50", None, "-2.00", "0.01"]


def test_a_slice_of_a_batch_is_written_alone() -> None:
    batch = pa.RecordBatch.from_pydict({"x": list(range(10)), "s": [f"é{number}\x01" for number in range(10)]})
    parsed = [json.loads(line) for line in json_lines(batch.slice(3, 2)).splitlines()]
    assert parsed == [{"x": 3, "s": "é3\x01"}, {"x": 4, "s": "é4\x01"}]
    assert json_lines(batch.slice(3, 0)) == b""
