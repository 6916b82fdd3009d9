"""Every rule of a lane, broken: a story of the unit tests must go wrong; and, for the rules that make a lane a function
of its entries, a property too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from anabranch.core.lane_messages import Refuse, RowsArrived
from tests.property import test_lane
from tests.property.lane_rules import CLOCK, ENTRIES, SENDERS, STAMPS
from tests.property.mutations import Mutation
from tests.property.test_lane import clock_events, seeds, timed_entries
from tests.unit.core import test_lane_clock, test_lane_owned, test_lane_producer, test_lane_state, test_lane_time
from tests.unit.core.lane_story import LaneStory

TIMED = {"seed": seeds, "entries": timed_entries}
STAMPED = {"seed": seeds, "steps": st.lists(st.integers(0, 5), max_size=30), "close": st.booleans()}
TICKED = {
    "data": st.data(),
    "happened": clock_events,
    "timed": st.booleans(),
    "disorder": st.integers(0, 10),
    "idle": st.none() | st.integers(0, 20),
}

Story = Callable[..., None]


def test_a_null_is_no_time_whatever_stands_in_its_place() -> None:
    times, nulls = np.array([40, 50], dtype=np.int64), np.array([False, True])
    (refusal,) = LaneStory(timed=True).handle(RowsArrived(count=2, times=times, nulls=nulls, now_us=1_000))
    assert isinstance(refusal, Refuse)
    assert (refusal.code, refusal.row) == ("null-time", 1)


def test_a_registration_by_itself_breaks_the_silence() -> None:
    story = LaneStory(producer="gauge", silence_us=5_000)
    story.start(10_000)
    story.now_us = 14_000
    story.register("gauge")
    assert story.tick(18_999) == []
    assert story.tick(19_000) != []


def stories() -> Iterator[Story]:
    """Every unit test of a lane, and the two above, as pytest would call them."""
    yield test_a_null_is_no_time_whatever_stands_in_its_place
    yield test_a_registration_by_itself_breaks_the_silence
    for module in (test_lane_time, test_lane_producer, test_lane_owned, test_lane_clock, test_lane_state):
        for name, function in vars(module).items():
            if name.startswith("test_"):
                yield from calls(function)


def calls(function: Story) -> Iterator[Story]:
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    for names, rows in (mark.args for mark in marks):
        for row in rows:
            yield partial(function, **({names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))))
    if not marks:
        yield function


def goes_wrong(story: Story) -> bool:
    try:
        with pytest.MonkeyPatch.context() as patches:
            if "monkeypatch" in signature(story).parameters:
                story(monkeypatch=patches)
            else:
                story()
    except (Exception, pytest.fail.Exception):
        return True
    return False


def properties() -> Iterator[Story]:
    """The properties of a lane with examples that are the same every time and are not minimised."""
    for function, strategies, examples in (
        (test_lane.test_a_timed_lane_is_a_function_of_its_entries, TIMED | {"disorder": st.integers(0, 20)}, 150),
        (test_lane.test_a_producers_own_stamps_are_kept_whatever_the_batches, STAMPED, 30),
        (test_lane.test_an_owned_lane_knows_a_client_again, TIMED, 30),
        (test_lane.test_what_an_owned_lane_promises_is_true_at_every_moment, TICKED, 30),
    ):
        quick = settings(database=None, derandomize=True, phases=[Phase.generate], max_examples=examples)
        yield quick(given(**strategies)(function.hypothesis.inner_test))  # type: ignore[attr-defined]


@pytest.mark.parametrize("mutation", [*ENTRIES, *STAMPS, *SENDERS, *CLOCK], ids=str)
def test_a_story_notices(mutation: Mutation) -> None:
    with mutation.applied():
        assert any(map(goes_wrong, stories())), "this rule could be broken without anyone noticing"


@pytest.mark.parametrize("mutation", ENTRIES, ids=str)
def test_a_property_notices(mutation: Mutation) -> None:
    with mutation.applied():
        assert any(map(goes_wrong, properties())), "this rule could be broken without anyone noticing"


def test_without_a_mutation_nothing_goes_wrong() -> None:
    assert not any(map(goes_wrong, [*stories(), *properties()]))
