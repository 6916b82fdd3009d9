"""Who is written to when the lanes of a source are there."""

from __future__ import annotations

from typing import Any

from anabranch.runtime.ingest.lane_letters import LaneLetters


def test_lanes_that_begin_are_told_to_every_peer() -> None:
    """Also to one that answered before: nothing was owed to it then."""
    woken: list[tuple[str, float]] = []
    letters = LaneLetters[Any, Any](("b", "c"), wake=lambda peer, within_s: woken.append((peer, within_s)), room=8)
    assert not letters.owes("b")
    assert woken == []
    letters.begin({})
    assert woken == [("b", 0.0), ("c", 0.0)]
