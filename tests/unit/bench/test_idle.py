"""What hosts at rest are judged by, and the deployments they run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.bench.idle import (
    ENTRY_POINTS,
    REPLICA,
    Cost,
    copied_example,
    figure_7_results,
    host_results,
    write_deployment,
)
from anabranch.bench.processes import ALL, JVM, PYTHON, ROOT, WORKERS
from anabranch.bench.workloads import four_stages
from anabranch.deploy.plan import load_plan

MIB = 1 << 20


def cost(host: float, jvm: float = 0.0, workers: float = 0.0) -> Cost:
    memory = {PYTHON: 100 * MIB, JVM: (400 * MIB if jvm else 0)}
    return Cost(
        percent={ROOT: host, JVM: jvm, WORKERS: workers, ALL: host + jvm + workers},
        threads=9,
        memory_bytes=memory | {ALL: sum(memory.values())},
    )


@pytest.mark.parametrize(
    ("at_rest", "with_rows", "missed"),
    [
        (cost(2.0, jvm=90), cost(2.0, jvm=90), []),
        (cost(2.1), cost(1.0), ["host, at rest"]),
        (cost(1.0), cost(2.1), ["host, ten rows/s"]),
    ],
)
def test_a_host_is_judged_by_its_own_process_at_rest_and_with_rows(
    at_rest: Cost, with_rows: Cost, missed: list[str]
) -> None:
    assert [result.name for result in host_results("host", at_rest, with_rows) if not result.ok] == missed


def test_a_host_without_a_jvm_has_no_rows_for_one() -> None:
    assert [result.name for result in host_results("entry", cost(1), cost(1))] == [
        "entry, at rest",
        "entry, ten rows/s",
        "entry: threads",
        "entry: memory, Python",
    ]
    assert "replica, at rest: JVM" in [result.name for result in host_results("replica", cost(1, jvm=9), cost(1))]


@pytest.mark.parametrize(("percent", "ok"), [(40.0, True), (41.0, False)])
def test_figure_7_is_judged_by_all_processes_of_all_hosts(percent: float, ok: bool) -> None:
    whole, *parts = figure_7_results([cost(10, jvm=percent - 15, workers=5), cost(40)])
    assert (round(whole.value, 2), whole.unit, whole.ok) == ((percent + 40) / 100, "cores", ok)
    assert sum(part.value for part in parts if part.unit == "cores") == pytest.approx(whole.value)


def test_each_source_has_three_entry_points_and_the_replica_all_stages(tmp_path: Path) -> None:
    diagram = four_stages(stamped=False)
    plan = load_plan(write_deployment(tmp_path, diagram))
    (query,) = plan.queries.values()
    assert {tuple(each.nodes) for each in query.entrances.values()} == {ENTRY_POINTS}
    assert set(query.entrances) == {"events", "rights"}
    assert set(plan.nodes) == {*ENTRY_POINTS, REPLICA}


def test_figure_7_is_the_example_at_other_ports(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "planetlab.toml"
    copied, original = load_plan(copied_example(tmp_path)), load_plan(example)
    assert copied.nodes.keys() == original.nodes.keys()
    assert copied.links == original.links
    theirs = {str(node.address) for node in original.nodes.values()}
    assert theirs.isdisjoint(str(node.address) for node in copied.nodes.values())
