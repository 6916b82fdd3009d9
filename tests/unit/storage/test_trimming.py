"""A log forgets what its readers have, or what is too old; at its limit the slowest reader goes, the last one stays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from anabranch.errors import Overloaded, StateError, StreamNotFound
from anabranch.limits import READERS
from anabranch.runtime.status import ReaderStatus
from anabranch.storage import Store
from anabranch.storage.connection import Connection
from anabranch.storage.trimming import TRIM_SEGMENTS
from tests.unit.storage.stories import NOW, append, observe, rows, spec, values_in


def trim(store: Store, *, now_us: int = NOW) -> int:
    with store.transaction() as transaction:
        return transaction.trim("s", now_us=now_us)


def test_the_slowest_reader_keeps_what_it_has_not_read(store: Store) -> None:
    for value in (1, 2, 3):
        append(store, [value])
    with store.transaction() as transaction:
        transaction.add_reader("s", "fast", at_seq=0)
        transaction.add_reader("s", "slow", at_seq=0)
        transaction.acknowledge("s", "fast", 3)
        transaction.acknowledge("s", "slow", 1)
    far_future = NOW + 10**15  # retention is for logs without readers
    assert trim(store, now_us=far_future) == 1
    log = store.log("s")
    assert (log.first_seq(), log.first_id(), log.end_seq(), log.last_id()) == (2, 2, 3, 3)
    assert log.statistics().readers == {
        "fast": ReaderStatus(seq=3, lag_rows=0),
        "slow": ReaderStatus(seq=1, lag_rows=2),
    }
    with store.transaction() as transaction:
        transaction.remove_reader("s", "slow")
        assert transaction.trim("s", now_us=NOW) == 2
    assert (log.first_id(), log.last_id(), log.bytes()) == (4, 3, 0)


def test_a_log_remembers_the_largest_times_that_it_trimmed(path: Path, store: Store) -> None:
    """Below its floors a log cannot say that a reader who begins now has everything."""
    with store.transaction() as transaction:
        for time_us, origin in ((30, 0), (20, 0), (5, 1), (40, 0)):
            transaction.append("s", rows([1], time_us=time_us, origin=origin), {}, now_us=NOW)
    assert store.log("s").floors() == {}
    with store.transaction() as transaction:
        transaction.trim_through("s", 2)
    assert store.log("s").floors() == {"s/0": 31}
    with store.transaction() as transaction:
        transaction.trim_through("s", 3)
    store.close()
    store = Store.open(path)
    assert store.log("s").floors() == {"s/0": 31, "s/1": 6}
    assert store.log("s").tops() == {"s/0": 40, "s/1": 5}
    store.close()


def test_a_log_finds_where_its_last_rows_begin_and_what_lies_before_them(store: Store) -> None:
    with store.transaction() as transaction:
        for number, (time_us, values) in enumerate(((30, [1, 2]), (20, [3]), (40, [4, 5]))):
            transaction.append("s", rows(values, time_us=time_us), {}, now_us=NOW)
            transaction.append("s", None, {"s/0": number + 1}, now_us=NOW)
    log, plenty = store.log("s"), 1 << 30
    assert [log.seq_before_last(count, plenty) for count in (0, 1, 2, 3, 4, 5, 9)] == [5, 5, 3, 1, 1, 0, 0]
    assert [log.tops(seq) for seq in (0, 1, 4, 5)] == [{}, {"s/0": 30}, {"s/0": 30}, {"s/0": 40}]
    assert log.seq_before_last(9, 0) == 6  # a punctuation has bytes, too
    assert log.seq_before_last(9, log.bytes() - 1) == 1
    assert log.seq_before_last(9, log.bytes()) == 0
    with store.transaction() as transaction:
        transaction.trim_through("s", 2)
    assert log.seq_before_last(9, plenty) == 2
    assert log.tops(2) == {"s/0": 30}


def test_a_log_finds_where_a_reader_must_begin_by_punctuation(store: Store) -> None:
    with store.transaction() as transaction:
        for time_us, origin in ((10, 0), (30, 0), (20, 1), (20, 0)):
            transaction.append("s", rows([1], time_us=time_us, origin=origin), {}, now_us=NOW)
    log = store.log("s")
    assert log.seq_before_times({}) == 0
    assert log.seq_before_times({"s/0": 11, "s/1": 100}) == 1
    assert log.seq_before_times({"s/0": 31, "s/1": 20}) == 2
    assert log.seq_before_times({"s/0": 31, "s/1": 21}) == 4
    with store.transaction() as transaction:
        transaction.trim_through("s", 2)
    assert log.seq_before_times({}) == 2


def test_a_log_trimmed_to_nothing_still_knows_where_it_is(path: Path, store: Store) -> None:
    with store.transaction() as transaction:
        transaction.append("s", rows([1, 2]), {"s/0": 4}, now_us=NOW)
        transaction.append("s", rows([3]), {"s/0": 7}, now_us=NOW)
        transaction.add_reader("s", "r", at_seq=2)
    assert trim(store) == 2
    before = observe(store)
    store.close()
    store = Store.open(path)
    log = store.log("s")
    assert observe(store) == before
    assert (log.end_seq(), log.last_id(), log.punctuations(), log.punctuations_at(2)) == (2, 3, {"s/0": 7}, {"s/0": 7})
    with pytest.raises(StateError, match="after segment 1"):
        log.punctuations_at(1)
    with pytest.raises(StreamNotFound, match="does not hold segment 1"):
        log.read(0, 2)
    with pytest.raises(StreamNotFound):
        log.latest_seq(1, 10)
    assert log.latest_seq(2, 10) == 2
    append(store, [4])
    assert (values_in(log), log.seq_before_id(4), log.latest_seq(2, 10)) == ([4], 2, 3)
    with pytest.raises(StreamNotFound, match="no row 3"):
        log.seq_before_id(3)
    store.close()


def test_a_reader_in_the_middle_of_what_is_trimmed_is_told(store: Store) -> None:
    with store.transaction() as transaction:
        for value in range(200):
            transaction.append("s", rows([value]), {}, now_us=NOW)
    reading = store.log("s").read(0, 200)
    next(reading)
    assert trim(store, now_us=NOW + 10**9) == 200
    with pytest.raises(StreamNotFound, match="does not hold segment"):
        list(reading)


def test_without_readers_a_log_keeps_its_retention(store: Store) -> None:
    for second in range(4):
        append(store, [second], now_us=NOW + second * 1_000_000)
    assert trim(store, now_us=NOW + 3_000_000) == 2  # one second is kept, and what is exactly that old
    assert values_in(store.log("s")) == [2, 3]


def test_without_readers_a_log_keeps_its_limit(store: Store) -> None:
    for value in range(10):
        append(store, [value], padding=1000)
    log = store.log("s")
    one = log.bytes() // 10
    store.create_log(spec(limit_bytes=3 * one))
    assert trim(store) == 7
    assert (values_in(log), log.is_full()) == ([7, 8, 9], False)


def test_one_trim_does_a_bounded_amount_of_work(store: Store) -> None:
    with store.transaction() as transaction:
        for value in range(TRIM_SEGMENTS + 5):
            transaction.append("s", rows([value]), {}, now_us=0)
    assert [trim(store) for _ in range(3)] == [TRIM_SEGMENTS, 5, 0]


def test_the_file_does_not_grow_when_what_was_trimmed_makes_room(path: Path, store: Store) -> None:
    sizes = []
    for turn in range(12):
        append(store, [turn], padding=1 << 20, now_us=turn * 10**9)
        trim(store, now_us=turn * 10**9)
        sizes.append(path.stat().st_size + path.with_name("s.db-wal").stat().st_size)
    assert max(sizes) < 40 << 20
    store.close()
    assert path.stat().st_size < 5 << 20


def test_acknowledgements_never_go_back_or_ahead(store: Store) -> None:
    append(store, [1])
    append(store, [2])
    with store.transaction() as transaction:
        transaction.add_reader("s", "r", at_seq=0)
        transaction.acknowledge("s", "r", 2)
        transaction.acknowledge("s", "r", 1)
        transaction.add_reader("s", "r", at_seq=0)  # subscribing again does not move it either
    assert store.log("s").readers() == {"r": 2}
    for reader, seq, message in (("r", 3, "cannot be at segment 3"), ("stranger", 1, "no reader named 'stranger'")):
        with pytest.raises(StreamNotFound, match=message), store.transaction() as transaction:
            transaction.acknowledge("s", reader, seq)


def test_a_reader_cannot_begin_where_nothing_is_left(store: Store) -> None:
    for value in (1, 2):
        append(store, [value])
    assert trim(store, now_us=NOW + 10**9) == 2
    with pytest.raises(StreamNotFound, match="cannot be at segment 1"), store.transaction() as transaction:
        transaction.add_reader("s", "r", at_seq=1)


def test_the_number_of_readers_is_bounded(store: Store) -> None:
    with store.transaction() as transaction:
        for number in range(READERS):
            transaction.add_reader("s", f"r{number}", at_seq=0)
    with pytest.raises(Overloaded, match="'one-more' was not added"), store.transaction() as transaction:
        transaction.add_reader("s", "one-more", at_seq=0)


def full_log(store: Store, acknowledged: dict[str, int]) -> None:
    """Ten segments, a limit of five, and readers that have acknowledged so much."""
    for value in range(10):
        append(store, [value], padding=1000)
    store.create_log(spec(limit_bytes=store.log("s").bytes() // 2))
    with store.transaction() as transaction:
        for reader, seq in acknowledged.items():
            transaction.add_reader("s", reader, at_seq=0)
            transaction.acknowledge("s", reader, seq)


def make_room(store: Store) -> list[str]:
    with store.transaction() as transaction:
        return transaction.make_room("s", NOW)


def test_at_the_limit_the_slowest_of_several_is_cut_off_and_told_so(path: Path, store: Store) -> None:
    full_log(store, {"fast": 9, "slow": 0, "slower": 0, "middle": 7})
    assert store.log("s").is_full()
    assert make_room(store) == ["slow", "slower"]
    store.close()
    store = Store.open(path)  # it is remembered
    log = store.log("s")
    assert (log.readers(), values_in(log), log.is_full()) == ({"fast": 9, "middle": 7}, [7, 8, 9], False)
    assert log.statistics().cut_off == ("slow", "slower")
    with pytest.raises(StreamNotFound, match="'slow' was cut off"), store.transaction() as transaction:
        transaction.acknowledge("s", "slow", 1)
    with pytest.raises(StreamNotFound, match="'slow' was cut off"), store.transaction() as transaction:
        transaction.add_reader("s", "slow", at_seq=10)
    with store.transaction() as transaction:
        transaction.remove_reader("s", "slow")
        transaction.add_reader("s", "slow", at_seq=10)
    assert log.readers() == {"fast": 9, "middle": 7, "slow": 10}
    store.close()


@pytest.mark.parametrize("acknowledged", [{"last": 1}, {"one": 2, "two": 2}])
def test_the_last_reader_and_readers_that_are_equally_slow_push_back(
    store: Store, acknowledged: dict[str, int]
) -> None:
    full_log(store, acknowledged)
    assert make_room(store) == []
    assert store.log("s").is_full()
    with store.transaction() as transaction:
        for reader in acknowledged:
            transaction.acknowledge("s", reader, 8)
        transaction.make_room("s", NOW)
    assert not store.log("s").is_full()


def test_a_reader_that_must_be_kept_pushes_back_though_others_are_faster(store: Store) -> None:
    full_log(store, {"fast": 9, "stage": 0, "slow": 3})
    with store.transaction() as transaction:
        assert transaction.make_room("s", NOW, keep={"stage"}) == []
    assert store.log("s").is_full()
    assert set(store.log("s").readers()) == {"fast", "stage", "slow"}


def test_a_kill_inside_a_trim_takes_nothing(path: Path, store: Store) -> None:
    for value in range(5):
        append(store, [value])
    before = observe(store)
    store.close()
    program = (
        "import sys; from pathlib import Path; from anabranch.storage import Store\n"
        "with Store.open(Path(sys.argv[1])).transaction() as t: t.trim('s', now_us=10**17)"
    )
    environment = {**os.environ, "ANABRANCH_FAILPOINT": "log.trim:1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], env=environment)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)  # it is between the DELETE and the COMMIT
    process.kill()
    process.wait()
    store = Store.open(path)
    assert observe(store) == before
    store.close()


def test_a_log_can_be_asked_while_it_is_trimmed(store: Store) -> None:
    """The file forgets a segment a moment before the state in memory does: who asks then is answered all the same."""
    stop, failures = threading.Event(), list[Exception]()
    for value in range(300):
        append(store, [value])
    log = store.log("s")
    with store.transaction() as transaction:
        transaction.add_reader("s", "stage", at_seq=0)

    def ask() -> None:
        while not stop.is_set():
            seq = log.first_seq() - 1
            try:
                log.statistics()
                log.rows_after(seq)
                log.punctuations_at(log.end_seq())
            except Exception as error:
                failures.append(error)
                return

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    for seq in range(1, 300):
        with store.transaction() as transaction:
            transaction.acknowledge("s", "stage", seq)
            transaction.trim("s", now_us=NOW)
        log.punctuations_at(seq)  # the last one that was trimmed is still known
    stop.set()
    for asker in askers:
        asker.join()
    assert not failures


def test_the_largest_time_is_known_while_its_segment_is_trimmed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A promise rests on it: a trim between the look at the state and the look at the file must not make it smaller."""
    with store.transaction() as transaction:
        for number, time_us in enumerate((40, 20, 30)):
            transaction.append("s", rows([number], time_us=time_us), {}, now_us=NOW)
    log, trims = store.log("s"), [3, 1]
    pool = log._pool
    opened = pool.connection

    def connection() -> AbstractContextManager[Connection]:
        if trims:
            with store.transaction() as transaction:
                transaction.trim_through("s", trims.pop())
        return opened()

    monkeypatch.setattr(pool, "connection", connection)
    assert [log.tops(), log.tops()] == [{"s/0": 40}] * 2
    assert not trims
