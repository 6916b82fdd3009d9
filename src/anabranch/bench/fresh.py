"""What needs a process that has done nothing else: seconds from command to first result, and memory with a backlog.

A node runs as users run it (``anabranch run``). Its JVM stands still (SIGSTOP) while the backlog is pushed, so that all
of it waits in the journal; plain Spark finds all files at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.bench.processes import Peaks, free_ports, jvm_of, kill_tree, said_last, start_python
from anabranch.bench.workloads import OUTPUT, Piece, Rows, Workload, first_rows, window_sum
from anabranch.errors import EngineError, NodeUnreachable
from anabranch.query import yaml_form
from anabranch.query.text import diagram_to_dict
from anabranch.transport.session import Connection, connect

WAIT_S: Final = 300.0
LOOK_S: Final = 0.02
LIFE: Final = "20m"
"""A node ends by itself after this time, should this process die without a chance to end it."""

FIRST: Final = 2
"""Rows that are there at the start: the second closes the window of the first, and is closed by the backlog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What one process of its own showed."""

    start_s: float
    backlog_rows: int
    drain_s: float
    peak_bytes: dict[str, int]


class FreshSide(ABC):
    """A process, from its start until ``stop``."""

    def __init__(self, directory: Path, conf: Mapping[str, str], check: Callable[[], None]) -> None:
        self.directory: Final = directory
        self._conf = [f"{key}={value}" for key, value in conf.items()]
        self._check = check
        directory.mkdir(parents=True)

    def measure(self, workload: Workload, backlog_rows: int) -> Fresh:
        try:
            began = time.monotonic()
            self._start()
            self._wait(FIRST - 1)
            started = time.monotonic()
            rows = Rows(workload)
            with Peaks(self._process.pid) as peaks:
                self._backlog(rows.backlog(backlog_rows))
                fed = time.monotonic()
                self._wait(FIRST + rows.results())
                drained = time.monotonic()
            return Fresh(
                start_s=started - began, backlog_rows=backlog_rows, drain_s=drained - fed, peak_bytes=peaks.bytes
            )
        finally:
            self.stop()

    _process: subprocess.Popen[bytes]

    @abstractmethod
    def _start(self) -> None:
        """Starts the process and gives it the first rows as soon as it can take them."""

    @abstractmethod
    def _backlog(self, pieces: list[Piece]) -> None:
        """Returns when all rows wait, and work on them begins."""

    @abstractmethod
    def _results(self) -> int: ...

    def stop(self) -> None:
        """Kills it with all that it started: nothing of it is needed, and its directory is removed."""
        process = getattr(self, "_process", None)
        if process is not None:
            kill_tree(process.pid)
            process.communicate()  # waits for it, and closes our end of the pipe

    def _spawn(self, *arguments: str) -> None:
        self._process = start_python(self.directory, *arguments)

    def _wait(self, results: int) -> None:
        self._wait_until(lambda: self._results() >= results)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            self._check()
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise EngineError(f"A process of the benchmark ended or hangs: {said_last(self.directory)}")
            time.sleep(LOOK_S)


class FreshNode(FreshSide):
    """``anabranch run`` on the window sum."""

    _connection: Connection

    def _start(self) -> None:
        query = self.directory / "query.yaml"
        query.write_text(yaml_form.dump(diagram_to_dict(window_sum())))
        (port,) = free_ports(1)
        state = str(self.directory / "state")
        conf = [part for setting in self._conf for part in ("--conf", setting)]
        self._spawn("anabranch.cli", "run", str(query), "--state", state, "--port", str(port), "--for", LIFE, *conf)
        self._connection = connect(f"127.0.0.1:{port}")
        self._wait_until(lambda: self._status() is not None)
        self._producer = self._connection.producer("events", "bench")
        self._producer.push(first_rows(FIRST))

    def _backlog(self, pieces: list[Piece]) -> None:
        jvm = jvm_of(self._process.pid)
        assert jvm is not None
        os.kill(jvm, signal.SIGSTOP)
        try:
            for _, batch in pieces:
                self._check()
                self._producer.push(batch)
        finally:
            with suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGCONT)

    def _results(self) -> int:
        status: Any = self._status()
        return 0 if status is None else int(status["streams"].get(OUTPUT, {}).get("rows_in", 0))

    def _status(self) -> dict[str, object] | None:
        try:
            return self._connection.status()
        except NodeUnreachable:
            return None

    def stop(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()
        super().stop()


class FreshPlain(FreshSide):
    """Plain Spark on the window sum, in a process of ours."""

    _files = 0

    def _start(self) -> None:
        (self.directory / "events").mkdir()
        (self.directory / "staging").mkdir()
        self._write(first_rows(FIRST)).rename(self.directory / "events" / "first.parquet")
        self._spawn("anabranch.bench.plain_process", str(self.directory), *self._conf)

    def _backlog(self, pieces: list[Piece]) -> None:
        staged = [self._write(batch) for _, batch in pieces]
        self._check()
        for file in staged:
            file.rename(self.directory / "events" / file.name)

    def _results(self) -> int:
        lines = (self.directory / "results").read_text().split("\n")
        return int(lines[-2]) if len(lines) > 1 else 0

    def _write(self, batch: pa.RecordBatch) -> Path:
        self._files += 1
        file = self.directory / "staging" / f"{self._files:06d}.parquet"
        pq.write_table(pa.Table.from_batches([batch]), file)
        os.utime(file, (self._files, self._files))
        return file
