"""The state of a lane as bytes."""

from __future__ import annotations

import pytest

from anabranch.core.lane_state import LaneState, Producer
from anabranch.errors import StateError

FULL = LaneState(
    next_number=9,
    last_stamp_us=8,
    max_time_us=7,
    boundary_us=6,
    closed=True,
    last_session=5,
    last_activity_us=4,
    last_entry_us=3,
    producers={
        "ann": Producer(session=5, next_number=2, seen_us=4),
        "bob": Producer(session=1, next_number=1, seen_us=1),
    },
)


def test_nothing_is_lost_in_bytes() -> None:
    assert LaneState.from_bytes(FULL.to_bytes()) == FULL
    assert LaneState.from_bytes(LaneState().to_bytes()) == LaneState()


def test_equal_states_have_equal_bytes() -> None:
    again = LaneState.from_bytes(FULL.to_bytes())
    assert again.to_bytes() == FULL.to_bytes()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"format":1,"producers":{"a":{}}}', b"\xff"])
def test_damaged_bytes_are_a_clear_error(data: bytes) -> None:
    with pytest.raises(StateError, match="cannot be read"):
        LaneState.from_bytes(data)


def test_another_format_is_told_apart_from_damage() -> None:
    data = LaneState().to_bytes().replace(b'"format":1', b'"format":2')
    with pytest.raises(StateError, match="has format 2"):
        LaneState.from_bytes(data)
