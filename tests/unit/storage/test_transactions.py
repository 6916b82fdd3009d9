"""All or nothing: a transaction that fails leaves memory and disk as they were, and equal."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest

from anabranch.errors import InvariantBroken, StateError, StreamNotFound
from anabranch.storage import BatchRecord, Store, connect_sqlite
from anabranch.storage.store import LOOK_BYTES
from anabranch.storage.transaction import Transaction
from tests.unit.storage.stories import NOW, append, observe, rows, spec, values_in


def test_an_exception_undoes_everything_in_memory_and_on_disk(path: Path, store: Store) -> None:
    append(store, [1])
    before = observe(store)

    def do_much_and_fail() -> None:
        with store.transaction() as transaction:
            transaction.append("s", rows([2]), {"s/0": 5}, now_us=NOW)
            transaction.put("k", b"no")
            transaction.add_reader("s", "r", at_seq=1)
            transaction.acknowledge("s", "r", 2)
            transaction.trim("s", now_us=NOW)
            transaction.record_batch(BatchRecord(lineage="a", batch_id=1, ranges="", watermark_us=0))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        do_much_and_fail()
    assert observe(store) == before
    store.close()
    reopened = Store.open(path)
    assert observe(reopened) == before
    append(reopened, [2])
    assert values_in(reopened.log("s")) == [1, 2]
    reopened.close()


def test_nobody_sees_an_append_before_its_commit(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.append("s", rows([1]), {"s/0": 5}, now_us=NOW)
        assert (store.log("s").end_seq(), store.log("s").punctuations()) == (0, {})
    assert (store.log("s").end_seq(), store.log("s").punctuations()) == (1, {"s/0": 5})


def test_a_transaction_inside_another_is_a_bug_and_not_a_deadlock(store: Store) -> None:
    with pytest.raises(InvariantBroken, match="begun inside another"), store.transaction(), store.transaction():
        pass
    append(store, [1])


def test_a_transaction_is_over_when_its_block_ends(store: Store) -> None:
    with store.transaction() as transaction:
        pass
    for late in (lambda: transaction.put("k", b""), lambda: transaction.append("s", rows([1]), {}, now_us=NOW)):
        with pytest.raises(InvariantBroken, match="used after it had ended"):
            late()
    assert observe(store)["k"] is None


def test_a_failed_statement_cannot_be_swallowed_into_a_commit(store: Store) -> None:
    def careless(transaction: Transaction) -> None:
        transaction.append("s", rows([1]), {}, now_us=NOW)
        with pytest.raises(sqlite3.Error):
            transaction.put("k", None)  # type: ignore[arg-type]

    with pytest.raises(InvariantBroken, match="operations had failed"), store.transaction() as transaction:
        careless(transaction)
    assert store.log("s").end_seq() == 0


def test_a_second_writer_on_the_same_file_is_noticed(path: Path, store: Store) -> None:
    append(store, [1])
    second = Store.open(path)
    append(second, [2])
    second.close()
    for _ in range(2):
        with pytest.raises(StateError, match="Another process has written"):
            append(store, [3])


def test_commits_are_synced_unless_a_test_asks_otherwise(path: Path, store: Store) -> None:
    connection = connect_sqlite(path)
    settings = {name: connection.execute(f"PRAGMA {name}").fetchall() for name in ("synchronous", "journal_mode")}
    connection.close()
    assert settings == {"synchronous": [(2,)], "journal_mode": [("wal",)]}  # 2 is FULL


def test_a_closed_store_says_so(store: Store) -> None:
    log = store.log("s")
    append(store, [1])
    store.close()
    store.close()
    with pytest.raises(StateError, match="is closed"):
        append(store, [2])
    with pytest.raises(StateError, match="is closed"):
        list(log.read(0, 1))


def test_names_that_are_not_there(store: Store) -> None:
    with pytest.raises(StreamNotFound, match="no log 'x'"):
        store.log("x")
    with pytest.raises(StreamNotFound, match="no log 'x'"):
        append(store, [1], log="x")


def test_several_logs_share_a_transaction(path: Path, store: Store) -> None:
    store.create_log(spec("s.late"))
    with store.transaction() as transaction:
        transaction.append("s", rows([1]), {}, now_us=NOW)
        transaction.append("s.late", rows([2]), {}, now_us=NOW)

    def fail_between_two() -> None:
        with store.transaction() as transaction:
            transaction.append("s", rows([3]), {}, now_us=NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_between_two()
    assert {name: values_in(log) for name, log in store.logs.items()} == {"s": [1], "s.late": [2]}


def test_the_size_of_the_write_ahead_log_is_looked_at_when_it_may_have_grown(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as it grows, and hardly for transactions that are small."""
    looked: list[int] = []
    wal_bytes = store._wal_bytes

    def look() -> int:
        looked.append(wal_bytes())
        return looked[-1]

    monkeypatch.setattr(store, "_wal_bytes", look)
    for value in range(100):
        append(store, [value])
    assert len(looked) < 20
    looked.clear()
    for value in range(100):
        append(store, [value], padding=900_000)
    assert len(looked) > 10
    assert all(abs(after - before) < 2 * LOOK_BYTES for before, after in pairwise(looked))
