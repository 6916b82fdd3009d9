"""Writers on a real log, without Spark: every tuple once, wherever they are cut, never into somebody else's file."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.columns import arrow_schema
from anabranch.errors import StateError
from anabranch.node import writing
from anabranch.node.writing import WriterRunner, Writing, forget_places, tuple_writer, writer_reader
from anabranch.query.boxes import Arrow, Output
from anabranch.query.connectors import Writer, writer_key
from anabranch.query.specs import writer_from
from anabranch.storage.log import Log, LogSpec
from anabranch.storage.store import Store
from tests.waiting import HANG_S, wait_for

SCHEMA = arrow_schema([("x", "bigint"), ("s", "string")])


class Bench:
    """The log of an output, and writers on it that come and go."""

    def __init__(self, path: Path) -> None:
        self.store = Store.open(path)
        spec = LogSpec(name="o", schema=SCHEMA, origins=("a", "b"), kind="output", retention_us=1, limit_bytes=1 << 30)
        self.log: Log = self.store.create_log(spec)

    def append(self, count: int) -> None:
        first = self.log.last_id()
        numbers = range(first, first + count)
        rows = pa.table(
            {
                "_tid": pa.array(numbers, pa.int64()),
                "_stime": pa.array([number + 1 for number in numbers], pa.timestamp("us", "UTC")),
                "_origin": pa.array([number % 2 for number in numbers], pa.int32()),
                "x": pa.array(numbers, pa.int64()),
                "s": [f"row {number}\n" for number in numbers],
            }
        )
        with self.store.transaction() as transaction:
            transaction.append("o", rows, {}, now_us=1)

    def runner(self, spec: str) -> WriterRunner:
        writer = parsed(spec)
        return WriterRunner(
            "o", writer, tuple_writer(writer, self.store, self.log), self.store, self.log, threading.Event()
        )

    def write_all(self, spec: str) -> None:
        runner = self.runner(spec)
        runner.open()
        while self.log.rows_after(runner._seq):
            runner._step()
        runner.stop(0)

    def close(self) -> None:
        self.store.close()


def parsed(spec: str) -> Writer:
    writer = writer_from(spec)
    assert writer is not None
    return writer


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "o.db")
    yield bench
    bench.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_json_lines_hold_every_tuple_with_its_header(bench: Bench, tmp_path: Path) -> None:
    bench.append(3)
    bench.write_all(f"jsonl:{tmp_path / 'out.jsonl'}")
    bench.append(2)
    bench.write_all(f"jsonl:{tmp_path / 'out.jsonl'}")
    found = lines(tmp_path / "out.jsonl")
    assert [line["_id"] for line in found] == [1, 2, 3, 4, 5]
    assert found[4] == {
        "_id": 5,
        "_tid": 4,
        "_stime": "1970-01-01T00:00:00.000005Z",
        "_origin": "a",
        "x": 4,
        "s": "row 4\n",
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), cut=st.integers(0, 2000), acknowledged=st.booleans())
def test_a_json_file_that_was_cut_anywhere_is_completed(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], cut: int, acknowledged: bool
) -> None:
    """A crash may leave any prefix of what was written; more than what was synced is never lost."""
    directory = tmp_path_factory.mktemp("cut")
    path = directory / "out.jsonl"
    bench = Bench(directory / "o.db")
    bench.append(sizes[0])
    bench.write_all(f"jsonl:{path}")
    synced = path.stat().st_size
    for size in sizes[1:]:
        bench.append(size)
    if not acknowledged:  # killed between the sync and the acknowledgement
        runner = bench.runner(f"jsonl:{path}")
        runner._acknowledge = lambda: None  # type: ignore[method-assign]
        runner.open()
        while bench.log.rows_after(runner._seq):
            runner._step()
        runner.stop(0)
        with path.open("r+b") as file:
            file.truncate(min(path.stat().st_size, synced + cut))
    bench.write_all(f"jsonl:{path}")
    assert [line["_id"] for line in lines(path)] == list(range(1, sum(sizes) + 1))
    bench.close()


def test_parquet_files_are_named_after_their_ids(bench: Bench, tmp_path: Path) -> None:
    directory = tmp_path / "out"
    spec = f"parquet:{directory},every=1ms"
    bench.append(3)
    bench.write_all(spec)
    bench.append(2)
    bench.write_all(spec)
    names = sorted(path.name for path in directory.iterdir())
    assert names == [f"{1:019d}-{3:019d}.parquet", f"{4:019d}-{5:019d}.parquet"]
    table = pq.read_table(directory)
    assert table.column("_id").to_pylist() == [1, 2, 3, 4, 5]
    assert table.column("_origin").to_pylist() == ["a", "b", "a", "b", "a"]


def test_a_parquet_file_that_was_not_finished_is_written_again(bench: Bench, tmp_path: Path) -> None:
    directory = tmp_path / "out"
    spec = f"parquet:{directory},every=1ms"
    bench.append(3)
    bench.write_all(spec)
    (directory / ".writing-77").write_bytes(b"half of a file")
    bench.append(3)
    runner = bench.runner(spec)
    runner._acknowledge = lambda: None  # type: ignore[method-assign]
    runner.open()
    time.sleep(0.002)
    runner._step()
    runner._step()
    bench.append(1)
    bench.write_all(spec)
    assert pq.read_table(directory).column("_id").to_pylist() == list(range(1, 8))
    assert not list(directory.glob(".writing-*"))


def test_a_parquet_file_waits_until_it_is_worth_it(bench: Bench, tmp_path: Path) -> None:
    runner = bench.runner(f"parquet:{tmp_path / 'out'},rows=4,every=1h")
    runner.open()
    bench.append(3)
    assert not runner._step()
    bench.append(3)
    assert runner._step()
    assert pq.read_table(tmp_path / "out").num_rows == 3  # whole segments, as many as fit
    assert not runner._step()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_what_another_stream_has_written_is_refused_and_not_touched(tmp_path: Path, kind: str) -> None:
    spec = f"{kind}:{tmp_path / 'out'}" + (",every=1ms" if kind == "parquet" else "")
    first, second = Bench(tmp_path / "first.db"), Bench(tmp_path / "second.db")
    first.append(4)
    first.write_all(spec)
    second.append(1)
    with pytest.raises(StateError, match="a different stream"):
        second.runner(spec).open()
    assert second.log.readers() == {}
    first.close()
    second.close()


@pytest.mark.parametrize("text", ["precious\n", "precious", '{"x": 1}\n', '{"x": 1}'])
def test_a_file_that_is_no_stream_is_refused(bench: Bench, tmp_path: Path, text: str) -> None:
    (tmp_path / "out.jsonl").write_text(text)
    with pytest.raises(StateError, match="not written by Anabranch"):
        bench.runner(f"jsonl:{tmp_path / 'out.jsonl'}").open()
    assert (tmp_path / "out.jsonl").read_text() == text


def test_two_processes_do_not_write_to_one_file(bench: Bench, tmp_path: Path) -> None:
    runner = bench.runner(f"jsonl:{tmp_path / 'out.jsonl'}")
    runner.open()
    with pytest.raises(StateError, match="Another process"):
        bench.runner(f"jsonl:{tmp_path / 'out.jsonl'}").open()
    runner.stop(0)


def test_a_gap_between_file_and_log_is_told(bench: Bench, tmp_path: Path) -> None:
    spec = f"jsonl:{tmp_path / 'out.jsonl'}"
    bench.append(2)
    bench.write_all(spec)
    bench.append(2)
    with bench.store.transaction() as transaction:
        transaction.acknowledge("o", writer_reader(parsed(spec)), bench.log.end_seq())
        transaction.trim("o", now_us=1)
    with pytest.raises(StateError, match="the tuples between are gone"):
        bench.runner(spec).open()


def test_a_file_that_was_moved_away_is_begun_anew_where_the_writer_was(bench: Bench, tmp_path: Path) -> None:
    spec = f"jsonl:{tmp_path / 'out.jsonl'}"
    bench.append(2)
    bench.write_all(spec)
    (tmp_path / "out.jsonl").rename(tmp_path / "old.jsonl")
    bench.append(2)
    bench.write_all(spec)
    assert [line["_id"] for line in lines(tmp_path / "out.jsonl")] == [3, 4]


def test_a_writer_that_is_named_no_more_does_not_hold_the_log(bench: Bench, tmp_path: Path) -> None:
    bench.append(2)
    bench.write_all(f"jsonl:{tmp_path / 'old.jsonl'}")
    output = Output(name="o", input=Arrow("s"), to=(parsed(f"jsonl:{tmp_path / 'new.jsonl'}"),))
    stopping = threading.Event()
    all_writers = Writing(stopping)
    all_writers.start((output,), {"o": (bench.store, bench.log)})
    assert list(bench.log.readers()) == [f"writer:jsonl:{tmp_path / 'new.jsonl'}"]

    def facts() -> tuple[object, ...]:
        (found,) = all_writers.statistics()["o"].values()
        return found.state, found.rows, found.position, found.lag_rows

    wait_for(lambda: facts() == ("running", 2, 2, 0))  # counted a moment after it is in the file
    assert len(lines(tmp_path / "new.jsonl")) == 2
    stopping.set()
    all_writers.stop()


def test_a_writer_whose_disk_failed_tries_again(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.limits.RESTART_BACKOFF_S", (0.01,))
    runner = bench.runner(f"jsonl:{tmp_path / 'out.jsonl'}")
    write, failures = runner._writer.write, [OSError("disk full"), OSError("disk full")]

    def write_or_fail(batches: Iterator[pa.RecordBatch]) -> None:
        if failures:
            next(batches)
            raise failures.pop()
        write(batches)

    monkeypatch.setattr(runner._writer, "write", write_or_fail)
    runner.open()
    runner.start()
    bench.append(3)
    wait_for(lambda: len(lines(tmp_path / "out.jsonl")) == 3)
    runner._stopping.set()
    runner.stop(time.monotonic() + HANG_S)


def test_segments_without_rows_are_passed_over(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LOOK_S", 0)
    runner = bench.runner(f"jsonl:{tmp_path / 'out.jsonl'}")
    runner.open()
    for number in range(writing.QUIET_SEGMENTS):
        with bench.store.transaction() as transaction:
            transaction.append("o", None, {"a": number + 1}, now_us=1)
    runner._step()
    assert bench.log.readers() == {writer_reader(parsed(f"jsonl:{tmp_path / 'out.jsonl'}")): writing.QUIET_SEGMENTS}
    runner.stop(0)


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_console_shows_what_comes_and_holds_nothing(
    bench: Bench, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.append(1)
    runner = bench.runner(f"console:{form}")
    runner.open()
    bench.append(2)
    runner._step()
    shown = capsys.readouterr().out
    assert "row 1" in shown
    assert "row 0" not in shown
    assert bench.log.readers() == {}


def test_a_writer_of_a_log_that_was_replaced_by_a_peers_needs_a_new_place(bench: Bench, tmp_path: Path) -> None:
    """Its tuples have other ids there: even if the last one had the same, others might be missing."""
    old, new = f"jsonl:{tmp_path}/old.jsonl", f"jsonl:{tmp_path}/new.jsonl"
    bench.append(3)
    bench.write_all(old)
    with bench.store.transaction() as transaction:
        transaction.remove_reader("o", writer_reader(parsed(old)))
        forget_places(transaction, [writer_key(parsed(old))])
    with pytest.raises(StateError, match="rebuilt from a peer"):
        bench.write_all(old)
    bench.write_all(new)
    assert (tmp_path / "new.jsonl").read_text() == (tmp_path / "old.jsonl").read_text()
    bench.append(1)
    bench.write_all(new)
    assert len((tmp_path / "new.jsonl").read_text().splitlines()) == 4
