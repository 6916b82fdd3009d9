"""A trickle of rows is collected; the first row after quiet, many rows and results that are due wait for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch import limits
from anabranch.core.pacing import NEVER, HostLoad, Pace, Waiting, keeps_rows, shows_results
from anabranch.query.boxes import Aggregate, Arrow, Box, Join, Session, Source

BATCH_S = 0.04
MOST_S = 0.5
ONE_ROW = Waiting(rows=1, boundaries=True)
BOUNDARY = Waiting(boundaries=True)
RESULTS = Waiting(results=True, upkeep=True)
UPKEEP = Waiting(upkeep=True)
KEPT_ROWS = Waiting(rows=1, kept=True, upkeep=True)
S = 1_000_000


def paced(most_s: float = MOST_S) -> Pace:
    """Its last batch read a row at 0, and took as long as all before."""
    return Pace(most_s=most_s, batch_s=BATCH_S).began(ONE_ROW, 0.0).ended(BATCH_S)


def test_the_first_row_waits_for_nothing() -> None:
    assert Pace(most_s=MOST_S).wait_s(ONE_ROW, 7.0) == 0.0


def test_a_row_after_quiet_waits_for_nothing() -> None:
    assert paced().wait_s(ONE_ROW, 0.4) == 0.0


def test_a_row_soon_after_another_waits_for_the_pace() -> None:
    assert paced().interval_s == pytest.approx(0.4)
    assert paced().wait_s(ONE_ROW, 0.1) == pytest.approx(0.3)


def test_stages_of_a_host_are_busy_for_a_tenth_of_the_time_together() -> None:
    load = HostLoad()
    for stage in "abc":
        load.took(stage, BATCH_S)
    pace = paced(most_s=2.0).began(ONE_ROW, 3.0).ended(3.0 + BATCH_S, beside_s=load.beside_s("a"))
    assert pace.interval_s == pytest.approx(limits.PACE_BATCHES * 3 * BATCH_S)
    load.forget("b")
    later = pace.began(ONE_ROW, 6.0).ended(6.0 + BATCH_S, beside_s=load.beside_s("a"))
    assert later.interval_s == pytest.approx(limits.PACE_BATCHES * 2 * BATCH_S)


def test_whoever_sends_a_few_rows_may_collect_them_for_half_of_what_they_would_wait() -> None:
    assert paced().hold_s == pytest.approx(0.2)
    assert paced(most_s=0).hold_s == 0


def test_many_rows_wait_for_nothing() -> None:
    assert paced().wait_s(Waiting(rows=limits.PACE_ROWS - 1, boundaries=True), 0.1) > 0
    assert paced().wait_s(Waiting(rows=limits.PACE_ROWS, boundaries=True), 0.1) == 0.0


def test_the_last_rows_behind_many_wait_for_nothing() -> None:
    """A backlog ends with fewer rows than a batch; so does every push that Spark met halfway."""
    pace = paced().began(Waiting(rows=limits.PACE_ROWS, boundaries=True), 5.0)
    assert pace.wait_s(ONE_ROW, 5.1) == 0.0
    assert pace.began(ONE_ROW, 5.1).wait_s(ONE_ROW, 5.2) > 0


def test_without_anything_to_do_no_batch_begins() -> None:
    assert paced().wait_s(Waiting(), 100.0) == NEVER


def test_slow_batches_are_no_further_apart_than_the_setting() -> None:
    slow = replace(paced(), batch_s=3.0)
    assert slow.interval_s == MOST_S


@pytest.mark.parametrize("waiting", [ONE_ROW, BOUNDARY, RESULTS, UPKEEP, KEPT_ROWS])
def test_a_setting_of_zero_begins_every_batch_at_once(waiting: Waiting) -> None:
    assert paced(most_s=0.0).wait_s(waiting, 0.0) == 0.0


def test_boundaries_that_nobody_reads_wait_longer() -> None:
    unread = replace(BOUNDARY, awaited=False)
    pace = paced().began(BOUNDARY, 5.0).passed(5.0)
    assert pace.wait_s(BOUNDARY, 5.1) == pytest.approx(0.3, abs=0.1)
    assert pace.wait_s(unread, 5.1) == pytest.approx(limits.UNREAD_BOUNDARIES_S - 0.1)
    assert not pace.may_pass(unread, 6.0)
    assert pace.wait_s(Waiting(rows=1, boundaries=True, awaited=False), 6.0) == 0.0


def test_a_batch_for_boundaries_does_not_hold_up_a_row() -> None:
    pace = paced().began(BOUNDARY, 5.0)
    assert pace.wait_s(BOUNDARY, 5.1) == pytest.approx(0.3)
    assert pace.wait_s(ONE_ROW, 5.1) == 0.0


def test_boundaries_wait_for_the_pace_and_no_longer() -> None:
    assert paced().wait_s(BOUNDARY, 0.1) == pytest.approx(0.3)
    assert paced().wait_s(BOUNDARY, 0.5) == 0.0


def test_results_that_are_due_wait_for_nothing() -> None:
    assert paced().wait_s(RESULTS, 0.05) == 0.0


def test_rows_that_close_a_window_each_do_not_undo_the_pace() -> None:
    """Each takes two batches, the second at once, and then the pace is kept."""
    pace, now, batches = paced(), BATCH_S, 1
    while now < 10.0:  # a row waits whenever a batch is over, and so do the results of the last one
        waiting = Waiting(rows=1, boundaries=True, results=True, upkeep=True)
        now += pace.wait_s(waiting, now)
        pace = pace.began(waiting, now).ended(now + BATCH_S)
        now += BATCH_S
        batches += 1
    assert batches <= 2 + 2 * 10.0 / pace.interval_s


def test_what_shows_nothing_waits_for_what_comes_next_but_not_for_ever() -> None:
    assert paced().wait_s(UPKEEP, 0.1) == pytest.approx(limits.UPKEEP_WAIT_S - 0.1)
    assert paced().wait_s(replace(UPKEEP, boundaries=True), 0.1) == pytest.approx(0.3)


def test_rows_that_a_window_keeps_wait_as_what_shows_nothing_does() -> None:
    assert paced().wait_s(KEPT_ROWS, 0.1) == pytest.approx(limits.UPKEEP_WAIT_S - 0.1)
    assert paced().wait_s(replace(KEPT_ROWS, results=True), 0.1) == 0.0
    assert paced().wait_s(replace(KEPT_ROWS, rows=limits.PACE_ROWS), 0.1) == 0.0


def test_boundaries_beside_kept_rows_wait_as_long_as_those_of_a_quiet_source() -> None:
    quiet_s = limits.BOUNDARY_INTERVAL_US / S
    assert paced().wait_s(replace(KEPT_ROWS, boundaries=True), 0.1) == pytest.approx(quiet_s - 0.1)
    assert paced().passed(5.0).wait_s(replace(KEPT_ROWS, boundaries=True), 5.1) == pytest.approx(quiet_s - 0.1)


def test_what_shows_nothing_waits_longer_than_the_next_boundary_takes() -> None:
    assert limits.UPKEEP_WAIT_S > 1.2 * limits.BOUNDARY_INTERVAL_US / S


def test_the_first_batch_sets_the_pace_and_later_ones_move_it_slowly() -> None:
    pace = Pace(most_s=MOST_S).began(ONE_ROW, 1.0).ended(1.02)
    assert pace.batch_s == pytest.approx(0.02)
    assert pace.began(ONE_ROW, 2.0).ended(2.12).batch_s == pytest.approx(0.04)


def test_ten_rows_a_second_make_two_or_three_batches_a_second() -> None:
    pace, begun, rows = Pace(most_s=MOST_S, batch_s=BATCH_S), 0, 0
    for tick in range(10_000):  # milliseconds
        now = tick / 1000
        rows += tick % 100 == 0
        waiting = Waiting(rows=rows, boundaries=rows > 0)
        if pace.wait_s(waiting, now) == 0:
            pace, rows, begun = pace.began(waiting, now), 0, begun + 1
    assert 20 <= begun <= 30


@pytest.mark.parametrize(
    ("before_us", "now_us", "shows"),
    [
        (11 * S, 12 * S, False),
        (11 * S, 20 * S - 1, False),
        (11 * S, 20 * S, True),
        (20 * S, 20 * S, False),
        (20 * S, 29 * S, False),
        (0, 5 * S, False),
        (0, 10 * S, True),
    ],
)
def test_a_window_of_time_shows_its_results_at_its_end(before_us: int, now_us: int, shows: bool) -> None:
    window = Aggregate(name="w", input=Arrow("s"), columns="count(*) AS n", by=(), window_us=10 * S, every_us=10 * S)
    assert shows_results(window, before_us, now_us) is shows


def test_the_ends_of_windows_that_slide_lie_between_their_beginnings() -> None:
    window = Aggregate(name="w", input=Arrow("s"), columns="count(*) AS n", by=(), window_us=5 * S, every_us=3 * S)
    ends = [now for now in range(1, 15) if shows_results(window, (now - 1) * S, now * S)]
    assert ends == [2, 5, 8, 11, 14]


def test_a_join_shows_nothing_and_a_window_of_tuples_may_always() -> None:
    counting = Aggregate(name="w", input=Arrow("s"), columns="count(*) AS n", by=(), rows=3, every_rows=3)
    join = Join(name="j", left=Arrow("s"), right=Arrow("t"), on="a = b", within_us=S)
    source: Box = Source(name="s", schema=())
    assert [shows_results(root, 1, 2) for root in (counting, join, source)] == [True, False, False]


def test_only_a_window_of_time_without_early_results_keeps_its_rows() -> None:
    window = Aggregate(name="w", input=Arrow("s"), columns="count(*) AS n", by=(), window_us=S, every_us=S)
    counting = Aggregate(name="w", input=Arrow("s"), columns="count(*) AS n", by=(), rows=3, every_rows=3)
    join = Join(name="j", left=Arrow("s"), right=Arrow("t"), on="a = b", within_us=S)
    boxes: list[Box] = [window, replace(window, emit_rows=1), counting, join, Source(name="s", schema=())]
    assert [keeps_rows(box) for box in boxes] == [True, False, False, False, False]


def test_a_session_may_always_show_something() -> None:
    """Where it ends is known to Spark alone."""
    session = Session(name="w", input=Arrow("s"), columns="count(*) AS n", by=(), gap_us=S)
    assert shows_results(session, 1, 2)


def test_boundaries_that_are_passed_on_keep_the_pace_and_hold_no_row() -> None:
    pace = paced().passed(5.21)
    assert pace.wait_s(BOUNDARY, 5.3) == pytest.approx(0.3)
    assert pace.wait_s(ONE_ROW, 5.3) == 0.0
    assert pace.wait_s(UPKEEP, 5.3) == pytest.approx(limits.UPKEEP_WAIT_S - 5.3)


def test_rows_that_nobody_wants_keep_the_pace() -> None:
    pace = paced().passed(5.21).looked(5.21)
    assert pace.wait_s(ONE_ROW, 5.3) == pytest.approx(0.3)
    assert pace.wait_s(UPKEEP, 5.3) == pytest.approx(limits.UPKEEP_WAIT_S - 5.3)


@pytest.mark.parametrize("at_s", [5.0, 5.19, 5.21, 5.59])
def test_stages_of_a_host_look_around_at_the_same_moments_and_no_later_for_that(at_s: float) -> None:
    for pace, waiting in (paced().passed(at_s), BOUNDARY), (paced().looked(at_s), replace(ONE_ROW, boundaries=False)):
        wait_s = pace.wait_s(waiting, at_s)
        assert 0 < wait_s <= pace.interval_s
        assert at_s + wait_s == pytest.approx(5.2 if at_s < 5.2 else 5.6)


def test_boundaries_beside_rows_that_nobody_may_want_wait_as_those_beside_kept_rows_do() -> None:
    quiet_s = limits.BOUNDARY_INTERVAL_US / S
    choosy = replace(ONE_ROW, choosy=True)
    pace = paced().passed(5.0).looked(5.0)
    assert not pace.may_pass(choosy, 5.5)
    assert pace.may_pass(choosy, 5.0 + quiet_s)
    assert pace.may_pass(replace(choosy, rows=0), 5.5)
    assert not pace.may_pass(replace(choosy, boundaries=False), 10.0)
    assert pace.wait_s(choosy, 5.1) < pace.interval_s, "the rows do not wait so long"
