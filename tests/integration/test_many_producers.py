"""Twenty producers at once, over Flight, without Spark: whatever is killed, each row is there once, in the order of its
producer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.bench.entry_process import SOURCE
from anabranch.bench.processes import free_ports
from anabranch.errors import AnabranchError
from anabranch.transport.client import Client
from anabranch.transport.ports import ReadRequest
from tests.chaos.processes import ROOT
from tests.integration.entry_points import diagram, entry_points
from tests.waiting import wait_for

PRODUCERS = 20
ROWS = 1_000_000
"""More than one producer pushes: its number is that of a row, by this."""


class Producers:
    """Each pushes one row after the other, until it has pushed so many after ``enough``. ``said`` is what was
    answered."""

    def __init__(self, addresses: list[str], source: str, row: Callable[[int], dict[str, object]]) -> None:
        self.said: dict[int, list[int]] = {number: [] for number in range(PRODUCERS)}
        self.failures: list[Exception] = []
        self._addresses = addresses
        self._source = source
        self._row = row
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in self.said]

    @property
    def count(self) -> int:
        return sum(map(len, self.said.values()))

    def wait_more(self, rows: int) -> None:
        reached = self.count + rows
        wait_for(lambda: self.count > reached or bool(self.failures), lambda: str(self.failures))

    @contextmanager
    def pushing(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._enough.set()
            for thread in self._threads:
                thread.join()
        assert not self.failures, self.failures

    def _run(self, number: int) -> None:
        try:
            with ab.connect(self._addresses if len(self._addresses) > 1 else self._addresses[0]) as connection:
                producer = connection.producer(self._source, f"p{number}", deadline_s=120)
                while not self._enough.is_set():
                    value = number * ROWS + len(self.said[number])
                    producer.push([self._row(value)])
                    self.said[number].append(value)
        except Exception as error:
            self.failures.append(error)


def by_producer(values: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {number: [] for number in range(PRODUCERS)}
    for value in values:
        found[value // ROWS].append(value)
    return found


class Process:
    """One entry point alone. ``failpoint`` is where it stops itself, to be killed there."""

    def __init__(self, directory: Path) -> None:
        (self._port,) = free_ports(1)
        self._directory = directory
        self._running: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self, failpoint: str = "") -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "ANABRANCH_FAILPOINT": failpoint}
        command = [sys.executable, "-m", "anabranch.bench.entry_process", str(self._directory), "a", f"a={self._port}"]
        self._running = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, cwd=ROOT)
        wait_for(self._answers)

    def wait_stopped(self) -> None:
        assert self._running is not None
        stat = Path(f"/proc/{self._running.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.communicate()
            self._running = None

    def values(self) -> list[int]:
        with Client(self.address) as client:
            batches = list(client.read(ReadRequest(stream=SOURCE)))
        columns = [batch.to_pydict() for batch in batches]
        rows = [row for each in columns for row in zip(each["_kind"], each["_tid"], each["n"], strict=True)]
        kept = sorted((number, value) for kind, number, value in rows if kind == 0)
        assert len({number for number, _ in kept}) == len(kept)  # boundaries have the other numbers
        return [value for _, value in kept]

    def _answers(self) -> bool:
        with suppress(AnabranchError), Client(self.address) as client:
            return bool(client.status().only_query.sources)
        return False


@pytest.mark.parametrize("place", ["push.before_commit", "push.committed"])
def test_an_entry_point_is_killed_in_the_middle_of_a_group(tmp_path: Path, place: str) -> None:
    process = Process(tmp_path / "state")
    producers = Producers([process.address], SOURCE, lambda value: {"n": value, "text": "x"})
    try:
        process.start(f"{place}:{random.randrange(100, 300)}")
        with producers.pushing():
            process.wait_stopped()
            process.kill()
            process.start()
            producers.wait_more(3 * PRODUCERS)
        assert by_producer(process.values()) == producers.said
    finally:
        process.kill()


def test_entry_points_that_share_a_lane_stop_one_after_the_other(tmp_path: Path) -> None:
    with entry_points(tmp_path, query=diagram(producers=())) as points:
        points.start()
        producers = Producers(points.addresses(), "events", lambda value: {"x": value})
        with producers.pushing():
            for _ in range(2):
                producers.wait_more(3 * PRODUCERS)
                leader = points.leader("events/0")
                points.stop(leader)
                producers.wait_more(3 * PRODUCERS)
                points.start(leader)
        wait_for(lambda: len(points.values("a")) >= producers.count and points.agree())
        rows = sorted((number, value) for _, _, number, value in points.rows("a"))
        kept = points.lane("a", "events/0")
        assert kept.held < len(rows)  # some shared an entry
    assert by_producer([value for _, value in rows]) == producers.said
