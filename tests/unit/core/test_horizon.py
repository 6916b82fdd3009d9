"""No lane runs ahead of the slowest by more than the horizon, and nobody who is gone holds the others up."""

from __future__ import annotations

from random import Random

from anabranch.core.horizon import Horizon, SlowestTold, Told, slowest_of
from anabranch.model.times import CLOSED_US

MS = 1_000
HORIZON = Horizon(10 * MS, (("join-1", "join-2"), ("count-1",)))


def told(**times: int) -> Told:
    state = Told()
    for reader, time_us in times.items():
        state = HORIZON.handle(state, SlowestTold(reader=reader.replace("_", "-"), time_us=time_us))
    return state


def test_rows_enter_within_the_horizon_of_the_slowest() -> None:
    state = told(join_1=100 * MS, count_1=100 * MS)
    assert HORIZON.may_enter(state, promised_us=105 * MS, latest_us=110 * MS)
    assert not HORIZON.may_enter(state, promised_us=105 * MS, latest_us=110 * MS + 1)


def test_a_replica_that_is_gone_holds_nobody_up_and_a_fragment_does() -> None:
    assert HORIZON.slowest_us(told(join_1=20, join_2=100, count_1=90)) == 90
    assert HORIZON.slowest_us(told(join_1=20, join_2=100)) == 0


def test_a_reader_that_was_rebuilt_takes_nothing_back() -> None:
    state = HORIZON.handle(told(join_1=100, count_1=100), SlowestTold(reader="join-1", time_us=40))
    assert HORIZON.slowest_us(state) == 100


def test_the_slowest_lane_may_jump() -> None:
    state = told(join_1=100 * MS, count_1=100 * MS)
    assert HORIZON.may_enter(state, promised_us=100 * MS, latest_us=5_000 * MS)
    assert not HORIZON.may_enter(state, promised_us=101 * MS, latest_us=5_000 * MS)


def test_a_window_hears_whole_milliseconds_and_the_slowest_lane_may_jump_all_the_same() -> None:
    """Behind a window what was promised as 100.7 ms is known as 100 ms: nobody would ever tell more."""
    state = told(join_1=100_700, count_1=100_001)
    assert HORIZON.may_enter(state, promised_us=100_700, latest_us=5_000 * MS)
    assert not HORIZON.may_enter(state, promised_us=101_000, latest_us=5_000 * MS)


def test_what_a_deeper_layer_waits_for_is_passed_on() -> None:
    inlets = [(("l/p",), {"l/p": 7}), (("r/0",), {"r/0": 8})]
    assert slowest_of(inlets, [9, 5]) == 5
    assert slowest_of(inlets, [9]) == 7


def test_the_slowest_is_over_all_inlets_and_a_closed_origin_is_waited_for_by_nobody() -> None:
    left, right = ("l/p", "l/q"), ("r/0",)
    assert slowest_of([(left, {"l/p": 7, "l/q": 9}), (right, {"r/0": 8})]) == 7
    assert slowest_of([(left, {"l/p": CLOSED_US, "l/q": 9}), (right, {"r/0": 8})]) == 8
    assert slowest_of([(left, {"l/p": 7}), (right, {"r/0": 8})]) == 0


def test_lanes_that_hear_late_stay_together_and_always_get_on() -> None:
    """Two lanes with jumps of their own, and a reader that tells late: both end, never far apart."""
    for seed in range(50):
        random = Random(seed)
        horizon = Horizon(10 * MS, (("reader",),))
        wanted = {lane: [sum(steps[: n + 1]) for n in range(60)] for lane, steps in _steps(random).items()}
        promised, state = dict.fromkeys(wanted, 0), Told()
        for _ in range(5_000):
            lane = random.choice(sorted(wanted))
            if random.random() < 0.2:
                state = horizon.handle(state, SlowestTold(reader="reader", time_us=min(promised.values())))
            elif wanted[lane] and horizon.may_enter(state, promised[lane], wanted[lane][0]):
                is_slowest = promised[lane] == min(promised.values())
                promised[lane] = wanted[lane].pop(0)
                assert is_slowest or promised[lane] <= min(promised.values()) + 10 * MS
            if not wanted[lane]:
                promised[lane] = CLOSED_US
        assert wanted == {"one": [], "other": []}, f"seed {seed}"


def _steps(random: Random) -> dict[str, list[int]]:
    return {lane: [random.choice((1, 2, 3, 40)) * MS for _ in range(60)] for lane in ("one", "other")}
