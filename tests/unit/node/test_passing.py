"""A stage's runner on real stores, with Spark's questions asked by hand: boundaries pass without a batch, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch import limits
from anabranch.core import pacing
from anabranch.errors import AnabranchError
from anabranch.model.punctuation import Punctuations, smallest
from anabranch.node.stages import StageRunner
from anabranch.query.graph import stages
from anabranch.storage.codec import stored_schema
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from tests.unit.node.test_stages import Run
from tests.waiting import HANG_S, wait_for

S = 1_000_000
ORIGIN = "s/0"


def rows(*times_us: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "_tid": pa.array(times_us, pa.int64()),
            "_stime": pa.array(times_us, pa.timestamp("us", "UTC")),
            "_origin": pa.array([0] * len(times_us), pa.int32()),
            "x": pa.array(times_us, pa.int64()),
        }
    )


@dataclass
class Stage:
    """A Filter that lets everything pass, or a window of ten seconds of which nothing is shown. ``batch`` is what Spark
    does with what it was told."""

    store: Store
    journal: Log
    log: Log
    runner: StageRunner
    written: list[tuple[int, Punctuations]]
    answers: list[int] = field(default_factory=list)
    read: int = 0
    batches: int = 0
    keeps: bool = False
    heard_us: int = 0

    def bring(self, promise_us: int, *times_us: int, force: bool = False) -> None:
        with self.store.transaction() as transaction:
            made = rows(*times_us) if times_us else None
            transaction.append("s", made, {ORIGIN: promise_us} if promise_us else {}, now_us=1, force=force)

    def ask(self) -> threading.Thread:
        def run() -> None:
            with suppress(AnabranchError):  # the stage was started again
                self.answers.append(self.runner.latest("s", 0, self.read, 100))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def batch(self) -> None:
        start, self.read = self.read, self.answers.pop()
        tables = [segment.rows for segment in self.journal.read(start, self.read) if segment.rows is not None]
        made = pa.Table.from_batches(tables, stored_schema(self.journal.spec.schema))
        self.runner._log(
            SimpleNamespace(  # type: ignore[arg-type]
                lineage="q",
                batch_id=self.batches,
                starts={"s": start} if self.batches else {},
                ends={"s": self.read},
                watermark_us=self.heard_us,
                tables={"out": made.slice(0, 0) if self.keeps else made},
            )
        )
        self.heard_us = self.journal.punctuations_at(self.read)[ORIGIN] if self.keeps else 0
        self.batches += 1

    def wait_promised(self, time_us: int) -> None:
        wait_for(lambda: smallest(self.log.punctuations(), self.log.spec.origins) == time_us, self._promises)

    def _promises(self) -> str:
        return str(self.log.punctuations())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    query = ab.Query("q")
    query.output("out", query.source("s", "x bigint").filter("x >= 0"))
    yield from running(query, tmp_path, monkeypatch)


@pytest.fixture
def choosy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    query = ab.Query("q")
    query.output("out", query.source("s", "x bigint").filter("x >= 5000000"))
    yield from running(query, tmp_path, monkeypatch)


@pytest.fixture
def window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(pacing, "_BOUNDARIES_S", 0.0)
    query = ab.Query("q")
    query.output("out", query.source("s", "x bigint").aggregate("max(x) AS x", window="10s", name="box"))
    yield from running(query, tmp_path, monkeypatch, keeps=True)


def running(
    query: ab.Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, keeps: bool = False
) -> Iterator[Stage]:
    monkeypatch.setattr(limits, "NEWS_WAIT_S", 10 * HANG_S)
    monkeypatch.setattr(limits, "UPKEEP_WAIT_S", 10 * HANG_S)
    monkeypatch.setattr(limits, "UNREAD_BOUNDARIES_S", 0.0)
    diagram = query.checked()
    store = Store.open(tmp_path / "stage.db")
    columns: dict[str, Any] = {"schema": pa.schema([("x", pa.int64())]), "kind": "internal"}
    journal, log = (
        store.create_log(LogSpec(name=name, origins=(origin,), retention_us=1 << 60, limit_bytes=1 << 30, **columns))
        for name, origin in (("s", ORIGIN), ("out", "box" if keeps else ORIGIN))
    )
    written: list[tuple[int, Punctuations]] = []
    stopping = threading.Event()
    runner = StageRunner(
        diagram,
        stages(diagram)[0],
        Run(),  # type: ignore[arg-type]
        store,
        {"s": journal},
        origins=lambda _: frozenset({ORIGIN}),
        clock=lambda: 1,
        stopping=stopping.is_set,
        disk_is_low=lambda: False,
        written=lambda stream, first_id, table, promises: written.append((first_id + table.num_rows, promises)),
    )
    made = Stage(store, journal, log, runner, written, keeps=keeps)
    made.bring(1 * S, 500_000)
    made.ask().join(HANG_S)
    made.batch()
    yield made
    stopping.set()
    runner.ring()
    store.close()


def test_a_boundary_passes_while_the_question_is_held(stage: Stage) -> None:
    question = stage.ask()
    stage.bring(2 * S)
    stage.wait_promised(2 * S)
    stage.bring(3 * S)
    stage.wait_promised(3 * S)
    assert question.is_alive()
    assert stage.runner.reached(stage.runner.mark())
    wait_for(lambda: stage.written[-1] == (2, {ORIGIN: 3 * S}), lambda: str(stage.written))


def test_the_batch_after_it_reads_on_where_the_last_one_ended(stage: Stage) -> None:
    question = stage.ask()
    stage.bring(2 * S)
    stage.wait_promised(2 * S)
    stage.bring(3 * S, 2_500_000)
    question.join(HANG_S)
    stage.batch()
    assert (stage.read, stage.log.last_id(), stage.log.punctuations()) == (3, 2, {ORIGIN: 3 * S})


def test_a_boundary_does_not_overtake_the_row_before_it(stage: Stage) -> None:
    stage.bring(0, 1_500_000)
    stage.bring(2 * S)
    stage.ask().join(HANG_S)
    assert stage.log.punctuations() == {ORIGIN: 1 * S}
    stage.batch()
    assert stage.log.punctuations() == {ORIGIN: 2 * S}


def test_a_boundary_overtakes_rows_that_a_window_keeps(window: Stage) -> None:
    question = window.ask()
    window.bring(3 * S, 2_500_000)
    window.wait_promised(3 * S + 1)
    window.bring(9 * S, 8_500_000)
    window.wait_promised(9 * S + 1)
    assert question.is_alive()
    assert window.runner.reached(window.runner.mark())


def test_the_end_of_a_window_has_a_batch_that_reads_all_its_rows(window: Stage) -> None:
    question = window.ask()
    window.bring(3 * S, 2_500_000)
    window.wait_promised(3 * S + 1)
    window.bring(10 * S, 9_500_000)
    question.join(HANG_S)
    assert window.answers == [3]
    window.batch()
    window.wait_promised(3 * S + 1)
    window.ask().join(HANG_S)
    window.batch()
    window.wait_promised(10 * S + 1)


def test_what_a_window_keeps_may_wait_and_what_ends_it_may_not(window: Stage) -> None:
    runner = window.runner
    window.ask()
    wait_for(lambda: runner._is_held)
    runner._pace = replace(runner._pace, batch_s=10 * HANG_S).passed(time.monotonic())
    assert runner.may_wait("s", {ORIGIN: 10 * S - 1})
    assert not runner.may_wait("s", {ORIGIN: 10 * S})
    window.bring(10 * S)
    assert runner.may_wait("s", {ORIGIN: 11 * S}), "its end is in the journal already"


def test_many_rows_of_a_window_have_their_batch(window: Stage) -> None:
    question = window.ask()
    window.bring(1 * S, *range(2 * S, 2 * S + limits.PACE_ROWS))
    question.join(HANG_S)
    assert window.answers == [2]


def test_a_boundary_overtakes_rows_that_no_filter_wants(choosy: Stage) -> None:
    question = choosy.ask()
    choosy.bring(2 * S, 1_500_000)
    choosy.wait_promised(2 * S)
    choosy.bring(3 * S, 2_500_000)
    choosy.wait_promised(3 * S)
    assert question.is_alive()
    choosy.bring(6 * S, 3_500_000, 5_500_000)
    question.join(HANG_S)
    assert choosy.answers == [4]
    assert choosy.log.punctuations() == {ORIGIN: 3 * S}, "a row is wanted: a batch comes first"


def test_rows_that_nobody_wants_wait_for_the_pace_too(choosy: Stage) -> None:
    choosy.runner._pace = replace(choosy.runner._pace, batch_s=10 * HANG_S)
    choosy.ask()
    choosy.bring(2 * S, 1_500_000)
    wait_for(lambda: choosy.runner._pace.wait_s(pacing.Waiting(rows=1), time.monotonic()) > 0)
    assert choosy.runner.may_wait("s", {ORIGIN: 2 * S})
    assert choosy.runner._is_held


def test_a_batch_that_knows_less_takes_nothing_back(stage: Stage) -> None:
    """Of two inputs one may be told that there is no news, because the node stops, when it had passed some on."""
    stage.ask()
    stage.bring(2 * S)
    stage.wait_promised(2 * S)
    stage.answers.append(stage.read)
    stage.batch()
    assert stage.log.punctuations() == {ORIGIN: 2 * S}


def test_a_query_that_was_started_again_shows_by_a_batch_that_it_runs(stage: Stage) -> None:
    stage.runner.start(lambda stream: stage.bring(0, force=True))
    stage.bring(2 * S)
    stage.ask().join(HANG_S)
    assert stage.answers == [3]
    assert stage.log.punctuations() == {ORIGIN: 1 * S}


def test_a_full_journal_has_its_batch(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is forgotten when the next batch begins, and nothing else can come in before."""
    question = stage.ask()
    stage.bring(2 * S)
    stage.wait_promised(2 * S)
    assert stage.runner.keeps_read_rows("s")
    monkeypatch.setattr(Log, "is_full", lambda log: log.name == "s")
    stage.bring(0, force=True)
    question.join(HANG_S)
    assert stage.answers == [3]


def test_a_batch_that_is_logged_although_it_failed_is_known_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its commit a transaction tidies up, and that may fail; Spark asks again then."""
    stage.bring(2 * S, 1_500_000)
    stage.ask().join(HANG_S)
    answer, read = stage.answers[-1], stage.read
    with monkeypatch.context() as failing:
        failing.setattr(stage.runner, "_written", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stage.batch()
    stage.answers, stage.read = [answer], read
    stage.batch()
    assert stage.log.last_id() == 2
