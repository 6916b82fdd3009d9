"""State directories that are damaged, foreign, of another query, in use, or on a full disk.

Where Spark is not needed it is not started: a node opens its state before it starts Spark, so a Spark that never comes
gives a real state directory with rows in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.model.times import CLOSED_US
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.chaos.checkers import Row, ids_contiguous, nothing_twice, rows_of, same_rows
from tests.chaos.clients import read_stream
from tests.chaos.processes import ROOT
from tests.spark import running
from tests.waiting import HANG_S, wait_for

MEBIBYTE = 1 << 20
QUERY = "queries/counts/replicas/both"


class NoSpark(Exception):
    """Raised instead of starting Spark."""


def query(threshold: int = 10, window: str = "10s") -> ab.Query:
    q = ab.Query("counts")
    values = q.source("values", "n bigint, at timestamp", time="at")
    others = q.source("others", "n bigint, at timestamp", time="at")
    large = q.union(values, others, name="both").filter(f"n > {threshold}", name="large")
    q.output("large", large)
    q.output("per_window", large.aggregate("count(*) AS rows", window=window, name="per_window"))
    return q


@pytest.fixture
def start_without_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Starts a node, lets ``meanwhile`` use it, and stops it when it would start Spark."""

    def start(state: Path, built: ab.Query, meanwhile: Callable[[str], None] = lambda _: None) -> None:
        node = ab.Node(built, state)

        def open_session(*_: object) -> None:
            meanwhile(node.address)
            raise NoSpark

        monkeypatch.setattr("anabranch.engine.session.open_session", open_session)
        with pytest.raises(NoSpark):
            node.start()

    return start


def push_some(address: str) -> None:
    with ab.connect(address) as connection:
        for source in ("values", "others"):
            connection.push(source, [{"n": n, "at": 1_000_000 * (n + 1)} for n in range(2_000)])


@pytest.fixture
def state(tmp_path: Path, start_without_spark: Callable[..., None]) -> Path:
    """The directory of a node that took rows and was stopped."""
    path = tmp_path / "state"
    start_without_spark(path, query(), push_some)
    return path


def contents(directory: Path) -> dict[str, str]:
    """Every file and directory with a hash of its bytes. The lock is left out: taking it is how one may look."""
    found = sorted(path for path in directory.rglob("*") if path.name != "lock")
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "directory"
        for path in found
    }


def refused(directory: Path, built: ab.Query | None = None) -> ab.StateError:
    """A start must be refused and leave every byte as it was."""
    before = contents(directory)
    with pytest.raises(ab.StateError) as told:
        ab.Node(built or query(), directory).start()
    assert contents(directory) == before
    assert str(directory) in told.value.message
    assert told.value.remedy
    return told.value


# --- damaged -------------------------------------------------------------------------------------------------------


def test_an_undamaged_directory_goes_on(state: Path, start_without_spark: Callable[..., None]) -> None:
    seen: list[int] = []

    def look(address: str) -> None:
        with ab.connect(address) as connection:
            seen.extend(info.last_id for info in connection.streams() if info.kind == "source")

    start_without_spark(state, query(), look)
    assert seen == [2_000, 2_000]


@pytest.mark.parametrize("text", ["", "{", '{"format": 4, "query": {"na', "[]", "null", '{"format": 4}'])
def test_a_damaged_marker_is_refused(state: Path, text: str) -> None:
    (state / QUERY / "query.json").write_text(text)
    assert "query.json is damaged" in refused(state).message


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}"])
def test_a_damaged_marker_of_the_host_is_refused(state: Path, text: str) -> None:
    (state / "host.json").write_text(text)
    assert "host.json is damaged" in refused(state).message


@pytest.mark.parametrize("marker", ["host.json", f"{QUERY}/query.json"])
def test_another_format_is_refused(state: Path, marker: str) -> None:
    (state / marker).write_text('{"format": 99}')
    assert "format 99" in refused(state).message


def test_a_directory_of_the_time_when_it_held_one_query_is_refused(tmp_path: Path) -> None:
    for name in ("sources", "inlets", "stages", "checkpoints"):
        (tmp_path / name).mkdir()
    (tmp_path / "node.json").write_text('{"format": 2, "query": {}, "part": {}, "life": "a"}')
    told = refused(tmp_path)
    assert "was written in format 2, this version reads 4" in told.message
    assert "the version of Anabranch that wrote it, or start with an empty directory" in told.remedy


@pytest.mark.parametrize("name", ["sources/values.db", "sources/others.db", "stages/per_window.db"])
@pytest.mark.parametrize("part", [0.0, 0.001, 0.6, 0.99])
def test_a_file_that_was_cut_off_is_refused(state: Path, name: str, part: float) -> None:
    whole = (state / QUERY / name).read_bytes()
    (state / QUERY / name).write_bytes(whole[: int(len(whole) * part)])
    assert name in refused(state).message


def test_a_file_of_something_else_is_refused(state: Path) -> None:
    (state / QUERY / "sources/others.db").write_bytes(b"not a database at all" * 1_000)
    assert "not a state file of Anabranch" in refused(state).message


def test_rows_without_their_marker_are_refused(state: Path) -> None:
    (state / "host.json").unlink()
    assert "no host.json" in refused(state).message


# --- foreign, changed, in use --------------------------------------------------------------------------------------


def test_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "letter.txt").write_text("dear")
    told = refused(tmp_path)
    assert "letter.txt" in told.message
    assert "not a state directory" in told.message


def test_a_file_instead_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("mine")
    with pytest.raises(ab.StateError, match="not a directory"):
        ab.Node(query(), tmp_path / "state")
    assert (tmp_path / "state").read_text() == "mine"


def test_an_empty_directory_is_taken(tmp_path: Path, start_without_spark: Callable[..., None]) -> None:
    start_without_spark(tmp_path, query(), push_some)
    assert (tmp_path / "host.json").exists()
    assert (tmp_path / QUERY / "query.json").exists()


@pytest.mark.parametrize(
    ("changed", "names"), [(query(threshold=11), ["n > 10", "n > 11"]), (query(window="20s"), ["window", "10s", "20s"])]
)
def test_a_changed_query_is_refused_with_what_changed(state: Path, changed: ab.Query, names: list[str]) -> None:
    told = refused(state, changed)
    assert "another query" in told.message
    for name in names:
        assert name in told.message


def test_an_added_output_is_a_changed_query(state: Path) -> None:
    changed = query()
    changed.output(
        "more", changed.union(*[changed.source("values", "n bigint, at timestamp", time="at")] * 1, name="x")
    )
    assert "outputs" in refused(state, changed).message


def test_a_second_node_is_refused_and_told_who_is_there(state: Path) -> None:
    holds = (
        "import sys, anabranch as ab; n = ab.Node(ab.Query.from_yaml(sys.argv[1]), sys.argv[2]); print('up'); input()"
    )
    command = [sys.executable, "-u", "-c", holds, query().to_yaml(), str(state)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "up\n"
            assert f"process {other.pid}" in refused(state).message
            other.kill()
            other.wait()
        finally:
            other.kill()
    again = ab.Node(query(), state)  # what a killed process held is free
    again.stop()


def test_a_refused_node_does_not_keep_the_directory(state: Path, start_without_spark: Callable[..., None]) -> None:
    refused(state, query(threshold=11))
    start_without_spark(state, query())


# --- a full disk ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Disk:
    """A place with little room. ``own``: it is a file system of its own, which may be filled to the brim."""

    path: Path
    reserve_bytes: int
    own: bool

    def fill(self, name: str, size: int) -> Path:
        """A file of this size, or of all that is left."""
        ballast = self.path / name
        with ballast.open("wb") as file, suppress(OSError):
            for _ in range(size // MEBIBYTE):
                file.write(os.urandom(MEBIBYTE))
        return ballast


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small tmpfs where we may mount one; elsewhere the reserve is set so that little of the disk is left to use."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256m", "anabranch-test", str(tmp_path)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        yield Disk(tmp_path, shutil.disk_usage(tmp_path).free - 60 * MEBIBYTE, own=False)
        return
    try:
        yield Disk(tmp_path, 24 * MEBIBYTE, own=True)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def padded() -> ab.Query:
    q = ab.Query("padded")
    blobs = q.source("blobs", "n bigint, padding string, at timestamp", time="at")
    q.output("even", blobs.filter("n % 2 = 0", name="even").map("n", name="number"))
    q.output("totals", blobs.aggregate("count(*) AS rows, sum(n) AS total", window="10s", name="totals"))
    return q


def blob(number: int) -> dict[str, object]:
    return {"n": number, "padding": f"{number:010}" * 1_000, "at": (number + 1) * 100_000}


class Writer:
    """A producer of ten-kilobyte rows that counts those it has been told are durable."""

    def __init__(self, producer: ab.Producer) -> None:
        self._producer = producer
        self.accepted = 0

    def push(self, rows: int = 500) -> None:
        self._producer.push([blob(number) for number in range(self.accepted, self.accepted + rows)])
        self.accepted += rows

    def push_until_refused(self, most: int = 80) -> ab.DiskFull:
        for _ in range(most):
            try:
                self.push()
            except ab.DiskFull as error:
                return error
        raise AssertionError(f"{self.accepted} rows were taken and the disk did not become full")

    def is_taken(self) -> bool:
        try:
            self.push()
        except ab.DiskFull:
            return False
        return True


@pytest.mark.spark
def test_a_full_disk_stops_intake_and_loses_nothing(disk: Disk) -> None:
    ballast = [disk.fill("ballast", 195 * MEBIBYTE)]
    settings = {"disk_reserve_bytes": disk.reserve_bytes, "batch_rows": 200}  # Spark reads slower than is pushed
    with running(padded(), disk.path / "state", **settings) as node, ab.connect(node.address) as connection:
        writer = Writer(connection.producer("blobs", "writer"))
        told = writer.push_until_refused()
        assert "Intake has stopped" in told.message
        assert "Free space" in told.remedy
        assert "Intake has stopped" in node.host.statistics().intake
        if disk.own:
            ballast.append(disk.fill("more ballast", 256 * MEBIBYTE))
            wait_for(lambda: any(stage.error for stage in node.statistics().stages.values()))
            with pytest.raises(ab.DiskFull):
                writer.push()
            time.sleep(2)  # it tries again, and the disk is still full
            assert node.statistics().state == "running"
        for file in ballast:
            file.unlink()
        wait_for(writer.is_taken, lambda: "there is room and intake has not gone on")
        writer.push()
        connection.client.close_lane("blobs")
        assert node.wait_caught_up(HANG_S), node.failure() or node.statistics().stages
        assert node.host.statistics().intake == "open"
        found = {stream: rows_of(read_stream(node.address, stream)) for stream in ("even", "totals")}
    for stream, rows in expected(writer.accepted).items():
        assert same_rows(rows, found[stream]) == []
        assert nothing_twice(found[stream]) == ids_contiguous(found[stream]) == []


def expected(rows: int) -> dict[str, list[Row]]:
    run = ReferenceRun(padded().checked())
    tuples = []
    for number in range(rows):
        values = blob(number)
        tuples.append(Tuple(origin="blobs/0", stime=(number + 1) * 100_000, tid=number + 1, values=values))
    run.feed("blobs", tuples, {"blobs/0": CLOSED_US})
    return {stream: [Row.of(each) for each in run.results()[stream]] for stream in ("even", "totals")}
