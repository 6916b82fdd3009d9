"""What the benchmark of failures makes of a flow."""

from __future__ import annotations

import numpy as np

from anabranch.bench.arrivals import SECOND_US, Came
from anabranch.bench.failover import RACE, Interval, judged


def came_of(rows: int, outage_s: tuple[int, int] | None) -> Came:
    """A row every 100 ms, each second one with a result 500 ms later, or after the outage."""
    n = np.arange(0, rows, 2)
    made_us = n * SECOND_US // 10
    came_us = made_us + SECOND_US // 2
    if outage_s is not None:
        start_us, end_us = (second * SECOND_US for second in outage_s)
        came_us = np.where((came_us > start_us) & (came_us < end_us), end_us, came_us)
    return Came(n=n, made_us=made_us, came_us=came_us)


def interval(start_s: int, end_s: int) -> Interval:
    return Interval(start_us=start_s * SECOND_US, end_us=end_s * SECOND_US)


def test_a_restart_shows_as_a_gap_and_as_latency() -> None:
    outcome = judged(came_of(400, (20, 28)), 400, [interval(17, 20)], [interval(20, 33)])
    assert outcome.quiet_gaps_s == [0.2]
    assert outcome.gaps_s == [8.1]
    assert outcome.normal_ms == 750
    assert outcome.normal_again_s == [7.2]
    assert (outcome.lost, outcome.repeated, outcome.results) == (0, 0, 200)
    gap, *others = outcome.results_of("single")
    assert (gap.value, gap.baseline, gap.ok) == (8.1, 0.2, True)
    assert all(result.bound is None for result in others)


def test_a_race_without_a_gap_keeps_its_bounds() -> None:
    outcome = judged(came_of(400, None), 400, [interval(10, 18)], [interval(20, 28)])
    assert all(result.ok for result in outcome.results_of(RACE))
    assert sum(result.bound is not None for result in outcome.results_of(RACE)) == 3


def test_a_race_misses_its_bounds_by_a_gap_and_by_every_row() -> None:
    whole = came_of(400, (20, 21))
    lacking = Came(n=whole.n[1:], made_us=whole.made_us[1:], came_us=whole.came_us[1:])
    outcome = judged(lacking, 400, [interval(10, 18)], [interval(20, 28)])
    missed = [result.name for result in outcome.results_of(RACE) if not result.ok]
    assert missed == ["race: largest gap between results", "race: results lost"]
    again = Came(n=np.append(whole.n, 0), made_us=np.append(whole.made_us, 0), came_us=np.append(whole.came_us, 1))
    outcome = judged(again, 400, [interval(10, 18)], [interval(30, 38)])
    assert [result.name for result in outcome.results_of(RACE) if not result.ok] == ["race: results repeated"]
