"""The rows of a steady flow, the thread that makes them, and the list by which plain Spark commits its results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.bench.arrivals import now_us
from anabranch.bench.steady import OUTPUT, PUSH_ROWS, SOURCE, Flow, expected, query, results, rows
from anabranch.bench.ways import Committed
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.waiting import wait_for


def test_the_reference_gives_the_results_that_are_expected() -> None:
    n, made_us = results(rows(0, 21, now_us()))
    diagram = query()
    (origin,) = diagram.sources[0].origins
    fed = [
        Tuple(origin=origin, stime=stime, tid=tid, values={"n": tid, "at": stime})
        for tid, stime in zip(n.tolist(), made_us.tolist(), strict=True)
    ]
    reference = ReferenceRun(diagram)
    reference.feed(SOURCE, fed, {})
    assert [each.values["n"] for each in reference.results()[OUTPUT]] == expected(21).tolist()


def test_a_result_tells_its_row_and_when_that_was_made() -> None:
    n, made_us = results(rows(3, 2, 1_767_225_600_000_001))
    assert n.tolist() == [3, 4]
    assert made_us.tolist() == [1_767_225_600_000_001] * 2


def test_times_are_the_same_from_the_files_that_spark_writes(tmp_path: Path) -> None:
    made = rows(3, 2, 1_767_225_600_000_001)
    pq.write_table(pa.Table.from_batches([made]), tmp_path / "file", use_deprecated_int96_timestamps=True)
    read = pq.read_table(tmp_path / "file")
    assert read.schema.field("at").type.unit == "ns"
    assert [part.tolist() for part in results(read)] == [part.tolist() for part in results(made)]


def test_a_flow_makes_each_row_once_in_order_of_time() -> None:
    pushed: list[pa.RecordBatch] = []
    with Flow(pushed.append) as flow:
        wait_for(lambda: flow.made >= 3 * PUSH_ROWS)
    n, made_us = results(pa.Table.from_batches(pushed))
    assert n.tolist() == list(range(flow.made))
    assert (np.diff(made_us) >= 0).all()


def test_a_flow_whose_push_fails_says_so() -> None:
    def refuse(_: pa.RecordBatch) -> None:
        raise ConnectionError("away")

    with Flow(refuse) as flow:
        wait_for(lambda: not flow.is_running)
        with pytest.raises(ConnectionError, match="away"):
            flow.check()


def commit(directory: Path, batch: str, *files: str) -> None:
    folder = directory / "_spark_metadata"
    folder.mkdir(exist_ok=True)
    lines = ["v1", *(json.dumps({"path": f"file://{directory}/{file}", "action": "add"}) for file in files)]
    (folder / batch).write_text("\n".join(lines))


def test_files_count_once_when_the_list_names_them(tmp_path: Path) -> None:
    committed = Committed(tmp_path)
    assert committed.new_files() == []
    commit(tmp_path, "0", "first")
    (tmp_path / "cut").touch()
    commit(tmp_path, "1", "second", "third")
    assert committed.new_files() == [tmp_path / "first", tmp_path / "second", tmp_path / "third"]
    assert committed.new_files() == []
    commit(tmp_path, "2.compact", "first", "second", "third", "fourth")
    commit(tmp_path, "3")
    commit(tmp_path, "4", "fifth")
    assert committed.new_files() == [tmp_path / "fourth", tmp_path / "fifth"]
