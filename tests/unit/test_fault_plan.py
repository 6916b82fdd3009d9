"""The faults of a chaos run follow from its seed, are of every kind, and stay within what a deployment promises."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from anabranch.deploy.plan import load_plan
from tests.chaos.fault_plan import LASTS, Fault, Layout, draw_faults, lasting, missing_coverage
from tests.chaos.planetlab import record, write_deployment

KINDS = len(LASTS)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of(load_plan(write_deployment(record(1), tmp_path, joins=1)))


def test_nodes_that_stand_in_for_each_other_are_a_group_and_links_are_those_that_rows_take(layout: Layout) -> None:
    assert {name: set(nodes) for name, nodes in layout.groups.items()} == {
        "entry points": {"mit", "uw", "ucsd", "ufl"},
        "loads and pings": {"wisc", "purdue"},
        "with_load": {"osu"},
    }
    assert ("osu", "wisc") in layout.links
    assert ("mit", "wisc") in layout.links
    assert ("mit", "ufl") in layout.links
    assert not {("mit", "osu"), ("purdue", "wisc")} & set(layout.links)


def test_a_fault_of_a_link_counts_for_the_groups_of_both_ends(layout: Layout) -> None:
    cut = Fault(kind="cut", where=("osu", "wisc"), lasts=1)
    assert layout.groups_of(cut) == {"with_load", "loads and pings"}


@pytest.mark.parametrize("seed", range(5))
def test_faults_follow_from_the_seed_and_every_round_has_every_kind(layout: Layout, seed: int) -> None:
    faults = list(islice(draw_faults(seed, layout), 10 * KINDS))
    assert faults == list(islice(draw_faults(seed, layout), 10 * KINDS))
    assert faults != list(islice(draw_faults(seed + 1, layout), 10 * KINDS))
    for start in range(0, len(faults), KINDS):
        assert {fault.kind for fault in faults[start : start + KINDS]} == set(LASTS)
    assert missing_coverage(faults[: 3 * KINDS], layout) == []
    assert all(fault.where in layout.places(fault.kind) for fault in faults)


def test_a_disk_is_lost_only_where_another_copy_is_left(layout: Layout) -> None:
    faults = islice(draw_faults(7, layout), 30 * KINDS)
    assert {fault.where for fault in faults if fault.kind == "lose disk"} == {
        (node,) for node in ("mit", "uw", "ucsd", "ufl", "wisc", "purdue")
    }


def test_a_run_goes_on_until_its_time_is_over_and_every_node_was_hurt(layout: Layout) -> None:
    assert next(lasting(3600, draw_faults(7, layout), layout), None) is not None
    done = list(lasting(0, draw_faults(7, layout), layout))
    assert missing_coverage(done, layout) == []
    assert missing_coverage(done[:-1], layout) != []


def test_a_run_that_has_shown_too_little_says_what_is_missing(layout: Layout) -> None:
    done = [Fault(kind=kind, where=("wisc", "osu"), lasts=1) for kind in LASTS if kind != "slow"]
    missing = ["no slow was done", *(f"{node} was never hurt" for node in ("mit", "purdue", "ucsd", "ufl", "uw"))]
    assert missing_coverage(done, layout) == missing
