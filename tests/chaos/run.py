"""One chaos run: push lanes into a node, kill it as planned, let it finish.

Of each lane some entries are sent while the node still starts. When all stages run they go on in steps, until the node
is where it is to be killed: there is always something under way to be killed in, however slow it is. What was pushed in
the end is the recording of this run.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

from anabranch import failpoints
from anabranch.bench.processes import free_ports
from anabranch.model.times import from_datetime
from tests.chaos.checkers import Entry, Identity, rows_of
from tests.chaos.clients import Follower, Pusher, read_stream, recorded, running
from tests.chaos.comparing import Table
from tests.chaos.processes import NodeProcess, all_written
from tests.chaos.queries import FOLLOWED, TABLES
from tests.chaos.recording import Recording

PACE_S = 0.25
"""Between two entries of a lane."""

EARLY = 5
"""Entries of each lane that are sent without waiting for Spark: they are backlog when the stages start."""

AFTERMATH = 5
"""Entries of each lane after the last start."""

MANY = 40
"""Entries that a kill may wait for, of all lanes: some are stopped in while Spark starts, some later."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Where: at a failpoint, the ``count``-th time; or ``after`` so many entries, once the node serves or its stages
    run."""

    failpoint: str | None = None
    count: int = 1
    while_starting: bool = False
    after: int = 0

    def __str__(self) -> str:
        if self.failpoint is not None:
            return f"{self.failpoint}:{self.count}"
        return f"{self.after} entries after it {'serves' if self.while_starting else 'runs'}"


def read_table(database: Path, name: str) -> dict[str, Identity]:
    """The tuple of each key, from a table that a writer keeps in SQLite, where times are texts in UTC."""
    with closing(sqlite3.connect(database)) as opened:
        rows = opened.execute(f"SELECT {TABLES[name][0]}, _origin, _stime, _tid FROM {name}").fetchall()
    return {
        key: (origin, from_datetime(datetime.fromisoformat(f"{time}+00:00")), tid) for key, origin, time, tid in rows
    }


@dataclass(slots=True)
class Outcome:
    """What came out, and what it took."""

    streams: dict[str, list[Entry]] = field(default_factory=dict)
    followed: list[Entry] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    back_s: list[float] = field(default_factory=list)
    repeated: int = 0
    restarts: int = 0
    killed: int = 0
    seconds: float = 0.0

    @property
    def figures(self) -> str:
        rows = sum(len(rows_of(entries)) for entries in self.streams.values())
        text = f"{self.seconds:.0f} s, {rows} rows in {len(self.streams)} streams"
        if self.back_s:
            text += (
                f"; all stages ran again after {median(self.back_s):.1f} s (median), {max(self.back_s):.1f} s at most; "
                f"{self.killed} processes killed, {self.repeated} rows known again, {self.restarts} producer restarts"
            )
        return text


def plan_kills(seed: int, kills: int) -> list[Kill]:
    """More than half of the kills at failpoints, every one of them at least once; the others at random moments."""
    rng = random.Random(f"{seed}/kills")
    named = max(len(failpoints.NAMES), (kills * 3 + 4) // 5) if kills >= len(failpoints.NAMES) else kills
    names = [failpoints.NAMES[number % len(failpoints.NAMES)] for number in range(named)]
    most = {name: MANY if name in ("push.before_commit", "push.committed") else 4 for name in failpoints.NAMES}
    planned = [Kill(failpoint=name, count=rng.randint(1, most[name])) for name in names]
    starting = [rng.random() < 0.3 for _ in range(kills - named)]
    planned += [Kill(while_starting=each, after=rng.randint(0, EARLY if each else MANY)) for each in starting]
    rng.shuffle(planned)
    return planned


class ChaosRun:
    """A recording through one node: one without end if it is killed; without kills it is the undisturbed run."""

    def __init__(
        self,
        recording: Recording,
        directory: Path,
        kills: Sequence[Kill] = (),
        report: Report = print,
        options: Sequence[str] = (),
    ) -> None:
        self._recording = recording
        self.directory = directory
        self.state = directory / "state"
        self.log = directory / "node.log"
        self._kills = kills
        self._report = report
        self._options = options
        (self._port,) = free_ports(1)
        self._address = f"127.0.0.1:{self._port}"
        directory.mkdir(parents=True, exist_ok=True)
        self._query = directory / "query.yaml"
        recording.write_query(self._query)
        self._pushers = [
            Pusher(self._address, lane, restarts=bool(number % 2)) for number, lane in enumerate(recording.lanes)
        ]
        self._follower = Follower(self._address, FOLLOWED)
        self._outcome = Outcome()
        self._database = directory / "tables.db"
        self._tables = [each.name for each in recording.diagram.outputs if each.name in TABLES]

    @property
    def recording(self) -> Recording:
        """What was pushed."""
        return recorded(self._recording, self._pushers)

    def run(self) -> Outcome:
        started = time.monotonic()
        with running([*self._pushers, self._follower]):
            for number, kill in enumerate(self._kills):
                self._killed_start(number, kill)
            self._last_start()
        self._outcome.seconds = time.monotonic() - started
        self._outcome.repeated = sum(pusher.repeated for pusher in self._pushers)
        self._outcome.restarts = sum(pusher.restarts for pusher in self._pushers)
        return self._outcome

    # --- starts ----------------------------------------------------------------------------------------------------

    def _killed_start(self, number: int, kill: Kill) -> None:
        with self._node(f"{kill.failpoint}:{kill.count}" if kill.failpoint else None) as node:
            self._allow_early()
            back = "killed before all stages ran"
            if kill.failpoint is None and kill.while_starting:
                node.wait_serving()
                self._wait_pushed(node, kill.after)
            elif ran := self._wait_running_or_stopped(node):
                self._outcome.back_s.append(ran)
                back = f"all stages ran after {ran:4.1f} s"
                for pusher in self._pushers:
                    pusher.allow(pace_s=PACE_S)
                if kill.failpoint is None:
                    self._wait_pushed(node, kill.after)
            if kill.failpoint is not None:
                node.wait_stopped()
            self._check_clients()
            processes = node.kill()
            self._outcome.killed += processes
            self._report(
                f"kill {number + 1:2}/{len(self._kills)}  at {kill!s:<32} {back:<32} {processes:2} processes  "
                f"{self._pushed_rows():6} rows in, {len(rows_of(self._follower.entries)):6} rows of {FOLLOWED} followed"
            )

    def _last_start(self) -> None:
        with self._node(None) as node:
            self._allow_early()
            ran = node.wait_running()
            for pusher in self._pushers:
                pusher.allow()
            if self._kills:
                self._outcome.back_s.append(ran)
                self._wait_pushed(node, AFTERMATH * len(self._pushers))
                for pusher in self._pushers:
                    pusher.finish()
            node.wait(lambda: all(pusher.join(0) for pusher in self._pushers), "has taken all lanes")
            self._check_clients()
            node.wait_caught_up()
            node.wait(lambda: all_written(node.status()), "writes all")
            self._outcome.tables = {name: read_table(self._database, name) for name in self._tables}
            read = [name for name in self._recording.streams if name not in TABLES]
            self._outcome.streams = {name: read_stream(self._address, name) for name in read}
            self._follower.wait_rows(len(rows_of(self._outcome.streams[FOLLOWED])))
            self._outcome.followed = list(self._follower.entries)
            self._report(f"finished    {self._pushed_rows()} rows in; all stages ran after {ran:.1f} s")

    @contextmanager
    def _node(self, failpoint: str | None) -> Iterator[NodeProcess]:
        place = f"table:sqlite:{self._database}"
        writers = [f"--output={name}={place},table={name},key={TABLES[name][0]}" for name in self._tables]
        options = [*writers, *self._options]
        node = NodeProcess(self._query, self.state, self._port, self.log, failpoint=failpoint, options=options)
        try:
            yield node
        finally:
            node.kill()

    def _wait_running_or_stopped(self, node: NodeProcess) -> float | None:
        """Seconds until all stages run, or None if the node reached its failpoint before that."""

        def ready() -> bool:
            return node.stopped() or self._is_running(node)

        node.wait(ready, "runs all stages")
        return None if node.stopped() else time.monotonic() - node.started

    @staticmethod
    def _is_running(node: NodeProcess) -> bool:
        """Asked without Flight: a node that has stopped itself would not answer."""
        return b"address: " in node.log.read_bytes().rpartition(b"\n--- ")[2]

    # --- clients ---------------------------------------------------------------------------------------------------

    def _allow_early(self) -> None:
        for pusher in self._pushers:
            pusher.allow(len(pusher.pushed) + EARLY)

    def _wait_pushed(self, node: NodeProcess, entries: int) -> None:
        """So many more, of all lanes."""
        goal = self._pushed() + entries

        def reached() -> bool:
            self._check_clients()
            return self._pushed() >= goal

        node.wait(reached, f"has taken {entries} entries")

    def _pushed(self) -> int:
        return sum(len(pusher.pushed) for pusher in self._pushers)

    def _check_clients(self) -> None:
        for client in (*self._pushers, self._follower):
            client.check()

    def _pushed_rows(self) -> int:
        return self.recording.rows
