"""Which lanes wait at the horizon, and for how long they count as waiting."""

from __future__ import annotations

import numpy as np

from anabranch import limits
from anabranch.core.horizon import Slowest
from anabranch.core.lane_messages import AppendBoundary, AppendRows
from anabranch.runtime.ingest.horizon_gate import HeldRows, HorizonGate, latest_us


class Bench:
    """A gate with the slowest origin in the test's hands: rows may be 10 ahead of it."""

    def __init__(self) -> None:
        self.slowest_us = 100
        self.gate = HorizonGate(self._may_enter, lambda: Slowest(self.slowest_us, "s/slow"))

    def _may_enter(self, promised_us: int, latest_us: int) -> bool:
        return promised_us <= self.slowest_us or latest_us <= self.slowest_us + 10


def test_a_lane_waits_until_its_rows_may_enter() -> None:
    bench = Bench()
    assert bench.gate.lets_in("fast", 105, 110, now_us=0)
    assert not bench.gate.lets_in("fast", 105, 111, now_us=0)
    assert bench.gate.waits("fast")
    assert bench.gate.held("fast", 105, now_us=1) == HeldRows(latest_us=111, tried_us=0)
    bench.slowest_us = 101
    assert bench.gate.lets_in("fast", 105, 111, now_us=2)
    assert not bench.gate.waits("fast")


def test_a_lane_is_not_held_any_more_when_the_slowest_has_come_even_if_nobody_tries_again() -> None:
    bench = Bench()
    bench.gate.lets_in("fast", 105, 111, now_us=0)
    bench.slowest_us = 101
    assert bench.gate.held("fast", 105, now_us=1) is None


def test_a_producer_that_has_not_tried_again_for_long_has_given_up() -> None:
    bench = Bench()
    bench.gate.lets_in("fast", 105, 111, now_us=0)
    assert bench.gate.held("fast", 105, now_us=limits.HELD_US) is not None
    assert bench.gate.held("fast", 105, now_us=limits.HELD_US + 1) is None


def test_who_does_not_lead_the_lane_any_more_holds_nothing() -> None:
    bench = Bench()
    bench.gate.lets_in("fast", 105, 111, now_us=0)
    bench.gate.forget("fast")
    assert not bench.gate.waits("fast")


def test_only_rows_in_time_can_be_too_far_ahead() -> None:
    def rows(*stamps: int, late: tuple[bool, ...]) -> AppendRows:
        times = np.array(stamps, np.int64)
        return AppendRows(skip=0, numbers=times, stamps=times, late=np.array(late), punctuation_us=5)

    assert latest_us([rows(7, 9, 8, late=(False, False, False))]) == 9
    assert latest_us([rows(7, 9, late=(False, True))]) == 7
    assert latest_us([rows(7, late=(True,))]) is None
    assert latest_us([AppendBoundary(number=1, punctuation_us=99)]) is None
