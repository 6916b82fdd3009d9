"""What a start is judged by, and the queries and rows of both sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.bench.start import COMMAND, FOUR, RESTART, STATE_ROWS, WARM, Seconds, compared
from anabranch.bench.workloads import KEYS, WINDOW_US, Rows, first_of_each, four_stages, window_sum, workloads
from anabranch.query.graph import stages
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple


def seconds(**ours_s: float) -> Seconds:
    """Plain Spark takes 10 s for everything, and 0.5 for one more query."""
    taken = {"one": 10.0, "restart": 10.0, "four": 14.0, "warm": 0.9} | ours_s
    names = {"one": COMMAND, "restart": RESTART, "four": FOUR, "warm": WARM}
    return {
        names[what]: {"anabranch": [took], "plain Spark": [0.5 if what == "warm" else 10.0]}
        for what, took in taken.items()
    }


@pytest.mark.parametrize(
    ("ours_s", "missed"),
    [
        ({}, []),
        ({"one": 10.1}, ["one stage"]),
        ({"four": 15.1}, ["four stages, to one stage"]),
        ({"restart": 99.0}, []),
        ({"warm": 1.1}, ["the same, in seconds"]),
    ],
)
def test_each_bound_is_missed_by_its_own_start(ours_s: dict[str, float], missed: list[str]) -> None:
    assert [result.name for result in compared(seconds(**ours_s)) if not result.ok] == missed


def test_medians_are_compared_and_one_slow_round_changes_nothing() -> None:
    rounds = seconds()
    rounds[COMMAND]["anabranch"] = [9.0, 50.0, 9.5]
    (one, *_) = compared(rounds)
    assert (one.value, one.baseline) == (9.5, 10.0)


def test_four_stages_are_four_and_one_is_one() -> None:
    assert len(stages(window_sum())) == 1
    assert len(stages(four_stages())) == 4
    assert {output.name for output in four_stages().outputs} == {"selected", "sums", "tops", "pairs"}


def test_the_first_rows_give_each_of_the_four_outputs_one_result() -> None:
    diagram = four_stages()
    oracle = ReferenceRun(diagram)
    for source in diagram.sources:
        (batch,) = (rows for name, rows in first_of_each() if name == source.name)
        (origin,) = source.origins
        time = batch.schema.names.index(source.time)
        rows = batch.set_column(time, source.time, batch.column(time).cast(pa.int64())).to_pylist()
        tuples = [
            Tuple(origin=origin, stime=row[source.time], tid=tid, values=row) for tid, row in enumerate(rows, start=1)
        ]
        oracle.feed(source.name, tuples, {origin: tuples[-1].stime})
    results = oracle.results()
    assert {output.name: len(results[output.name]) for output in diagram.outputs} == {
        "selected": 1,
        "sums": 1,
        "tops": 1,
        "pairs": 1,
    }


def test_a_process_is_killed_with_a_window_of_all_keys_open() -> None:
    rows = Rows(next(each for each in workloads() if each.name == "window sum"))
    state = rows.backlog(STATE_ROWS)[:-1]
    times = np.concatenate([np.asarray(batch.column("at").cast(pa.int64())) for _, batch in state])
    assert len(np.unique(times // WINDOW_US)) == 1
    assert rows.results() == KEYS
