"""The recorded input of a chaos run, made from a seed, and what must come out of it.

Two sources with a time column: ``load`` is numbered by its two named producers, ``ping`` by its entry point. Times tie,
come in disorder, fall exactly on the punctuation and below it; lanes also send boundaries and voids. Nothing depends on
a clock, so every run on the same recording has the same output, and the plain reference can say which.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pyarrow as pa

import anabranch as ab
from anabranch.model.names import lane_origin, late_stream
from anabranch.model.times import CLOSED_US, SECOND
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.chaos.checkers import Row

BEGIN_US = 1_767_225_600 * SECOND  # 2026-01-01
SERVERS = [f"s{number}" for number in range(8)]
BATCH_ROWS = 30

ROUNDED: Mapping[str, frozenset[str]] = {
    "rtt_per_target": frozenset({"rtt_ms"}),
    "load_of_pairs": frozenset({"cpu"}),
}
"""Floating aggregates, by output: all other columns must be exact."""

FOLLOWED = "network"
"""The output that a subscriber follows while the node is killed."""


def query() -> ab.Query:
    """All five boxes: two outputs on one join, windows on a source and on the join, and a union that is a diamond."""
    q = ab.Query("chaos")
    load = q.source(
        "load",
        "server string, cpu double, cost decimal(8,2), taken_at timestamp",
        time="taken_at",
        disorder="2s",
        producers=("eu", "us"),
    )
    ping = q.source(
        "ping", "client string, target string, rtt_ms double, sent_at timestamp", time="sent_at", disorder="1s"
    )
    slow = ping.filter("rtt_ms > 60", name="slow")
    pairs = slow.join(load, on="target = server", within="200ms", name="pairs")
    calm, busy = pairs.filter("cpu < 0.8", otherwise=True, name="by_cpu")
    q.output("network", calm)
    q.output("busy", busy.map("target, cpu * 100 AS percent, rtt_ms, cost", name="percent"))
    q.output(
        "rtt_per_target",
        ping.aggregate(
            "count(*) AS n, avg(rtt_ms) AS rtt_ms, max(rtt_ms) AS worst",
            by="target",
            window="10s",
            every="5s",
            name="rtt",
        ),
    )
    q.output(
        "load_of_pairs",
        pairs.aggregate(
            "count(*) AS n, sum(cpu) AS cpu, sum(cost) AS cost", by="server", window="5s", name="per_server"
        ),
    )
    q.output("all_pings", q.union(slow, ping, name="both"))
    return q


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that a producer sends: rows, or a boundary, or void numbers. It takes ``numbers`` numbers."""

    rows: tuple[Mapping[str, Any], ...] = ()
    boundary_us: int | None = None
    voids: int = 0

    @property
    def numbers(self) -> int:
        return len(self.rows) or self.voids or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane's entries. ``producer`` is who sends them; in an owned lane that is only a client with a counter."""

    source: str
    name: str
    producer: str
    time: str
    disorder_us: int
    schema: pa.Schema
    entries: tuple[Entry, ...]

    @property
    def origin(self) -> str:
        return lane_origin(self.source, self.name)

    @property
    def rows(self) -> int:
        return sum(len(entry.rows) for entry in self.entries)

    def table(self, entry: Entry) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([dict(row) for row in entry.rows], schema=self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    seed: int
    lanes: tuple[Lane, ...]

    @property
    def rows(self) -> int:
        return sum(lane.rows for lane in self.lanes)


@dataclass(slots=True)
class Expected:
    """A stream as it must be when all lanes are closed and everything is worked off."""

    rows: list[Row]
    punctuations: dict[str, int] = field(default_factory=dict)


LOAD = pa.schema(
    [
        ("server", pa.string()),
        ("cpu", pa.float64()),
        ("cost", pa.decimal128(8, 2)),
        ("taken_at", pa.timestamp("us", "UTC")),
    ]
)
PING = pa.schema(
    [
        ("client", pa.string()),
        ("target", pa.string()),
        ("rtt_ms", pa.float64()),
        ("sent_at", pa.timestamp("us", "UTC")),
    ]
)


def record(seed: int, rows: int) -> Recording:
    """About ``rows`` rows, a third in each lane."""
    plan = (
        ("load", "eu", "eu", "taken_at", 2 * SECOND, LOAD, _load),
        ("load", "us", "us", "taken_at", 2 * SECOND, LOAD, _load),
        ("ping", "0", "recorder", "sent_at", SECOND, PING, _ping),
    )
    lanes = []
    for source, name, producer, time, disorder_us, schema, make in plan:
        rng = random.Random(f"{seed}/{source}/{name}")
        entries = tuple(_entries(rng, rows // len(plan), time, disorder_us, make))
        lanes.append(
            Lane(
                source=source,
                name=name,
                producer=producer,
                time=time,
                disorder_us=disorder_us,
                schema=schema,
                entries=entries,
            )
        )
    return Recording(seed=seed, lanes=tuple(lanes))


def expected_output(recording: Recording) -> dict[str, Expected]:
    """Every output, and the late rows of every source, as the reference has them."""
    run = ReferenceRun(query().checked())
    late: dict[str, Expected] = {late_stream(lane.source): Expected([]) for lane in recording.lanes}
    stamped = [_stamp(lane, late[late_stream(lane.source)]) for lane in recording.lanes]
    for step in zip_longest(*stamped):
        for lane, fed in zip(recording.lanes, step, strict=True):
            if fed is not None:
                tuples, punctuation_us = fed
                run.feed(lane.source, tuples, {lane.origin: punctuation_us} if punctuation_us else {})
    for lane in recording.lanes:
        run.feed(lane.source, [], {lane.origin: CLOSED_US})
        late[late_stream(lane.source)].punctuations[lane.origin] = CLOSED_US
    outputs = [output.name for output in query().diagram().outputs]
    results, punctuations = run.results(), run.punctuations()
    return late | {name: Expected([Row.of(each) for each in results[name]], punctuations[name]) for name in outputs}


# --- making rows ---------------------------------------------------------------------------------------------------


def _entries(rng: random.Random, rows: int, time: str, disorder_us: int, make: Any) -> Iterator[Entry]:
    now_us, largest_us, left = BEGIN_US, BEGIN_US, rows
    while left > 0:
        kind = rng.random()
        if kind < 0.03:  # sometimes a promise beyond what the disorder allows: it makes rows late
            now_us += rng.randrange(SECOND)
            yield Entry(boundary_us=now_us - rng.randrange(disorder_us))
        elif kind < 0.05:
            yield Entry(voids=rng.randint(1, 3))
        else:
            made = []
            for _ in range(min(left, rng.randint(1, BATCH_ROWS))):
                now_us += rng.choice((0, 0, 20_000, 40_000))
                at_us = _time(rng, now_us, largest_us, disorder_us)
                largest_us = max(largest_us, at_us)
                made.append({**make(rng), time: at_us})
            left -= len(made)
            yield Entry(rows=tuple(made))


def _time(rng: random.Random, now_us: int, largest_us: int, disorder_us: int) -> int:
    """Mostly a little out of order, on a coarse grid so that times tie."""
    kind = rng.random()
    if kind < 0.02:  # late
        return largest_us - disorder_us - rng.randint(1, 3 * SECOND)
    if kind < 0.05:  # exactly at the punctuation: not late
        return largest_us - disorder_us
    if kind < 0.10:  # finer than Spark's milliseconds
        return now_us + rng.randint(1, 1_500)
    return now_us - rng.randrange(0, disorder_us // 2, 20_000)


def _load(rng: random.Random) -> dict[str, Any]:
    return {
        "server": rng.choice([*SERVERS, None]),
        "cpu": rng.choice([round(rng.random(), 3), rng.random(), None]),
        "cost": rng.choice([Decimal(rng.randint(-99_999, 99_999)).scaleb(-2), None]),
    }


def _ping(rng: random.Random) -> dict[str, Any]:
    return {
        "client": f"c{rng.randrange(3)}",
        "target": rng.choice([*SERVERS, None]),
        "rtt_ms": rng.choice([rng.uniform(0, 200), float(rng.randint(0, 200)), None]),
    }


# --- the rules of a lane, straight from their definition -----------------------------------------------------------


def _stamp(lane: Lane, late: Expected) -> Iterator[tuple[list[Tuple], int]]:
    """The lane's tuples, entry by entry, with what it promises after each; late rows go aside."""
    number, boundary_us, largest_us = 1, 0, 0
    for entry in lane.entries:
        tuples = []
        for row in entry.rows:
            at_us, promised_us = row[lane.time], max(boundary_us, largest_us - lane.disorder_us)
            each = Tuple(origin=lane.origin, stime=max(at_us, promised_us), tid=number, values=row)
            if at_us < promised_us:
                late.rows.append(Row.of(each))
            else:
                tuples.append(each)
            largest_us = max(largest_us, at_us)
            number += 1
        boundary_us = max(boundary_us, entry.boundary_us or 0)
        number += entry.numbers - len(entry.rows)
        yield tuples, max(boundary_us, largest_us - lane.disorder_us, 0)
