"""What a list of arrivals says: gaps, when latency is normal, what is lost or came again."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.bench.arrivals import Arrivals, Came, accounted, largest_gap_us, normal_again_us, now_us
from anabranch.errors import InvariantBroken

STEADY_US = 1_000


def times(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("came", "gap"),
    [
        (times(0, 90, 110, 150, 190, 220), 40),  # 0 to 90 is over before the interval begins
        (times(0, 110, 150, 190, 220), 110),  # it began before
        (times(90, 100, 130, 199, 500), 69),
        (times(90, 110, 120, 900), 80),  # what the end cuts off counts up to there
        (times(300, 400), 100),
        (times(), 100),
    ],
)
def test_the_largest_gap_of_an_interval(came: np.ndarray, gap: int) -> None:
    assert largest_gap_us(came, 100, 200) == gap


def test_results_that_come_together_are_one_arrival_in_whatever_order_they_are_told() -> None:
    assert largest_gap_us(times(150, 150, 100, 190, 100), 100, 200) == 50


def came(*latencies_us: int) -> Came:
    """Of rows that were made every 100 us, from 0 on."""
    made_us = np.arange(len(latencies_us)) * 100
    return Came(n=np.arange(len(latencies_us)), made_us=made_us, came_us=made_us + times(*latencies_us))


def test_latency_that_was_always_normal_is_so_at_once() -> None:
    assert normal_again_us(came(*[50] * 40), 1_000, 60, STEADY_US) == 0


def test_latency_is_normal_after_the_last_late_row_of_a_failure() -> None:
    failure = [*[50] * 10, *range(900, 0, -100), *[50] * 40]
    assert normal_again_us(came(*failure), 1_000, 60, STEADY_US) == 800


def test_a_late_row_long_after_latency_was_normal_counts_for_nothing() -> None:
    assert normal_again_us(came(*[50] * 10, 500, *[50] * 20, 500, *[50] * 20), 1_000, 60, STEADY_US) == 0
    assert normal_again_us(came(*[50] * 15, 500, *[50] * 20, 500, *[50] * 20), 1_000, 60, STEADY_US) == 500


def test_a_short_normal_stretch_is_not_yet_the_end_of_a_failure() -> None:
    assert normal_again_us(came(*[50] * 10, 500, *[50] * 5, 500, *[50] * 20), 1_000, 60, STEADY_US) == 600


def test_what_was_late_before_does_not_count() -> None:
    assert normal_again_us(came(*[500] * 10, *[50] * 20), 1_000, 60, STEADY_US) == 0


@pytest.mark.parametrize(
    ("numbers", "lost", "repeated"),
    [((0, 2, 4, 6), 0, 0), ((6, 0, 4, 2), 0, 0), ((0, 2, 6), 1, 0), ((0, 2, 2, 4, 6, 6, 6), 0, 3), ((2, 2), 3, 1)],
)
def test_lost_and_repeated_results_are_counted(numbers: tuple[int, ...], lost: int, repeated: int) -> None:
    assert accounted(times(0, 2, 4, 6), times(*numbers)) == (lost, repeated)


def test_a_result_that_nobody_expects_is_no_result() -> None:
    with pytest.raises(InvariantBroken, match="Row 3"):
        accounted(times(0, 2, 4), times(0, 2, 3, 4))


def test_arrivals_are_told_in_order_with_the_time_at_which_they_came() -> None:
    arrivals = Arrivals()
    assert arrivals.last_n == -1
    assert len(arrivals.came().n) == 0
    before_us = now_us()
    arrivals.add(times(4, 6), times(10, 20))
    arrivals.add(times(), times())
    arrivals.add(times(2), times(30))
    told = arrivals.came()
    assert told.n.tolist() == [4, 6, 2]
    assert told.made_us.tolist() == [10, 20, 30]
    assert arrivals.last_n == 6
    assert before_us <= told.came_us[0] == told.came_us[1] <= told.came_us[2] <= now_us()
    assert told.made_within(20, 30).n.tolist() == [6]
    assert told.came_within(before_us, now_us() + 1).n.tolist() == [4, 6, 2]
    assert told.came_within(0, before_us).n.tolist() == []
    assert (told.latencies_us == told.came_us - told.made_us).all()
