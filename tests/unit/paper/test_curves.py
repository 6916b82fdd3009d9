"""Numbers and curves of measured latencies."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.paper.curves import Arrivals, curve_over_time, percentile_curve


def arrivals(*pairs: tuple[float, float]) -> Arrivals:
    return Arrivals(np.array([at for at, _ in pairs]), np.array([late for _, late in pairs]))


def test_a_percentile_is_one_of_the_latencies() -> None:
    found = arrivals(*((at, late) for at, late in enumerate([4.0, 1.0, 3.0, 2.0])))
    assert [found.percentile(share) for share in (0, 25, 50, 75, 100)] == [1, 1, 2, 3, 4]
    assert arrivals().percentile(50) is None


def test_a_part_of_the_time_has_its_begin_and_not_its_end() -> None:
    found = arrivals((1, 10), (2, 20), (3, 30)).between(2, 3)
    assert list(found.latency_s) == [20]


@pytest.mark.parametrize(
    ("times", "gap"),
    [([], 10), ([1, 2, 9], 7), ([3, 5], 5), ([1, 4, 7, 9.5], 3), ([9.5, 7, 4, 1], 3)],
)
def test_the_longest_gap_counts_from_the_begin_and_to_the_end(times: list[float], gap: float) -> None:
    assert arrivals(*((at, 1.0) for at in times)).longest_gap_s(0, 10) == gap


def test_a_percentile_curve_rises_to_all() -> None:
    latencies, shares = percentile_curve(np.array([3.0, 1.0, 2.0, 4.0]))
    assert list(latencies) == [1, 2, 3, 4]
    assert list(shares) == [25, 50, 75, 100]
    assert [len(each) for each in percentile_curve(np.empty(0))] == [0, 0]


def test_a_curve_over_time_has_the_median_of_each_interval_with_tuples() -> None:
    found = arrivals((0.1, 1), (0.2, 5), (1.9, 3), (6.0, 7))
    assert curve_over_time(found, 2.0) == ([1.0, 7.0], [3.0, 7.0])
