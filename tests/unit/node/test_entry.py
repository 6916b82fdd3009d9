"""An entry point on a real store, without Spark: what is kept when a push succeeds, fails, or meets a full log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch import limits
from anabranch.columns import arrow_schema
from anabranch.core.horizon import Horizon, Slowest, Told
from anabranch.errors import DiskFull, Overloaded, PushRefused
from anabranch.model.names import Origins, late_stream
from anabranch.model.times import CLOSED_US, SECOND
from anabranch.node.entry import EntryPoint
from anabranch.query.boxes import Column, Source
from anabranch.storage.log import LogSpec
from anabranch.storage.store import Store
from anabranch.transport.ports import Push

T0 = 1_777_593_600 * SECOND
STAMPED = Source(name="s", schema=(Column("x", "bigint"),))
TIMED = Source(name="s", schema=(Column("x", "bigint"), Column("at", "timestamp")), time="at")


@dataclass
class Clock:
    now_us: int = T0

    def __call__(self) -> int:
        return self.now_us


@dataclass
class Bench:
    """A source's entry point, with the clock and the disk in the test's hands."""

    entry: EntryPoint
    store: Store
    clock: Clock
    stopped: list[str]


def open_bench(
    path: Path, source: Source = STAMPED, *, limit_bytes: int = limits.LOG_BYTES, reports: Any = None
) -> Bench:
    store = Store.open(path)
    schema = arrow_schema((column.name, column.type or "") for column in source.schema)
    origins = Origins(source.origins)
    for name, kind in ((source.name, "source"), (late_stream(source.name), "late")):
        spec = LogSpec(
            name=name, schema=schema, origins=origins.names, kind=kind, retention_us=SECOND, limit_bytes=limit_bytes
        )
        store.create_log(spec)
    clock, stopped = Clock(), list[str]()
    entry = EntryPoint(
        source,
        store,
        origins,
        schema=schema,
        clock=clock,
        boundary_interval_us=SECOND,
        intake_stopped=lambda: stopped[0] if stopped else None,
        reports=reports,
    )
    return Bench(entry, store, clock, stopped)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = open_bench(tmp_path / "s.db")
    yield bench
    bench.store.close()


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64())})


def push(*values: int, **who: object) -> Push:
    return Push(source="s", kind="rows", count=len(values), rows=rows(*values), **who)  # type: ignore[arg-type]


def held(bench: Bench, name: str = "s") -> list[tuple[int, int, int]]:
    """(number, stream time since the start, value) of every stored row."""
    log = bench.store.log(name)
    return [
        (tid, time - T0, x)
        for segment in log.read(log.first_seq() - 1, log.end_seq())
        if segment.rows is not None
        for tid, time, x in zip(
            segment.rows.column("_tid").to_pylist(),
            segment.rows.column("_stime").cast(pa.int64()).to_pylist(),
            segment.rows.column("x").to_pylist(),
            strict=True,
        )
    ]


def test_rows_are_numbered_and_stamped_when_they_are_taken(bench: Bench) -> None:
    assert bench.entry.push(push(7, 8)).through == 2
    bench.clock.now_us += 5
    bench.entry.push(push(9))
    assert held(bench) == [(1, 0, 7), (2, 0, 8), (3, 5, 9)]
    assert bench.entry.log.punctuations() == {"s/0": T0 + 5}


def test_a_clock_that_is_set_back_does_not_set_stream_time_back(bench: Bench) -> None:
    bench.entry.push(push(1))
    bench.clock.now_us -= 10 * SECOND
    bench.entry.push(push(2))
    assert [time for _, time, _ in held(bench)] == [0, 0]


def test_an_idle_lane_says_how_late_it_is(bench: Bench) -> None:
    bench.entry.push(push(1))
    bench.clock.now_us += 3 * SECOND
    bench.entry.tick()
    assert bench.entry.log.punctuations() == {"s/0": T0 + 3 * SECOND}
    assert len(held(bench)) == 1


def test_a_push_that_cannot_be_written_leaves_the_lane_as_it_was(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.entry.push(push(1))

    @contextmanager
    def full() -> Iterator[None]:
        raise DiskFull("no room")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "transaction", full)
        with pytest.raises(DiskFull):
            bench.entry.push(push(2))
    bench.entry.push(push(3))
    assert [(number, x) for number, _, x in held(bench)] == [(1, 1), (2, 3)]


def test_while_intake_is_stopped_nothing_is_taken_and_no_boundary_is_sent(bench: Bench) -> None:
    bench.stopped.append("Intake has stopped.")
    with pytest.raises(DiskFull, match="Intake has stopped"):
        bench.entry.push(push(1))
    bench.clock.now_us += 10 * SECOND
    bench.entry.tick()
    assert bench.entry.log.end_seq() == 0
    bench.stopped.clear()
    assert bench.entry.push(push(1)).rows == 1


def test_a_full_log_makes_a_push_wait_and_then_refuses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PUSH_WAIT_S", 0.1)
    bench = open_bench(tmp_path / "small.db", limit_bytes=1)
    with bench.store.transaction() as transaction:
        transaction.add_reader("s", "stage:slow", at_seq=0)
    bench.entry.push(push(1))
    with pytest.raises(Overloaded, match="slowest reader"):
        bench.entry.push(push(2))
    with bench.store.transaction() as transaction:
        transaction.acknowledge("s", "stage:slow", 1)
        transaction.trim("s", now_us=T0)
    assert bench.entry.push(push(2)).rows == 1
    bench.store.close()


def test_a_numbered_client_sends_again_and_repeats_nothing(bench: Bench) -> None:
    session = bench.entry.register("agent").session
    first = bench.entry.push(push(1, 2, producer="agent", session=session, first=1))
    again = bench.entry.push(push(1, 2, 3, producer="agent", session=session, first=1))
    assert (first.rows, first.repeated) == (2, 0)
    assert (again.rows, again.repeated, again.through) == (1, 2, 3)
    assert [x for _, _, x in held(bench)] == [1, 2, 3]


def test_the_lane_goes_on_after_a_restart(tmp_path: Path) -> None:
    bench = open_bench(tmp_path / "s.db")
    session = bench.entry.register("agent").session
    bench.entry.push(push(1, 2, producer="agent", session=session, first=1))
    bench.store.close()
    bench = open_bench(tmp_path / "s.db")
    assert bench.entry.register("agent").next == 3
    bench.entry.push(push(5))
    assert [number for number, _, _ in held(bench)] == [1, 2, 3]
    bench.store.close()


def test_late_rows_go_to_the_late_log_with_their_number(tmp_path: Path) -> None:
    bench = open_bench(tmp_path / "s.db", TIMED)
    times = pa.array([T0 + 10 * SECOND, T0 + 4 * SECOND, T0 + 10 * SECOND]).cast(pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({"x": pa.array([1, 2, 3], pa.int64()), "at": times})
    answer = bench.entry.push(Push(source="s", kind="rows", count=3, rows=batch))
    assert answer.late == 1
    assert held(bench) == [(1, 10 * SECOND, 1), (3, 10 * SECOND, 3)]
    assert held(bench, "s.late") == [(2, 10 * SECOND, 2)]
    bench.store.close()


def test_a_closed_lane_promises_everything_and_takes_nothing(bench: Bench) -> None:
    bench.entry.close_lane("0")
    assert bench.entry.log.punctuations() == {"s/0": CLOSED_US}
    with pytest.raises(PushRefused, match="closed"):
        bench.entry.push(push(1))


@pytest.mark.parametrize(
    ("batch", "fault"),
    [
        (pa.RecordBatch.from_pydict({"y": pa.array([1])}), "x is missing; y is unknown"),
        (pa.RecordBatch.from_pydict({"x": pa.array(["a"])}), "x is string, not int64"),
        (rows(1).append_column("_stime", pa.array([1])), "_stime is unknown"),
    ],
)
def test_wrong_columns_are_told_by_name(bench: Bench, batch: pa.RecordBatch, fault: str) -> None:
    with pytest.raises(PushRefused, match=fault):
        bench.entry.push(Push(source="s", kind="rows", count=1, rows=batch))
    assert bench.entry.log.end_seq() == 0


SILENT = Source(name="s", schema=(Column("x", "bigint"),), producers=("p",), silence_us=600 * SECOND)


def closed(bench: Bench) -> bool:
    return bool(bench.entry.statistics().lanes["s/p"].closed)


def tick_for(bench: Bench, seconds: int) -> None:
    for _ in range(seconds):
        bench.clock.now_us += SECOND
        bench.entry.tick()


def test_a_silent_producer_is_closed_when_its_time_is_over(tmp_path: Path) -> None:
    bench = open_bench(tmp_path / "s.db", SILENT)
    bench.entry.register("p")
    tick_for(bench, 599)
    assert not closed(bench)
    tick_for(bench, 1)
    assert closed(bench)
    bench.store.close()


def test_a_producer_that_was_turned_away_for_want_of_disk_was_not_silent(tmp_path: Path) -> None:
    bench = open_bench(tmp_path / "s.db", SILENT)
    bench.entry.register("p")
    bench.stopped.append("Intake has stopped.")
    tick_for(bench, 700)
    bench.stopped.clear()
    tick_for(bench, 599)
    assert not closed(bench)
    bench.store.close()


def test_a_producer_that_waited_for_room_was_not_silent(tmp_path: Path) -> None:
    bench = open_bench(tmp_path / "s.db", SILENT, limit_bytes=1)
    with bench.store.transaction() as transaction:
        transaction.add_reader("s", "stage:slow", at_seq=0)
        transaction.append("s", None, {"s/p": T0}, now_us=T0)
    bench.entry.register("p")
    tick_for(bench, 700)
    assert not closed(bench)
    bench.store.close()


def test_the_time_for_which_the_process_was_suspended_is_nobodys_silence(tmp_path: Path) -> None:
    bench = open_bench(tmp_path / "s.db", SILENT)
    bench.entry.register("p")
    tick_for(bench, 1)
    bench.clock.now_us += 3600 * SECOND
    bench.entry.tick()
    assert not closed(bench)
    bench.store.close()


def timed(*times_us: int, name: str = "at") -> Push:
    times = pa.array(times_us).cast(pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({"x": pa.array(range(len(times_us)), pa.int64()), name: times})
    return Push(source="s", kind="rows", count=len(times_us), rows=batch)


def test_a_full_log_of_late_rows_pushes_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PUSH_WAIT_S", 0.1)
    bench = open_bench(tmp_path / "s.db", TIMED, limit_bytes=1)
    with bench.store.transaction() as transaction:
        transaction.add_reader("s.late", "auditor", at_seq=0)
    bench.entry.push(timed(T0, T0 - SECOND))
    with pytest.raises(Overloaded, match="late rows"):
        bench.entry.push(timed(T0 - SECOND))
    bench.store.close()


def test_the_time_column_may_be_spelled_in_any_case(tmp_path: Path) -> None:
    source = Source(name="s", schema=(Column("x", "bigint"), Column("At", "timestamp")), time="at")
    bench = open_bench(tmp_path / "s.db", source)
    bench.entry.push(timed(T0 + 5, name="At"))
    assert held(bench) == [(1, 5, 0)]
    bench.store.close()


class Others:
    """What readers report of the slowest origin, in the test's hands."""

    def __init__(self, horizon_us: int) -> None:
        self._horizon = Horizon(horizon_us, (("reader",),))
        self.slowest_us = 0

    def may_enter(self, source: str, promised_us: int, latest_us: int) -> bool:
        return self._horizon.may_enter(Told().heard("reader", self.waits_for(source)), promised_us, latest_us)

    def waits_for(self, source: str) -> Slowest:
        return Slowest(self.slowest_us, "other/q")


AHEAD = replace(TIMED, horizon_us=10 * SECOND, idle_us=30 * SECOND)


@pytest.fixture
def ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Bench, Others]]:
    """A lane that is at T0, and rows of which more than 10 s ahead of another one wait a moment."""
    monkeypatch.setattr(limits, "PUSH_WAIT_S", 0.1)
    others = Others(10 * SECOND)
    bench = open_bench(tmp_path / "s.db", AHEAD, reports=others)
    bench.entry.push(timed(T0))
    yield bench, others
    bench.store.close()


def test_rows_beyond_the_horizon_wait_and_are_then_refused(ahead: tuple[Bench, Others]) -> None:
    bench, others = ahead
    others.slowest_us = T0 - 20 * SECOND
    with pytest.raises(Overloaded, match=r"more than its horizon of 10s ahead of other/q, which is at") as refused:
        bench.entry.push(timed(T0 + 1))
    assert "anabranch source close" in (refused.value.remedy or "")
    assert len(held(bench)) == 1
    waits = bench.entry.statistics().lanes["s/0"].held
    assert waits is not None
    assert (waits.origin, waits.punctuation_us, waits.latest_us) == ("other/q", T0 - 20 * SECOND, T0 + 1)
    others.slowest_us = T0 - 9 * SECOND
    assert bench.entry.push(timed(T0 + 1)).rows == 1
    assert bench.entry.statistics().lanes["s/0"].held is None


def test_rows_that_wait_enter_as_soon_as_the_slowest_has_come(
    ahead: tuple[Bench, Others], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, others = ahead
    monkeypatch.setattr(limits, "PUSH_WAIT_S", 600.0)
    others.slowest_us = T0 - 20 * SECOND
    catches_up = threading.Timer(0.2, lambda: setattr(others, "slowest_us", T0))
    catches_up.start()
    assert bench.entry.push(timed(T0 + 1)).rows == 1
    catches_up.join()


def test_what_was_taken_already_or_is_late_is_not_held(ahead: tuple[Bench, Others]) -> None:
    bench, others = ahead
    session = bench.entry.register("c").session
    again = replace(timed(T0 + 5), producer="c", session=session, first=1)
    bench.entry.push(again)
    others.slowest_us = T0 - 20 * SECOND
    assert bench.entry.push(again).repeated == 1
    assert bench.entry.push(timed(T0 - SECOND)).late == 1


def test_while_the_slowest_is_unknown_nobody_is_held(ahead: tuple[Bench, Others]) -> None:
    bench, _ = ahead
    assert bench.entry.push(timed(T0 + 3600 * SECOND)).rows == 1


def test_a_lane_that_is_held_does_not_follow_the_clock_and_its_rows_are_not_late(ahead: tuple[Bench, Others]) -> None:
    bench, others = ahead
    others.slowest_us = T0 - 20 * SECOND
    for _ in range(3):
        with pytest.raises(Overloaded):
            bench.entry.push(timed(T0 + 1))
        tick_for(bench, 40)
    others.slowest_us = T0
    assert bench.entry.push(timed(T0 + 1)).late == 0


def test_a_producer_that_is_held_is_not_silent_until_it_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PUSH_WAIT_S", 0.0)
    others = Others(10 * SECOND)
    source = replace(AHEAD, idle_us=None, producers=("p",), silence_us=30 * SECOND)
    bench = open_bench(tmp_path / "s.db", source, reports=others)
    session = bench.entry.register("p").session
    bench.entry.push(replace(timed(T0), producer="p", session=session, first=1))
    others.slowest_us = T0 - 20 * SECOND
    for _ in range(3):
        with pytest.raises(Overloaded):
            bench.entry.push(replace(timed(T0 + 1), producer="p", session=session, first=2))
        tick_for(bench, 40)
        assert not closed(bench)
    tick_for(bench, limits.HELD_US // SECOND)
    assert closed(bench)
    bench.store.close()
