"""Once per tuple on a target that keeps a batch in whole, in part or not at all when it fails; without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.errors import EngineError, StateError
from anabranch.node.spark_writing import SparkTuples
from anabranch.query.connectors import SparkWriter
from tests.unit.node.test_writing import Bench, WriterRunner


class Target:
    """A table in memory. ``fail`` says how much of the next batch stays when it fails."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.fail: float | None = None
        self.made = False

    def append(self, tuples: pa.Table) -> None:
        ids = tuples.column("_id").to_pylist()
        kept = len(ids) if self.fail is None else round(self.fail * len(ids))
        self.rows += random.Random(len(ids)).sample(ids, kept)
        if self.fail is not None:
            self.fail = None
            raise EngineError("the database is gone")

    def ids(self, first_id: int, last_id: int) -> pa.Array:
        return pa.array([each for each in self.rows if first_id <= each <= last_id], pa.int64())

    def is_empty(self, schema: pa.Schema) -> bool:
        assert schema.names == ["_id", "_tid", "_stime", "_origin", "x", "s"]
        self.made = True
        return not self.rows


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "o.db")
    yield bench
    bench.close()


def runner(bench: Bench, target: Target, guarantee: str = "exactly-once") -> WriterRunner:
    import threading

    spec = SparkWriter(format="jdbc", guarantee=guarantee, every_us=1)
    writer = SparkTuples(spec, target, bench.store, bench.log)
    return WriterRunner("o", spec, writer, bench.store, bench.log, threading.Event())


def write_all(bench: Bench, target: Target, guarantee: str = "exactly-once") -> None:
    """As after a restart: from what is stored alone."""
    made = runner(bench, target, guarantee)
    made.open()
    while bench.log.rows_after(made._seq):
        made._step()


@pytest.mark.parametrize("kept", [0.0, 0.4, 1.0])
def test_a_batch_in_doubt_is_completed_not_repeated(bench: Bench, kept: float) -> None:
    target = Target()
    bench.append(3)
    write_all(bench, target)
    bench.append(10)
    target.fail = kept
    with pytest.raises(EngineError):
        write_all(bench, target)
    bench.append(4)  # the batch that repairs is larger than the one in doubt
    write_all(bench, target)
    assert sorted(target.rows) == list(range(1, 18))


def test_a_repair_that_fails_is_repaired(bench: Bench) -> None:
    target = Target()
    bench.append(10)
    for kept in (0.3, 0.5, 0.0, 1.0):
        target.fail = kept
        with pytest.raises(EngineError):
            write_all(bench, target)
    write_all(bench, target)
    assert sorted(target.rows) == list(range(1, 11))


def test_a_segment_that_is_larger_than_a_batch_is_written_whole(bench: Bench) -> None:
    target = Target()
    with bench.store.transaction() as transaction:
        transaction.append("o", None, {"a": 1}, now_us=1)
    bench.append(7)
    made = runner(bench, target)
    made._writer.rows = 3
    made.open()
    while bench.log.rows_after(made._seq):
        made._step()
    assert sorted(target.rows) == list(range(1, 8))


def test_at_least_once_writes_a_batch_in_doubt_again(bench: Bench) -> None:
    target = Target()
    bench.append(4)
    target.fail = 1.0
    with pytest.raises(EngineError):
        write_all(bench, target, "at-least-once")
    write_all(bench, target, "at-least-once")
    assert sorted(target.rows) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert not target.made


def test_a_target_with_rows_of_somebody_else_is_refused(bench: Bench) -> None:
    target = Target()
    target.rows = [1, 2]
    with pytest.raises(StateError, match="already holds rows"):
        runner(bench, target).open()
