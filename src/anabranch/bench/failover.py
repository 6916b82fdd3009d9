"""``anabranch bench failover``: what one who waits for results sees when a process that computes them is killed.

The same query and the same steady flow, three ways one after the other: plain Spark, started again on its checkpoint;
Anabranch with one copy, started again on its state; Anabranch with two copies, of which one is killed. Both restarts
come at once, as from someone who watches without a pause. With two copies nothing is restarted in the measured
interval: the killed node comes back after it, and the other one is killed next.

Intervals without a kill lie between those with one, of the same length, so that both see the same machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from anabranch.bench.arrivals import SECOND_US, Came, accounted, largest_gap_us, normal_again_us, now_us
from anabranch.bench.bench import Bench
from anabranch.bench.report import Bound, Report, Result
from anabranch.bench.steady import expected
from anabranch.bench.ways import Deployed, PlainFiles, Way

GAP: Final = Bound(most=1.5)
NONE: Final = Bound(most=0)
NORMAL: Final = 1.5
"""A latency is normal up to so many times that of 95 % of the results in the intervals without a kill."""

STEADY_S: Final = 2.0
"""Latency is normal again when it stays so for this long."""

RACE: Final = "race"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    kills: int
    interval_s: float
    """Of each interval, with a kill and without. Where a kill stops everything, it lasts until results come again."""
    warm_s: float
    settle_s: float
    """After what was killed is back."""


FULL: Final = Plan(kills=5, interval_s=8, warm_s=15, settle_s=5)
QUICK: Final = Plan(kills=1, interval_s=5, warm_s=5, settle_s=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one way has shown: per interval without a kill and with one, the largest gap and how long it took until
    latency was normal, in seconds; and what it made of the whole flow."""

    quiet_gaps_s: list[float]
    gaps_s: list[float]
    normal_again_s: list[float]
    normal_ms: float
    results: int
    lost: int
    repeated: int

    def results_of(self, name: str) -> list[Result]:
        bounded = name == RACE
        return [
            Result(
                name=f"{name}: largest gap between results",
                value=median(self.gaps_s),
                unit="s",
                baseline=median(self.quiet_gaps_s),
                bound=GAP if bounded else None,
            ),
            Result(name=f"{name}: until latency is normal", value=median(self.normal_again_s), unit="s"),
            Result(name=f"{name}: results lost", value=self.lost, unit="rows", bound=NONE if bounded else None),
            Result(name=f"{name}: results repeated", value=self.repeated, unit="rows", bound=NONE if bounded else None),
        ]

    def details(self) -> dict[str, Any]:
        return {
            "largest gap of each interval with a kill, s": [round(gap, 3) for gap in self.gaps_s],
            "largest gap of each interval without, s": [round(gap, 3) for gap in self.quiet_gaps_s],
            "until latency is normal, after each kill, s": [round(time, 3) for time in self.normal_again_s],
            "a latency is normal up to, ms": round(self.normal_ms),
            "results": self.results,
        }


class FailoverBench(Bench[Plan]):
    def run(self, report: Report) -> None:
        ways: list[Way] = [
            PlainFiles(self._directory / "plain", self._check),
            Deployed("single", 1, self._directory / "single", self._check),
            Deployed(RACE, 2, self._directory / "race", self._check),
        ]
        for way in ways:
            outcome = self._measure(way)
            report.add(*outcome.results_of(way.name))
            report.details[way.name] = outcome.details()

    def _measure(self, way: Way) -> Outcome:
        plan, name = self._plan, way.name
        quiet: list[Interval] = []
        hurt: list[Interval] = []
        self._say(f"{name}: starting")
        with way:
            self._say(f"{name}: warming up")
            way.wait_near()
            way.wait(plan.warm_s)
            for turn in range(plan.kills):
                self._say(f"{name}: kill {turn + 1} of {plan.kills}: {plan.interval_s:g} s without a kill first")
                quiet.append(self._interval(way, lambda: None))
                self._say(f"{name}: kill {turn + 1} of {plan.kills}")
                hurt.append(self._interval(way, lambda turn=turn: way.kill(turn)))  # type: ignore[misc]
                self._say(f"{name}: kill {turn + 1} of {plan.kills}: recovering")
                way.restore()
                way.wait(plan.settle_s)
            self._say(f"{name}: waiting for the last results")
            way.finish()
            outcome = judged(way.arrivals.came(), way.flow.made, quiet, hurt)
        shutil.rmtree(way.directory)
        return outcome

    def _interval(self, way: Way, do: Callable[[], None]) -> Interval:
        start_us = now_us()
        do()
        way.wait(self._plan.interval_s - (now_us() - start_us) / SECOND_US)
        way.wait_near()
        return Interval(start_us=start_us, end_us=now_us())


def judged(came: Came, made: int, quiet: list[Interval], hurt: list[Interval]) -> Outcome:
    """From all results of a flow of so many rows."""
    # Of those that came in these intervals: some that were made there come only after the next kill.
    latencies_us = [came.came_within(each.start_us, each.end_us).latencies_us for each in quiet]
    normal_us = NORMAL * float(np.quantile(np.concatenate(latencies_us), 0.95))
    lost, repeated = accounted(expected(made), came.n)

    def gaps_s(intervals: list[Interval]) -> list[float]:
        return [largest_gap_us(came.came_us, each.start_us, each.end_us) / SECOND_US for each in intervals]

    return Outcome(
        quiet_gaps_s=gaps_s(quiet),
        gaps_s=gaps_s(hurt),
        normal_again_s=[
            normal_again_us(came, each.start_us, normal_us, round(STEADY_S * SECOND_US)) / SECOND_US for each in hurt
        ],
        normal_ms=normal_us / 1_000,
        results=len(came.n),
        lost=lost,
        repeated=repeated,
    )
