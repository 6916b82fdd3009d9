"""Rows go in, come out in order with contiguous ids, and carry the punctuations that hold after them."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import InvariantBroken, PushRefused, StateError, StreamNotFound
from anabranch.limits import SEGMENT_BYTES, SEGMENT_ROWS
from anabranch.storage import BatchRecord, LogSpec, Store
from anabranch.storage.log import READ_BYTES
from tests.unit.storage.stories import DATA, NOW, ORIGINS, append, observe, rows, spec, values_in
from tests.waiting import HANG_S


def test_what_was_appended_is_read_back_and_ids_are_contiguous(store: Store) -> None:
    append(store, [1, 2])
    append(store, [3])
    first, second = store.log("s").read(0, 2)
    assert (first.seq, first.first_id, second.seq, second.first_id) == (1, 1, 2, 3)
    assert first.rows is not None
    assert first.rows.to_pylist() == rows([1, 2]).to_pylist()
    assert second.appended_us == NOW
    assert values_in(store.log("s")) == [1, 2, 3]


def test_a_large_append_is_cut_into_segments_and_only_the_last_raises_the_punctuation(store: Store) -> None:
    table = pa.Table.from_batches([rows(range(SEGMENT_ROWS)), rows(range(SEGMENT_ROWS)), rows([7])])
    with store.transaction() as transaction:
        transaction.append("s", None, {"s/0": 5}, now_us=NOW)
        appended = transaction.append("s", table, {"s/0": 11, "s/1": 9}, now_us=NOW)
    assert (appended.first_seq, appended.last_seq) == (2, 4)
    assert (appended.first_id, appended.last_id, appended.rows) == (1, 2 * SEGMENT_ROWS + 1, 2 * SEGMENT_ROWS + 1)
    log = store.log("s")
    assert [segment.punctuations for segment in log.read(1, 4)] == [{"s/0": 5}, {"s/0": 5}, {"s/0": 11, "s/1": 9}]
    assert [log.punctuations_at(seq) for seq in range(3)] == [{}, {"s/0": 5}, {"s/0": 5}]
    assert log.punctuations() == {"s/0": 11, "s/1": 9}


def test_a_segment_is_never_larger_than_a_message_may_be(store: Store) -> None:
    megabyte = "x" * (1 << 20)
    wide = rows(range(70)).set_column(3, "name", pa.array([megabyte] * 70))
    with store.transaction() as transaction:
        transaction.append("s", wide, {}, now_us=NOW)
    segments = list(store.log("s").read(0, store.log("s").end_seq()))
    assert len(segments) >= 3
    assert all(segment.rows is not None and segment.rows.nbytes <= SEGMENT_BYTES for segment in segments)
    assert values_in(store.log("s")) == list(range(70))


def test_a_row_larger_than_a_segment_is_refused_by_its_number(store: Store) -> None:
    names = pa.array(["a", "b", "x" * (SEGMENT_BYTES + 1)])
    with pytest.raises(PushRefused, match="A row takes") as refused, store.transaction() as transaction:
        transaction.append("s", rows([1, 2, 3]).set_column(3, "name", names), {}, now_us=NOW)
    assert refused.value.row == 2
    assert store.log("s").end_seq() == 0


def test_nothing_new_appends_nothing_unless_forced(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.append("s", rows([1]), {"s/0": 3}, now_us=NOW)
        nothing = transaction.append("s", rows([]), {"s/0": 3}, now_us=NOW)
        assert (nothing.segments, nothing.rows) == (0, 0)
        again = transaction.append("s", None, {}, now_us=NOW, force=True)
    assert (again.segments, again.rows, again.last_seq) == (1, 0, 2)
    (repeated,) = store.log("s").read(1, 2)
    assert (repeated.rows, repeated.first_id, repeated.punctuations) == (None, 2, {"s/0": 3})


@pytest.mark.parametrize(
    ("batch", "punctuations", "message"),
    [
        (None, {"s/0": 9}, "went back from 10 to 9"),
        (None, {"elsewhere/0": 9}, "no origin 'elsewhere/0'"),
        (rows([1, 2], time_us=9), {}, "Row 0 of 's/0' at 9 lies below its punctuation 10"),
        (rows([1], origin=2), {}, "unknown origin code"),
        (rows([1], origin=-1), {}, "unknown origin code"),
        (rows([1]).set_column(0, "_tid", pa.array([None], pa.int64())), {}, "holds NULL"),
        (rows([1]).set_column(4, "value", pa.array([1.5])), {}, "'value' was appended as double, not int64"),
        (rows([1]).drop_columns(["value"]), {}, "Columns"),
    ],
)
def test_an_append_that_breaks_a_promise_is_stopped_and_leaves_nothing(
    store: Store, batch: pa.RecordBatch | None, punctuations: dict[str, int], message: str
) -> None:
    with store.transaction() as transaction:
        transaction.append("s", rows([1]), {"s/0": 10}, now_us=NOW)
    before = observe(store)

    def append_both() -> None:
        with store.transaction() as transaction:
            transaction.append("s", rows([2]), {}, now_us=NOW)
            transaction.append("s", batch, punctuations, now_us=NOW)

    with pytest.raises(InvariantBroken, match=message):
        append_both()
    assert observe(store) == before


def test_rows_at_the_punctuation_and_rows_of_other_origins_are_welcome(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.append("s", None, {"s/0": 10}, now_us=NOW)
        transaction.append("s", rows([1], time_us=10), {}, now_us=NOW)
        transaction.append("s", rows([2], time_us=1, origin=1), {"s/1": 50}, now_us=NOW)
    assert values_in(store.log("s")) == [1, 2]


def test_positions_by_row_and_by_segment(store: Store) -> None:
    append(store, [1, 2, 3])  # segment 1
    with store.transaction() as transaction:
        transaction.append("s", None, {"s/0": 5}, now_us=NOW)  # segment 2, without rows
    append(store, [4, 5])  # segment 3
    log = store.log("s")
    assert [log.seq_before_id(id) for id in range(1, 7)] == [0, 0, 0, 2, 2, 3]
    assert [log.latest_seq(0, most) for most in (1, 3, 4, 5, 100)] == [1, 2, 2, 3, 3]
    assert [log.latest_seq(after, 1) for after in (1, 2, 3)] == [2, 3, 3]
    assert (log.rows_between(0, 3), log.rows_between(1, 2), log.rows_between(2, 3)) == (5, 0, 2)
    for id in (0, 7):
        with pytest.raises(StreamNotFound, match=f"no row {id}: it holds rows 1 to 5"):
            log.seq_before_id(id)
    with pytest.raises(StreamNotFound, match="does not hold segment 4"):
        log.read(0, 4)
    with pytest.raises(StateError, match="after segment 4"):
        log.punctuations_at(4)


def test_every_supported_column_type_comes_back_equal(path: Path) -> None:
    examples: list[tuple[pa.DataType, list[object]]] = [
        (pa.bool_(), [True, None, False]),
        (pa.int8(), [1, None, -128]),
        (pa.int16(), [1, None, -32768]),
        (pa.int32(), [1, None, -(2**31)]),
        (pa.int64(), [1, None, -(2**63)]),
        (pa.float32(), [1.5, None, float("-inf")]),
        (pa.float64(), [0.1, None, -0.0]),
        (pa.decimal128(38, 3), [Decimal("1.234"), None, Decimal("-99999999999999999999.000")]),
        (pa.string(), ["é", None, ""]),
        (pa.binary(), [b"\0", None, b""]),
        (pa.date32(), [date(2024, 2, 29), None, date(1970, 1, 1)]),
        (pa.timestamp("us", tz="UTC"), [datetime(2024, 2, 29, tzinfo=UTC), None, datetime(1970, 1, 1, tzinfo=UTC)]),
    ]
    data = pa.schema([(f"c{index}", type) for index, (type, _) in enumerate(examples)])
    columns = [pa.array(values, type) for type, values in examples]
    header = rows([1, 2, 3]).columns[:3]
    batch = pa.RecordBatch.from_arrays([*header, *columns], names=["_tid", "_stime", "_origin", *data.names])
    store = Store.open(path)
    log = store.create_log(
        LogSpec(name="all", schema=data, origins=ORIGINS, kind="output", retention_us=1, limit_bytes=1)
    )
    with store.transaction() as transaction:
        transaction.append("all", batch.slice(1), {}, now_us=NOW)
    store.close()
    store = Store.open(path)
    (segment,) = store.log("all").read(0, log.end_seq())
    assert segment.rows is not None
    assert segment.rows.to_pylist() == batch.slice(1).to_pylist()
    store.close()


def test_a_store_is_the_same_after_it_was_closed_and_opened(path: Path, store: Store) -> None:
    with store.transaction() as transaction:
        transaction.append("s", rows([1, 2]), {"s/1": 4}, now_us=NOW)
        transaction.put("k", b"lane")
        transaction.add_reader("s", "spark", at_seq=0)
        transaction.record_batch(BatchRecord(lineage="a", batch_id=0, ranges="{}", watermark_us=3))
    before = observe(store)
    store.close()
    again = Store.open(path)
    assert observe(again) == before
    again.close()


@pytest.mark.parametrize(("kept", "most"), [("store", READ_BYTES + (3 << 20)), ("inline", 4 << 20)])
def test_reading_many_segments_takes_memory_for_a_few(request: pytest.FixtureRequest, kept: str, most: int) -> None:
    store = request.getfixturevalue(kept)
    with store.transaction() as transaction:
        for value in range(40):
            transaction.append("s", rows([value], padding=1 << 20), {}, now_us=NOW)
    before = pa.total_allocated_bytes()
    largest = 0
    for segment in store.log("s").read(0, 40):
        assert segment.rows is not None
        largest = max(largest, pa.total_allocated_bytes() - before + segment.rows.nbytes)
    assert largest < most  # of SQLite's bytes Arrow copies nothing; they live as long as the few segments do


def test_who_waits_for_many_rows_is_not_woken_for_fewer(store: Store) -> None:
    log = store.log("s")
    looks: list[int] = []
    waiting = threading.Thread(target=lambda: looks.append(log.last_id() if log.wait_row(3, HANG_S) else 0))
    waiting.start()
    for value in range(3):
        append(store, [value])
    waiting.join(timeout=HANG_S)
    assert looks == [3]
    assert log.wait_row(3, 0.0)
    assert not log.wait_row(4, 0.0)


def test_a_reader_follows_by_waiting_for_the_next_commit(store: Store) -> None:
    log = store.log("s")
    assert not log.wait_beyond(0, 0.0)
    seen: list[int] = []

    def follow() -> None:
        at = 0
        while log.wait_beyond(at, HANG_S):
            for segment in log.read(at, log.end_seq()):
                at = segment.seq
                seen.append(segment.first_id)

    reader = threading.Thread(target=follow)
    reader.start()
    for value in range(20):
        append(store, [value])
    while len(seen) < 20:
        log.wait_beyond(20, 0.001)
    store.close()  # wakes the reader, which finds nothing new
    reader.join(timeout=HANG_S)
    assert not reader.is_alive()
    assert seen == list(range(1, 21))


def test_a_log_is_read_while_it_has_a_named_reader_or_somebody_follows(store: Store) -> None:
    log = store.log("s")
    bells: list[bool] = []
    log.on_follower(lambda: bells.append(log.is_read))
    assert not log.is_read
    with log.followed():
        with log.followed():
            assert log.is_read
        assert log.is_read
    assert (log.is_read, bells) == (False, [True])
    with store.transaction() as transaction:
        transaction.add_reader("s", "r", at_seq=0)
    assert log.is_read


def test_a_bell_rings_for_each_new_segment_and_for_nothing_else(store: Store) -> None:
    log = store.log("s")
    ends: list[int] = []
    log.on_growth(lambda: ends.append(log.end_seq()))
    append(store, [1])
    with store.transaction() as transaction:
        transaction.add_reader("s", "r", at_seq=0)
    append(store, [2])
    assert ends == [1, 2]


def test_readers_see_whole_transactions_in_order_while_others_append_and_trim(store: Store) -> None:
    log = store.log("s")
    failures: list[BaseException] = []
    missed: list[int] = []
    done = threading.Event()

    def read_again_and_again() -> None:
        rng = np.random.default_rng(threading.get_ident() % 1000)
        try:
            while not done.is_set():
                start, end = log.first_seq() - 1, log.end_seq()
                after = int(rng.integers(start, end + 1))
                try:
                    seqs = [segment.seq for segment in log.read(after, end)]
                except StreamNotFound:
                    missed.append(after + 1)
                    continue
                assert seqs == list(range(after + 1, end + 1))
                assert end % 2 == 0  # each transaction appends two segments
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read_again_and_again) for _ in range(3)]
    for reader in readers:
        reader.start()
    for value in range(80):  # of which the first thirty are trimmed
        with store.transaction() as transaction:
            transaction.append("s", rows([value]), {}, now_us=value)
            transaction.append("s", None, {}, now_us=value, force=True)
            transaction.trim("s", now_us=value + 1_000_000 - 50)
    done.set()
    for reader in readers:
        reader.join(timeout=HANG_S)
    assert failures == []
    assert max(missed, default=0) < log.first_seq()  # only what was trimmed
    assert values_in(log)[-1] == 79


def test_the_log_of_a_changed_query_is_refused_with_the_difference(store: Store) -> None:
    incarnation = store.log("s").incarnation
    assert store.create_log(spec()).incarnation == incarnation
    other = DATA.append(pa.field("more", pa.string()))
    for changed, message in (
        ({"schema": other}, "different columns: it has name string, value int64, but .*more string"),
        ({"origins": ("s/0",)}, "different origins"),
        ({"kind": "late"}, "different kind"),
    ):
        asked = {name: getattr(spec(), name) for name in LogSpec.__dataclass_fields__} | changed
        with pytest.raises(StateError, match=message):
            store.create_log(LogSpec(**asked))
    assert store.create_log(spec(limit_bytes=5)).spec.limit_bytes == 5


def test_small_state_and_the_ledger_belong_to_the_transaction(store: Store) -> None:
    assert (store.get("k"), store.last_batch()) == (None, None)
    batches = [BatchRecord(lineage="a", batch_id=number, ranges="{}", watermark_us=0) for number in range(130)]
    with store.transaction() as transaction:
        transaction.put("k", b"1")
        assert transaction.get("k") == b"1"
        assert store.get("k") is None
        for batch in batches:
            transaction.record_batch(batch)
    assert (store.get("k"), store.last_batch()) == (b"1", batches[-1])
    with pytest.raises(InvariantBroken, match=r"Batch 129 .* logged twice"), store.transaction() as transaction:
        transaction.record_batch(batches[-1])
    with store.transaction() as transaction:
        transaction.record_batch(batches[0])  # long pruned: the ledger does not grow for ever
