"""Claims are decided by what was measured, either way."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from anabranch.bench.report import Report
from anabranch.paper import figures
from anabranch.paper.claims import claims
from anabranch.paper.curves import Arrivals
from anabranch.paper.racing import INPUT_1, INPUT_2, JOIN_OUT, UNION_OUT, Found, Lengths
from anabranch.paper.wide_area import Protection

LENGTHS = Lengths(warm_s=0, inputs_s=50, kill_s=60, end_s=120)
KILL = LENGTHS.kill_s


def steady(latency_s: float, begin_s: float = 0, end_s: float = 120, *, spread_s: float = 0.0) -> Arrivals:
    """Two tuples a second."""
    at = np.arange(begin_s, end_s, 0.5)
    return Arrivals(at, latency_s + spread_s * (np.arange(len(at)) % 5))


def then(first: Arrivals, second: Arrivals) -> Arrivals:
    return Arrivals(np.concatenate([first.at_s, second.at_s]), np.concatenate([first.latency_s, second.latency_s]))


def as_in_the_paper() -> Found:
    def around(before_s: float, after_s: float) -> Arrivals:
        return then(steady(before_s, 0, KILL), steady(after_s, KILL))

    return Found(
        lengths=LENGTHS,
        inputs={
            UNION_OUT: steady(0.95, spread_s=0.3),
            JOIN_OUT: steady(1.5, spread_s=0.1),
            INPUT_1: steady(0.9),
            INPUT_2: steady(1.6),
        },
        techniques={
            Protection.NO_REPLICATION: steady(1.6, 0, KILL + 1),
            Protection.REPLICATION: around(1.0, 1.6),
            Protection.SYNCHRONIZATION: around(1.7, 1.65),
            Protection.DETERMINISTIC: around(4.0, 4.1),
        },
        batch_ms={"figure 9, replication": {"wisc loads": 200.0, "osu with_load": 400.0}},
    )


def does_not_hold(found: Found) -> list[str]:
    return [claim.says for claim in claims(found) if not claim.result.ok]


def test_all_claims_hold_in_what_the_paper_shows() -> None:
    assert does_not_hold(as_in_the_paper()) == []
    assert len(claims(as_in_the_paper())) == 13


@pytest.mark.parametrize(
    ("technique", "measured", "fails"),
    [
        (Protection.NO_REPLICATION, steady(1.6), "without replication nothing comes out after the failure"),
        (Protection.NO_REPLICATION, steady(0.5, 0, KILL), "replication reduces latency"),
        (
            Protection.REPLICATION,
            then(steady(1.0, 0, KILL), steady(0.99, KILL)),
            "with replication, latency increases after the failure",
        ),
        (
            Protection.REPLICATION,
            then(steady(1.0, 0, KILL), steady(1.6, KILL + 5)),
            "with replication the failure does not interrupt the output: longest gap",
        ),
        (
            Protection.SYNCHRONIZATION,
            then(steady(0.9, 0, KILL), steady(1.6, KILL)),
            "synchronization costs latency that replication does not",
        ),
        (
            Protection.SYNCHRONIZATION,
            then(steady(1.7, 0, KILL), steady(3.0, KILL)),
            "after the failure synchronization is as replication: they differ less than before",
        ),
        (Protection.DETERMINISTIC, steady(0.8), "deterministic order costs latency that replication does not"),
    ],
)
def test_a_claim_that_the_run_contradicts_does_not_hold(technique: Protection, measured: Arrivals, fails: str) -> None:
    found = as_in_the_paper()
    changed = Found(lengths=LENGTHS, inputs=found.inputs, techniques={**found.techniques, technique: measured})
    assert does_not_hold(changed) == [f"figure 9: {fails}"]


@pytest.mark.parametrize(
    ("curve", "measured", "fails"),
    [
        (JOIN_OUT, steady(0.5, spread_s=0.6), "the smallest latency of Join is above that of Union"),
        (
            INPUT_2,
            steady(9.0),
            "the slower input sets the pace of Join: its median is nearer to input 2 than to input 1",
        ),
        (UNION_OUT, steady(0.95, spread_s=0.02), "their medians get closer to each other"),
    ],
)
def test_a_claim_of_figure_8_that_the_run_contradicts_does_not_hold(curve: str, measured: Arrivals, fails: str) -> None:
    found = as_in_the_paper()
    changed = Found(lengths=LENGTHS, inputs={**found.inputs, curve: measured}, techniques=found.techniques)
    assert f"figure 8: {fails}" in does_not_hold(changed)


def test_a_verdict_has_the_numbers() -> None:
    said = [claim.verdict() for claim in claims(as_in_the_paper())]
    assert "holds: figure 9: replication reduces latency (1 s against 1.6)" in said


def test_nothing_is_claimed_of_what_did_not_come() -> None:
    nothing = Arrivals(np.empty(0), np.empty(0))
    found = Found(
        lengths=LENGTHS,
        inputs=dict.fromkeys(as_in_the_paper().inputs, nothing),
        techniques=dict.fromkeys(Protection, nothing),
    )
    assert "figure 9: replication reduces latency" not in [claim.says for claim in claims(found)]
    assert not any(claim.says.startswith("figure 8") for claim in claims(found))


def test_tables_data_and_plots_show_what_was_measured(tmp_path: Path) -> None:
    found = as_in_the_paper()
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(figures.inputs_table(found), figures.techniques_table(found))
    told = console.export_text()
    row = next(line for line in told.splitlines() if line.startswith("input 2"))
    assert row.split() == ["input", "2", "240", *["1.60"] * 7]
    row = next(line for line in told.splitlines() if line.startswith("replication"))
    assert row.split() == ["replication", "240", "0.30", "1.00", "1.60", "0.50", "0.50"]
    report = Report(command="anabranch paper racing", baseline="against", details=figures.as_json(found))
    data = json.loads(json.dumps(report.as_json()))["details"]
    assert data["figure_9"]["techniques"]["no replication"]["median_after_s"] is None
    assert data["figure_8"]["curves"]["Join"]["latency_s"]["0"] == 1.5
    files = figures.plot(tmp_path, found)
    assert [file.name for file in files] == ["figure-8.png", "figure-9.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
