"""Processes that have done nothing else: what their start takes, and their memory with a backlog.

A node runs as users run it (``anabranch run``); plain Spark is a program that runs each output of the same query. Both
may be killed and started again on what they have on disk. A backlog is pushed to a node while its JVM stands still
(SIGSTOP), so that all of it waits in the journal; plain Spark finds all files at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.bench.processes import Peaks, free_ports, jvm_of, kill_tree, said_last, start_python
from anabranch.bench.workloads import Piece, Rows, Workload, first_rows
from anabranch.errors import EngineError, NodeUnreachable
from anabranch.query import yaml_form
from anabranch.query.boxes import Diagram
from anabranch.query.text import diagram_to_dict
from anabranch.transport.ports import StreamInfo
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
    """A process on one diagram, in a directory of its own. Use it as a context manager: at the end nothing of it is
    left but the directory. ``check`` may end a wait by raising."""

    name: str
    _process: subprocess.Popen[bytes] | None = None

    def __init__(self, diagram: Diagram, directory: Path, conf: Mapping[str, str], check: Callable[[], None]) -> None:
        self.directory: Final = directory
        self.diagram: Final = diagram
        self._conf = [f"{key}={value}" for key, value in conf.items()]
        self._check = check
        directory.mkdir(parents=True)
        self._query = directory / "query.yaml"
        self._query.write_text(yaml_form.dump(diagram_to_dict(diagram)))

    def __enter__(self) -> FreshSide:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def start_s(self, pieces: list[Piece], results: int) -> float:
        """Starts the process, again if it was killed, and hands over rows as soon as it can take them. Seconds from the
        command until each output has so many results."""
        began = time.monotonic()
        self._start(pieces)
        self.wait(results)
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL for it and all that it started. What it has on disk stays."""
        process, self._process = self._process, None
        if process is not None:
            kill_tree(process.pid)
            process.communicate()  # waits for it, and closes our end of the pipe

    def wait(self, results: int) -> None:
        """Until each output has so many."""
        outputs = {output.name for output in self.diagram.outputs}
        self._wait_until(lambda: all(self._results().get(name, 0) >= results for name in outputs))

    def measure(self, workload: Workload, backlog_rows: int) -> Fresh:
        """Start and memory on the window sum."""
        start_s = self.start_s([("events", first_rows(FIRST))], FIRST - 1)
        rows = Rows(workload)
        with Peaks(self._running().pid) as peaks:
            self._backlog(rows.backlog(backlog_rows))
            fed = time.monotonic()
            self.wait(FIRST + rows.results())
            drained = time.monotonic()
        return Fresh(start_s=start_s, backlog_rows=backlog_rows, drain_s=drained - fed, peak_bytes=peaks.bytes)

    @abstractmethod
    def feed(self, pieces: list[Piece]) -> None:
        """Hands over rows while it runs."""

    @abstractmethod
    def _start(self, pieces: list[Piece]) -> None:
        """Starts the process and gives it the rows as soon as it can take them."""

    @abstractmethod
    def _backlog(self, pieces: list[Piece]) -> None:
        """Returns when all rows wait, and work on them begins."""

    @abstractmethod
    def _results(self) -> Mapping[str, int]:
        """How many there are, by output."""

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _spawn(self, *arguments: str) -> None:
        self._process = start_python(self.directory, *arguments)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            self._check()
            if self._running().poll() is not None or time.monotonic() > deadline:
                raise EngineError(f"A benchmark process exited or hangs: {said_last(self.directory)}")
            time.sleep(LOOK_S)


class FreshNode(FreshSide):
    """``anabranch run``."""

    name = "anabranch"
    _connection: Connection | None = None
    _port = 0

    def feed(self, pieces: list[Piece]) -> None:
        for source, batch in pieces:
            self._check()
            self._producers[source].push(batch)

    def _start(self, pieces: list[Piece]) -> None:
        if not self._port:
            (self._port,) = free_ports(1)
        state = str(self.directory / "state")
        conf = [part for setting in self._conf for part in ("--conf", setting)]
        where = ("--state", state, "--port", str(self._port))
        self._spawn("anabranch.cli", "run", str(self._query), *where, "--for", LIFE, *conf)
        self._connection = connect(f"127.0.0.1:{self._port}")
        self._wait_until(lambda: self._streams() is not None)
        names = [source.name for source in self.diagram.sources]
        self._producers = {name: self._connection.producer(name, "bench") for name in names}
        self.feed(pieces)

    def _backlog(self, pieces: list[Piece]) -> None:
        jvm = jvm_of(self._running().pid)
        assert jvm is not None
        os.kill(jvm, signal.SIGSTOP)
        try:
            self.feed(pieces)
        finally:
            with suppress(ProcessLookupError):
                os.kill(jvm, signal.SIGCONT)

    def _results(self) -> Mapping[str, int]:
        return {info.name: info.last_id for info in self._streams() or ()}

    def _streams(self) -> list[StreamInfo] | None:
        """Asked for many times a second, while two cores start a JVM: a whole status would be felt."""
        assert self._connection is not None
        try:
            return self._connection.streams()
        except NodeUnreachable:
            return None

    def kill(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        super().kill()


class FreshPlain(FreshSide):
    """Plain Spark, in a process of ours."""

    name = "plain Spark"
    _files = 0

    def feed(self, pieces: list[Piece]) -> None:
        staged = [self._write(source, batch) for source, batch in pieces]
        self._check()
        for file, place in staged:
            file.rename(place)

    def _start(self, pieces: list[Piece]) -> None:
        for folder in ("staging", *(source.name for source in self.diagram.sources)):
            (self.directory / folder).mkdir(exist_ok=True)
        self.feed(pieces)
        self._spawn("anabranch.bench.plain_process", str(self.directory), *self._conf)

    def _backlog(self, pieces: list[Piece]) -> None:
        self.feed(pieces)

    def _results(self) -> Mapping[str, int]:
        """The last whole line of each output says it. What an earlier process said is gone."""
        whole = (self.directory / "results").read_text().rpartition("\n")[0]
        return {name: count for line in whole.splitlines() for name, count in json.loads(line).items()}

    def _write(self, source: str, batch: pa.RecordBatch) -> tuple[Path, Path]:
        self._files += 1
        name = f"{self._files:06d}.parquet"
        staged = self.directory / "staging" / name
        pq.write_table(pa.Table.from_batches([batch]), staged)
        os.utime(staged, (self._files, self._files))
        return staged, self.directory / source / name
