"""How a deployment is, put together from what its nodes say: copies that lag, that won, and that do not answer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.overview import tables, troubles
from anabranch.deploy.deployment_status import DeploymentStatus, StreamCopyStatus
from anabranch.deploy.looking import Found, overview
from anabranch.deploy.parts import assigned
from anabranch.errors import NodeUnreachable
from anabranch.query.parts import part_name, parts
from anabranch.runtime.status import HostStatus
from tests.statuses import host_status
from tests.unit.deploy.files import plan


def said(**facts: Any) -> HostStatus:
    return host_status({"intake": "open", "queries": {"paths": facts}})


def stage(rows_out: int, lag: int, state: str = "running", error: str | None = None) -> dict[str, Any]:
    return {"state": state, "error": error, "rows_out": rows_out, "inputs": {"ping": {"lag_rows": lag}}}


def log(last_id: int, incarnation: str = "i") -> dict[str, Any]:
    return {"last_id": last_id, "incarnation": incarnation, "bytes": 10}


def copy(position: str | None, first: int, state: str = "read") -> dict[str, Any]:
    return {"state": state, "position": position, "error": None, "first": first}


def lane(punctuation_us: int) -> dict[str, Any]:
    return {"next_number": 1, "punctuation_us": punctuation_us, "silent_us": 4, "closed": False}


def answers() -> Found:
    """``c`` is gone; ``d`` reads the pairs of both."""
    return {
        "a": said(
            sources={
                "ping": {"rows_in": 70, "lanes": {"ping/p": lane(5), "ping/q": lane(8)}},
                "load": {"rows_in": 30, "lanes": {"load/0": lane(6)}},
            }
        ),
        "b": said(
            sources={"ping": {"rows_in": 70, "lanes": {"ping/p": lane(7), "ping/q": lane(3)}}},
            stages={"pairs": stage(50, 7), "slow": stage(3, 1, "restarting", "it broke")},
            streams={"box:pairs": log(50)},
        ),
        "c": NodeUnreachable("No node answers."),
        "d": said(
            stages={"counts": stage(4, 2)},
            inlets={"box:pairs": {"b": copy("i:45", 30), "c": copy("i:40", 10, "away")}},
        ),
    }


@pytest.fixture
def found(tmp_path: Path) -> DeploymentStatus:
    return overview(plan(tmp_path), answers(), {"c": {"state": "paused"}, "d": {"state": "running"}})


def test_a_node_that_does_not_answer_is_what_the_supervisor_knows_of_it(
    found: DeploymentStatus, tmp_path: Path
) -> None:
    assert [node.state for node in found.nodes.values()] == ["running", "running", "paused", "running"]
    assert found.nodes["a"].rows_in == 100
    alone = overview(plan(tmp_path), answers())
    assert alone.nodes["c"].state == "unreachable"
    assert alone.nodes["c"].error == "No node answers."


def test_copies_of_a_fragment_are_compared(found: DeploymentStatus) -> None:
    fragments = found.queries["paths"].fragments
    both = next(each for each in fragments.values() if set(each.copies) == {"b", "c"})
    assert both.copies["b"].state == "restarting"
    assert both.copies["b"].lag_rows == 8
    assert asdict(both.copies["c"]) == {"state": "unreachable", "lag_rows": None, "rows_out": None, "error": None}
    assert asdict(fragments["counts"].copies["d"]) == {"state": "running", "lag_rows": 2, "rows_out": 4, "error": None}


@pytest.mark.parametrize("state", ["failed", "rebuilding", "dozing"])
def test_a_fragment_whose_part_does_not_run_is_as_that_part(tmp_path: Path, state: str) -> None:
    """Its stages say nothing, or what they said before."""
    entry, replica = map(part_name, parts(assigned(plan(tmp_path), "b", "paths")))
    shown = {entry: {"state": "running"}, replica: {"state": state, "error": "no cores"}}
    for stages in ({}, {"pairs": stage(50, 7), "slow": stage(3, 1)}):
        told = overview(plan(tmp_path), {**answers(), "b": said(stages=stages, parts=shown)}).queries["paths"]
        copies = next(each.copies for each in told.fragments.values() if set(each.copies) == {"b", "c"})
        assert (copies["b"].state, copies["b"].error) == (state, "no cores")


def test_a_reader_says_how_far_it_is_behind_each_copy_and_which_was_first(found: DeploymentStatus) -> None:
    pairs = found.queries["paths"].streams["box:pairs"]
    assert pairs.copies == {"b": StreamCopyStatus(last_id=50, bytes=10), "c": None}
    reader = pairs.readers["d"]
    assert reader is not None
    assert asdict(reader["b"]) == {"state": "read", "lag_rows": 5, "first": 30, "error": None}
    assert asdict(reader["c"]) == {"state": "away", "lag_rows": None, "first": 10, "error": None}


def test_a_lane_is_told_as_the_entry_point_has_it_that_is_furthest(found: DeploymentStatus) -> None:
    lanes = found.queries["paths"].lanes
    assert {name: (facts.punctuation_us, facts.address) for name, facts in lanes.items()} == {
        "ping/p": (7, "127.0.0.1:7002"),
        "ping/q": (8, "127.0.0.1:7001"),
        "load/0": (6, "127.0.0.1:7001"),
    }


def test_a_lane_that_is_held_is_told_as_the_entry_point_has_it_that_leads(tmp_path: Path) -> None:
    held = {"origin": "load/0", "punctuation_us": 1, "latest_us": 9}
    changed = dict(answers())
    for name, facts in (("a", lane(7)), ("b", lane(7) | {"held": held})):
        changed[name] = said(sources={"ping": {"rows_in": 70, "lanes": {"ping/p": facts}}})
    place = overview(plan(tmp_path), changed).queries["paths"].lanes["ping/p"]
    assert (place.waits_for, place.address) == ("load/0", "127.0.0.1:7002")


def test_positions_of_another_incarnation_cannot_be_compared(tmp_path: Path) -> None:
    changed = {**answers(), "b": said(streams={"box:pairs": log(3, "later")})}
    streams = overview(plan(tmp_path), changed).queries["paths"].streams
    reader = streams["box:pairs"].readers["d"]
    assert reader is not None
    assert reader["b"].lag_rows is None


def test_people_see_the_same(found: DeploymentStatus) -> None:
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as captured:
        for made in tables(found):
            console.print(made)
    words = [" ".join(line.split()) for line in captured.get().splitlines()]
    assert "c paused 127.0.0.1:7003 runs" in " ".join(words)
    assert "box:pairs d b read 5 30 75%" in words
    assert "load c paused" in words
    assert "c away - 10 25%" in words
    assert list(troubles(found)) == ["slow on b: it broke"], "that a paused node does not answer is no trouble"


def test_copies_that_differ_are_told_with_who_found_it(tmp_path: Path) -> None:
    copies = {"b": {"rows": 7, "digest": "00"}, "c": {"rows": 8, "digest": "01"}}
    latest = {"stream": "box:pairs", "origin": "pairs", "start": "12:00:00", "end": "12:00:10", "copies": copies}
    changed = {"d": said(alarms={"box:pairs": {"count": 1, "latest": [latest]}})}
    assert list(troubles(overview(plan(tmp_path), changed))) == [
        "ALARM: copies of box:pairs differ in 1 interval from 12:00:00 to 12:00:10, tuples of pairs: "
        "b (7 rows) and c (8 rows); found by d"
    ]
