"""Who is slow when, in the benchmark of racing copies, and what its results are judged by."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from anabranch.bench.racing import LONGEST_S, SHORTEST_S, SLOT_S, Outcome, Step, compared, slow_periods

PLAN = slow_periods(12)


def is_end(step: Step) -> bool:
    return step.do == "resume" or (step.do == "delay" and step.delay_s is None)


def test_the_same_seed_gives_the_same_plan() -> None:
    assert slow_periods(12, 1) == slow_periods(12, 1)
    assert slow_periods(12, 1) != slow_periods(12, 2)


def test_a_copy_is_well_again_before_the_other_one_is_slow() -> None:
    assert [step.at_s for step in PLAN] == sorted(step.at_s for step in PLAN)
    for before, step in pairwise(PLAN):
        assert step.copy == before.copy or is_end(before)
        assert is_end(before) == (step.at_s % SLOT_S == 0)
    assert is_end(PLAN[-1])
    assert PLAN[-1].at_s < 12 * SLOT_S


def test_both_copies_have_pauses_and_delays() -> None:
    for copy in ("a", "b"):
        own = [step for step in PLAN if step.copy == copy]
        assert sum(step.do == "pause" for step in own) == sum(step.do == "resume" for step in own) == 3
        assert sum(step.do == "delay" and step.delay_s is None for step in own) == 3
    assert {(step.copy, step.do) for step in slow_periods(4)} == {
        (copy, do) for copy in ("a", "b") for do in ("pause", "resume", "delay")
    }


def test_delays_have_a_long_tail_and_each_lasts_for_as_long_as_it_is() -> None:
    delays = [(step, after) for step, after in pairwise(slow_periods(400)) if step.delay_s is not None]
    lengths = np.array([step.delay_s for step, _ in delays])
    assert all(after.at_s - step.at_s >= step.delay_s - 1e-9 for step, after in delays if step.delay_s is not None)
    assert SHORTEST_S <= lengths.min() <= lengths.max() <= LONGEST_S
    assert np.median(lengths) < 0.12
    assert 0.02 < (lengths > 0.5).mean() < 0.15


def outcome(*latencies_ms: float, cpu_s: float = 10.0, size: float = 1_000.0) -> Outcome:
    return Outcome(latencies_ms=np.array(latencies_ms), cpu_s=cpu_s, bytes=size)


def test_two_copies_are_judged_by_their_tail_and_by_their_cost() -> None:
    one = outcome(*[100.0] * 90, *[1_000.0] * 10)
    assert all(result.ok for result in compared(one, outcome(*[200.0] * 100, cpu_s=22, size=2_200)))
    for two, missed in (
        (outcome(*[200.0] * 90, *[800.0] * 10), "latency, 99 %"),
        (outcome(*[200.0] * 100, cpu_s=22.1), "processor time"),
        (outcome(*[200.0] * 100, size=2_210), "bytes on the wire"),
    ):
        assert [result.name for result in compared(one, two) if not result.ok] == [missed]
