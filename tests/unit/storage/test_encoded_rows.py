"""Rows that were encoded elsewhere are in a log as if they had been encoded there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import InvariantBroken
from anabranch.limits import SEGMENT_ROWS
from anabranch.storage import codec
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store

DATA = pa.schema([("x", pa.int64())])
STORED = codec.stored_schema(DATA)


def rows(*stamps: int) -> pa.RecordBatch:
    data = pa.RecordBatch.from_pydict({"x": list(range(len(stamps)))}, schema=DATA)
    numbers = np.arange(1, len(stamps) + 1, dtype=np.int64)
    return codec.with_header(data, STORED, numbers=numbers, stamps=np.array(stamps, dtype=np.int64), code=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "s.db")
    for name in ("one", "other"):
        store.create_log(
            LogSpec(name=name, schema=DATA, origins=("a", "b"), kind="source", retention_us=10**12, limit_bytes=10**9)
        )
    return store


def test_a_log_is_the_same_whoever_encoded_its_rows(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.append("one", rows(30, 10, 20), {"b": 5}, now_us=7)
        transaction.append_encoded("other", codec.encoded(rows(30, 10, 20), "b"), {"b": 5}, now_us=7)
    one, other = ([*store.log(name).read(0, 1)] for name in ("one", "other"))
    assert [(each.rows, each.punctuations, each.first_id) for each in one] == [
        (each.rows, each.punctuations, each.first_id) for each in other
    ]
    assert store.log("one").tops() == store.log("other").tops() == {"b": 30}
    assert store.log("one").bytes() == store.log("other").bytes()


def test_what_is_remembered_is_what_is_stored(store: Store, tmp_path: Path) -> None:
    for number in range(1, 30):
        with store.transaction() as transaction:
            transaction.append_encoded("one", codec.encoded(rows(number), "b"), {"b": number}, now_us=number)
    remembered = [(each.seq, each.rows, dict(each.punctuations)) for each in store.log("one").read(25, 29)]
    all_read = [(each.seq, each.rows, dict(each.punctuations)) for each in store.log("one").read(0, 29)]
    store.close()
    again = Store.open(tmp_path / "s.db")
    stored = [(each.seq, each.rows, dict(each.punctuations)) for each in again.log("one").read(0, 29)]
    assert all_read == stored
    assert remembered == stored[25:]
    again.close()


def test_a_part_of_a_batch_says_its_own_times() -> None:
    (encoded,) = codec.encoded(rows(30, 10, 20).slice(1), "b")
    assert (encoded.count, encoded.lowest_us, encoded.highest_us) == (2, 10, 20)


def test_many_rows_become_several_segments() -> None:
    count = SEGMENT_ROWS + 1
    pieces = codec.encoded(rows(*range(1, count + 1)), "b")
    assert [(each.count, each.lowest_us, each.highest_us) for each in pieces] == [
        (SEGMENT_ROWS, 1, SEGMENT_ROWS),
        (1, count, count),
    ]


def test_rows_below_what_was_promised_are_refused(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.append_encoded("one", (), {"b": 10}, now_us=7)
    with pytest.raises(InvariantBroken, match="below its punctuation 10"), store.transaction() as transaction:
        transaction.append_encoded("one", codec.encoded(rows(9), "b"), {}, now_us=7)


def test_rows_of_an_unknown_origin_are_refused(store: Store) -> None:
    with pytest.raises(InvariantBroken, match="no origin"), store.transaction() as transaction:
        transaction.append_encoded("one", codec.encoded(rows(9), "c"), {}, now_us=7)
