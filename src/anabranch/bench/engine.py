"""``anabranch bench engine``: a node and plain Spark on the same queries, rows and settings.

Both sides run in one warm session, one after the other and in changing order, and medians are compared: so neither the
warming of the JVM nor another load on the machine favours one of them. A side has a running query before time is taken.

- Throughput counts from the first push (or the first file that is there) until the last result is logged. The pushes
  are part of it; the writing of the files is not.
- A micro-batch at a steady flow takes what Spark's own account says, less the time for which a node without news held
  the question for news, which is no work.
- Latency is from just before the push until a subscriber has the tuple; for plain Spark from just before the file is
  renamed into place until its results are logged.

What comes out of both sides must be the same rows, and as many as a third count says.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Final

import numpy as np

from anabranch.bench.bench import Bench
from anabranch.bench.fresh import Fresh, FreshNode, FreshPlain
from anabranch.bench.processes import ALL, JVM, PYTHON, cpu_seconds
from anabranch.bench.report import Bound, Report, Result
from anabranch.bench.sides import (
    CONF,
    QUICK_CONF,
    Digest,
    Ours,
    Plain,
    Side,
    digest,
    wait_for_results,
    wait_until,
)
from anabranch.bench.workloads import FLOW_PUSHES_S, Rows, Workload, flow_push, total_rows, workloads
from anabranch.engine.baseline import BatchTimes
from anabranch.errors import InvariantBroken

MIB: Final = 1 << 20

Kind = type[FreshNode | FreshPlain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured. ``settling`` is the share of a flow that is let pass first."""

    rows: int
    rounds: int
    warm_rows: int
    """Worked off before time is taken: enough for the JVM to compile what the query runs."""
    flow_s: float
    backlog_rows: int
    """For start and memory, in processes of their own; 0 if these are not measured."""
    conf: Mapping[str, str]
    settling: float = 0.25


FULL: Final = Plan(rows=10_000_000, rounds=3, warm_rows=2_000_000, flow_s=8, backlog_rows=10_000_000, conf=CONF)
QUICK: Final = Plan(rows=1_000_000, rounds=1, warm_rows=300_000, flow_s=1, backlog_rows=0, conf=QUICK_CONF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One round of one side."""

    rows_s: float
    cpu_s_per_million: dict[str, float]
    flow: Flow
    output: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A steady flow on one side: milliseconds of a micro-batch, of which the parts are Spark's own, and latencies."""

    batch_ms: float
    parts_ms: dict[str, float]
    latencies_ms: np.ndarray


class EngineBench(Bench[Plan]):
    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None], check: Callable[[], None]) -> None:
        super().__init__(plan, directory, say, check)
        self._sides = 0

    def run(self, report: Report) -> None:
        if self._plan.backlog_rows:
            self._fresh(report)
        for workload in workloads():
            self._compare(workload, report)

    # --- in one session --------------------------------------------------------------------------------------------

    def _compare(self, workload: Workload, report: Report) -> None:
        count = int(self._plan.rows * workload.share)
        rounds: dict[type[Side], list[Measured]] = {Ours: [], Plain: []}
        for number in range(self._plan.rounds):
            kinds = (Ours, Plain) if number % 2 == 0 else (Plain, Ours)
            for kind in kinds:
                self._say(f"{workload.name}: round {number + 1} of {self._plan.rounds}, {kind.name}, {count:,} rows")
                rounds[kind].append(self._round(kind, workload, count, flow_s=self._plan.flow_s))
        ours, plain = rounds[Ours], rounds[Plain]
        outputs = {measured.output for measured in (*ours, *plain)}
        if len(outputs) > 1:
            raise InvariantBroken(f"The results of {workload.name} differ between sides or rounds: {outputs}.")
        report.add(*_results(workload, ours, plain))
        report.details[workload.name] = {kind.name: _details(rounds[kind]) for kind in (Ours, Plain)}

    def _round(self, kind: type[Side], workload: Workload, count: int, *, flow_s: float) -> Measured:
        self._sides += 1
        directory = self._directory / str(self._sides)
        rows = Rows(workload)
        with kind(workload, directory, self._plan.conf) as side:
            side.feed(side.prepare(rows.backlog(int(self._plan.warm_rows * workload.share))))
            self._wait(side, rows.results())
            pieces = rows.backlog(count)
            prepared, expected = side.prepare(pieces), rows.results()
            before_s, began = cpu_seconds(os.getpid()), time.monotonic()
            side.feed(prepared)
            self._wait(side, expected)
            took_s, after_s = time.monotonic() - began, cpu_seconds(os.getpid())
            flow = self._flow(side, rows, flow_s)
            output = digest(side.output())
        shutil.rmtree(directory)
        fed = total_rows(pieces)
        cpu_s_per_million = {kind: (after_s[kind] - before_s[kind]) / fed * 1_000_000 for kind in after_s}
        return Measured(
            rows_s=fed / took_s,
            cpu_s_per_million=cpu_s_per_million,
            flow=flow,
            output=output,
        )

    def _flow(self, side: Side, rows: Rows, seconds: float) -> Flow:
        before, began_us = rows.results(), rows.now_us
        pushes = [side.prepare(pieces) for pieces in rows.flow(seconds)]
        expected = rows.results()
        last_batch = max(batch.batch_id for batch in side.batches())

        def batches() -> list[BatchTimes]:
            return [batch for batch in side.batches() if batch.batch_id > last_batch]

        side.follow()
        settled = int(len(pushes) * self._plan.settling)
        held_ms, began, pushed = side.held_ms(), time.monotonic(), np.zeros(len(pushes))
        for number, prepared in enumerate(pushes):
            time.sleep(max(0.0, began + number / FLOW_PUSHES_S - time.monotonic()))
            self._check()
            pushed[number] = time.monotonic()
            side.feed(prepared)
        self._wait(side, expected)
        held_ms = side.held_ms() - held_ms
        wait_until(side, lambda: sum(len(times) for _, times in side.arrivals) >= expected - before, self._check)
        latencies = []
        for came, stimes_us in side.arrivals:
            made_by = flow_push(stimes_us, began_us)
            made_by = made_by[made_by >= settled]
            latencies.append((came - pushed[made_by]) * 1000)
        wait_until(
            side, lambda: bool(batches()), self._check
        )  # Spark tells of a batch some time after its results are there
        return Flow(
            batch_ms=batch_milliseconds(batches(), held_ms),
            parts_ms=parts_of(batches(), held_ms),
            latencies_ms=np.concatenate(latencies),
        )

    def _wait(self, side: Side, results: int) -> None:
        wait_for_results(side, results, self._check)

    # --- in processes of their own ---------------------------------------------------------------------------------

    def _fresh(self, report: Report) -> None:
        workload = next(each for each in workloads() if each.name == "window sum")
        count = self._plan.backlog_rows

        def measure(kind: Kind) -> Fresh:
            directory = self._directory / kind.__name__
            with kind(workload.diagram, directory, self._plan.conf, self._check) as side:
                measured = side.measure(workload, count)
            shutil.rmtree(directory)
            return measured

        self._say(f"start and a backlog of {count:,} rows, each side in its own process")
        report.add(*_fresh_results(measure(FreshNode), measure(FreshPlain)))


def batch_milliseconds(batches: list[BatchTimes], held_ms: float) -> float:
    """The median of what a batch does, and on average the question for news, less the time it was held."""
    working = median(batch.total_ms - batch.asking_ms for batch in batches)
    return working + max(0.0, mean(batch.asking_ms for batch in batches) - held_ms / len(batches))


def parts_of(batches: list[BatchTimes], held_ms: float) -> dict[str, float]:
    """The mean of each part, the largest first; ``held`` is part of the question for news."""
    names = {name for batch in batches for name in batch.parts_ms}
    parts = {name: mean(batch.parts_ms.get(name, 0) for batch in batches) for name in names}
    parts["held"] = held_ms / len(batches)
    return {name: round(ms, 1) for name, ms in sorted(parts.items(), key=lambda part: -part[1])}


def _details(rounds: list[Measured]) -> dict[str, object]:
    """Where the time of one side went."""
    kinds = rounds[0].cpu_s_per_million
    return {
        "parts of a micro-batch, mean ms": rounds[-1].flow.parts_ms,
        "processor time, s per million rows": {
            kind: round(median(each.cpu_s_per_million[kind] for each in rounds), 3) for kind in kinds
        },
        "rows/s of each round": [round(each.rows_s) for each in rounds],
    }


def _results(workload: Workload, ours: list[Measured], plain: list[Measured]) -> list[Result]:
    def compared(what: str, unit: str, of: Callable[[Measured], float], bound: Bound | None = None) -> Result:
        value, baseline = (median(of(each) for each in side) for side in (ours, plain))
        return Result(name=f"{workload.name}: {what}", value=value, unit=unit, baseline=baseline, bound=bound)

    fast, short = Bound(least=workload.throughput), Bound(most=workload.batch)
    return [
        compared("throughput", "rows/s", lambda each: each.rows_s, fast),
        compared("micro-batch at 1000 rows/s", "ms", lambda each: each.flow.batch_ms, short),
        compared("latency, median", "ms", lambda each: float(np.median(each.flow.latencies_ms)), short),
        compared("latency, 95 %", "ms", lambda each: float(np.quantile(each.flow.latencies_ms, 0.95))),
        compared("processor time", "s per million rows", lambda each: each.cpu_s_per_million[ALL]),
    ]


def _fresh_results(ours: Fresh, plain: Fresh) -> list[Result]:
    rows = f"{ours.backlog_rows:,} rows"
    peaks = [
        Result(
            name=f"peak memory, {kind}, backlog of {rows}",
            value=ours.peak_bytes[kind] / MIB,
            unit="MiB",
            baseline=plain.peak_bytes[kind] / MIB,
        )
        for kind in (ALL, JVM, PYTHON)
    ]
    return [
        Result(name="command to first result", value=ours.start_s, unit="s", baseline=plain.start_s),
        Result(
            name=f"backlog of {rows}, from journal to log",
            value=ours.backlog_rows / ours.drain_s,
            unit="rows/s",
            baseline=plain.backlog_rows / plain.drain_s,
        ),
        *peaks,
    ]
