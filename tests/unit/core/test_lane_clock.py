"""What a lane says by itself: heartbeats, idle boundaries, and the end of a silent producer."""

from __future__ import annotations

from anabranch.core.lane_messages import AppendBoundary, AppendClose, Refuse
from anabranch.model.times import CLOSED_US
from tests.unit.core.lane_story import LaneStory, answer


def test_an_owned_lane_with_nothing_to_say_follows_its_clock() -> None:
    story = LaneStory(boundary_interval_us=1_000)
    story.start(10_000)
    assert story.tick(10_100) == [AppendBoundary(number=1, punctuation_us=10_100)]
    assert story.tick(11_099) == [], "boundaries are coalesced to the interval"
    assert story.tick(11_100) == [AppendBoundary(number=2, punctuation_us=11_100)]
    assert story.punctuation == 11_100


def test_rows_are_as_good_as_a_heartbeat() -> None:
    story = LaneStory(boundary_interval_us=1_000)
    story.start(10_000)
    story.push(1)
    assert story.tick(10_999) == []
    assert story.tick(11_000) == [AppendBoundary(number=2, punctuation_us=11_000)]
    story.now_us = 11_000
    assert answer(story.push(1)).next_number == 4


def test_a_row_after_a_heartbeat_is_not_below_it() -> None:
    story = LaneStory(boundary_interval_us=1_000)
    story.start(10_000)
    story.tick(20_000)
    story.now_us = 15_000  # the clock was set back
    append, _ = story.push(1)
    assert append.stamps.tolist() == [20_000]  # type: ignore[union-attr]


def test_a_heartbeat_that_promises_nothing_new_is_not_said() -> None:
    story = LaneStory(boundary_interval_us=1_000)
    story.start(10_000)
    story.tick(20_000)
    story.tick(12_000)
    assert story.tick(19_000) == []
    assert story.punctuation == 20_000


def test_a_time_column_does_not_follow_the_clock() -> None:
    story = LaneStory(timed=True, boundary_interval_us=1_000)
    story.start(10_000)
    story.push([500])
    assert story.tick(10_000_000) == []
    assert story.punctuation == 500


def test_with_idle_it_does_once_the_lane_was_silent_for_so_long() -> None:
    story = LaneStory(timed=True, disorder_us=100, idle_us=5_000, boundary_interval_us=1_000)
    story.start(10_000)
    story.push([9_000])
    assert story.tick(14_999) == []
    assert story.tick(15_000) == [AppendBoundary(number=2, punctuation_us=9_900)]
    assert story.tick(15_500) == [], "coalesced as all boundaries are"
    assert story.tick(16_000) == [AppendBoundary(number=3, punctuation_us=10_900)], "its own boundary breaks no silence"
    story.push([20_000])
    assert story.tick(20_999) == []


def test_an_idle_boundary_never_goes_back() -> None:
    story = LaneStory(timed=True, idle_us=5_000)
    story.start(10_000)
    story.push([9_000_000])
    assert story.tick(8_000_000) == []
    assert story.punctuation == 9_000_000


def test_a_clock_that_was_set_back_does_not_keep_an_idle_lane_silent() -> None:
    story = LaneStory(timed=True, idle_us=5_000, boundary_interval_us=1_000)
    story.start(90_000_000)
    story.push([2_000])
    assert story.tick(10_000) == [], "idle counts from here"
    assert story.tick(15_000) == [AppendBoundary(number=2, punctuation_us=10_000)]


def test_a_producers_lane_says_nothing_by_itself() -> None:
    story = LaneStory(producer="gauge")
    story.start(10_000)
    assert story.tick(10_000_000_000) == []


def test_a_producer_that_is_silent_for_too_long_is_closed() -> None:
    story = LaneStory(producer="gauge", silence_us=5_000)
    story.start(10_000)
    gauge = {"producer": "gauge", "session": story.register("gauge").session}
    story.now_us = 12_000
    story.push([50], first=1, **gauge)
    assert story.tick(16_999) == []
    assert story.tick(17_000) == [AppendClose(number=2, punctuation_us=CLOSED_US)]
    assert story.tick(90_000) == []
    (refusal,) = story.push([60], first=2, **gauge)
    assert isinstance(refusal, Refuse)
    assert refusal.code == "lane-closed"


def test_a_repetition_or_a_registration_breaks_the_silence() -> None:
    story = LaneStory(producer="gauge", silence_us=5_000)
    story.start(10_000)
    story.now_us = 14_000
    gauge = {"producer": "gauge", "session": story.register("gauge").session}
    story.push([50], first=1, **gauge)
    story.now_us = 18_000
    story.push([50], first=1, **gauge)
    assert story.tick(22_999) == []
    assert story.state.last_activity_us == 18_000, "what status shows as silent since"


def test_the_time_that_the_entry_point_was_down_is_nobodys_silence() -> None:
    story = LaneStory(producer="gauge", silence_us=5_000)
    story.start(10_000)
    story.start(900_000)
    assert story.tick(904_999) == []
    assert story.tick(905_000) == [AppendClose(number=1, punctuation_us=CLOSED_US)]


def test_a_clock_that_was_set_back_begins_the_silence_again() -> None:
    story = LaneStory(producer="gauge", silence_us=5_000)
    story.start(900_000)
    assert story.tick(10_000) == []
    assert story.tick(14_999) == []
    assert story.tick(15_000) != []


def test_a_tick_without_consequences_leaves_the_very_state() -> None:
    story = LaneStory(boundary_interval_us=1_000)
    story.start(10_000)
    story.tick(10_000)
    before = story.state
    story.tick(10_001)
    assert story.state is before


def test_a_closed_lane_is_silent_for_ever() -> None:
    story = LaneStory()
    story.start(10_000)
    story.close()
    assert story.tick(90_000_000) == []
