"""Journals as Spark reads them: ranges that end with their control row, cut to what is needed, divided by rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch import limits
from anabranch.columns import arrow_schema
from anabranch.errors import StreamNotFound
from anabranch.model.header import STIME
from anabranch.model.selection import ALL_ROWS, Range, Selection
from anabranch.node.journals import cuts, read_range
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.transport.journals import Control, JournalRequest, Rows

HOUR_US = 3600 * 1_000_000
ORIGINS = ("a/0", "b/0")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "s.db")
    schema = arrow_schema([("x", "bigint"), ("y", "bigint")])
    store.create_log(
        LogSpec(name="s", schema=schema, origins=ORIGINS, kind="output", retention_us=HOUR_US, limit_bytes=1 << 30)
    )
    append(store, [("a/0", 10), ("b/0", 5)], {"a/0": 10})
    append(store, [("a/0", 12), ("b/0", 7)], {"b/0": 7})
    append(store, [], {"a/0": 20, "b/0": 20})
    yield store
    store.close()


def append(store: Store, rows: list[tuple[str, int]], punctuations: dict[str, int]) -> None:
    columns = {
        "_tid": pa.array(range(len(rows)), pa.int64()),
        "_stime": pa.array([time for _, time in rows], pa.timestamp("us", "UTC")),
        "_origin": pa.array([ORIGINS.index(origin) for origin, _ in rows], pa.int32()),
        "x": pa.array([time for _, time in rows], pa.int64()),
        "y": pa.array([-time for _, time in rows], pa.int64()),
    }
    with store.transaction() as transaction:
        transaction.append("s", pa.table(columns) if rows else None, punctuations, now_us=1)


def read(
    log: Log, after: int, to: int, rows: Selection = ALL_ROWS, columns: tuple[str, ...] = (STIME, "x", "y")
) -> tuple[list[dict[str, int]], int | None]:
    """The rows of a range, with all columns that are sent, and the time of its control row."""
    request = JournalRequest(stream=log.name, after_seq=after, to_seq=to, columns=columns, rows=rows)
    schema, pieces = read_range(log, frozenset(log.spec.origins), request)
    found: list[dict[str, int]] = []
    control = None
    for piece in pieces:
        match piece:
            case Rows(message):
                found += pa.ipc.read_record_batch(pa.py_buffer(message), schema).to_pylist()
            case Control(time_us):
                assert control is None
                control = time_us
    return found, control


def xs(log: Log, after: int, to: int, rows: Selection = ALL_ROWS) -> tuple[list[int], int | None]:
    found, control = read(log, after, to, rows)
    return [row["x"] for row in found], control


def test_a_range_ends_with_the_smallest_promise(store: Store) -> None:
    assert xs(store.log("s"), 0, 2) == ([10, 5, 12, 7], 7)
    assert xs(store.log("s"), 2, 3) == ([], 20)


def test_a_range_has_its_promise_also_when_none_of_its_rows_is_wanted(store: Store) -> None:
    assert xs(store.log("s"), 0, 2, ((Range(column="x", low=7, high=9),),)) == ([7], 7)
    assert xs(store.log("s"), 0, 2, ((Range(column="x", low=99),),)) == ([], 7)


def test_while_one_origin_promises_nothing_there_is_no_control_row(store: Store) -> None:
    assert xs(store.log("s"), 0, 1) == ([10, 5], None)


def test_a_range_reads_the_same_again(store: Store) -> None:
    before = xs(store.log("s"), 0, 2)
    append(store, [("a/0", 40)], {"a/0": 40})
    assert xs(store.log("s"), 0, 2) == before


@pytest.mark.parametrize("rows", [ALL_ROWS, ((Range(column="x", low=0),),)])
def test_rows_that_are_all_needed_go_out_as_they_are_stored(store: Store, rows: Selection) -> None:
    log = store.log("s")
    request = JournalRequest(stream="s", after_seq=0, to_seq=2, columns=("x", STIME, "y"), rows=rows)
    _, pieces = read_range(log, frozenset(ORIGINS), request)
    sent = [bytes(piece.message) for piece in pieces if isinstance(piece, Rows)]
    assert sent == [bytes(segment.body or b"") for segment in log.read(0, 2)]


def test_columns_that_nobody_needs_are_not_sent(store: Store) -> None:
    found, _ = read(store.log("s"), 0, 1, columns=("y",))
    assert found == [{"y": -10}, {"y": -5}]
    found, _ = read(store.log("s"), 0, 1, ((Range(column="x", low=7),),), columns=("y", "_tid"))
    assert found == [{"y": -10, "_tid": 0}]


def test_a_column_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(StreamNotFound, match="no column 'z'"):
        read(store.log("s"), 0, 1, columns=("z",))


def test_a_range_that_is_not_held_is_refused(store: Store) -> None:
    with pytest.raises(StreamNotFound, match="does not hold segment 9"):
        read(store.log("s"), 0, 9)


def test_ranges_are_divided_by_rows_not_by_segments(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RANGE_ROWS", 1)
    for _ in range(10):
        append(store, [("a/0", 50)], {})
    append(store, [("a/0", 60)] * 10, {})
    log = store.log("s")
    assert cuts(log, 3, 14, 2) == [3, 13, 14]
    assert cuts(log, 3, 14, 4) == [3, 8, 13, 14]
    assert cuts(log, 13, 14, 4) == [13, 14]
    assert cuts(log, 14, 14, 4) == [14]


def test_a_few_rows_are_one_range(store: Store) -> None:
    assert cuts(store.log("s"), 0, 3, 8) == [0, 3]


def test_the_last_small_segments_are_at_hand_and_no_others(store: Store) -> None:
    log = store.log("s")
    assert log.is_at_hand(0, 3)
    assert not log.is_at_hand(3, 3), "there is nothing to send"
    for time in range(21, 29):
        append(store, [("a/0", time)], {})
    assert not log.is_at_hand(2, 11)
    assert log.is_at_hand(3, 11)
    assert log.is_at_hand(5, 7)
