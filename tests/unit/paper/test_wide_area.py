"""The deployment of figure 7: it can be deployed, and is what the paper shows."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from anabranch.deploy.parts import assigned_queries
from anabranch.deploy.plan import Plan, load_plan
from anabranch.model.techniques import Technique
from anabranch.paper import wide_area
from anabranch.paper.wide_area import DELAYS_MS, LONGER_MS, SCALE, Protection
from anabranch.query.assigned import AssignedQuery

EXAMPLE = Path(__file__).parents[3] / "examples" / "planetlab.toml"


def plan_of(folder: Path, technique: Protection, *, with_union: bool = False) -> Plan:
    return load_plan(wide_area.write(folder, technique, with_union=with_union))


@pytest.mark.parametrize("technique", Protection)
def test_every_technique_can_be_deployed(tmp_path: Path, technique: Protection) -> None:
    plan = plan_of(tmp_path, technique)
    spark = [name for name, node in plan.nodes.items() if node.needs_spark]
    assert spark == ["wisc", "purdue", "osu"]
    assert len({node.address.port for node in plan.nodes.values()}) == len(plan.nodes)


def part_of(plan: Plan, name: str) -> AssignedQuery:
    (part,) = assigned_queries(plan, name)
    return part


def test_without_replication_each_union_has_one_copy(tmp_path: Path) -> None:
    (query,) = plan_of(tmp_path, Protection.NO_REPLICATION).queries.values()
    assert (query.copies["box:loads"], query.copies["box:pings"]) == (("wisc",), ("purdue",))


def test_the_replicas_are_a_butterfly_of_partners(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Protection.REPLICATION)
    (query,) = plan.queries.values()
    assert (query.copies["box:loads"], query.copies["box:pings"]) == (("wisc", "purdue"), ("purdue", "wisc"))
    assert tuple(part_of(plan, "wisc").siblings) == ("purdue",)
    assert part_of(plan, "wisc").technique is Technique.RACE


@pytest.mark.parametrize(
    ("protection", "technique"),
    [
        (Protection.SYNCHRONIZATION, Technique.SYNCHRONIZATION),
        (Protection.DETERMINISTIC, Technique.DETERMINISTIC),
    ],
)
def test_the_unions_hold_as_the_technique_says(tmp_path: Path, protection: Protection, technique: Technique) -> None:
    plan = plan_of(tmp_path, protection)
    holding = {name for name in plan.nodes if part_of(plan, name).technique is technique}
    assert holding == {"wisc", "purdue"}


def test_the_union_of_figure_8_reads_what_the_join_reads(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Protection.NO_REPLICATION, with_union=True)
    osu = part_of(plan, "osu")
    assert {stage.name: set(stage.inputs) for stage in osu.stages} == {
        "with_load": {"box:loads", "box:pings"},
        "both": {"box:loads", "box:pings"},
    }


def test_the_way_by_purdue_is_longer_by_what_the_paper_measured() -> None:
    quickest = {
        union: min(DELAYS_MS[server, union] for server in wide_area.SERVERS) + DELAYS_MS[union, "osu"]
        for union in wide_area.UNIONS
    }
    assert quickest["purdue"] - quickest["wisc"] == LONGER_MS == 150 - 95


def test_the_other_ways_are_those_of_the_example() -> None:
    example = {
        tuple(link["between"]): int(link["delay"].removesuffix("ms"))
        for link in tomllib.loads(EXAMPLE.read_text())["links"]
    }
    shared = DELAYS_MS.keys() & example.keys() - {("purdue", "osu")}
    assert len(shared) == 9
    assert {ends: DELAYS_MS[ends] for ends in shared} == {ends: example[ends] for ends in shared}


def test_delays_are_scaled(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, Protection.REPLICATION)
    assert plan.links["mit", "wisc"].delay_us == 16_000 * SCALE
    assert plan.links["mit", "wisc"].jitter_us == 1_600 * SCALE
