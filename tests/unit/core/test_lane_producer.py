"""A producer's lane: one named producer numbers its entries, and stamps them where there is no time column."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch import limits
from anabranch.core.lane_messages import (
    Answer,
    AnswerRegistration,
    AppendBoundary,
    AppendClose,
    AppendRows,
    AppendVoids,
    ProducerRegistered,
    Refuse,
)
from anabranch.model.times import CLOSED_US
from tests.unit.core.lane_story import LaneStory, answer


def registered(**rules: Any) -> tuple[LaneStory, dict[str, Any]]:
    story = LaneStory(producer="gauge", **rules)
    session = story.register("gauge").session
    return story, {"producer": "gauge", "session": session}


def refusal(actions: list[Any]) -> Refuse:
    (only,) = actions
    assert isinstance(only, Refuse)
    return only


def test_the_producers_numbers_and_stamps_are_kept() -> None:
    story, gauge = registered()
    append, said = story.push([10, 10, 15], first=1, **gauge)
    assert isinstance(append, AppendRows)
    assert append.numbers.tolist() == [1, 2, 3]
    assert append.stamps.tolist() == [10, 10, 15]
    assert append.punctuation_us == 15
    assert said == Answer(accepted_through=3, next_number=4, new_rows=3)


def test_only_that_producer_may_speak() -> None:
    story, _ = registered()
    assert refusal(story.push([10])).code == "unknown-producer"
    assert refusal(story.push([10], producer="other", session=1, first=1)).code == "unknown-producer"
    assert refusal(story.boundary(10)).code == "unknown-producer"


def test_another_name_cannot_register() -> None:
    from anabranch.core.lane_messages import ProducerRegistered

    story, _ = registered()
    assert refusal(story.handle(ProducerRegistered(producer="other", now_us=1))).code == "unknown-producer"


def test_a_stamp_that_goes_back_refuses_the_batch_and_names_the_row() -> None:
    story, gauge = registered()
    before = story.state
    said = refusal(story.push([10, 20, 19, 5], first=1, **gauge))
    assert (said.code, said.row) == ("stamp-decreases", 2)
    assert "row 2" in said.message
    assert story.state is before


def test_a_stamp_below_the_last_batch_refuses_the_first_row() -> None:
    story, gauge = registered()
    story.push([10, 20], first=1, **gauge)
    assert refusal(story.push([19], first=3, **gauge)).row == 0


def test_a_stamp_below_an_earlier_boundary_is_refused_too() -> None:
    story, gauge = registered()
    append, _ = story.boundary(30, first=1, **gauge)
    assert append == AppendBoundary(number=1, punctuation_us=30)
    assert refusal(story.push([30, 29], first=2, **gauge)).row == 1
    assert answer(story.push([30], first=2, **gauge)).new_rows == 1


def test_a_boundary_below_the_present_one_takes_its_number_and_changes_nothing() -> None:
    story, gauge = registered()
    story.push([50], first=1, **gauge)
    append, said = story.boundary(20, first=2, **gauge)
    assert append == AppendBoundary(number=2, punctuation_us=50)
    assert said == Answer(accepted_through=2, next_number=3)
    assert story.punctuation == 50


@pytest.mark.parametrize("time_us", [0, -5, CLOSED_US])
def test_a_boundary_outside_of_time_is_refused(time_us: int) -> None:
    story, gauge = registered()
    assert refusal(story.boundary(time_us, first=1, **gauge)).code == "time-range"


@pytest.mark.parametrize(
    ("times", "row", "code"),
    [
        ([10, None, 30], 1, "null-time"),
        ([10, 20, 0], 2, "time-range"),
        ([-7], 0, "time-range"),
        ([10, CLOSED_US], 1, "time-range"),
        ([10, 0, None], 1, "time-range"),
        ([10, None, 0], 1, "null-time"),
    ],
)
def test_the_first_bad_time_refuses_the_batch(times: list[int | None], row: int, code: str) -> None:
    story, gauge = registered()
    said = refusal(story.push(times, first=1, **gauge))
    assert (said.row, said.code) == (row, code)


def test_rows_without_stamps_are_refused() -> None:
    story, gauge = registered()
    assert refusal(story.push(2, first=1, **gauge)).code == "null-time"


def test_a_bad_row_keeps_its_place_in_the_batch_when_the_beginning_was_sent_before() -> None:
    story, gauge = registered()
    story.push([10, 20], first=1, **gauge)
    assert refusal(story.push([10, 20, 30, None], first=1, **gauge)).row == 3
    assert refusal(story.push([10, 20, 30, 29], first=1, **gauge)).row == 3


def test_what_was_accepted_is_not_judged_again() -> None:
    story, gauge = registered()
    story.push([10, 20], first=1, **gauge)
    assert answer(story.push([None, None, 30], first=1, **gauge)).new_rows == 1


def test_the_last_time_before_the_end_is_a_time() -> None:
    story, gauge = registered()
    assert answer(story.push([1, CLOSED_US - 1], first=1, **gauge)).new_rows == 2


def test_refused_rows_are_given_up_as_voids_and_the_lane_goes_on() -> None:
    story, gauge = registered()
    story.push([10], first=1, **gauge)
    refusal(story.push([None, 20], first=2, **gauge))
    append, _ = story.voids(2, first=2, **gauge)
    assert append == AppendVoids(first=2, count=2)
    assert story.punctuation == 10
    append, _ = story.push([20], first=4, **gauge)
    assert isinstance(append, AppendRows)
    assert append.numbers.tolist() == [4]


@pytest.mark.parametrize("count", [0, -1, limits.VOIDS + 1, 1 << 70])
def test_a_void_of_no_numbers_or_of_all_there_are_is_refused(count: int) -> None:
    story, gauge = registered()
    assert refusal(story.voids(count, first=1, **gauge)).code == "void-count"
    append, _ = story.push([10], first=1, **gauge)
    assert isinstance(append, AppendRows)


def test_a_restarted_producer_learns_where_it_was() -> None:
    story, gauge = registered()
    story.push([10, 20], first=1, **gauge)
    again = story.register("gauge")
    assert again.next_number == 3
    assert refusal(story.push([30], first=3, **gauge)).code == "session-expired"
    assert answer(story.push([30], producer="gauge", session=again.session, first=3)).accepted_through == 3


def test_a_producer_goes_on_with_its_session_until_a_newer_one_ends_it() -> None:
    story, who = registered()
    session = who["session"]
    story.push([5], first=1, **who)
    again = ProducerRegistered(producer="gauge", now_us=story.now_us, session=session)
    assert story.handle(again) == [AnswerRegistration(session=session, next_number=2)]
    assert story.handle(again) == [AnswerRegistration(session=session, next_number=2)]
    story.register("gauge")
    assert refusal(story.handle(again)).code == "session-expired"


def test_the_producer_closes_its_lane_and_may_say_so_again() -> None:
    story, gauge = registered()
    story.push([10], first=1, **gauge)
    append, said = story.close(first=2, **gauge)
    assert append == AppendClose(number=2, punctuation_us=CLOSED_US)
    assert said == Answer(accepted_through=2, next_number=3)
    assert story.close(first=2, **gauge) == [Answer(accepted_through=2, next_number=3)]
    assert refusal(story.push([20], first=3, **gauge)).code == "lane-closed"


def test_a_row_with_the_number_of_a_close_by_hand_is_not_mistaken_for_a_repetition() -> None:
    story, gauge = registered()
    story.push([10], first=1, **gauge)
    append, _ = story.close()
    assert append == AppendClose(number=2, punctuation_us=CLOSED_US)
    assert refusal(story.push([20], first=2, **gauge)).code == "lane-closed"
    assert answer(story.push([10], first=1, **gauge)).accepted_through == 1
    assert story.register("gauge").next_number == 2
