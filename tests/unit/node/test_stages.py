"""A stage's runner without Spark: what its scans are told, and when it is started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch import limits
from anabranch.core.pacing import Pace, Waiting
from anabranch.core.passing import Passing
from anabranch.errors import AnabranchError, EngineError, InvariantBroken
from anabranch.node.stages import Mark, StageRunner
from anabranch.query.graph import stages
from anabranch.storage.log import End
from anabranch.transport.journals import MadeBatch
from tests.waiting import HANG_S, wait_for


@dataclass
class Journal:
    """A journal that grows whenever it is asked. Each of its segments has one row."""

    last: int = 0
    bells: list[Callable[[], None]] = field(default_factory=list)

    def on_growth(self, bell: Callable[[], None]) -> None:
        self.bells.append(bell)

    def end_seq(self) -> int:
        return self.last

    def last_id(self) -> int:
        return self.last

    def end(self) -> End:
        return End(self.last, self.last, {})

    def punctuations(self) -> dict[str, int]:
        return {}

    def is_full(self) -> bool:
        return False

    def rows_after(self, seq: int) -> int:
        return self.last - seq

    def grow(self, rows: int = 1) -> None:
        self.last += rows
        for bell in self.bells:
            bell()

    def latest_seq(self, after_seq: int, max_rows: int) -> int:
        self.last += 1
        return self.last


@dataclass
class Run:
    """A Spark query that fails as often as it is told to."""

    failures: list[EngineError] = field(default_factory=list)
    starts: int = 0
    running: bool = False
    life: int = 0
    taken: list[int] = field(default_factory=list)

    def start(self, sink: Any, logged: int | None, *, life: int) -> None:
        self.starts += 1
        self.life = life
        self.running = not self.failures

    def hand_over(self, batch_id: int, table: pa.Table, **_: Any) -> None:
        self.taken.append(batch_id)

    def stop(self) -> None:
        self.running = False

    def failure(self) -> EngineError | None:
        return self.failures[0] if self.failures else None


@dataclass
class Output:
    """A log that a stage writes."""

    is_read: bool = True
    bells: list[Callable[[], None]] = field(default_factory=list)

    def on_follower(self, bell: Callable[[], None]) -> None:
        self.bells.append(bell)

    def follow(self) -> None:
        self.is_read = True
        for bell in self.bells:
            bell()


@dataclass
class EmptyStore:
    output: Output

    def last_batch(self) -> None:
        return None

    def log(self, name: str) -> Output:
        return self.output


@dataclass
class Bench:
    runner: StageRunner
    run: Run
    journal: Journal
    output: Output
    low: list[bool]
    stopping: list[bool]


def made(batch_id: int, life: int) -> MadeBatch:
    return MadeBatch(stage="s", life=life, query="q", batch_id=batch_id, dropped=0, took_s=0.1, table=pa.table({}))


@pytest.fixture
def bench() -> Bench:
    query = ab.Query("q")
    numbers = query.source("s", "x int")
    query.output("twice", query.union(numbers, numbers))
    diagram = query.checked()
    run, journal, output, low, stopping = Run(), Journal(), Output(), [False], [False]
    runner = StageRunner(
        diagram,
        stages(diagram)[0],
        run,  # type: ignore[arg-type]
        EmptyStore(output),  # type: ignore[arg-type]
        {"s": journal},  # type: ignore[dict-item]
        origins=lambda _: frozenset({"s/0"}),
        clock=lambda: 1,
        stopping=lambda: stopping[0],
        disk_is_low=lambda: low[0],
    )
    return Bench(runner, run, journal, output, low, stopping)


def test_all_scans_of_a_journal_end_at_the_same_segment(bench: Bench) -> None:
    """Rows may arrive between two questions of one batch: a union with itself must not read different pasts."""
    first = [bench.runner.latest("s", scan, 0, 10) for scan in (0, 1, 2)]
    second = [bench.runner.latest("s", scan, 1, 10) for scan in (0, 1, 2)]
    assert (first, second) == ([1, 1, 1], [2, 2, 2])


def test_a_stop_in_the_middle_of_a_round_leaves_its_answers_equal(bench: Bench) -> None:
    """Spark writes down what its scans were told: a mixture would be there at every later start."""
    first = bench.runner.latest("s", 0, 0, 10)
    bench.stopping[0] = True
    assert [bench.runner.latest("s", scan, 0, 10) for scan in (1, 2)] == [first, first]
    assert [bench.runner.latest("s", scan, first, 10) for scan in (0, 1, 2)] == [first, first, first]


def test_a_round_that_a_crash_cut_short_is_forgotten_with_its_run(bench: Bench) -> None:
    assert bench.runner.latest("s", 0, 0, 10) == 1
    bench.runner.start(lambda _: None)
    assert [bench.runner.latest("s", scan, 0, 10) for scan in (0, 1)] == [2, 2]


class Held(threading.Thread):
    """A question for news that the runner holds, asked by an idle query."""

    def __init__(self, bench: Bench, scan: int = 0) -> None:
        super().__init__(daemon=True)
        self._runner = bench.runner
        self._scan = scan
        self.answer: int | None = None
        self.error: AnabranchError | None = None
        bench.runner._ends, bench.runner._has_run = {"s": bench.journal.last}, True
        self.start()
        wait_for(lambda: self.is_alive() and not bench.runner._news.is_set(), lambda: "it does not wait")

    def run(self) -> None:
        try:
            self.answer = self._runner.latest("s", self._scan, self._runner._ends["s"], 10)
        except AnabranchError as error:
            self.error = error

    def wait_over(self) -> None:
        self.join(HANG_S)
        assert not self.is_alive(), "the question is still held"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NEWS_WAIT_S", 10 * HANG_S)


@pytest.mark.usefixtures("patient")
def test_an_idle_query_is_answered_when_there_is_news(bench: Bench) -> None:
    bench.journal.last = 3
    bench.runner._news.set()
    held = Held(bench)
    bench.journal.grow()
    held.wait_over()
    assert held.answer is not None
    assert held.answer > 3


@pytest.mark.usefixtures("patient")
def test_a_question_is_not_held_while_a_punctuation_has_results_to_show(bench: Bench) -> None:
    bench.journal.last = 3
    bench.runner._ends, bench.runner._has_run = {"s": 3}, True
    bench.runner._waits, bench.runner._next_watermark_us = True, 1
    query = ab.Query("q")
    query.output("counts", query.source("s", "x int").aggregate("count(*) AS n", rows=1))
    bench.runner._passing = Passing(query.checked(), stages(query.checked())[0])
    assert bench.runner.latest("s", 0, 3, 10) == 4


SLOW = Pace(most_s=10 * HANG_S, batch_s=10 * HANG_S)
"""Of a stage whose last batch has just begun and whose next one is far away."""


def paced(bench: Bench) -> None:
    bench.journal.last = 3
    bench.runner._ends, bench.runner._has_run = {"s": 3}, True
    bench.runner._pace = SLOW.began(Waiting(rows=1), time.monotonic())
    bench.runner._news.set()


@pytest.mark.usefixtures("patient")
def test_a_few_rows_wait_for_more_and_many_do_not(bench: Bench) -> None:
    paced(bench)
    held = Held(bench)
    bench.journal.grow()
    wait_for(lambda: not bench.runner._news.is_set(), lambda: "it did not look")
    assert held.is_alive()
    bench.journal.grow(limits.PACE_ROWS)
    held.wait_over()
    assert held.answer == 3 + 1 + limits.PACE_ROWS + 1


@pytest.mark.usefixtures("patient")
def test_boundaries_that_nobody_reads_are_passed_on_when_somebody_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced(bench)
    bench.output.is_read = False
    monkeypatch.setattr(limits, "UNREAD_BOUNDARIES_S", 10 * HANG_S)
    bench.runner._pace = Pace(most_s=0.001).began(Waiting(rows=1), time.monotonic())
    passed: list[bool] = []
    monkeypatch.setattr(bench.runner, "_pass_on", lambda *_: not passed.append(True))
    monkeypatch.setattr(Journal, "last_id", lambda _: 3)  # what comes are boundaries
    monkeypatch.setattr(Journal, "end", lambda journal: End(journal.last, 3, {}))
    monkeypatch.setattr(Journal, "rows_after", lambda *_: 0)
    held = Held(bench)
    bench.journal.grow()
    wait_for(lambda: not bench.runner._news.is_set(), lambda: "it did not look")
    assert passed == []
    bench.output.follow()
    wait_for(lambda: bool(passed), lambda: "it did not pass anything on")
    bench.stopping[0] = True
    bench.runner.stop(deadline=0)
    held.wait_over()


@pytest.mark.usefixtures("patient")
def test_whoever_waits_for_results_waits_for_no_pace(bench: Bench) -> None:
    paced(bench)
    held = Held(bench)
    bench.journal.grow()
    bench.runner.hurry(Mark(ends={"s": 4}, watermark_us=0))
    held.wait_over()
    bench.runner._ends = {"s": 4}
    bench.journal.last = 4
    again = Held(bench)
    bench.journal.grow()
    wait_for(lambda: not bench.runner._news.is_set(), lambda: "it did not look")
    assert again.is_alive(), "what was waited for is there: the pace counts again"
    bench.stopping[0] = True
    bench.runner.stop(deadline=0)
    again.wait_over()


@pytest.mark.usefixtures("patient")
def test_what_comes_while_a_batch_runs_may_wait_for_the_next_unless_a_window_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.journal.last = 3
    bench.runner._news.set()
    held = Held(bench)
    assert not bench.runner.may_wait("s", {})
    bench.journal.grow()
    held.wait_over()
    assert bench.runner.may_wait("s", {})
    with monkeypatch.context() as patched:
        patched.setattr(Passing, "shows", lambda *_: True)
        assert not bench.runner.may_wait("s", {"s/0": 7})
    bench.runner.start(lambda _: None)
    assert not bench.runner.may_wait("s", {})


@pytest.mark.usefixtures("patient")
def test_a_stop_waits_for_no_pace(bench: Bench) -> None:
    paced(bench)
    held = Held(bench)
    bench.journal.grow()
    bench.stopping[0] = True
    bench.runner.stop(deadline=0)
    held.wait_over()
    assert held.answer == 3


@pytest.mark.usefixtures("patient")
def test_whichever_scan_asks_first_is_the_one_that_waits(bench: Bench) -> None:
    """Spark asks its scans in any order. Would a later one wait, those before it would know nothing of the news."""
    bench.runner.start(lambda _: None)
    assert [bench.runner.latest("s", scan, 0, 10) for scan in (2, 0, 1)] == [1, 1, 1]
    paced(bench)
    held = Held(bench, scan=2)
    bench.journal.grow(limits.PACE_ROWS)
    held.wait_over()
    assert [bench.runner.latest("s", scan, 3, 10) for scan in (0, 1)] == [held.answer, held.answer]


@pytest.mark.usefixtures("patient")
def test_a_query_whose_question_is_held_is_known_to_run(bench: Bench) -> None:
    bench.run.failures.append(EngineError("Nobody asks it."))
    bench.journal.last = 3
    bench.runner._news.set()
    held = Held(bench)
    bench.runner.watch(lambda _: None)
    assert bench.runner.last_error is None
    bench.journal.grow()
    held.wait_over()
    bench.runner.watch(lambda _: None)
    assert bench.runner.last_error is not None


@pytest.mark.usefixtures("patient")
def test_a_stop_ends_a_held_question_without_news(bench: Bench) -> None:
    bench.journal.last = 3
    bench.runner._news.set()
    held = Held(bench)
    bench.stopping[0] = True
    bench.runner.stop(deadline=0)
    held.wait_over()
    assert held.answer == 3


@pytest.mark.usefixtures("patient")
def test_a_question_of_a_query_that_has_ended_begins_no_round(bench: Bench) -> None:
    """The scans of the query of now would get different answers in one batch."""
    bench.journal.last = 3
    bench.runner._news.set()
    held = Held(bench)
    bench.runner.start(lambda _: None)
    held.wait_over()
    assert "has ended" in str(held.error)
    bench.journal.grow()
    assert bench.runner.latest("s", 0, 3, 10) == bench.runner.latest("s", 1, 3, 10)


def tick_through_every_wait(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty looks of the housekeeper, each after the longest wait there is."""
    now = [0.0]
    monkeypatch.setattr("anabranch.node.stages.time.monotonic", lambda: now[0])
    for _ in range(20):
        now[0] += limits.RESTART_BACKOFF_S[-1] + 1
        bench.runner.watch(lambda _: None)


def test_a_stage_that_fails_at_every_try_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run.failures.append(EngineError("boom"))
    tick_through_every_wait(bench, monkeypatch)
    assert bench.run.starts == len(limits.RESTART_BACKOFF_S)
    told = str(bench.runner.failed)
    assert told.startswith("boom The stage has stopped. Affected outputs: twice. The next start will try again.")
    assert not bench.runner.is_broken


def test_a_stage_that_is_given_up_says_what_its_error_says_to_do(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run.failures.append(EngineError("boom", remedy="Install it."))
    tick_through_every_wait(bench, monkeypatch)
    told = str(bench.runner.failed)
    assert told == "boom The stage has stopped. Affected outputs: twice. The next start will try again. Install it."


def test_on_a_full_disk_a_stage_waits_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.low[0] = True
    bench.run.failures.append(EngineError("No space left on device"))
    tick_through_every_wait(bench, monkeypatch)
    assert bench.runner.failed is None
    bench.run.failures.clear()
    bench.low[0] = False
    tick_through_every_wait(bench, monkeypatch)
    assert bench.run.running


def test_a_broken_invariant_is_not_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    error: AnabranchError = InvariantBroken("rows were dropped")
    bench.runner._sink_error = error
    bench.runner.watch(lambda _: None)
    assert bench.runner.failed is error
    assert bench.runner.is_broken
    assert bench.run.starts == 0


def test_a_batch_of_a_spark_that_is_gone_is_not_logged(bench: Bench) -> None:
    """Spark's thread for it may outlive the Spark: the next one makes the same rows again."""
    bench.runner.start(lambda _: None)
    old = made(1, bench.run.life)
    bench.runner.take(old)
    bench.runner.lose()
    with pytest.raises(EngineError, match="from a Spark query that has ended"):
        bench.runner.take(old)
    assert bench.runner._sink_error is None
    bench.runner.start(lambda _: None)
    with pytest.raises(EngineError, match="from a Spark query that has ended"):
        bench.runner.take(old)
    bench.runner.take(made(2, bench.run.life))
    assert bench.run.taken == [1, 2]


def test_a_batch_waits_for_room_in_the_log_until_its_query_ends(bench: Bench) -> None:
    """Spark is told to wait on; the rest of the node goes on meanwhile."""
    full = [True]
    bench.runner.store.logs = {"twice": SimpleNamespace(is_full=lambda: full[0])}  # type: ignore[dict-item]
    bench.runner.start(lambda _: None)
    life = bench.run.life
    assert not bench.runner.wait_room(life, 0.0)
    full[0] = False
    assert bench.runner.wait_room(life, HANG_S)
    full[0] = True
    bench.runner.lose()
    with pytest.raises(EngineError, match="from a Spark query that has ended"):
        bench.runner.wait_room(life, HANG_S)


def test_that_spark_died_is_no_failure_of_the_stage(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.runner._spark_has_died = lambda: True
    bench.run.failures.append(EngineError("Spark is not responding."))
    tick_through_every_wait(bench, monkeypatch)
    assert (bench.runner.failed, bench.runner.last_error, bench.run.starts) == (None, None, 0)


def test_another_spark_forgets_the_failures_of_the_last(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run.failures.append(EngineError("boom"))
    bench.runner.watch(lambda _: None)
    assert bench.runner.last_error is not None
    bench.runner.renew(Run())  # type: ignore[arg-type]
    assert bench.runner.last_error is None
    assert not bench.runner.has_run
    tick_through_every_wait(bench, monkeypatch)
    assert bench.runner.failed is None
