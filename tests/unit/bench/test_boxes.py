"""Every box of the catalogue is measured, with rows that make it work."""

from __future__ import annotations

import pytest

from anabranch.bench.boxes import BoxWorkload, box_workloads
from anabranch.bench.operators import _Found, _results
from anabranch.bench.workloads import Rows
from anabranch.query.catalog import KINDS
from anabranch.query.graph import stages


def test_every_box_is_measured() -> None:
    measured = {box.name for box in box_workloads()}
    assert set(KINDS) - {"source"} == measured - {"count windows"}


@pytest.mark.parametrize("box", box_workloads(), ids=lambda box: box.name)
def test_a_query_is_one_stage_and_gets_rows_from_all_its_sources(box: BoxWorkload) -> None:
    assert len(stages(box.diagram)) == 1
    fed = {source for source, _ in Rows(box.workload).backlog(1_000)}
    assert fed == {source.name for source in box.diagram.sources}


def test_bounds_are_on_what_a_box_can_be_compared_with() -> None:
    found = _Found(
        rows_s=[150_000.0, 170_000.0], plain_rows_s=[200_000.0, 200_000.0], batch_ms=[90.0], window_ms=[50.0]
    )
    by_name = {box.name: box for box in box_workloads()}
    assert [(result.ratio, result.ok) for result in _results(by_name["map"], found)] == [(0.8, True), (None, True)]
    assert [(result.ratio, result.ok) for result in _results(by_name["latest"], found)] == [(None, True), (1.8, False)]
    assert [result.bound is None for result in _results(by_name["dedup"], found)] == [False, False]
