"""The plan of a chaos run and its recorded input follow from the seed, and hold what they must."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.deploy.plan import load_plan
from anabranch.model.names import late_stream
from anabranch.query.boxes import kind_name
from anabranch.query.catalog import KINDS
from tests.chaos import planetlab
from tests.chaos.queries import QUERIES, SHAPE, record
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


@pytest.mark.parametrize("query", QUERIES)
def test_every_output_of_every_query_has_something_to_compare(query: str) -> None:
    recording = record(3, QUERIES[query]).first(1_000)
    expected = expected_output(recording)
    assert [output.name for output in recording.diagram.outputs if not expected[output.name].rows] == []


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


@pytest.mark.parametrize("box", planetlab.DIAGRAMS)
def test_every_box_can_race_at_the_places_of_the_experiment(box: str, tmp_path: Path) -> None:
    recording = planetlab.record(3, box).first(300)
    assert box in {kind_name(each) for each in recording.diagram.boxes}
    assert expected_output(recording)[planetlab.OUTPUT].rows, "something to compare"
    (placed,) = load_plan(planetlab.write_deployment(recording, tmp_path, joins=2)).queries.values()
    assert {fragment.nodes for fragment in placed.fragments} == {planetlab.UNIONS, planetlab.JOINS}


def test_every_box_is_in_some_diagram_of_a_chaos_run() -> None:
    single = {kind_name(box) for query in QUERIES.values() for box in query().diagram().boxes}
    racing = {kind_name(box) for name in planetlab.DIAGRAMS for box in planetlab.query(name).diagram().boxes}
    assert single == set(KINDS)
    assert {planetlab.diagram_of(seed) for seed in range(100)} == set(planetlab.DIAGRAMS)
    assert set(KINDS) - racing == {"filter", "map", "drop"}, "they are part of a stage wherever it runs"
