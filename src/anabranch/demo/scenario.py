"""The story of the demo: six servers that ping each other and report their load, and what goes wrong with them.

One server is busy for a while and answers late: its slow pings are not the network's fault. One path is bad for a
while: its slow pings are. Besides, the network loses a ping here and there all the time. Every slow ping is made with
its cause, so what the query finds can be compared with what was put in.

A ping is judged by the load readings less than ``WITHIN_S`` away from it. A busy server therefore answers late only
while all readings that near show it busy, and the network leaves its pings alone while any does: the cause of every
slow ping can be told from the readings. Pure: the same seed is the same story, whatever the clock says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from anabranch.query.builder import Query

SERVERS: Final = ("mit", "osu", "ucsd", "ufl", "uw", "wisc")
TURNS_PER_SECOND: Final = 10
LOAD_EVERY_TURNS: Final = 5
WITHIN_S: Final = LOAD_EVERY_TURNS / TURNS_PER_SECOND
"""How near a reading must be: every ping has at least the one before it, and at most two."""

SLOW_MS: Final = 1000.0
BUSY_CPU: Final = 0.8
SLOW_SHARE: Final = 0.8
"""Of the pings to a busy server or over a bad path, how many are slow."""
LOST_SHARE: Final = 0.01
"""Of all other pings, how many the network makes slow."""

NETWORK, BUSY = "network_problems", "busy_servers"
"""The outputs of the query."""


def query() -> Query:
    """Slow pings, each with the load of its target at the time: is it the network, or a busy server?"""
    q = Query("demo")
    load = q.source("load", "server string, cpu double, at timestamp", time="at")
    ping = q.source("ping", "n bigint, source string, target string, rtt_ms double, sent timestamp", time="sent")
    slow = ping.filter(f"rtt_ms > {SLOW_MS:.0f}")
    network, busy = slow.join(load, on="target = server", within=f"{WITHIN_S * 1000:.0f}ms").filter(
        f"cpu < {BUSY_CPU}", otherwise=True
    )
    q.output(NETWORK, network)
    q.output(BUSY, busy)
    return q


class Cause(StrEnum):
    """Why a ping is slow."""

    BUSY_SERVER = "busy server"
    BAD_PATH = "bad path"
    LOST = "lost on the way"


@dataclass(frozen=True, slots=True)
class Ping:
    n: int
    source: str
    target: str
    rtt_ms: float
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class Turn:
    """What the servers report at one moment, in seconds since the story began."""

    at_s: float
    loads: dict[str, float]
    pings: list[Ping]


@dataclass(frozen=True, slots=True)
class Phase:
    """Something that goes wrong for a while."""

    words: str
    begin_s: float
    end_s: float

    def has(self, at_s: float, margin_s: float = 0.0) -> bool:
        """Whether this moment lies in it, at least the margin away from both ends."""
        return self.begin_s + margin_s <= at_s < self.end_s - margin_s


class Scenario:
    """The story of one seed. Ask for its turns in order."""

    def __init__(self, seconds: float, pings_per_second: float, seed: int) -> None:
        self.seconds: Final = seconds
        self._random = random.Random(seed)
        self._per_turn = pings_per_second / TURNS_PER_SECOND
        self._paths = [(source, target) for source in SERVERS for target in SERVERS if source != target]
        self.turns: Final = max(1, round(seconds * TURNS_PER_SECOND))
        self.busy_server, *ends = self._random.sample(SERVERS, 3)
        self.bad_path: Final = frozenset(ends)
        self.bad_path_name: Final = "-".join(sorted(ends))
        self.busy: Final = Phase(f"{self.busy_server} is busy", 0.2 * seconds, 0.6 * seconds)
        self.bad: Final = Phase(f"path {self.bad_path_name} is bad", 0.5 * seconds, 0.85 * seconds)
        self._turn = 0
        self._pings = 0

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (self.busy, self.bad)

    def next_turn(self) -> Turn:
        at_s = self._turn / TURNS_PER_SECOND
        loads = {} if self._turn % LOAD_EVERY_TURNS else {server: self._load(server, at_s) for server in SERVERS}
        self._turn += 1
        first, self._pings = self._pings, int(self._turn * self._per_turn)
        return Turn(at_s, loads, [self._ping(n, at_s) for n in range(first, self._pings)])

    def _load(self, server: str, at_s: float) -> float:
        is_busy = server == self.busy_server and self.busy.has(at_s)
        return round(self._random.uniform(0.88, 0.99) if is_busy else self._random.uniform(0.15, 0.55), 3)

    def _ping(self, n: int, at_s: float) -> Ping:
        if n % len(self._paths) == 0:  # every path once a round, in another order each time
            self._random.shuffle(self._paths)
        source, target = self._paths[n % len(self._paths)]
        cause = self._cause(source, target, at_s)
        rtt_ms = self._random.uniform(15, 250) if cause is None else self._random.uniform(1.1, 3.0) * SLOW_MS
        return Ping(n, source, target, round(rtt_ms, 1), cause)

    def _cause(self, source: str, target: str, at_s: float) -> Cause | None:
        chance = self._random.random()
        if target == self.busy_server:
            if self.busy.has(at_s, WITHIN_S):
                return Cause.BUSY_SERVER if chance < SLOW_SHARE else None
            if self.busy.has(at_s, -WITHIN_S):
                return None
        if {source, target} == self.bad_path and self.bad.has(at_s):
            return Cause.BAD_PATH if chance < SLOW_SHARE else None
        return Cause.LOST if chance < LOST_SHARE else None
