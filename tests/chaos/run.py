"""One chaos run: feed a recording, kill the node as planned, let it finish, compare.

The entries of every lane are divided into one share per start of the node. The first part of a share is sent while the
node still starts, the rest in steps once all stages run, so that there is always something under way to be killed in.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from anabranch import failpoints
from anabranch.bench.processes import free_ports
from tests.chaos.checkers import Entry, rows_of
from tests.chaos.clients import Follower, Pusher, read_stream, running
from tests.chaos.five_boxes import FOLLOWED
from tests.chaos.processes import START_S, HarnessError, NodeProcess
from tests.chaos.recording import Recording

REACH_S = START_S
"""How long a node may take to reach its failpoint, its start included. One that is not reached fails the run."""

FINISH_S = 300.0
"""When a run that has only to finish counts as hung."""

PACE_S = 0.25
EARLY = 0.3
"""The part of a share that is sent without waiting for Spark: it is backlog when the stages start."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Where: at a failpoint, the ``count``-th time; or ``delay_s`` after the node serves or after its stages run."""

    failpoint: str | None = None
    count: int = 1
    while_starting: bool = False
    delay_s: float = 0.0

    def __str__(self) -> str:
        if self.failpoint is not None:
            return f"{self.failpoint}:{self.count}"
        return f"{self.delay_s:.1f} s after it {'serves' if self.while_starting else 'runs'}"


@dataclass(slots=True)
class Outcome:
    """What came out, and what it took."""

    streams: dict[str, list[Entry]] = field(default_factory=dict)
    followed: list[Entry] = field(default_factory=list)
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


def plan_kills(seed: int, kills: int, pushes: int) -> list[Kill]:
    """More than half of the kills at failpoints, every one of them at least once; the others at random moments.

    ``pushes`` is about how many there are between two kills: some are stopped in while Spark starts, some later.
    """
    rng = random.Random(f"{seed}/kills")
    named = max(len(failpoints.NAMES), (kills * 3 + 4) // 5) if kills >= len(failpoints.NAMES) else kills
    names = [failpoints.NAMES[number % len(failpoints.NAMES)] for number in range(named)]
    pushing = ("push.before_commit", "push.committed")
    most = {name: max(1, pushes * 3 // 4) if name in pushing else 4 for name in failpoints.NAMES}
    planned = [Kill(failpoint=name, count=rng.randint(1, most[name])) for name in names]
    planned += [Kill(while_starting=rng.random() < 0.3, delay_s=rng.uniform(0.0, 5.0)) for _ in range(kills - named)]
    rng.shuffle(planned)
    return planned


class ChaosRun:
    """One recording through one node, killed as planned; without kills it is the undisturbed run."""

    def __init__(
        self, recording: Recording, directory: Path, kills: Sequence[Kill] = (), report: Report = print
    ) -> None:
        self.recording = recording
        self.directory = directory
        self.state = directory / "state"
        self.log = directory / "node.log"
        self._kills = kills
        self._report = report
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
            self._allow(number, EARLY)
            back = "killed before all stages ran"
            if kill.failpoint is None and kill.while_starting:
                node.wait_serving()
                time.sleep(kill.delay_s)
            elif ran := self._wait_running_or_stopped(node):
                self._outcome.back_s.append(ran)
                back = f"all stages ran after {ran:4.1f} s"
                self._allow(number, 1.0, PACE_S)
                if kill.failpoint is None:
                    time.sleep(kill.delay_s)
            if kill.failpoint is not None:
                node.wait_stopped(REACH_S)
            self._check_clients()
            processes = node.kill()
            self._outcome.killed += processes
            self._report(
                f"kill {number + 1:2}/{len(self._kills)}  at {kill!s:<32} {back:<32} {processes:2} processes  "
                f"{self._sent_rows():6} rows in, {len(rows_of(self._follower.entries)):6} rows of {FOLLOWED} followed"
            )

    def _last_start(self) -> None:
        with self._node(None) as node:
            self._allow(len(self._kills), EARLY)
            ran = node.wait_running()
            if self._kills:
                self._outcome.back_s.append(ran)
            for pusher in self._pushers:
                pusher.allow(len(pusher.lane.entries) + 1, 0.0)
            for pusher in self._pushers:
                if not pusher.join(FINISH_S):
                    raise HarnessError(f"the {pusher.lane.origin} producer is stuck at entry {pusher.sent}")
            self._check_clients()
            node.wait_caught_up(FINISH_S)
            self._outcome.streams = {name: read_stream(self._address, name) for name in self.recording.streams}
            self._follower.wait_rows(len(rows_of(self._outcome.streams[FOLLOWED])), FINISH_S)
            self._outcome.followed = list(self._follower.entries)
            self._report(f"finished    {self._sent_rows()} rows in; all stages ran after {ran:.1f} s")

    @contextmanager
    def _node(self, failpoint: str | None) -> Iterator[NodeProcess]:
        node = NodeProcess(self._query, self.state, self._port, self.log, failpoint=failpoint)
        try:
            yield node
        finally:
            node.kill()

    def _wait_running_or_stopped(self, node: NodeProcess) -> float | None:
        """Seconds until all stages run, or None if the node reached its failpoint before that."""

        def ready() -> bool:
            return node.stopped() or (not node.stopped() and self._is_running(node))

        node.wait(ready, "runs all stages", REACH_S)
        return None if node.stopped() else time.monotonic() - node.started

    @staticmethod
    def _is_running(node: NodeProcess) -> bool:
        """Asked without Flight: a node that has stopped itself would not answer."""
        return b"address: " in node.log.read_bytes().rpartition(b"\n--- ")[2]

    # --- clients ---------------------------------------------------------------------------------------------------

    def _allow(self, start: int, part: float, pace_s: float = 0.0) -> None:
        """Let the producers send this part of the share of the ``start``-th start."""
        shares = len(self._kills) + 1
        for pusher in self._pushers:
            pusher.allow(int(len(pusher.lane.entries) * (start + part) / shares), pace_s)

    def _check_clients(self) -> None:
        for client in (*self._pushers, self._follower):
            client.check()

    def _sent_rows(self) -> int:
        return sum(len(e.rows) for p in self._pushers for e in p.lane.entries[: p.sent])
