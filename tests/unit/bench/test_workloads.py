"""Rows of the benchmark, and how many results they must have: the count is compared with the reference's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from anabranch.bench.engine import batch_milliseconds
from anabranch.bench.sides import digest
from anabranch.bench.workloads import WINDOW_US, WITHIN_US, Piece, Rows, Workload, flow_push, total_rows, workloads
from anabranch.engine.baseline import BatchTimes

WORKLOADS = {workload.name: workload for workload in workloads()}
TIMES = {"events": "at", "lefts": "at", "rights": "since"}


def rows_of(pieces: list[Piece], source: str) -> list[dict[str, int]]:
    """All rows of a source, with their times in microseconds."""
    batches = [batch for name, batch in pieces if name == source]
    table = pa.Table.from_batches(batches)
    index = table.column_names.index(TIMES[source])
    return table.set_column(index, "time", table[TIMES[source]].cast(pa.int64())).to_pylist()


def fed(workload: Workload) -> tuple[Rows, list[Piece]]:
    rows = Rows(workload)
    return rows, [*rows.backlog(2_000), *[piece for push in rows.flow(1.0) for piece in push]]


def test_a_filter_lets_one_row_in_ten_pass() -> None:
    rows, pieces = fed(WORKLOADS["filter"])
    kept = [row for row in rows_of(pieces, "events") if row["value"] < 100]
    assert rows.results() == len(kept) > 100


def test_a_window_counts_when_a_row_has_reached_its_end() -> None:
    rows, pieces = fed(WORKLOADS["window sum"])
    found = rows_of(pieces, "events")
    newest = max(row["time"] for row in found)
    groups = {(row["key"], row["time"] // WINDOW_US) for row in found}
    assert rows.results() == sum((window + 1) * WINDOW_US <= newest for _, window in groups) > 1_000


def test_a_pair_counts_when_keys_are_equal_and_times_near() -> None:
    rows, pieces = fed(WORKLOADS["join"])
    lefts, rights = (rows_of(pieces, source) for source in ("lefts", "rights"))
    pairs = [
        (left["n"], right["m"])
        for left in lefts
        for right in rights
        if left["key"] == right["other"] and abs(left["time"] - right["time"]) < WITHIN_US
    ]
    assert rows.results() == len(pairs) > 1_000


@pytest.mark.parametrize("name", WORKLOADS)
def test_times_never_go_back_so_that_no_row_is_late_on_either_side(name: str) -> None:
    _, pieces = fed(WORKLOADS[name])
    for source in {source for source, _ in pieces}:
        times = [row["time"] for row in rows_of(pieces, source)]
        assert all(earlier <= later for earlier, later in pairwise(times))
    assert total_rows(pieces) == sum(len(rows_of(pieces, source)) for source in {source for source, _ in pieces})


def test_a_result_of_a_flow_leads_back_to_the_push_that_made_it() -> None:
    rows = Rows(WORKLOADS["window sum"])
    rows.backlog(2_500)
    began_us = rows.now_us
    pushes = rows.flow(1.0)
    for number, pieces in enumerate(pushes):
        times = np.array([row["time"] for row in rows_of(pieces, "events")])
        assert set(flow_push(times, began_us)) == {number}
        ends = (times // WINDOW_US + 1) * WINDOW_US
        assert set(flow_push(ends, began_us)) == {number + 1}  # the next push has the first row at or after the end


def test_a_digest_knows_rows_and_not_their_order() -> None:
    rows = pa.table({"key": [1, 2, 2], "total": [5, 6, 6]})
    assert digest(rows) == digest(rows.take([2, 0, 1]))
    assert digest(rows) != digest(rows.take([0, 1]))
    assert digest(rows) != digest(rows.set_column(1, "total", pa.array([5, 6, 7])))


def test_a_batch_costs_what_it_does_and_not_what_the_node_waited_for_news() -> None:
    def batch(total_ms: int, asking_ms: int) -> BatchTimes:
        parts = {"triggerExecution": total_ms, "latestOffset": asking_ms}
        return BatchTimes(batch_id=0, rows=100, parts_ms=parts)

    assert batch_milliseconds([batch(100, 10), batch(110, 20), batch(500, 30)], held_ms=0) == 90 + 20
    assert batch_milliseconds([batch(100, 10), batch(190, 100)], held_ms=90) == 90 + 10
    assert batch_milliseconds([batch(100, 10)], held_ms=50) == 90  # a question that was held past the last batch
