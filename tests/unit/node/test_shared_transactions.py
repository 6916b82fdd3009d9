"""Pushes that come while a transaction is synced share the next: what each is told, and what a failure leaves.

The test holds transactions up, so that it is known who shares one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import AnabranchError, DiskFull, PushRefused
from anabranch.query.boxes import Source
from anabranch.storage.transaction import Transaction
from anabranch.transport.ports import Push, PushAnswer
from tests.unit.node.test_entry import STAMPED, T0, TIMED, Bench, held, open_bench, push, timed
from tests.waiting import wait_for

THREADS = 20


class Disk:
    """Transactions wait until they may begin. ``outcomes`` is what the next ones raise instead of being committed."""

    def __init__(self, bench: Bench) -> None:
        self.transactions = 0
        self.outcomes: list[AnabranchError | None] = []
        self._may = threading.Event()
        self._may.set()
        self._begin = bench.store.transaction
        self._entry = bench.entry
        bench.store.transaction = self._transaction  # type: ignore[method-assign]

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        self._may.wait()
        with self._begin() as transaction:
            yield transaction
            self.transactions += 1
            failure = self.outcomes.pop(0) if self.outcomes else None
            if failure is not None:
                raise failure

    @contextmanager
    def held_up(self) -> Iterator[None]:
        self._may.clear()
        try:
            yield
        finally:
            self._may.set()

    def wait_gathered(self, count: int) -> None:
        wait_for(lambda: len(self._entry._groups.gathered) == count)

    def wait_under_way(self) -> None:
        wait_for(lambda: bool(self._entry._groups.under_way))


class Pushes:
    """Pushes from threads, in the order in which they are begun."""

    def __init__(self, bench: Bench, pool: ThreadPoolExecutor) -> None:
        self.disk = Disk(bench)
        self._bench = bench
        self._pool = pool
        self._gathered = 0

    def under_way(self, *values: int) -> Future[PushAnswer]:
        self._gathered = 0
        begun = self._pool.submit(self._bench.entry.push, push(*values))
        self.disk.wait_under_way()
        return begun

    def beside(self, pushed: Push) -> Future[PushAnswer]:
        begun = self._pool.submit(self._bench.entry.push, pushed)
        self._gathered += 1
        self.disk.wait_gathered(self._gathered)
        return begun


@contextmanager
def pushes(path: Path, source: Source = STAMPED) -> Iterator[tuple[Bench, Pushes]]:
    bench = open_bench(path / "s.db", source)
    with ThreadPoolExecutor(THREADS) as pool:
        yield bench, Pushes(bench, pool)
    bench.store.close()


def test_what_comes_while_a_transaction_is_synced_shares_the_next(tmp_path: Path) -> None:
    with pushes(tmp_path) as (bench, begin):
        with begin.disk.held_up():
            first = begin.under_way(1)
            others = [begin.beside(push(value)) for value in range(2, 7)]
            assert not any(each.done() for each in (first, *others))
            statistics = bench.entry.statistics()
            assert (statistics.rows_in, statistics.lanes["s/0"].next_number) == (0, 1)
        assert [each.result().through for each in (first, *others)] == [1, 2, 3, 4, 5, 6]
        assert begin.disk.transactions == 2
        assert held(bench) == [(number, 0, number) for number in range(1, 7)]
        assert bench.entry.log.end_seq() == 2
        assert bench.entry.statistics().rows_in == 6


def test_a_failure_fails_all_that_rested_on_it_and_leaves_the_lane_as_it_was(tmp_path: Path) -> None:
    with pushes(tmp_path) as (bench, begin):
        bench.entry.push(push(1))
        begin.disk.outcomes.append(DiskFull("no room"))
        with begin.disk.held_up():
            failed = [begin.under_way(2), *[begin.beside(push(value)) for value in range(3, 6)]]
        errors = [each.exception() for each in failed]
        assert [str(error) for error in errors] == ["no room"] * 4
        assert len(set(map(id, errors))) == 4
        assert bench.entry.statistics().lanes["s/0"].next_number == 2
        assert bench.entry.push(push(6)).through == 2
        assert [x for _, _, x in held(bench)] == [1, 6]


def test_what_was_durable_before_stays(tmp_path: Path) -> None:
    with pushes(tmp_path) as (bench, begin):
        begin.disk.outcomes += [None, DiskFull("no room")]
        with begin.disk.held_up():
            first = begin.under_way(1)
            others = [begin.beside(push(value)) for value in (2, 3)]
        assert first.result().through == 1
        assert [type(each.exception()) for each in others] == [DiskFull] * 2
        assert bench.entry.push(push(4)).through == 2
        assert [x for _, _, x in held(bench)] == [1, 4]


def test_a_repetition_is_answered_when_what_it_repeats_is_durable(tmp_path: Path) -> None:
    with pushes(tmp_path) as (bench, begin):
        session = bench.entry.register("c").session
        one = replace(push(1), producer="c", session=session, first=1)
        begin.disk.outcomes.append(DiskFull("no room"))
        with begin.disk.held_up():
            begin.under_way(9)
            said, again = begin.beside(one), begin.beside(one)
        assert isinstance(said.exception(), DiskFull)
        assert isinstance(again.exception(), DiskFull)
        assert bench.entry.push(one).rows == 1
        assert bench.entry.push(one).repeated == 1
        assert [x for _, _, x in held(bench)] == [1]


def test_one_that_is_refused_changes_nothing_and_fails_nobody(tmp_path: Path) -> None:
    with pushes(tmp_path) as (bench, begin):
        session = bench.entry.register("c").session
        with begin.disk.held_up():
            first = begin.under_way(1)
            refused = begin.beside(replace(push(5), producer="c", session=session, first=4))
            last = begin.beside(push(2))
        assert isinstance(refused.exception(), PushRefused)
        assert (first.result().through, last.result().through) == (1, 2)
        assert [x for _, _, x in held(bench)] == [1, 2]


def test_a_refusal_that_rests_on_what_failed_fails_with_it(tmp_path: Path) -> None:
    """The lane was not closed after all."""
    with pushes(tmp_path) as (bench, begin):
        begin.disk.outcomes.append(DiskFull("no room"))
        with begin.disk.held_up(), ThreadPoolExecutor(1) as closer:
            closing = closer.submit(bench.entry.close_lane, "0")
            begin.disk.wait_under_way()
            refused = begin.beside(push(1))
            begin.disk._may.set()
            assert isinstance(closing.exception(), DiskFull)
        assert isinstance(refused.exception(), DiskFull)
        assert bench.entry.push(push(2)).rows == 1


def test_a_row_that_is_too_large_is_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = replace(STAMPED, schema=(*STAMPED.schema, replace(STAMPED.schema[0], name="t", type="string")))
    for module in ("anabranch.limits", "anabranch.storage.codec"):
        monkeypatch.setattr(f"{module}.SEGMENT_BYTES", 1_000)

    def text(value: int, size: int) -> Push:
        rows = pa.RecordBatch.from_pydict({"x": pa.array([value], pa.int64()), "t": ["t" * size]})
        return Push(source="s", kind="rows", count=1, rows=rows)

    with pushes(tmp_path, source) as (bench, begin):
        with begin.disk.held_up():
            running = begin._pool.submit(bench.entry.push, text(1, 10))
            begin.disk.wait_under_way()
            before = begin.beside(text(2, 400))
            with pytest.raises(PushRefused, match="A row takes"):
                bench.entry.push(text(3, 2_000))
            after = begin.beside(text(4, 700))
        assert [each.result().through for each in (running, before, after)] == [1, 2, 3]
        assert [x for _, _, x in held(bench)] == [1, 2, 4]


def test_late_rows_of_a_group_are_those_of_each_push(tmp_path: Path) -> None:
    with pushes(tmp_path, TIMED) as (bench, begin):
        with begin.disk.held_up():
            begin._pool.submit(bench.entry.push, timed(T0 + 5))
            begin.disk.wait_under_way()
            answers = [begin.beside(timed(*times)) for times in ((T0 + 9, T0 + 3), (T0 + 7,), (T0 + 20,))]
        assert [each.result().late for each in answers] == [1, 1, 0]
        assert [number for number, _, _ in held(bench)] == [1, 2, 5]
        assert [(number, time) for number, time, _ in held(bench, "s.late")] == [(3, 9), (4, 9)]
        assert bench.entry.log.punctuations() == {"s/0": T0 + 20}


def test_a_boundary_among_rows_promises_what_it_says(tmp_path: Path) -> None:
    with pushes(tmp_path, TIMED) as (bench, begin):
        with begin.disk.held_up():
            begin._pool.submit(bench.entry.push, timed(T0))
            begin.disk.wait_under_way()
            begin.beside(timed(T0 + 2))
            begin.beside(Push(source="s", kind="boundary", count=1, time_us=T0 + 5))
            late = begin.beside(timed(T0 + 4))
            begin.beside(timed(T0 + 6))
        assert late.result().late == 1
        assert bench.entry.late.punctuations() == {"s/0": T0 + 5}
        assert bench.entry.log.punctuations() == {"s/0": T0 + 6}


@pytest.mark.parametrize("seed", range(3))
def test_each_accepted_row_is_there_once_in_the_order_of_its_producer(tmp_path: Path, seed: int) -> None:
    """Twenty producers; some pushes come twice or leave a gap, and now and then the disk is full."""
    chance = random.Random(seed)
    with pushes(tmp_path) as (bench, begin):
        names = [f"p{number}" for number in range(THREADS)]
        sessions = {name: bench.entry.register(name).session for name in names}
        seeds = {name: chance.random() for name in names}
        faults = random.Random(seed)
        entered = begin.disk._begin

        @contextmanager
        def flaky() -> Iterator[Transaction]:
            with entered() as transaction:
                yield transaction
                if faults.random() < 0.1:
                    raise DiskFull("no room")

        bench.store.transaction = flaky  # type: ignore[method-assign]
        accepted = dict(begin._pool.map(lambda name: produce(bench, name, sessions[name], seeds[name]), names))
    bench = open_bench(tmp_path / "s.db")
    rows = held(bench)
    bench.store.close()
    assert [number for number, _, _ in rows] == list(range(1, len(rows) + 1))
    by_producer: dict[str, list[int]] = {name: [] for name in names}
    for _, _, x in rows:
        by_producer[f"p{x // 1_000}"].append(x)
    assert by_producer == accepted, f"seed {seed}"


def produce(bench: Bench, name: str, session: int, seed: float) -> tuple[str, list[int]]:
    chance, accepted, number = random.Random(seed), list[int](), int(name[1:])

    def pushed(first: int, *values: int) -> Any:
        return bench.entry.push(replace(push(*values), producer=name, session=session, first=first))

    while len(accepted) < 25:
        first = len(accepted) + 1
        values = [number * 1_000 + first + each for each in range(chance.randrange(1, 4))]
        try:
            if chance.random() < 0.2:
                with pytest.raises((PushRefused, DiskFull)):
                    pushed(first + 1, *values)
            if chance.random() < 0.2 and accepted:
                assert pushed(first - 1, accepted[-1]).rows == 0
            assert pushed(first, *values).rows == len(values)
        except DiskFull:
            continue
        accepted += values
    return name, accepted
