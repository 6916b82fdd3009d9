"""Lanes with a time column: who is late, what a late row is stamped with, and what the lane promises."""

from __future__ import annotations

from anabranch.core.lane_messages import AppendBoundary, AppendRows, Refuse
from anabranch.core.lane_state import LaneRules
from anabranch.model.times import CLOSED_US
from anabranch.query.boxes import Source
from tests.unit.core.lane_story import LaneStory, answer


def rows(story: LaneStory, *times: int) -> AppendRows:
    append, _ = story.push(times)
    assert isinstance(append, AppendRows)
    return append


def test_a_row_is_late_when_it_is_below_the_largest_earlier_time_less_the_disorder() -> None:
    story = LaneStory(timed=True, disorder_us=5)
    append = rows(story, 100, 95, 94, 110, 104, 105)
    assert append.late.tolist() == [False, False, True, False, True, False]
    assert append.stamps.tolist() == [100, 95, 95, 110, 105, 105], "a late row gets what made it late"
    assert append.numbers.tolist() == [1, 2, 3, 4, 5, 6], "late rows take their numbers"
    assert append.punctuation_us == story.punctuation == 105


def test_a_row_does_not_make_itself_late() -> None:
    append = rows(LaneStory(timed=True), 100, 100, 99)
    assert append.late.tolist() == [False, False, True]
    assert append.stamps.tolist() == [100, 100, 100]


def test_lateness_reaches_across_batches() -> None:
    story = LaneStory(timed=True, disorder_us=5)
    rows(story, 100)
    assert rows(story, 94, 95).late.tolist() == [True, False]


def test_a_row_below_an_earlier_boundary_is_late() -> None:
    story = LaneStory(timed=True, disorder_us=50)
    rows(story, 100)
    append, _ = story.boundary(80)
    assert append == AppendBoundary(number=2, punctuation_us=80)
    append = rows(story, 79, 80)
    assert append.late.tolist() == [True, False]
    assert append.stamps.tolist() == [80, 80]


def test_a_boundary_below_what_the_rows_promise_changes_nothing() -> None:
    story = LaneStory(timed=True, disorder_us=5)
    rows(story, 100)
    append, _ = story.boundary(60)
    assert append == AppendBoundary(number=2, punctuation_us=95)
    story.boundary(99)
    story.boundary(97)
    assert story.punctuation == 99


def test_nothing_is_promised_before_the_first_time_passes_the_disorder() -> None:
    story = LaneStory(timed=True, disorder_us=500)
    assert rows(story, 100, 1).late.tolist() == [False, False]
    assert story.punctuation == 0


def test_late_rows_are_counted_for_the_client() -> None:
    said = answer(LaneStory(timed=True).push([100, 50, 100, 99]))
    assert (said.new_rows, said.late_rows) == (4, 2)


def test_a_null_time_refuses_the_batch() -> None:
    (refusal,) = LaneStory(timed=True).push([100, None])
    assert isinstance(refusal, Refuse)
    assert (refusal.code, refusal.row) == ("null-time", 1)


def test_a_producers_lane_may_have_a_time_column() -> None:
    story = LaneStory(timed=True, disorder_us=5, producer="gauge")
    session = story.register("gauge").session
    append, _ = story.push([100, 97, 90], producer="gauge", session=session, first=1)
    assert isinstance(append, AppendRows)
    assert append.late.tolist() == [False, False, True]


def test_an_endless_disorder_is_a_number_that_can_be_subtracted() -> None:
    source = Source(name="s", schema=(), time="t", disorder_us=1 << 70)
    story = LaneStory()
    story.lane = type(story.lane)("0", LaneRules.of(source, "0"))
    assert rows(story, CLOSED_US - 1, 1).late.tolist() == [False, False]


def test_the_rules_come_from_the_source() -> None:
    owned = Source(name="s", schema=(), time="t", disorder_us=7, idle_us=9)
    assert LaneRules.of(owned, "0", boundary_interval_us=3) == LaneRules(
        producer=None, timed=True, disorder_us=7, idle_us=9, boundary_interval_us=3
    )
    named = Source(name="s", schema=(), producers=("a", "b"), silence_us=8)
    assert LaneRules.of(named, "b") == LaneRules(producer="b", silence_us=8)
