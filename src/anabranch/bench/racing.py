"""``anabranch bench racing``: what a second copy does for latency when copies are slow in turn, and what it costs.

The same query, the same steady flow and the same slow periods, with one copy and then with two. A copy is slow in one
of two ways: its processes stand still, or what it reads takes longer by delays of a long-tailed distribution, from a
seeded sequence. With two copies the other one is slow next, and never both at once; with one copy its own slow periods
are all there are.
"""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from anabranch.bench.arrivals import SECOND_US, now_us
from anabranch.bench.bench import Bench
from anabranch.bench.report import Bound, Report, Result
from anabranch.bench.ways import COPIES, Deployed
from anabranch.model.links import Delay, Heal

P99: Final = Bound(most=0.7)
COST: Final = Bound(most=2.2)

SLOT_S: Final = 8.0
"""One copy is slow for half of it, and catches up in the other half."""
SLOW_S: Final = 4.0
HOLD_S: Final = 0.5
"""A delay stays for this long at least, and for as long as it is: what is on the way when a delay ends would arrive
early."""

SHORTEST_S: Final = 0.05
LONGEST_S: Final = 2.0
SHAPE: Final = 1.1
"""Of a Pareto distribution: half of the delays are below 0.1 s, and one in 14 is above 0.5 s."""

SEED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    slots: int
    warm_s: float


FULL: Final = Plan(slots=12, warm_s=15)
QUICK: Final = Plan(slots=4, warm_s=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happens to a copy, so long after the beginning. A delay of None is the end of delays."""

    at_s: float
    copy: str
    do: Literal["pause", "resume", "delay"]
    delay_s: float | None = None


def slow_periods(slots: int, seed: int = SEED) -> list[Step]:
    """In each slot another copy is slow; both have a turn with pauses, then both with delays."""
    chance = random.Random(seed)
    steps: list[Step] = []
    for slot in range(slots):
        copy, began_s = COPIES[slot % len(COPIES)], slot * SLOT_S
        if slot // len(COPIES) % 2 == 0:
            steps += [Step(at_s=began_s, copy=copy, do="pause"), Step(at_s=began_s + SLOW_S, copy=copy, do="resume")]
        else:
            steps += _delays(copy, began_s, chance)
    return steps


def _delays(copy: str, began_s: float, chance: random.Random) -> list[Step]:
    steps, at_s = [], 0.0
    while at_s < SLOW_S:
        delay_s = min(LONGEST_S, SHORTEST_S * chance.paretovariate(SHAPE))
        steps.append(Step(at_s=began_s + at_s, copy=copy, do="delay", delay_s=delay_s))
        at_s += max(HOLD_S, delay_s)
    return [*steps, Step(at_s=began_s + at_s, copy=copy, do="delay")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one number of copies."""

    latencies_ms: np.ndarray
    cpu_s: float
    bytes: float

    def quantile_ms(self, share: float) -> float:
        return float(np.quantile(self.latencies_ms, share))

    def details(self) -> dict[str, Any]:
        shares = (0.5, 0.9, 0.95, 0.99, 0.999)
        return {
            "results": len(self.latencies_ms),
            "latency by share, ms": {str(share): round(self.quantile_ms(share)) for share in shares},
            "largest latency, ms": round(float(self.latencies_ms.max())),
        }


class RacingBench(Bench[Plan]):
    def run(self, report: Report) -> None:
        one, two = (
            self._measure(Deployed(name, copies, self._directory / str(copies), self._check, links=True))
            for copies, name in ((1, "one copy"), (2, "two copies"))
        )
        report.add(*compared(one, two))
        report.details.update({"one copy": one.details(), "two copies": two.details()})

    def _measure(self, way: Deployed) -> Outcome:
        self._say(f"{way.name}: starting")
        with way:
            self._say(f"{way.name}: warming up")
            way.wait_near()
            way.wait(self._plan.warm_s)
            before, start_us = way.statistics(), now_us()
            self._slow_in_turn(way)
            end_us, after = now_us(), way.statistics()
            self._say(f"{way.name}: waiting for the last results")
            way.finish()
            came = way.arrivals.came().made_within(start_us, end_us)
        shutil.rmtree(way.directory)
        return Outcome(
            latencies_ms=came.latencies_us / 1_000,
            cpu_s=after["cpu_s"] - before["cpu_s"],
            bytes=after["bytes"] - before["bytes"],
        )

    def _slow_in_turn(self, way: Deployed) -> None:
        began = time.monotonic()
        slots = self._plan.slots
        for step in slow_periods(slots):
            if step.copy in way.copies:
                way.wait(began + step.at_s - time.monotonic())
                slot, kind = int(step.at_s // SLOT_S) + 1, "delays" if step.do == "delay" else "a pause"
                self._say(f"{way.name}: slow period {slot} of {slots}: {kind} of copy {step.copy}")
                _do(step, way)
        way.wait(began + slots * SLOT_S - time.monotonic())


def _do(step: Step, way: Deployed) -> None:
    match step.do:
        case "pause":
            way.pause(step.copy)
        case "resume":
            way.resume(step.copy)
        case "delay":
            fault = Heal() if step.delay_s is None else Delay(delay_us=round(step.delay_s * SECOND_US))
            way.hurt_link(step.copy, fault)


def compared(one: Outcome, two: Outcome) -> list[Result]:
    def latency(what: str, share: float, bound: Bound | None = None) -> Result:
        value, baseline = two.quantile_ms(share), one.quantile_ms(share)
        return Result(name=f"latency, {what}", value=value, unit="ms", baseline=baseline, bound=bound)

    return [
        latency("median", 0.5),
        latency("95 %", 0.95),
        latency("99 %", 0.99, P99),
        Result(name="processor time", value=two.cpu_s, unit="s", baseline=one.cpu_s, bound=COST),
        Result(name="bytes on the wire", value=two.bytes / 1_000, unit="kB", baseline=one.bytes / 1_000, bound=COST),
    ]
