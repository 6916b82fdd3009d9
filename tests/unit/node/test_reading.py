"""What readers get of a log: wire batches in log order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.columns import arrow_schema
from anabranch.errors import StreamNotFound
from anabranch.model.header import Kind
from anabranch.model.position import Position
from anabranch.node.reading import wire_batches
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.transport.ports import ReadRequest

HOUR_US = 3600 * 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "s.db")
    schema = arrow_schema([("x", "bigint")])
    spec = {"retention_us": HOUR_US, "limit_bytes": 1 << 30}
    store.create_log(LogSpec(name="s", schema=schema, origins=("a/0", "b/0"), kind="output", **spec))
    append(store, [("a/0", 10), ("b/0", 5)], {"a/0": 10})
    append(store, [("b/0", 7)], {"b/0": 7})
    append(store, [], {"a/0": 20, "b/0": 20})
    yield store
    store.close()


def append(store: Store, rows: list[tuple[str, int]], punctuations: dict[str, int]) -> None:
    codes = {"a/0": 0, "b/0": 1}
    batch = pa.RecordBatch.from_pydict(
        {
            "_tid": pa.array(range(len(rows)), pa.int64()),
            "_stime": pa.array([time for _, time in rows], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "_origin": pa.array([codes[origin] for origin, _ in rows], pa.int32()),
            "x": pa.array([time for _, time in rows], pa.int64()),
        }
    )
    with store.transaction() as transaction:
        transaction.append("s", batch, punctuations, now_us=HOUR_US)


def told(log: Log, start: Any = "start", **options: Any) -> list[tuple[str, int | None, str, int]]:
    """(kind, id, origin, time) in the order of the wire."""
    request = ReadRequest(stream="s", start=start, **options)
    found = []
    for batch in wire_batches(log, request, lambda: False):
        times = batch.column("_stime").cast(pa.int64()).to_pylist()
        columns = batch.to_pydict()
        found += zip(map(Kind, columns["_kind"]), columns["_id"], columns["_origin"], times, strict=True)
    return [(kind.name, number, origin, time) for kind, number, origin, time in found]


def test_boundaries_come_after_the_rows_they_cover(store: Store) -> None:
    assert told(store.log("s")) == [
        ("INSERTION", 1, "a/0", 10),
        ("INSERTION", 2, "b/0", 5),
        ("BOUNDARY", None, "a/0", 10),
        ("INSERTION", 3, "b/0", 7),
        ("BOUNDARY", None, "b/0", 7),
        ("BOUNDARY", None, "a/0", 20),
        ("BOUNDARY", None, "b/0", 20),
    ]


def test_a_reader_goes_on_after_its_position_and_hears_what_was_promised_there(store: Store) -> None:
    log = store.log("s")
    ids = [number for _, number, _, _ in told(log, Position(log.incarnation, 1)) if number]
    assert ids == [2, 3]
    assert told(log, Position(log.incarnation, 3))[-2:] == [
        ("BOUNDARY", None, "a/0", 20),
        ("BOUNDARY", None, "b/0", 20),
    ]


def test_a_reader_from_the_end_hears_only_the_present_promise(store: Store) -> None:
    assert told(store.log("s"), "end") == [("BOUNDARY", None, "a/0", 20), ("BOUNDARY", None, "b/0", 20)]


def test_the_end_is_where_it_was_when_the_reader_asked(store: Store) -> None:
    batches = wire_batches(store.log("s"), ReadRequest(stream="s", start="end"), lambda: False)
    append(store, [("a/0", 30)], {})
    assert [x for batch in batches for x in batch.column("x").to_pylist() if x] == [30]


def test_a_following_reader_tells_that_it_is_alive(store: Store) -> None:
    request = ReadRequest(stream="s", start="end", follow=True)
    batches = wire_batches(store.log("s"), request, lambda: False)
    next(batches)
    assert next(batches).num_rows == 0
    append(store, [("a/0", 30)], {})
    assert next(batches).column("x").to_pylist() == [30]


@pytest.mark.parametrize("number", [-1, 4, 99])
def test_a_position_that_is_not_there_is_an_error_not_a_guess(store: Store, number: int) -> None:
    log = store.log("s")
    with pytest.raises(StreamNotFound, match="1 to 3"):
        told(log, Position(log.incarnation, number))


def test_another_incarnation_is_told(store: Store) -> None:
    with pytest.raises(StreamNotFound, match="incarnation"):
        told(store.log("s"), Position("other", 1))
