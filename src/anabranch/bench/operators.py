"""``anabranch bench operators``: what each box of the catalogue costs, one by one.

Throughput of a box that Spark has, too, is compared with plain Spark's, in the same session and on the same rows. The
other boxes wait for the punctuation and work in canonical order: theirs must be enough in itself, and a micro-batch of
them at a steady flow is compared with one of a window of time, which Spark does without Python.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from anabranch.bench.bench import Bench
from anabranch.bench.boxes import BoxWorkload, box_workloads, window_of_time
from anabranch.bench.engine import batch_milliseconds, parts_of
from anabranch.bench.processes import cpu_seconds
from anabranch.bench.report import Bound, Report, Result
from anabranch.bench.sides import CONF, QUICK_CONF, WAIT_S, Digest, Ours, Plain, digest, wait_for_results
from anabranch.bench.workloads import FLOW_PUSHES_S, Rows, total_rows
from anabranch.errors import EngineError, InvariantBroken

LEAST_RATIO: Final = 0.7
"""Of plain Spark's throughput, where it has the same box."""
LEAST_ROWS_S: Final = 100_000
"""For boxes that work in order, with 1000 groups."""
MOST_OF_A_WINDOW: Final = 1.5
"""What a micro-batch of such a box may take of what one of a window of time takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rows: int
    """Of a backlog, for the boxes that are fastest."""
    rounds: int
    warm_rows: int
    warm_s: float
    """A flow that is not counted, before the one that is."""
    flow_s: float


FULL: Final = Plan(rows=2_000_000, rounds=2, warm_rows=300_000, warm_s=2, flow_s=4)
QUICK: Final = Plan(rows=300_000, rounds=1, warm_rows=30_000, warm_s=0.5, flow_s=1)


@dataclass(slots=True)
class _Found:
    """What was measured of one box, round by round."""

    rows_s: list[float] = field(default_factory=list)
    plain_rows_s: list[float] = field(default_factory=list)
    batch_ms: list[float] = field(default_factory=list)
    window_ms: list[float] = field(default_factory=list)
    """The same of a window of time, in the same rounds."""
    parts_ms: dict[str, float] = field(default_factory=dict)
    cpu_s_per_million: dict[str, float] = field(default_factory=dict)
    cpu_batch_ms: dict[str, float] = field(default_factory=dict)
    """Processor time by kind of process, which depends less on what else the machine does."""


class OperatorsBench(Bench[Plan]):
    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None], check: Callable[[], None]) -> None:
        super().__init__(plan, directory, say, check)
        self._conf = QUICK_CONF if plan is QUICK else CONF
        self._sides = 0

    def run(self, report: Report) -> None:
        found = {box.name: _Found() for box in box_workloads()}
        self._say("a window of time, to warm the JVM")
        self._ours(window_of_time(), _Found())
        for number in range(self._plan.rounds):
            boxes = box_workloads() if number % 2 == 0 else list(reversed(box_workloads()))
            for box in boxes:
                self._say(f"round {number + 1} of {self._plan.rounds}: {box.name}")
                self._measure(box, found[box.name])
            for box in boxes:
                found[box.name].window_ms.append(found[window_of_time().name].batch_ms[number])
        for box in box_workloads():
            report.add(*_results(box, found[box.name]))
        report.details |= {
            name: {
                "rows/s of each round": [round(each) for each in of.rows_s],
                "ms of a micro-batch, each round": [round(each, 1) for each in of.batch_ms],
                "parts of a micro-batch, mean ms": of.parts_ms,
                "processor time of the backlog, s per million rows": of.cpu_s_per_million,
                "processor time of a micro-batch, ms": of.cpu_batch_ms,
            }
            for name, of in found.items()
        }

    def _measure(self, box: BoxWorkload, found: _Found) -> None:
        warm_results, ours = self._ours(box, found)
        if not box.plain:
            return
        plain = self._plain(box, found, warm_results, ours[0])
        if (plain != ours) if box.same_rows else (plain[0] - ours[0] not in (0, 1)):  # 1: the last waits for the next
            raise InvariantBroken(f"The results of {box.name} differ between sides: {ours}, {plain}.")

    def _ours(self, box: BoxWorkload, found: _Found) -> tuple[int, Digest]:
        """One round on a node: how many results there were before time was taken, and all of the backlog."""
        directory, rows = self._next_directory(), Rows(box.workload)
        with Ours(box.workload, directory, self._conf) as side:
            side.feed(rows.backlog(int(self._plan.warm_rows * box.share)))
            self._wait(side)
            warm_results = side.rows_out()
            pieces = rows.backlog(int(self._plan.rows * box.share))
            before_s, began = cpu_seconds(os.getpid()), time.monotonic()
            side.feed(pieces)
            self._wait(side)
            found.rows_s.append(total_rows(pieces) / (time.monotonic() - began))
            found.cpu_s_per_million = _cpu_since(before_s, total_rows(pieces) / 1_000_000)
            output = digest(side.output())
            self._flow(side, rows, self._plan.warm_s)
            last, held_ms = max(batch.batch_id for batch in side.batches()), side.held_ms()
            before_s = cpu_seconds(os.getpid())
            self._flow(side, rows, self._plan.flow_s)
            batches = [batch for batch in side.batches() if batch.batch_id > last]
            found.cpu_batch_ms = _cpu_since(before_s, max(len(batches), 1) / 1_000)
            held_ms = side.held_ms() - held_ms
            found.batch_ms.append(batch_milliseconds(batches, held_ms))
            found.parts_ms = parts_of(batches, held_ms)
        shutil.rmtree(directory)
        return warm_results, output

    def _plain(self, box: BoxWorkload, found: _Found, warm_results: int, results: int) -> Digest:
        """The same backlog in plain Spark, until there are as many results."""
        directory, rows = self._next_directory(), Rows(box.workload)
        with Plain(box.workload, directory, self._conf) as side:
            warm = side.prepare(rows.backlog(int(self._plan.warm_rows * box.share)))
            pieces = rows.backlog(int(self._plan.rows * box.share))
            prepared = side.prepare(pieces)
            side.feed(warm)
            wait_for_results(side, warm_results, self._check)
            began = time.monotonic()
            side.feed(prepared)
            wait_for_results(side, results, self._check)
            found.plain_rows_s.append(total_rows(pieces) / (time.monotonic() - began))
            output = digest(side.output())
        shutil.rmtree(directory)
        return output

    def _next_directory(self) -> Path:
        self._sides += 1
        return self._directory / str(self._sides)

    def _flow(self, side: Ours, rows: Rows, seconds: float) -> None:
        began = time.monotonic()
        for number, pieces in enumerate(rows.flow(seconds)):
            time.sleep(max(0.0, began + number / FLOW_PUSHES_S - time.monotonic()))
            self._check()
            side.feed(pieces)
        self._wait(side)

    def _wait(self, side: Ours) -> None:
        """Until all that can come out has."""
        deadline = time.monotonic() + WAIT_S
        while not side.caught_up():
            self._check()
            side.check_alive()
            if time.monotonic() > deadline:
                raise EngineError(f"{side.workload.name} has not caught up after {WAIT_S:.0f} s.")


def _cpu_since(before_s: dict[str, float], pieces: float) -> dict[str, float]:
    """Processor time since then, by kind of process, for each piece of the work."""
    return {kind: round((now_s - before_s[kind]) / pieces, 2) for kind, now_s in cpu_seconds(os.getpid()).items()}


def _results(box: BoxWorkload, found: _Found) -> list[Result]:
    name, rows_s = f"{box.name}: throughput", median(found.rows_s)
    results = []
    if box.plain:
        bound = Bound(least=LEAST_RATIO)
        plain_s = median(found.plain_rows_s)
        results.append(Result(name=name, value=rows_s, unit="rows/s", baseline=plain_s, bound=bound))
    else:
        results.append(Result(name=name, value=rows_s, unit="rows/s", bound=Bound(least=LEAST_ROWS_S)))
    batch_ms = median(found.batch_ms)
    results.append(
        Result(
            name=f"{box.name}: micro-batch at 1000 rows/s",
            value=batch_ms,
            unit="ms",
            baseline=median(found.window_ms) if box.in_order else None,
            bound=Bound(most=MOST_OF_A_WINDOW) if box.in_order else None,
        )
    )
    return results
