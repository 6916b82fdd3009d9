"""A lane that its entry point owns: it numbers and stamps for any number of clients."""

from __future__ import annotations

import dataclasses

import pytest

from anabranch import limits
from anabranch.core.lane_messages import Answer, AppendClose, AppendRows, AppendVoids, Refuse, RowsArrived
from anabranch.errors import InvariantBroken, PushRefused, SessionExpired
from anabranch.model.times import CLOSED_US
from tests.unit.core.lane_story import LaneStory, answer


def test_a_batch_gets_the_next_numbers_and_one_stamp() -> None:
    story = LaneStory()
    story.now_us = 5_000
    append, said = story.push(3)
    assert isinstance(append, AppendRows)
    assert (append.skip, append.numbers.tolist(), append.stamps.tolist()) == (0, [1, 2, 3], [5_000, 5_000, 5_000])
    assert not append.late.any()
    assert append.punctuation_us == story.punctuation == 5_000
    assert said == Answer(accepted_through=3, next_number=4, new_rows=3, late_rows=0)


def test_a_clock_that_was_set_back_does_not_set_the_stamps_back() -> None:
    story = LaneStory()
    story.now_us = 5_000
    story.push(1)
    story.now_us = 4_000
    append, _ = story.push(2)
    assert isinstance(append, AppendRows)
    assert append.stamps.tolist() == [5_000, 5_000]
    assert append.numbers.tolist() == [2, 3]


def test_an_empty_batch_is_accepted_and_adds_nothing() -> None:
    story = LaneStory()
    story.push(2)
    assert story.push(0) == [Answer(accepted_through=2, next_number=3)]


def test_a_client_with_its_own_counter_may_send_again() -> None:
    story = LaneStory()
    ann = story.register("ann")
    assert ann.next_number == 1
    story.push(3, producer="ann", session=ann.session, first=1)
    before = story.state.next_number
    assert story.push(3, producer="ann", session=ann.session, first=1) == [Answer(accepted_through=3, next_number=4)]
    assert story.state.next_number == before


def test_a_batch_that_is_partly_new_is_taken_from_its_first_new_row() -> None:
    story = LaneStory()
    ann = story.register("ann")
    story.push(3, producer="ann", session=ann.session, first=1)
    append, said = story.push(4, producer="ann", session=ann.session, first=2)
    assert isinstance(append, AppendRows)
    assert (append.skip, append.numbers.tolist()) == (2, [4, 5])
    assert said == Answer(accepted_through=5, next_number=6, new_rows=2)


def test_clients_count_for_themselves_and_the_lane_numbers_them_all() -> None:
    story = LaneStory()
    ann, bob = story.register("ann"), story.register("bob")
    story.push(2, producer="ann", session=ann.session, first=1)
    append, said = story.push(3, producer="bob", session=bob.session, first=1)
    assert isinstance(append, AppendRows)
    assert append.numbers.tolist() == [3, 4, 5]
    assert said == Answer(accepted_through=3, next_number=4, new_rows=3)
    append, _ = story.push(1)
    assert isinstance(append, AppendRows)
    assert append.numbers.tolist() == [6]


@pytest.mark.parametrize("first", [5, 6])
def test_a_hole_in_a_clients_counting_is_refused_with_what_was_expected(first: int) -> None:
    story = LaneStory()
    ann = story.register("ann")
    story.push(3, producer="ann", session=ann.session, first=1)
    before = story.state
    (refusal,) = story.push(1, producer="ann", session=ann.session, first=first)
    assert isinstance(refusal, Refuse)
    assert (refusal.code, refusal.expected) == ("number-gap", 4)
    assert f"expected number 4 and got {first}" in refusal.message
    assert story.state is before


@pytest.mark.parametrize("first", [None, 0, -3])
def test_a_named_client_must_count_from_one(first: int | None) -> None:
    story = LaneStory()
    ann = story.register("ann")
    (refusal,) = story.push(1, producer="ann", session=ann.session, first=first)
    assert isinstance(refusal, Refuse)
    assert (refusal.code, refusal.expected) == ("number-missing", 1)


def test_a_newer_session_ends_the_older_one_even_for_what_it_sent_before() -> None:
    story = LaneStory()
    old = story.register("ann")
    story.push(2, producer="ann", session=old.session, first=1)
    new = story.register("ann")
    assert new.session > old.session
    assert new.next_number == 3
    (refusal,) = story.push(2, producer="ann", session=old.session, first=1)
    assert isinstance(refusal, Refuse)
    assert isinstance(refusal.error(), SessionExpired)
    assert answer(story.push(2, producer="ann", session=new.session, first=3)).next_number == 5


def test_a_client_that_never_registered_has_no_session() -> None:
    (refusal,) = LaneStory().push(1, producer="ann", session=1, first=1)
    assert isinstance(refusal, Refuse)
    assert refusal.code == "session-expired"
    assert "not registered" in refusal.message


def test_voids_fill_a_clients_counting() -> None:
    story = LaneStory()
    ann = story.register("ann")
    append, said = story.voids(4, producer="ann", session=ann.session, first=1)
    assert append == AppendVoids(first=1, count=4)
    assert said == Answer(accepted_through=4, next_number=5)
    assert answer(story.push(1, producer="ann", session=ann.session, first=5)).accepted_through == 5


def test_voids_that_were_partly_told_before_count_once() -> None:
    story = LaneStory()
    ann = story.register("ann")
    story.voids(4, producer="ann", session=ann.session, first=1)
    append, _ = story.voids(4, producer="ann", session=ann.session, first=3)
    assert append == AppendVoids(first=5, count=2)


def test_the_entry_points_clock_takes_no_boundaries_from_clients() -> None:
    (refusal,) = LaneStory().boundary(9_000)
    assert isinstance(refusal, Refuse)
    assert refusal.code == "boundary-not-taken"


def test_a_closed_lane_answers_repetitions_and_refuses_the_rest() -> None:
    story = LaneStory()
    ann = story.register("ann")
    story.push(2, producer="ann", session=ann.session, first=1)
    append, said = story.close()
    assert append == AppendClose(number=3, punctuation_us=CLOSED_US)
    assert said == Answer(accepted_through=3, next_number=4)
    assert story.punctuation == CLOSED_US
    assert answer(story.push(2, producer="ann", session=ann.session, first=1)).new_rows == 0
    for refused in (story.push(1), story.push(2, producer="ann", session=ann.session, first=2)):
        (refusal,) = refused
        assert isinstance(refusal, Refuse)
        assert refusal.code == "lane-closed"
        assert isinstance(refusal.error(), PushRefused)


def test_closing_by_hand_again_is_harmless() -> None:
    story = LaneStory()
    story.close()
    before = story.state.next_number
    assert isinstance(story.close()[0], Answer)
    assert story.state.next_number == before


def test_a_client_may_still_ask_where_it_stopped_after_the_lane_was_closed() -> None:
    story = LaneStory()
    ann = story.register("ann")
    story.push(2, producer="ann", session=ann.session, first=1)
    story.close()
    assert story.register("ann").next_number == 3


def test_the_longest_silent_client_is_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRODUCERS", 2)
    story = LaneStory()
    ann = story.register("ann")
    story.now_us += 1
    story.register("bob")
    story.now_us += 1
    story.push(1, producer="ann", session=ann.session, first=1)
    story.register("cas")
    assert set(story.state.producers) == {"ann", "cas"}
    assert story.register("bob").session == 4, "a session number is never given twice"


def test_rows_with_times_never_reach_a_lane_that_stamps() -> None:
    with pytest.raises(InvariantBroken):
        LaneStory().push([5, 6])


@pytest.mark.parametrize("now_us", [0, CLOSED_US])
def test_a_clock_that_cannot_be_stops_the_lane(now_us: int) -> None:
    with pytest.raises(InvariantBroken):
        LaneStory().handle(RowsArrived(count=1, now_us=now_us))


def test_handling_changes_no_state_so_a_failed_transaction_is_forgotten() -> None:
    story = LaneStory()
    ann = story.register("ann")
    before = story.state
    copy = dataclasses.replace(before, producers=dict(before.producers))
    story.push(5, producer="ann", session=ann.session, first=1)
    assert before == copy
    story.state = before
    append, _ = story.push(5, producer="ann", session=ann.session, first=1)
    assert isinstance(append, AppendRows)
    assert append.numbers.tolist() == [1, 2, 3, 4, 5]
