"""A power failure at any moment: what was synced is there, what Spark wrote after that may be torn or gone.

The disk is simulated: whenever the engine syncs a checkpoint, its files are copied aside. An image of the state
directory as a power failure would leave it is the databases, as SQLite would recover them, with the checkpoints as they
were at their last sync, and of everything newer a part, nothing, or an empty file. A node must go on from each image.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

import anabranch as ab
from anabranch.engine import checkpoint
from anabranch.model.times import CLOSED_US
from anabranch.node.node import Node
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.chaos.checkers import Row, ids_contiguous, nothing_twice, rows_of, same_rows
from tests.chaos.clients import read_stream
from tests.recording import HOUR_US
from tests.spark import INTERPRETED, running
from tests.waiting import HANG_S, wait_for

STAGES = ("numbers", "totals", "pairs")
BATCHES = 14
ROWS = 60
QUERY = "queries/power/replicas/numbers"

pytestmark = pytest.mark.spark


def query() -> ab.Query:
    q = ab.Query("power")
    numbers = q.source("numbers", "n bigint, at timestamp", time="at")
    doubled = numbers.map("n, n * 2 AS double", name="doubled")
    q.output("all", doubled)
    q.output("sums", doubled.aggregate("count(*) AS rows, sum(double) AS total", window="5s", name="totals"))
    thirds = numbers.filter("n % 3 = 0", name="thirds").map("n AS third", name="named")
    q.output("pairs", doubled.join(thirds, on="n = third - 1", within="1s", name="pairs"))
    return q


def row(number: int) -> dict[str, object]:
    return {"n": number, "at": (number + 1) * 100_000}


def push_all(node: Node, pause_s: float) -> None:
    """Everything from the beginning, as a producer that forgot all: what the node has, it knows."""
    with ab.connect(node.address) as connection:
        producer = connection.producer("numbers", "power")
        for start in range(producer.next - 1, BATCHES * ROWS, ROWS):
            producer.push([row(number) for number in range(start, start + ROWS)])
            time.sleep(pause_s)
        if producer.next == BATCHES * ROWS + 1:  # a lane whose CLOSE was on disk is closed for ever
            producer.close_lane()


class Disk:
    """What a power failure would leave of the state directory."""

    def __init__(self, state: Path, aside: Path) -> None:
        self._state = state
        self._query = state / QUERY
        self._synced = aside / "synced"
        self._aside = aside
        self._lock = threading.Lock()
        self.syncs = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        real = checkpoint.make_durable

        def make_durable(directory: Path) -> None:
            with self._lock:
                real(directory)
                copy = self._synced / directory.name
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(directory, copy, ignore_dangling_symlinks=True)
                self.syncs += 1

        with patch.object(checkpoint, "make_durable", make_durable):
            yield

    def image(self, name: str, random: Random) -> Path:
        """All of one moment: no sync ends meanwhile, a commit that is seen is logged, a log's journal is not behind."""
        image = self._aside / name
        with self._lock:
            self._tear(image / QUERY / "checkpoints", random)
            for database in [*(f"stages/{stage}.db" for stage in STAGES), "sources/numbers.db"]:
                target = image / QUERY / database
                target.parent.mkdir(parents=True, exist_ok=True)
                with closing(sqlite3.connect(self._query / database)) as live, closing(sqlite3.connect(target)) as copy:
                    live.backup(copy)
        shutil.copy(self._query / "query.json", image / QUERY)
        shutil.copy(self._state / "host.json", image)
        return image

    def _tear(self, target: Path, random: Random) -> None:
        """The synced files whole; each newer one whole, in part, empty, or not there."""
        if self._synced.exists():
            shutil.copytree(self._synced, target)
        live = self._query / "checkpoints"
        for path in sorted(live.rglob("*")):
            copy = target / path.relative_to(live)
            if copy.exists() or not path.is_file() or random.random() < 0.25:
                continue
            try:
                whole = path.read_bytes()
            except FileNotFoundError:  # Spark has given it its name, or removed it
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(whole[: random.choice([0, 0, len(whole) // 2, len(whole)])])


@pytest.mark.parametrize("images", [1, pytest.param(20, marks=pytest.mark.long)])
def test_a_node_goes_on_after_a_power_failure(tmp_path: Path, images: int) -> None:
    seed = Random().getrandbits(32)
    print(f"seed {seed}")  # shown if the test fails
    random = Random(seed)
    disk = Disk(tmp_path / "state", tmp_path)
    taken: list[Path] = []
    with disk.watching(), running(query(), tmp_path / "state", boundary_interval_us=HOUR_US, conf=INTERPRETED) as node:
        pushing = threading.Thread(target=push_all, args=(node, 0.1 * images))
        pushing.start()
        for number in range(images):
            reached = disk.syncs + random.randint(0, 6)
            wait_for(lambda reached=reached: disk.syncs >= reached or not pushing.is_alive())  # type: ignore[misc]
            taken.append(disk.image(f"image-{number}", random))
        pushing.join()
    for image in taken:
        with running(query(), image, boundary_interval_us=HOUR_US, conf=INTERPRETED) as node:
            push_all(node, 0)
            assert node.wait_caught_up(HANG_S), node.failure() or node.statistics().stages
            for stream, rows in expected().items():
                found = rows_of(read_stream(node.address, stream))
                assert same_rows(rows, found) == []
                assert nothing_twice(found) == ids_contiguous(found) == []


def expected() -> dict[str, list[Row]]:
    run = ReferenceRun(query().checked())
    tuples = [
        Tuple(origin="numbers/0", stime=(number + 1) * 100_000, tid=number + 1, values=row(number))
        for number in range(BATCHES * ROWS)
    ]
    run.feed("numbers", tuples, {"numbers/0": CLOSED_US})
    return {stream: [Row.of(each) for each in run.results()[stream]] for stream in ("all", "sums", "pairs")}
