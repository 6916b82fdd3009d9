"""``make backlog``: ten million rows wait for Spark, and the node's memory does not grow with them.

One node gets three waves: two, five and ten million rows. In each wave the JVM is stopped (SIGSTOP) while the rows are
pushed, so that all of them are backlog, and goes on when the last one is durable. If memory grew with the backlog, the
peak of the last wave would stand out from that of the first; the node is the same and warm, so nothing else differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import pyarrow as pa

import anabranch as ab
from anabranch.bench.processes import free_ports
from tests.chaos.checkers import ids_contiguous, nothing_twice, rows_of
from tests.chaos.clients import read_stream
from tests.chaos.processes import HarnessError, NodeProcess

WAVES: Final = (2_000_000, 5_000_000, 10_000_000)
PUSH_ROWS: Final = 50_000
BEGIN_US: Final = 1_767_225_600_000_000
TEXT: Final = "x" * 64

GROWTH_BYTES: Final = 400 << 20
"""How far the node's peak of the last wave may lie above that of the first. The eight million rows between them weigh
about 960 MB (40 bytes of numbers and header, 72 of text, 8 of Arrow's own), so a node that kept them, or half of them,
would be found out; a batch of a million rows passes through the node in pieces of 8 MB, and only results come back."""

JVM_BYTES: Final = 3 << 30
"""What the JVM may hold: 2 GiB of heap, which is its limit, and half as much again for code, threads and RocksDB."""

MIB: Final = 1 << 20


def query() -> ab.Query:
    q = ab.Query("backlog")
    events = q.source("events", "key bigint, value double, note string, at timestamp", time="at")
    q.output("rare", events.filter("value < 0.001", name="rare").map("key, value", name="without_note"))
    q.output("per_key", events.aggregate("count(*) AS n", by="key", window="10s", name="per_key"))
    return q


@dataclass(slots=True)
class Peaks:
    """The largest resident sizes since the last ``begin``, sampled until ``stop``."""

    node: NodeProcess
    bytes: dict[str, int] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        self.bytes = {}

    def watch(self) -> None:
        while not self._stopping.wait(0.2):
            for kind, size in self.node.rss().items():
                self.bytes[kind] = max(size, self.bytes.get(kind, 0))

    def stop(self) -> None:
        self._stopping.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    rows: int
    push_s: float
    drain_s: float
    peaks: dict[str, int]

    def __str__(self) -> str:
        sizes = "  ".join(f"{kind} {size // MIB:5} MiB" for kind, size in self.peaks.items())
        return (
            f"{self.rows:10,} rows of backlog   pushed at {self.rows / self.push_s:9,.0f} rows/s   "
            f"worked off at {self.rows / self.drain_s:9,.0f} rows/s   peak: {sizes}"
        )


class Backlog:
    """A node and one producer that numbers what it sends."""

    def __init__(self, directory: Path, report: Callable[[str], None]) -> None:
        (directory / "query.yaml").write_text(query().to_yaml())
        self.node = NodeProcess(
            directory / "query.yaml",
            directory / "state",
            free_ports(1)[0],
            directory / "node.log",
            compiler="",
        )
        self.pushed = 0
        self._report = report
        self._peaks = Peaks(self.node)
        self._connection = ab.connect(self.node.address)

    def run(self, waves: tuple[int, ...]) -> list[Wave]:
        sampler = threading.Thread(target=self._peaks.watch, daemon=True)
        try:
            self._report(f"all stages run after {self.node.wait_running():.1f} s")
            producer = self._connection.producer("events", "backlog")
            sampler.start()
            self._wave(producer, PUSH_ROWS)  # warms up what is used for the first time
            done = []
            for rows in waves:
                done.append(self._wave(producer, rows))
                self._report(str(done[-1]))
            producer.close_lane()
            self.node.wait_caught_up()
            return done
        finally:
            self._peaks.stop()

    def problems(self) -> list[str]:
        """What is wrong with the output: every row counted once, in streams without hole or repetition."""
        found = []
        for stream in ("rare", "per_key"):
            rows = rows_of(read_stream(self.node.address, stream))
            found += [f"{stream}: {problem}" for problem in (*ids_contiguous(rows), *nothing_twice(rows))]
            counted = sum(row.values["n"] for row in rows) if stream == "per_key" else self.pushed
            if counted != self.pushed:
                found.append(f"{stream}: {counted} rows were counted, {self.pushed} were pushed")
        return found

    def close(self) -> None:
        self._connection.close()
        self.node.kill()

    def _wave(self, producer: ab.Producer, rows: int) -> Wave:
        self._peaks.begin()
        jvm = self._jvm()
        jvm.suspend()
        try:
            started = time.monotonic()
            for first in range(0, rows, PUSH_ROWS):
                count = min(PUSH_ROWS, rows - first)
                producer.push(_batch(self.pushed, count))
                self.pushed += count
            pushed = time.monotonic()
        finally:
            with suppress(psutil.NoSuchProcess):
                jvm.resume()
        self.node.wait(self._drained, f"has worked off {rows} rows")
        return Wave(
            rows=rows, push_s=pushed - started, drain_s=time.monotonic() - pushed, peaks=dict(self._peaks.bytes)
        )

    def _jvm(self) -> psutil.Process:
        for process in self.node.tree():
            if process.name() == "java":
                return process
        raise HarnessError("the node has no JVM")

    def _drained(self) -> bool:
        status = self.node.status()
        return status is not None and all(stage.caught_up for stage in status.only_query.stages.values())


def _batch(first: int, count: int) -> pa.RecordBatch:
    """Rows ``first`` and on: ten thousand a second of stream time, a hundred keys."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    columns = {
        "key": pa.array(numbers % 100),
        "value": pa.array((numbers * 7_919 % 100_003) / 100_003),
        "note": pa.array(np.full(count, TEXT)),
        "at": pa.array(BEGIN_US + numbers * 100).cast(pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_pydict(columns)


def judge(waves: list[Wave]) -> list[str]:
    """Memory that grew with the backlog, or beyond what it may be at all."""
    first, last = waves[0].peaks, waves[-1].peaks
    grown = last["node"] - first["node"]
    problems = []
    if grown > GROWTH_BYTES:
        problems.append(
            f"the node's peak grew by {grown // MIB} MiB from {waves[0].rows:,} to {waves[-1].rows:,} rows; "
            f"the most is {GROWTH_BYTES // MIB} MiB"
        )
    if last["jvm"] > JVM_BYTES:
        problems.append(f"the JVM held {last['jvm'] // MIB} MiB; the most is {JVM_BYTES // MIB} MiB")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.backlog", description=__doc__)
    parser.add_argument("--rows", type=int, default=WAVES[-1], help="rows of the largest wave")
    options = parser.parse_args()
    waves = tuple(rows * options.rows // WAVES[-1] for rows in WAVES)
    directory = Path(tempfile.mkdtemp(prefix="anabranch-backlog-"))
    backlog = Backlog(directory, lambda text: print(text, flush=True))
    try:
        done = backlog.run(waves)
        problems = [*judge(done), *backlog.problems()]
    except HarnessError as error:
        problems = [str(error)]
    finally:
        backlog.close()
    for problem in problems:
        print(f"FAILED: {problem}")
    if problems:
        print(f"State and log are kept in {directory}.")
        return 1
    shutil.rmtree(directory)
    grown = (done[-1].peaks["node"] - done[0].peaks["node"]) // MIB
    print(f"passed: {backlog.pushed:,} rows counted once; the node's peak grew by {grown} MiB from first to last wave.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
