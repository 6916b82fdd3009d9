"""The plan of a chaos run and its recorded input follow from the seed, and hold what they must."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.model.names import late_stream
from tests.chaos.five_boxes import SHAPE, query, record
from tests.chaos.recording import expected_output
from tests.chaos.run import plan_kills


@pytest.mark.parametrize("seed", range(5))
def test_twenty_kills_reach_every_failpoint_and_leave_some_to_chance(seed: int) -> None:
    kills = plan_kills(seed, 20)
    named = [kill.failpoint for kill in kills if kill.failpoint is not None]
    assert len(kills) == 20
    assert len(named) >= 10
    assert set(named) == set(failpoints.NAMES)
    assert len(named) < 20
    assert kills == plan_kills(seed, 20)
    assert kills != plan_kills(seed + 1, 20)


def test_a_recording_follows_from_its_seed() -> None:
    recording = record(3).first(300)
    assert recording == record(3).first(300)
    assert recording != record(4).first(300)
    assert 300 <= recording.rows <= 300 + len(recording.lanes) * SHAPE.batch_rows


def test_a_recording_has_what_makes_it_hard() -> None:
    recording = record(3).first(9_000)
    for lane in recording.lanes:
        times = [row[lane.time] for entry in lane.entries for row in entry.rows]
        assert len(set(times)) < len(times), "ties"
        assert times != sorted(times), "disorder"
        assert any(entry.boundary_us for entry in lane.entries)
        assert any(entry.voids for entry in lane.entries)
    expected = expected_output(recording)
    assert all(expected[late_stream(lane.source)].rows for lane in recording.lanes)
    assert all(expected[output.name].rows for output in query().diagram().outputs)
