"""Text, dicts and tables into a source's columns: what is read, and how precisely what is wrong is told."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import PushRefused
from anabranch.transport import rows
from anabranch.transport.rows import conform, from_csv, from_json_lines, read_text, to_batches

ALL = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("name", pa.string()),
        ("blob", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
VALUES = {
    "flag": True,
    "tiny": -5,
    "n": 1 << 60,
    "x": 1.5,
    "price": Decimal("12.30"),
    "name": 'a,"b"\nc',
    "blob": b"\x00\xff",
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
}
XN = pa.schema([("name", pa.string()), ("x", pa.float64())])


def refusal(convert: object, *args: object, **kwargs: object) -> PushRefused:
    with pytest.raises(PushRefused) as caught:
        convert(*args, **kwargs)  # type: ignore[operator]
    return caught.value


# --- every type ----------------------------------------------------------------------------------------------------


def test_json_lines_of_every_type_are_read() -> None:
    line = (
        '{"flag":true,"tiny":-5,"n":1152921504606846976,"x":1.5,"price":12.30,"name":"a,\\"b\\"\\nc",'
        '"blob":"AP8=","day":"2026-01-31","at":"2026-01-31T13:00:00.123456+01:00"}'
    )
    nulls = "{" + ",".join(f'"{name}":null' for name in ALL.names) + "}"
    batch = from_json_lines(f"{line}\n\n{nulls}\n".encode(), ALL)
    assert batch.to_pylist() == [VALUES, dict.fromkeys(ALL.names)]
    assert batch.schema.equals(ALL)


def test_csv_of_every_type_is_read() -> None:
    text = (
        "at,flag,tiny,n,x,price,name,blob,day\n"
        '2026-01-31 12:00:00.123456,true,-5,1152921504606846976,1.5,12.30,"a,""b""\nc",AP8=,2026-01-31\n'
        ",,,,,,,,\n"
    )
    assert from_csv(text.encode(), ALL).to_pylist() == [VALUES, dict.fromkeys(ALL.names)]


def test_dicts_of_every_type_are_read() -> None:
    text_times = {**VALUES, "at": "2026-01-31T12:00:00.123456", "day": "2026-01-31"}
    (batch,) = to_batches([VALUES, dict.fromkeys(ALL.names)], ALL)
    assert batch.to_pylist() == [VALUES, dict.fromkeys(ALL.names)]
    (batch,) = to_batches([VALUES, text_times], ALL)
    assert batch.to_pylist() == [VALUES, VALUES]


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-01-31T12:00:00Z", 12),
        ("2026-01-31T12:00:00", 12),
        ("2026-01-31 12:00", 12),
        ("2026-01-31T12:00:00.5+02:00", 10),
        ("2026-01-31T12:00:00-0300", 15),
        ("2026-01-31", 0),
    ],
)
def test_times_have_a_zone_or_are_utc(text: str, hour: int) -> None:
    batch = from_json_lines(f'{{"at":"{text}"}}'.encode(), pa.schema([ALL.field("at")]))
    assert batch.column("at")[0].as_py().hour == hour


def test_an_empty_csv_field_is_null_and_a_quoted_one_is_empty_text() -> None:
    assert from_csv(b'name,x\n"",1\n,2\n', XN).column("name").to_pylist() == ["", None]


def test_nothing_is_no_rows() -> None:
    assert from_json_lines(b"\n \n", XN).num_rows == 0
    assert from_csv(b"name,x\n", XN).num_rows == 0


# --- what is wrong, and where --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"name":"a","x":"2"}', """column 'x': "2" is not a double."""),
        ('{"name":7,"x":2}', "column 'name': 7 is not text."),
        ('{"name":"a","x":', "it is not JSON"),
        ("[1]", "it is not a JSON object."),
        ('{"name":"a","x":1} {"name":"b","x":2}', "it is not JSON: Extra data"),
        ('{"name":"a","x":1,"x":2}', "a column is given twice."),
        ('{"nam":"a","x":1}', "Columns: unknown 'nam'."),
    ],
)
def test_the_first_bad_json_line_is_named_with_its_reason(line: str, why: str) -> None:
    good = '{"name":null,"x":1}\n'
    error = refusal(from_json_lines, (good * 5 + "\n" + line + "\n" + good + line).encode(), XN)
    assert error.row == 5
    assert error.message.startswith(f"Row 6: {why}")


def test_of_several_bad_rows_the_first_is_named_whatever_is_wrong_with_it() -> None:
    schema = pa.schema([ALL.field("at"), ALL.field("n"), ALL.field("blob")])
    lines = [
        '{"at":"2026-01-31","n":1,"blob":""}',
        '{"at":"2026-01-31","n":1,"blob":"?"}',
        '{"at":"soon","n":1,"blob":""}',
        '{"at":"2026-01-31","n":1.5,"blob":""}',
    ]
    text = "\n".join(lines).encode()
    first = refusal(from_json_lines, text, schema, first_row=100)
    assert (first.row, "'?' is not a binary" in first.message, "base64" in first.remedy) == (101, True, True)
    lines[1] = lines[0]
    second = refusal(from_json_lines, "\n".join(lines).encode(), schema)
    assert (second.row, "'soon' is not a timestamp" in second.message) == (2, True)
    lines[2] = lines[0]
    assert refusal(from_json_lines, "\n".join(lines).encode(), schema).row == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a,b", "column 'x': 'b' is not a double."),
        ("a,1,2", "it has 3 fields, the header 2."),
        ("a", "it has 1 fields, the header 2."),
    ],
)
def test_the_first_bad_csv_row_is_named_with_its_reason(line: str, why: str) -> None:
    error = refusal(from_csv, f'name,x\n"two\nlines",1\nb,2\n{line}\nc,d\ne,f,g\n'.encode(), XN)
    assert (error.row, error.message) == (2, f"Row 3: {why}")


def test_csv_that_is_not_utf8_is_refused_like_any_bad_row() -> None:
    error = refusal(from_csv, b"name,x\na,1\nb\xff,2\nc,d\ne,f,g\n", XN)
    assert (error.row, error.message) == (1, "Row 2: column 'name': it is not UTF-8.")
    assert refusal(from_csv, b"name,x\na,b\nb\xff,2\n", XN).message == "Row 1: column 'x': 'b' is not a double."
    assert refusal(from_csv, b"name,x\na,1,1\nb\xff,2\n", XN).message == "Row 1: it has 3 fields, the header 2."
    assert refusal(from_csv, b"n\xff,x\na,1\n", XN).message == "The header is not UTF-8."


def test_csv_columns_are_checked_by_name() -> None:
    error = refusal(from_csv, b"nme,x,x\na,1,1\n", XN)
    assert error.message == "Columns: unknown 'nme'; missing 'name'; given twice 'x'."
    assert error.remedy == "Did you mean 'name'? The source has: name, x."


def test_a_bad_dict_is_named() -> None:
    assert refusal(to_batches, [{"name": "a", "x": 1.0}, {"name": "a", "x": "b"}], XN).row == 1
    error = refusal(to_batches, [{"name": "a", "x": 1.0}, {"name": "a", "y": 1.0}], XN)
    assert (error.row, error.message) == (1, "Row 2: Columns: unknown 'y'.")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((1.0, 1.5), pa.int64()),
        ((1, Decimal("1.5")), pa.int8()),
        ((0, 0.5), pa.timestamp("us", "UTC")),
        ((datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 1, 31, 12, tzinfo=UTC)), pa.date32()),
    ],
)
def test_a_dict_is_converted_only_without_loss(values: tuple[object, object], wanted: pa.DataType) -> None:
    whole, cut = ({"c": value} for value in values)
    assert to_batches([whole], pa.schema([("c", wanted)]))[0].num_rows == 1
    assert refusal(to_batches, [whole, cut], pa.schema([("c", wanted)])).row == 1


def test_an_object_may_leave_out_what_is_null() -> None:
    rows = [{"name": "a", "x": 1.0}, {"name": "b"}, {"x": 2.0}]
    expected = [{"name": "a", "x": 1.0}, {"name": "b", "x": None}, {"name": None, "x": 2.0}]
    assert to_batches(rows, XN)[0].to_pylist() == expected
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    assert from_json_lines(lines, XN).to_pylist() == expected


@pytest.mark.parametrize(
    ("given_array", "wanted", "row"),
    [
        (pa.array([1, 300]), pa.int8(), 1),
        (pa.array([1.0, 2.0, 2.5]), pa.int64(), 2),
        (pa.array(["1.5", "x"]), pa.decimal128(10, 2), 1),
        (pa.array([Decimal("1.234")]), pa.decimal128(10, 2), 0),
        (pa.array([0, 1], pa.timestamp("ns")), pa.timestamp("us", "UTC"), 1),
        (pa.array([0, 3_600], pa.timestamp("s")), pa.date32(), 1),
        (pa.array([1.1, 1e300]), pa.float32(), 1),
        (pa.array(["1"]), pa.int64(), None),
        (pa.array([1]), pa.string(), None),
        (pa.array([True]), pa.int64(), None),
    ],
)
def test_a_table_column_is_converted_only_without_loss(given_array: pa.Array, wanted: pa.DataType, row: int) -> None:
    batch = pa.RecordBatch.from_arrays([given_array], names=["c"])
    assert refusal(conform, batch, pa.schema([("c", wanted)])).row == row


@pytest.mark.parametrize(
    ("given_array", "wanted"),
    [
        (pa.array([1, None], pa.int64()), pa.decimal128(10, 2)),
        (pa.array(["a", "b"]).dictionary_encode(), pa.string()),
        (pa.array(["a"], pa.large_string()), pa.string()),
        (pa.array([0], pa.timestamp("ms")), pa.timestamp("us", "UTC")),
        (pa.array([None, None]), pa.float64()),
        (pa.array([1], pa.int32()), pa.float64()),
    ],
)
def test_a_table_column_of_a_kindred_type_is_taken(given_array: pa.Array, wanted: pa.DataType) -> None:
    batch = conform(pa.RecordBatch.from_arrays([given_array], names=["c"]), pa.schema([("c", wanted)]))
    assert batch.column("c").type == wanted


# --- pipes and sizes -----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.text('a"\n,', max_size=4), st.integers(0, 99)), max_size=30), st.integers(1, 40))
def test_a_pipe_gives_the_same_rows_however_it_is_cut(expected: list[tuple[str, int]], size: int) -> None:
    text = "name,x\n" + "".join('"' + name.replace('"', '""') + f'",{x}\n' for name, x in expected)

    class Pipe(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return self.read(size)

    batches = list(read_text(Pipe(text.encode()), "csv", XN))
    assert [(row["name"], row["x"]) for batch in batches for row in batch.to_pylist()] == expected


def test_a_bad_row_of_a_pipe_is_counted_over_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "CHUNK_BYTES", 64)
    text = b'{"name":"a","x":1}\n' * 50 + b'{"nme":"a"}\n'
    error = refusal(list, read_text(io.BytesIO(text), "json", XN))
    assert (error.row, error.message) == (50, "Row 51: Columns: unknown 'nme'.")


def test_a_last_line_without_newline_counts() -> None:
    batches = list(read_text(io.BytesIO(b"name,x\na,1\nb,2"), "csv", XN))
    assert [batch.column("x").to_pylist() for batch in batches] == [[1], [2]]


def test_a_row_that_no_message_holds_is_refused() -> None:
    batch = pa.RecordBatch.from_pylist([{"name": "a", "x": 1.0}, {"name": "b" * 1_000, "x": 1.0}], schema=XN)
    error = refusal(list, rows.split(batch, max_bytes=100))
    assert (error.row, "above the limit of 100" in error.message) == (1, True)
