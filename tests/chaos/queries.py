"""The recorded input of a node that is killed: random rows, and one of three queries, which have all boxes together.

Two sources with a time column: ``load`` is numbered by its two named producers, ``ping`` by its entry point.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

import anabranch as ab
from anabranch.model.times import SECOND
from tests.chaos.recording import Lane, Recording, Shape, endless

SERVERS = [f"s{number}" for number in range(8)]
SHAPE = Shape(batch_rows=30, steps_us=(0, 0, 20_000, 40_000))

ROUNDED: Mapping[str, frozenset[str]] = {
    "rtt_per_target": frozenset({"rtt_ms"}),
    "load_of_pairs": frozenset({"cpu"}),
}
"""Floating aggregates, by output: all other columns must be exact."""

FOLLOWED = "network"
"""The output that a subscriber follows while the node is killed."""

TABLES: Mapping[str, tuple[str, str]] = {"kept": ("site", "occupied")}
"""Outputs that are written into a table: its key, and the output with the same tuples, which no writer trims."""


def _sources(q: ab.Query) -> tuple[ab.Stream, ab.Stream]:
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
    return load, ping


def query() -> ab.Query:
    """Filter, Map, Union, Join and Aggregate: two outputs on one join, windows on a source and on the join, and a union
    that is a diamond."""
    q = ab.Query("chaos")
    load, ping = _sources(q)
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


def ordered_query() -> ab.Query:
    """The same sources, and boxes that work in order: what they keep between batches is in Spark's Python workers."""
    q = ab.Query("ordered")
    load, ping = _sources(q)
    slow = ping.filter("rtt_ms > 60", name="slow")
    q.output("network", slow.latest(load, on="target = server", within="1s", name="pairs"))
    q.output("once", ping.dedup("client, target", horizon="2s", name="once"))
    q.output("runs", ping.tumble("count(*) AS n, max(rtt_ms) AS worst", by="client", timeout="5s", name="runs"))
    q.output("last", load.slide("count(*) AS n, sum(cost) AS cost", by="server", rows=5, every="1s", name="last"))
    stays = load.session("count(*) AS n, sum(cost) AS cost", by="server", gap="300ms", emit_rows=4, name="stays")
    q.output("stays", stays)
    in_order, late = ping.wsort("client, rtt_ms", timeout="500ms", name="in_order")
    q.output("in_order", in_order)
    q.output("late", late)
    return q


def enriched_query() -> ab.Query:
    """The same sources with what is known elsewhere: a static table, a function, values of another stream; and what is
    live at regular moments, which also goes into a table."""
    q = ab.Query("enriched")
    load, ping = _sources(q)
    q.output(
        "network", ping.resample(load, "cpu", how="nearest", within="300ms", on="target = server", name="with_cpu")
    )
    sites = q.table(
        "sites", "host string, site string", key="host", rows=[(each, f"site {each}") for each in SERVERS[:5]]
    )
    placed = load.lookup(sites, on="server = host", outer=True, name="placed")
    occupied = placed.map("coalesce(site, 'none') AS site, cost", name="known").xsection(
        "count(*) AS n, sum(cost) AS cost", by="site", window="1s", every="500ms", expire="2s", name="occupied"
    )
    q.output("occupied", occupied)
    q.output("kept", occupied)
    described = ping.drop("rtt_ms < 50", name="seen").python(
        "tests.python_functions:written",
        "text string, nulls int",
        reads="client, target",
        deterministic=True,
        name="told",
    )
    q.output("described", described)
    q.output("recent", load.slide("max(cost) AS cost", by="server", window="1s", every="500ms", name="recent"))
    q.output("visits", ping.session("count(*) AS n", by="client", gap="100ms", name="visits"))
    return q


QUERIES: Mapping[str, Callable[[], ab.Query]] = {
    "plain": query,
    "ordered": ordered_query,
    "enriched": enriched_query,
}


def query_of(seed: int) -> str:
    """Each run has one of them: a node does no more because there are more boxes."""
    return list(QUERIES)[seed % len(QUERIES)]


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


def record(seed: int, made: Callable[[], ab.Query] = query) -> Recording:
    """Three lanes without end."""
    load: dict[str, Any] = {"source": "load", "time": "taken_at", "disorder_us": 2 * SECOND, "schema": LOAD}
    ping: dict[str, Any] = {"source": "ping", "time": "sent_at", "disorder_us": SECOND, "schema": PING}
    plan = (
        (Lane(name="eu", producer="eu", **load), _load),
        (Lane(name="us", producer="us", **load), _load),
        (Lane(name="0", producer="recorder", **ping), _ping),
    )
    lanes = tuple(endless(lane, seed, SHAPE, make) for lane, make in plan)
    return Recording(seed=seed, diagram=made().checked(), lanes=lanes)


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
