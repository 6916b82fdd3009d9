"""Some random diagrams on Spark in every test run, and all cases that ever failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from anabranch.query.catalog import KINDS
from tests.fuzz.cases import REGRESSIONS, from_yaml, random_case
from tests.fuzz.judge import judge, judge_replicas
from tests.fuzz.run import fuzz

SEEDS = (107, 110, 162, 295)
"""Few stages, and still all boxes, windows of both kinds, large batches and small ones, and nodes that restart."""
MORE_SEEDS = (*SEEDS, 71, 103, 245, 399, 17, 112, *range(1, 21))

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("seeds", "epochs"), [(SEEDS, 3), pytest.param(MORE_SEEDS, 60, marks=pytest.mark.long)])
def test_spark_agrees_with_the_reference_on_random_diagrams(tmp_path: Path, seeds: Sequence[int], epochs: int) -> None:
    report = fuzz((random_case(seed, epochs) for seed in seeds), tmp_path, print)
    assert not report.kept
    assert report.diagrams == len(seeds)
    assert {kind.makes.__name__ for kind in KINDS.values()} == report.boxes.keys()


@pytest.mark.long
@pytest.mark.parametrize("seed", [179, *range(20, 30)])
def test_replicas_agree_whatever_the_order_the_cuts_and_the_interleaving(seed: int) -> None:
    assert judge_replicas(random_case(seed, epochs=30)) == []


def test_what_failed_once_does_not_fail_again() -> None:
    for path in sorted(REGRESSIONS.glob("*.yaml")):
        assert judge(from_yaml(path.read_text())) == [], path.name
