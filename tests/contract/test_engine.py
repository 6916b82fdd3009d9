"""A stage in micro-batches: a punctuation works one batch late, and a batch that was not committed runs again.

One contract for the simulated engine and for Spark under a real node. A batch fails before it is logged, or when it is
logged and not yet committed; meanwhile more rows come. They must not change what was logged. Of a batch that was not,
nobody has seen anything: it is planned anew, with what has come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.core.ledger import Decision, decide
from anabranch.engine.run import StageBatch
from anabranch.model.times import SECOND
from anabranch.node.stages import StageRunner
from anabranch.query.graph import stages
from anabranch.reference.stage import StageReference
from anabranch.reference.tuples import Tuple
from anabranch.sim.engine import Checkpoint, Engine, Plan
from tests.recording import HOUR_US, tuples_of
from tests.spark import running
from tests.waiting import HANG_S, wait_for

ORIGIN = "reading/p"
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * SECOND


def query() -> ab.Query:
    made = ab.Query("sums")
    reading = made.source("reading", "k string, x bigint, at timestamp", time="at", disorder="1h", producers="p")
    made.output("totals", reading.aggregate("sum(x) AS total", by="k", window="10s", name="sums"))
    return made


class Where(Enum):
    """Where a batch fails."""

    BEFORE_THE_LOG = auto()
    BEFORE_THE_COMMIT = auto()


@dataclass(frozen=True, slots=True)
class Batch:
    """One that was logged, by what it read and what came out. A promise is in seconds from the beginning."""

    number: int
    ends: Mapping[str, int]
    results: int
    promise_s: int


class Running(ABC):
    """A stage that sums windows of ten seconds; rows are ``(second, key, value)``."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.tries: list[tuple[int, Mapping[str, int]]] = []
        """What each batch was to read, also those that failed and those that the log knew already."""
        self.failed = -1
        """The place of the last that failed."""
        self._fails: tuple[Where, Callable[[], None]] | None = None

    @abstractmethod
    def push(self, *rows: tuple[int, str, int]) -> None: ...

    @abstractmethod
    def promise(self, second: int) -> None: ...

    @abstractmethod
    def settle(self) -> None: ...

    @abstractmethod
    def results(self) -> list[tuple[str, int]]:
        """Keys and totals, in the order of the log."""

    def fail_next(self, where: Where, meanwhile: Callable[[], None]) -> None:
        self._fails = where, meanwhile

    def _fails_here(self, where: Where) -> bool:
        if self._fails is None or self._fails[0] is not where:
            return False
        meanwhile = self._fails[1]
        self._fails, self.failed = None, len(self.tries) - 1
        meanwhile()
        return True


class Simulated(Running):
    """What a simulated node does with its engine, without the time between the steps."""

    def __init__(self) -> None:
        super().__init__()
        self._diagram = query().checked()
        (self._stage,) = stages(self._diagram)
        self._checkpoint = Checkpoint(lineage="one")
        self._engine = Engine(StageReference(self._diagram, self._stage), self._checkpoint)
        self._segments: list[tuple[tuple[Tuple, ...], dict[str, int]]] = []
        self._rows = 0
        self._log: list[Tuple] = []

    def push(self, *rows: tuple[int, str, int]) -> None:
        tuples = []
        for second, key, value in rows:
            self._rows += 1
            time = BEGIN_US + second * SECOND
            values = {"k": key, "x": value, "at": time}
            tuples.append(Tuple(origin=ORIGIN, stime=time, tid=self._rows, values=values))
        self._segments.append((tuple(tuples), self._promises()))

    def promise(self, second: int) -> None:
        self._segments.append(((), {ORIGIN: BEGIN_US + second * SECOND}))

    def _promises(self) -> dict[str, int]:
        return self._segments[-1][1] if self._segments else {}

    def settle(self) -> None:
        while self._step():
            pass

    def results(self) -> list[tuple[str, int]]:
        return [(each.values["k"], each.values["total"]) for each in self._log]

    def _step(self) -> bool:
        if self._checkpoint.planned is None:
            start, end = self._checkpoint.offsets.get("reading", 0), len(self._segments)
            if start == end and not self._engine.has_unused_watermark:
                return False
            tuples = tuple(each for rows, _ in self._segments[start:end] for each in rows)
            plan = Plan(
                ranges={"reading": (start, end)}, tuples={"reading": tuples}, promises={"reading": self._promises()}
            )
            self._checkpoint = replace(self._checkpoint, planned=plan)
        assert self._checkpoint.planned is not None
        result = self._engine.run(self._checkpoint.planned)
        ends = {name: end for name, (_, end) in self._checkpoint.planned.ranges.items()}
        number = self._checkpoint.batch.batch_id
        self.tries.append((number, ends))
        if self._fails_here(Where.BEFORE_THE_LOG):
            return self._start_again()
        if decide(self._stage.name, self._checkpoint.logged, self._checkpoint.batch) is Decision.APPEND:
            emitted = list(result.emitted["totals"])
            self._log += emitted
            promise = max(result.punctuations.values(), default=0)
            self.batches.append(Batch(number, ends, len(emitted), max(0, promise - BEGIN_US) // SECOND))
            self._checkpoint = replace(self._checkpoint, logged=self._checkpoint.batch)
        if self._fails_here(Where.BEFORE_THE_COMMIT):
            return self._start_again()
        self._checkpoint = self._checkpoint.committed()
        return True

    def _start_again(self) -> bool:
        self._checkpoint = self._checkpoint.rolled_back()
        self._engine = Engine(StageReference(self._diagram, self._stage), self._checkpoint)
        return True


class OnSpark(Running):
    """A node in this process. A batch that fails ends Spark's query, and the node starts it again."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        patch.setattr(limits, "RESTART_BACKOFF_S", (0.1,))
        log, append = StageRunner._log, StageRunner._append

        def tried(runner: StageRunner, batch: StageBatch) -> None:
            self.tries.append((batch.batch_id, batch.ends))
            if self._fails_here(Where.BEFORE_THE_LOG):
                raise ab.EngineError("the batch is lost")
            log(runner, batch)
            if self._fails_here(Where.BEFORE_THE_COMMIT):
                raise ab.EngineError("the commit is lost")

        def appended(runner: StageRunner, batch: StageBatch, entry: Any) -> None:
            append(runner, batch, entry)
            promise = max(runner.store.log("totals").punctuations().values(), default=0)
            rows = batch.tables["totals"].num_rows
            self.batches.append(Batch(batch.batch_id, batch.ends, rows, max(0, promise - BEGIN_US) // SECOND))

        patch.setattr(StageRunner, "_log", tried)
        patch.setattr(StageRunner, "_append", appended)
        self._opened = running(query(), directory / "state", boundary_interval_us=HOUR_US)
        self._node = self._opened.__enter__()
        self._connection = ab.connect(self._node.address)
        self._producer = self._connection.producer("reading", "p")

    def close(self) -> None:
        self._connection.close()
        self._opened.__exit__(None, None, None)

    def push(self, *rows: tuple[int, str, int]) -> None:
        self._producer.push([{"k": k, "x": x, "at": BEGIN + timedelta(seconds=second)} for second, k, x in rows])

    def promise(self, second: int) -> None:
        self._producer.boundary(BEGIN + timedelta(seconds=second))

    def settle(self) -> None:
        """Also when what failed was in the log already: nothing is missing there, and still it runs again."""
        wait_for(lambda: self._fails is None and self.failed < len(self.tries) - 1)
        assert self._node.wait_caught_up(HANG_S), self._node.statistics().stages

    def results(self) -> list[tuple[str, int]]:
        log = self._node.hosted.streams.logs["totals"][1]
        stored = [segment.rows for segment in log.read(0, log.end_seq()) if segment.rows is not None]
        tuples = [each for rows in stored for each in tuples_of(rows, log.spec.origins)]
        return [(each.values["k"], each.values["total"]) for each in tuples]


@pytest.fixture(params=["simulated", pytest.param("on Spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    if request.param == "simulated":
        yield Simulated()
        return
    real = OnSpark(tmp_path, monkeypatch)
    try:
        yield real
    finally:
        real.close()


def test_a_batch_runs_again_as_it_was_and_a_punctuation_works_one_batch_late(engine: Running) -> None:
    engine.push((1, "a", 1), (2, "b", 2))
    engine.settle()
    assert engine.results() == []

    engine.promise(10)
    engine.settle()
    assert sorted(engine.results()) == [("a", 1), ("b", 2)]
    heard = engine.batches[-1].ends
    told = [batch for batch in engine.batches if batch.ends == heard]
    assert [batch.results for batch in told] == [0, 2], "who hears a promise is not yet who keeps it"
    assert told[0].promise_s < 10 <= told[1].promise_s

    for number, where in enumerate(Where, start=1):
        begin = 10 * number
        engine.fail_next(where, lambda begin=begin: engine.push((begin + 2, "a", 2)))  # type: ignore[misc]
        engine.push((begin + 1, "a", 1))
        engine.settle()
        first, again = engine.tries[engine.failed : engine.failed + 2]
        assert first[0] == again[0], "it runs again"
        grew = first[1]["reading"] < again[1]["reading"]
        assert grew is (where is Where.BEFORE_THE_LOG), "what was logged has what it had, though more has come"
        assert [batch.number for batch in engine.batches].count(first[0]) == 1, "and is logged once"
        engine.promise(begin + 10)
        engine.settle()
        assert engine.results()[-1] == ("a", 3)
    assert len(engine.results()) == 4
