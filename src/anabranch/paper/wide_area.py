"""The deployment of figure 7 of the racing paper, as files: seven nodes on this machine, and the ways between them.

MIT, UW, UCSD and UFL are entry points without Spark, with two generators each: the server's load, and a ping to another
server, every half a second. The union of the loads is at WISC, that of the pings at Purdue, and OSU joins them. With
two copies, each of the two runs both unions: the butterfly.

The paper gives no delays. Those of the ways to the unions, and of WISC to OSU, are about what such distances take. What
leaves Purdue takes longer by what the smallest latencies of figure 8 differ (95 and 150 ms): that input 2 is the slower
one is what both figures are about. Delays and the interval of the generators are multiplied by ``SCALE``, so that their
proportion stays and a micro-batch of Spark, which takes longer than any way of the paper, does not drown them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from anabranch.bench.processes import free_ports
from anabranch.engine.session import JAVA_OPTIONS
from anabranch.model.techniques import COMPARED, Technique

SCALE: Final = 10
"""A micro-batch takes some hundred milliseconds, a way of the paper some ten."""

SERVERS: Final = ("mit", "uw", "ucsd", "ufl")
UNIONS: Final = ("wisc", "purdue")
JOIN: Final = "osu"
NODES: Final = (*SERVERS, *UNIONS, JOIN)
KILLED: Final = "wisc"

QUERY: Final = "wide_area"
JOINED: Final = "joined"
UNITED: Final = "united"
LOADS: Final = "box:loads"
PINGS: Final = "box:pings"
"""What comes out of the unions, as the node at OSU reads it: inputs 1 and 2 of figure 8."""

PERIOD_S: Final = 0.5 * SCALE
"""How often a generator makes a row."""

LONGER_MS: Final = 55
"""150 - 95 ms: by how much the way by Purdue is longer than the way by WISC, at the quickest. What leaves Purdue takes
so much longer."""

DELAYS_MS: Final[Mapping[tuple[str, str], int]] = {
    ("mit", "wisc"): 16,
    ("mit", "purdue"): 13,
    ("uw", "wisc"): 26,
    ("uw", "purdue"): 31,
    ("ucsd", "wisc"): 30,
    ("ucsd", "purdue"): 28,
    ("ufl", "wisc"): 21,
    ("ufl", "purdue"): 17,
    ("wisc", "purdue"): (6 + 6 + LONGER_MS) // 2,  # a link is the same in both directions: half of there and back
    ("wisc", "osu"): 11,
    ("purdue", "osu"): 16 + 11 + LONGER_MS - 13,  # mit by wisc is the quickest, and mit by purdue is so much longer
}
JITTER_SHARE: Final = 0.1

JVM: Final = f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"
"""A run of two minutes is over before the JVM's full compiler has paid for itself on the cores that three Sparks share.
All else is as for any node, so that what ``anabranch prepare`` has made fits."""

MEMORY: Final = "700m"


class Protection(StrEnum):
    """How the unions are kept alive: the curves of figure 9."""

    NO_REPLICATION = "no replication"
    REPLICATION = "replication"
    SYNCHRONIZATION = Technique.SYNCHRONIZATION
    DETERMINISTIC = Technique.DETERMINISTIC

    @property
    def is_replicated(self) -> bool:
        return self is not Protection.NO_REPLICATION


def write(folder: Path, technique: Protection, *, with_union: bool = False) -> Path:
    """The deployment file, with its query beside it; ``with_union`` adds the Union of figure 8 at OSU."""
    (folder / "query.yaml").write_text(query_text(with_union=with_union), encoding="utf-8")
    file = folder / "deployment.toml"
    ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
    file.write_text(deployment_text(technique, ports, with_union=with_union), encoding="utf-8")
    return file


# --- the query -----------------------------------------------------------------------------------------------------


def query_text(*, with_union: bool) -> str:
    return "\n".join(
        [f"query: {QUERY}", "boxes:", *_boxes(with_union=with_union), *_outputs(with_union=with_union), ""]
    )


def _boxes(*, with_union: bool) -> Iterator[str]:
    for seed, server in enumerate(SERVERS, start=1):
        others = ",".join(other for other in SERVERS if other != server)
        load = f"rate={1 / PERIOD_S:g},seed={seed},server=choice({server})"
        ping = f"rate={1 / PERIOD_S:g},seed={seed + len(SERVERS)},source=choice({server}),target=choice({others})"
        yield _source(f"load_{server}", "server string, cpu double", server, load)
        yield _source(f"ping_{server}", "source string, target string, rtt_ms double", server, ping)
    for union, sources in (("loads", "load"), ("pings", "ping")):
        yield f"  - union: {{name: {union}, inputs: [{', '.join(f'{sources}_{server}' for server in SERVERS)}]}}"
    half_ms = round(PERIOD_S * 1000 / 2)
    yield f'  - join: {{name: with_load, left: pings, right: loads, on: "target = server", within: {half_ms}ms}}'
    if with_union:
        yield '  - map: {name: of_loads, input: loads, columns: "server"}'
        yield '  - map: {name: of_pings, input: pings, columns: "target AS server"}'
        yield "  - union: {name: both, inputs: [of_loads, of_pings]}"


def _source(name: str, schema: str, server: str, feed: str) -> str:
    return f'  - source: {{name: {name}, schema: "{schema}", producers: {server}, feed: "generator:{feed}"}}'


def _outputs(*, with_union: bool) -> list[str]:
    return ["outputs:", f"  {JOINED}: with_load", *([f"  {UNITED}: both"] if with_union else [])]


# --- the deployment ------------------------------------------------------------------------------------------------


def deployment_text(technique: Protection, ports: Mapping[str, int], *, with_union: bool) -> str:
    return "\n".join(_tables(technique, ports, with_union=with_union)) + "\n"


def _tables(technique: Protection, ports: Mapping[str, int], *, with_union: bool) -> Iterator[str]:
    yield "[spark]"
    yield 'master = "local[1]"'
    yield 'batch_interval = "0s"'  # rows are few, and how soon each is there is what is measured
    yield f'conf = {{spark.driver.memory = "{MEMORY}", spark.driver.extraJavaOptions = "{JVM}"}}'
    yield "[nodes]"
    yield from (f'{name} = {{address = "127.0.0.1:{port}"}}' for name, port in ports.items())
    yield f"[queries.{QUERY}]"
    yield 'file = "query.yaml"'
    yield f'mode = "{"race" if technique.is_replicated else "single"}"'
    if technique.value in COMPARED:
        yield f'technique = "{technique}"'
    yield f"[queries.{QUERY}.entry]"
    yield from (f'{kind}_{server} = "{server}"' for server in SERVERS for kind in ("load", "ping"))
    yield f"[queries.{QUERY}.place]"
    yield f"loads = {_copies(UNIONS, technique)}"
    yield f"pings = {_copies(UNIONS[::-1], technique)}"
    at_osu = ["with_load", *(["of_loads", "of_pings", "both"] if with_union else [])]
    yield from (f'{box} = "{JOIN}"' for box in at_osu)
    for (one, other), delay_ms in DELAYS_MS.items():
        delay = delay_ms * SCALE
        yield "[[links]]"
        yield f'between = ["{one}", "{other}"]'
        yield f'delay = "{delay}ms"'
        yield f'jitter = "{round(delay * JITTER_SHARE)}ms"'


def _copies(nodes: tuple[str, ...], technique: Protection) -> str:
    kept = nodes if technique.is_replicated else nodes[:1]
    return json.dumps(kept)
