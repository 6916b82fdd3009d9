"""Rows of files: in order, from any number on, at any speed, and with the place of every bad row."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.columns import arrow_schema
from anabranch.connectors import file_feed
from anabranch.connectors.feed import Over, Rows, Wait
from anabranch.connectors.file_feed import FileRows
from anabranch.errors import ConfigError, PushRefused
from anabranch.model.times import SECOND
from anabranch.query.connectors import FileFeed
from anabranch.transport import rows as text_rows

SCHEMA = arrow_schema([("x", "bigint"), ("name", "string"), ("at", "timestamp")])
START = datetime(2026, 1, 1, tzinfo=UTC)
T0 = int(START.timestamp()) * SECOND
NOW = T0 + 10**15


def table(count: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "x": pa.array(numbers, pa.int64()),
            "name": [f'a "{number}",\nb' if number % 7 == 0 else f"n{number}" for number in numbers],
            "at": pa.array([START + timedelta(seconds=number) for number in numbers], pa.timestamp("us", "UTC")),
        },
        schema=SCHEMA,
    )


def write(path: Path, rows: pa.Table) -> Path:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(rows, path)
    elif path.suffix == ".parquet":
        pq.write_table(rows, path, row_group_size=10)
    else:
        lines = (json.dumps({**row, "at": row["at"].isoformat()}) for row in rows.to_pylist())
        path.write_text("\n\n".join(lines) + "\n")
    return path


def feed(path: Path | str, **options: Any) -> FileRows:
    return FileRows(FileFeed(path=str(path), **options), SCHEMA, "at")


def rest(made: FileRows, number: int = 1) -> pa.Table:
    made.begin(number, NOW)
    batches = []
    while isinstance(taken := made.take(NOW), Rows):
        batches.append(taken.batch)
    assert taken == Over(close=True)
    return pa.Table.from_batches(batches, schema=SCHEMA).combine_chunks()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=3), cut=st.floats(0, 1), chunk=st.integers(60, 900))
def test_begun_anywhere_the_rest_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, sizes: list[int], cut: float, chunk: int
) -> None:
    monkeypatch.setattr(text_rows, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(file_feed, "BATCH_ROWS", 7)
    directory = tmp_path / f"{suffix}-{abs(hash((tuple(sizes), chunk)))}"
    directory.mkdir(exist_ok=True)
    for index, size in enumerate(sizes):
        write(directory / f"{index}.{suffix}", table(size, sum(sizes[:index])))
    skip = round(cut * sum(sizes))
    assert rest(feed(directory), skip + 1).equals(table(sum(sizes)).slice(skip).combine_chunks())


def test_a_file_a_directory_and_a_pattern(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", table(2, 1))
    write(tmp_path / "a.jsonl", table(1, 0))
    (tmp_path / "notes.txt").write_text("not rows")
    (tmp_path / "_SUCCESS").write_text("")
    assert rest(feed(tmp_path)).column("x").to_pylist() == [0, 1, 2]
    assert rest(feed(tmp_path / "b.csv")).column("x").to_pylist() == [1, 2]
    assert rest(feed(tmp_path / "*.csv")).column("x").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "x,name,at\n1,a,2026-01-01T00:00:00Z\nfive,a,2026-01-01T00:00:00Z\n", ("a.csv", "Row 2", "five")),
        ("a.csv", "x,nam,at\n1,a,2026-01-01T00:00:00Z\n", ("a.csv", "nam", "name")),
        ("a.jsonl", '{"x": 1}\n{"x": 2}\n{"x": oops}\n', ("a.jsonl", "Row 3", "JSON")),
    ],
)
def test_a_bad_row_is_told_with_file_and_row(tmp_path: Path, name: str, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(PushRefused) as caught:
        rest(feed(tmp_path / name))
    assert [word for word in words if word not in str(caught.value)] == []


def test_what_cannot_be_read_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        feed(tmp_path / "missing.csv")
    (tmp_path / "rows").write_text("x")
    with pytest.raises(ConfigError, match="format=csv"):
        feed(tmp_path / "rows")
    (tmp_path / "bad.parquet").write_text("not parquet")
    with pytest.raises(ConfigError, match=r"bad\.parquet"):
        rest(feed(tmp_path / "bad.parquet"))


def test_files_that_have_become_shorter_are_not_taken_for_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", table(3))
    with pytest.raises(ConfigError, match="2 fewer rows"):
        rest(feed(path), 6)


def test_a_speed_replays_the_times_of_the_rows(tmp_path: Path) -> None:
    made = feed(write(tmp_path / "a.csv", table(4)), speed=10.0)
    made.begin(1, NOW)
    seen = []
    now = NOW
    while not isinstance(taken := made.take(now), Over):
        if isinstance(taken, Wait):
            now += round(taken.seconds * SECOND)
        else:
            seen.append((now - NOW, taken.batch.column("x").to_pylist()))
    assert seen == [(0, [0]), (100_000, [1]), (200_000, [2]), (300_000, [3])]


def test_a_replay_that_was_held_up_says_how_far_it_is_behind(tmp_path: Path) -> None:
    made = feed(write(tmp_path / "a.csv", table(4)), speed=1.0)
    made.begin(1, NOW)
    made.take(NOW)
    assert made.lag_us(NOW + 5 * SECOND) == 4 * SECOND
    taken = made.take(NOW + 5 * SECOND)
    assert isinstance(taken, Rows)
    assert taken.batch.num_rows == 3
    assert taken.place(0).endswith("a.csv, row 2")


def test_a_feed_may_wait_for_rows_that_are_still_being_written(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    made = feed(path, then="wait")
    made.begin(1, NOW)
    assert isinstance(made.take(NOW), Wait)
    lines = [json.dumps({"x": number, "at": START.isoformat()}) for number in range(3)]
    path.write_text(lines[0] + "\n" + lines[1][:8])
    assert taken_until_it_waits(made) == [0]
    path.write_text("\n".join(lines) + "\n")
    assert taken_until_it_waits(made) == [1, 2]
    assert taken_until_it_waits(made) == []


def taken_until_it_waits(made: FileRows) -> list[int]:
    found: list[int] = []
    while not (isinstance(taken := made.take(NOW), Wait) and taken.seconds):
        if isinstance(taken, Rows):
            found += taken.batch.column("x").to_pylist()
    return found
