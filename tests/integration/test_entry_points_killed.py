"""Three entry points as processes, one after the other killed with SIGKILL while a producer pushes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.errors import AnabranchError
from anabranch.runtime.status import FeedStatus
from anabranch.transport.client import Client
from anabranch.transport.ports import ReadRequest
from tests.chaos.processes import ROOT
from tests.waiting import wait_for

NAMES = "abc"
KILLS = 3


class Processes:
    """``owned`` says that their lane is one of plain clients, not of a named producer; ``fed`` are those that have a
    feed of the source."""

    def __init__(self, directory: Path, *, owned: bool = False, fed: str = "") -> None:
        self._directory = directory
        self._fed = [f"fed={fed}"] if fed else []
        self._producers = "" if owned else "p"
        self._origin = "events/0" if owned else "events/p"
        self._ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def addresses(self) -> dict[str, str]:
        return {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}

    def start(self, name: str) -> None:
        ports = [f"{each}={port}" for each, port in self._ports.items()]
        command = [sys.executable, "-m", "tests.integration.entry_point_process"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        self._running[name] = subprocess.Popen(
            [*command, str(self._directory / name), name, self._producers, *ports, *self._fed],
            stdin=subprocess.PIPE,
            env=environment,
            cwd=ROOT,
        )

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.communicate()

    def feed(self, name: str) -> FeedStatus | None:
        """How its copy of the feed is; None while it does not answer."""
        with suppress(AnabranchError), Client(self.addresses[name], timeout_s=10) as client:
            return client.status().only_query.feeds.get("events")
        return None

    def have_begun(self) -> bool:
        """Whether all have heard of each other: before that, none can be spared."""
        with suppress(AnabranchError):
            for address in self.addresses.values():
                with Client(address) as client:
                    queries = client.status().queries
                (sources,) = (query.sources for query in queries.values())
                if "events" not in sources:  # it answers before its query has been opened
                    return False
                if sources["events"].lanes[self._origin].shared.state == "beginning":
                    return False
            return True
        return False

    def count(self, name: str) -> int:
        """Rows that readers of this one can see; none while it is not there. To read them all takes much longer."""
        with suppress(AnabranchError), Client(self.addresses[name]) as client:
            streams = client.status().only_query.streams
            return streams["events"].last_id if "events" in streams else 0  # it may have just begun to listen
        return 0

    def shown(self, name: str) -> list[tuple[int, int, int]]:
        """Number, time and value of all rows that readers of this one see; nothing while it is not there."""
        found: list[tuple[int, int, int]] = []
        with suppress(AnabranchError), Client(self.addresses[name]) as client:
            for batch in client.read(ReadRequest(stream="events")):
                columns = batch.to_pydict()
                rows = zip(columns["_kind"], columns["_tid"], columns["_stime"], columns["x"], strict=True)
                found += [(tid, round(stime.timestamp() * 1e6), x) for kind, tid, stime, x in rows if kind == 0]
        return sorted(found)


@contextmanager
def processes(directory: Path, *, owned: bool = False, fed: str = "") -> Iterator[Processes]:
    made = Processes(directory, owned=owned, fed=fed)
    try:
        for name in NAMES:
            made.start(name)
        wait_for(made.have_begun)
        yield made
    finally:
        for name in list(made._running):
            made.kill(name)


def test_killed_one_after_the_other_they_lose_and_repeat_nothing(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    pushed: list[int] = []
    enough = threading.Event()
    failures: list[Exception] = []

    def produce(addresses: list[str]) -> None:
        try:
            with ab.connect(addresses) as connection:
                producer = connection.producer("events", "p", deadline_s=120)
                while not enough.is_set():
                    producer.push([{"x": len(pushed)}])
                    pushed.append(len(pushed))
        except Exception as error:
            failures.append(error)

    with processes(tmp_path) as running:
        thread = threading.Thread(target=produce, args=(list(running.addresses.values()),))
        thread.start()
        try:
            for _ in range(KILLS):
                reached = len(pushed) + chance.randrange(5, 25)
                wait_for(lambda reached=reached: len(pushed) > reached or failures, lambda: f"seed {seed}: {failures}")
                name = chance.choice(NAMES)
                running.kill(name)
                reached = len(pushed) + chance.randrange(1, 10)
                wait_for(lambda reached=reached: len(pushed) > reached or failures, lambda: f"seed {seed}: {failures}")
                running.start(name)
        finally:
            enough.set()
            thread.join()
        assert not failures, f"seed {seed}"
        wait_for(lambda: all(running.count(name) >= len(pushed) for name in NAMES), lambda: f"seed {seed}")
        shown = {name: running.shown(name) for name in NAMES}
    assert [x for _, _, x in shown["a"]] == pushed, f"seed {seed}"
    assert shown["a"] == shown["b"] == shown["c"], f"seed {seed}"


def test_a_feed_goes_on_at_another_node_when_its_own_is_killed_and_loses_and_repeats_nothing(tmp_path: Path) -> None:
    def state(name: str) -> str | None:
        feed = running.feed(name)
        return None if feed is None else feed.state

    def grows(name: str) -> None:
        reached = running.count(name) + 100
        wait_for(lambda: running.count(name) > reached, lambda: {each: running.feed(each) for each in NAMES})

    with processes(tmp_path, fed="ab") as running:
        wait_for(lambda: (state("a"), state("b"), state("c")) == ("running", "standby", None))
        grows("c")
        running.kill("a")
        wait_for(lambda: state("b") == "running")
        grows("c")
        running.start("a")
        wait_for(lambda: state("a") == "standby")  # nobody goes back home by itself
        grows("a")
        running.kill("b")
        wait_for(lambda: state("a") == "running")
        grows("c")
        shown = running.shown("c")
    assert [x for _, _, x in shown] == list(range(len(shown)))
    assert [tid for tid, _, _ in shown] == list(range(1, len(shown) + 1))
