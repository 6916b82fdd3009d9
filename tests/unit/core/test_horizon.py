"""No lane runs ahead of the slowest by more than the horizon, and nobody who is gone holds the others up."""

from __future__ import annotations

from random import Random

from anabranch.core.horizon import UNKNOWN, Horizon, Slowest, Told, slowest_of
from anabranch.model.times import CLOSED_US

MS = 1_000
BEGIN = 100 * MS
HORIZON = Horizon(10 * MS, (("join-1", "join-2"), ("count-1",)))


def told(**times: int) -> Told:
    state = Told()
    for reader, time_us in times.items():
        state = state.heard(reader.replace("_", "-"), Slowest(time_us))
    return state


def test_rows_enter_within_the_horizon_of_the_slowest() -> None:
    state = told(join_1=100 * MS, count_1=100 * MS)
    assert HORIZON.may_enter(state, promised_us=105 * MS, latest_us=110 * MS)
    assert not HORIZON.may_enter(state, promised_us=105 * MS, latest_us=110 * MS + 1)


def test_a_replica_that_is_gone_holds_nobody_up_and_a_fragment_does() -> None:
    assert HORIZON.slowest(told(join_1=20, join_2=100, count_1=90)).time_us == 90
    assert HORIZON.slowest(told(join_1=20, join_2=100, count_1=10)).time_us == 10


def test_what_is_unknown_holds_nobody_up() -> None:
    """A fragment that has told nothing, an origin that has promised nothing, and a source that nobody reads."""
    for state in (Told(), told(join_1=100 * MS), told(join_1=100 * MS, join_2=90 * MS, count_1=0)):
        assert HORIZON.slowest(state) == UNKNOWN
        assert HORIZON.may_enter(state, promised_us=105 * MS, latest_us=5_000 * MS)
    unread = Horizon(10 * MS, ())
    assert unread.slowest(Told()) == UNKNOWN
    assert unread.may_enter(Told(), promised_us=105 * MS, latest_us=5_000 * MS)


def test_who_holds_the_others_up_is_named() -> None:
    state = told(join_1=90 * MS).heard("count-1", Slowest(40 * MS, "l/p"))
    assert HORIZON.slowest(state) == (40 * MS, "l/p")


def test_a_reader_that_was_rebuilt_takes_nothing_back() -> None:
    state = told(join_1=100, count_1=100).heard("join-1", Slowest(40))
    assert HORIZON.slowest(state).time_us == 100


def test_the_slowest_lane_may_jump() -> None:
    state = told(join_1=100 * MS, count_1=100 * MS)
    assert HORIZON.may_enter(state, promised_us=100 * MS, latest_us=5_000 * MS)
    assert not HORIZON.may_enter(state, promised_us=101 * MS, latest_us=5_000 * MS)


def test_a_window_hears_whole_milliseconds_and_the_slowest_lane_may_jump_all_the_same() -> None:
    """Behind a window what was promised as 100.7 ms is known as 100 ms: nobody would ever tell more."""
    state = told(join_1=100_700, count_1=100_001)
    assert HORIZON.may_enter(state, promised_us=100_700, latest_us=5_000 * MS)
    assert not HORIZON.may_enter(state, promised_us=101_000, latest_us=5_000 * MS)


def test_behind_a_box_that_holds_promises_back_the_slowest_lane_may_jump() -> None:
    """A box promises 100 ms when the lane has promised 105 ms: nobody would ever tell more."""
    horizon = Horizon(10 * MS, (("resample",),), held_back_us=5 * MS)
    state = Told().heard("resample", Slowest(100 * MS))
    assert horizon.may_enter(state, promised_us=105 * MS, latest_us=5_000 * MS)
    assert not horizon.may_enter(state, promised_us=106 * MS, latest_us=5_000 * MS)


def test_what_a_deeper_layer_waits_for_is_passed_on() -> None:
    inlets = [(("l/p",), {"l/p": 7 * MS}), (("r/0",), {"r/0": 8 * MS})]
    assert slowest_of(inlets, [Slowest(9 * MS, "join"), Slowest(5 * MS, "sum")]) == (5 * MS, "sum")
    assert slowest_of(inlets, [Slowest(9 * MS, "join")]) == (7 * MS, "l/p")


def test_a_deeper_layer_that_has_told_nothing_makes_all_unknown() -> None:
    assert slowest_of([(("l/p",), {"l/p": 7})], [UNKNOWN]).time_us == 0


def test_a_lane_is_named_rather_than_a_box_that_was_told_of_it() -> None:
    inlets = [(("l/p",), {"l/p": 7 * MS + 300})]
    assert slowest_of(inlets, [Slowest(7 * MS, "join")]) == (7 * MS, "l/p")
    assert slowest_of(inlets, [Slowest(7 * MS - 1, "join")]) == (7 * MS - 1, "join")


def test_the_slowest_is_over_all_inlets_and_a_closed_origin_is_waited_for_by_nobody() -> None:
    left, right = ("l/p", "l/q"), ("r/0",)
    assert slowest_of([(left, {"l/p": 7, "l/q": 9}), (right, {"r/0": 8})]) == (7, "l/p")
    assert slowest_of([(left, {"l/p": CLOSED_US, "l/q": 9}), (right, {"r/0": 8})]) == (8, "r/0")
    assert slowest_of([(left, {"l/p": 7}), (right, {"r/0": 8})]).time_us == 0
    assert slowest_of([]) == UNKNOWN


def test_lanes_that_hear_late_stay_together_and_always_get_on() -> None:
    """Two lanes with jumps of their own, and a reader that tells late: both end, never far apart."""
    for seed in range(50):
        random = Random(seed)
        horizon = Horizon(10 * MS, (("reader",),))
        wanted = {lane: [BEGIN + sum(steps[: n + 1]) for n in range(60)] for lane, steps in _steps(random).items()}
        promised = dict.fromkeys(wanted, BEGIN)
        state = Told().heard("reader", Slowest(BEGIN))
        for _ in range(5_000):
            lane = random.choice(sorted(wanted))
            if random.random() < 0.2:
                state = state.heard("reader", Slowest(min(promised.values())))
            elif wanted[lane] and horizon.may_enter(state, promised[lane], wanted[lane][0]):
                is_slowest = promised[lane] == min(promised.values())
                promised[lane] = wanted[lane].pop(0)
                assert is_slowest or promised[lane] <= min(promised.values()) + 10 * MS
            if not wanted[lane]:
                promised[lane] = CLOSED_US
        assert wanted == {"one": [], "other": []}, f"seed {seed}"


def _steps(random: Random) -> dict[str, list[int]]:
    return {lane: [random.choice((1, 2, 3, 40)) * MS for _ in range(60)] for lane in ("one", "other")}
