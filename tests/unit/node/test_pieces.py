"""A few rows are collected for a reader that lets them wait, and sent as one piece; many rows wait for nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.limits import PACE_ROWS
from anabranch.node.pieces import JOINED_ROWS, pieces
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from anabranch.transport.ports import CopyPiece
from tests.waiting import HANG_S, wait_for


class Sender:
    """A log, and what is sent of it while it grows."""

    def __init__(self, store: Store, log: Log, hold_s: float) -> None:
        self._store = store
        self._last = 0
        self.log = log
        self.sent: list[CopyPiece] = []
        self._over = False
        self._pieces = pieces(log, 1, lambda: self._over, quiet_s=HANG_S, hold_s=lambda: hold_s)
        self._thread = threading.Thread(target=self._run)

    def append(self, count: int) -> None:
        numbers = range(self._last + 1, self._last + 1 + count)
        self._last += count
        with self._store.transaction() as transaction:
            transaction.append("s", _rows(numbers), {"a": self._last}, now_us=1)

    def next(self) -> CopyPiece:
        return next(self._pieces)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        for piece in self._pieces:
            self.sent.append(piece)

    def end(self) -> None:
        self._over = True
        while self._thread.is_alive():
            self.log.wake()
            self._thread.join(0.01)


def _rows(numbers: range) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "_tid": pa.array(numbers, pa.int64()),
            "_stime": pa.array(numbers, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "_origin": pa.array([0] * len(numbers), pa.int32()),
            "x": pa.array(numbers, pa.int64()),
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "s.db")
    schema = pa.schema([("x", pa.int64())])
    store.create_log(
        LogSpec(name="s", schema=schema, origins=("a",), kind="source", retention_us=1 << 60, limit_bytes=1 << 30)
    )
    yield store
    store.close()


def sizes(sent: list[CopyPiece]) -> list[int]:
    return [piece.rows.num_rows for piece in sent]


def test_small_segments_are_one_piece_with_what_the_last_promises(store: Store) -> None:
    sender = Sender(store, store.log("s"), hold_s=HANG_S)
    for _ in range(3):
        sender.append(2)
    sender.next()
    piece = sender.next()
    assert (piece.first_id, piece.promises) == (1, {"a": 6})
    assert piece.rows.column("x").to_pylist() == [1, 2, 3, 4, 5, 6]


def test_a_piece_of_several_segments_is_no_larger_than_an_inlet_lets_wait(store: Store) -> None:
    sender = Sender(store, store.log("s"), hold_s=HANG_S)
    for count in (JOINED_ROWS - 1, 1, 1, JOINED_ROWS + 1, 2):
        sender.append(count)
    sender.next()
    assert sizes([sender.next() for _ in range(4)]) == [JOINED_ROWS, 1, JOINED_ROWS + 1, 2]


def test_a_few_rows_wait_for_many(store: Store) -> None:
    sender = Sender(store, store.log("s"), hold_s=2 * HANG_S)  # nothing but many rows can end it in time
    sender.append(1)
    sender.start()
    wait_for(lambda: sizes(sender.sent) == [0, 1])
    for _ in range(3):
        sender.append(1)
    sender.append(PACE_ROWS - 3)
    wait_for(lambda: len(sender.sent) == 4)
    sender.end()
    assert sizes(sender.sent) == [0, 1, 3, PACE_ROWS - 3]


def test_the_rows_behind_many_wait_for_nothing(store: Store) -> None:
    sender = Sender(store, store.log("s"), hold_s=2 * HANG_S)
    sender.append(PACE_ROWS)
    sender.start()
    wait_for(lambda: sizes(sender.sent) == [0, PACE_ROWS])
    sender.append(1)
    wait_for(lambda: sizes(sender.sent) == [0, PACE_ROWS, 1])
    sender.end()


def test_a_row_after_the_hold_is_sent_at_once(store: Store) -> None:
    sender = Sender(store, store.log("s"), hold_s=0.001)
    sender.start()
    for sent in range(1, 4):
        sender.append(1)
        wait_for(lambda sent=sent: sizes(sender.sent)[1:] == [1] * sent)  # type: ignore[misc]
    sender.end()


def test_without_a_hold_every_segment_is_a_piece(store: Store) -> None:
    sender = Sender(store, store.log("s"), hold_s=0)
    for _ in range(3):
        sender.append(1)
    assert sizes([sender.next() for _ in range(4)]) == [0, 1, 1, 1]
