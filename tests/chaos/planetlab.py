"""The experiment of the racing paper (figure 7) for a chaos run: its query, rows for it from a seed, its deployment.

Query and delays are those of ``examples/planetlab.*``. Three things differ. The rows have a time of their own and are
pushed, so that every run has the same input. Every source has three entry points: one may die. And the join may have a
second copy, ``osu2``, which the figure does not have.

Most seeds have another box at the place of the join, or behind the union of pings: every box races in some run, and no
run does more than that of the figure, but for the Python workers of one stage.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.model.times import SECOND
from anabranch.query import yaml_form
from anabranch.query.boxes import Source
from tests.chaos.processes import ROOT, java_options
from tests.chaos.recording import Lane, Recording, Shape, endless

OUTPUT = "paths"
SERVERS = ("mit", "uw", "ucsd", "ufl")
UNIONS = ("wisc", "purdue")
JOINS = ("osu", "osu2")

EXAMPLE: Mapping[str, Any] = tomllib.loads((ROOT / "examples/planetlab.toml").read_text())

SHAPE = Shape(batch_rows=4, steps_us=(0, 250_000, 500_000, 750_000))
"""As in the example: two or three rows a second, of which few meet within 250 ms."""

COLUMNS = {
    "load": {"server": pa.string(), "cpu": pa.float64(), "taken_at": pa.timestamp("us", "UTC")},
    "ping": {
        "source": pa.string(),
        "target": pa.string(),
        "rtt_ms": pa.float64(),
        "sent_at": pa.timestamp("us", "UTC"),
    },
}
TIMES = {"load": "taken_at", "ping": "sent_at"}
DISORDER_S = 2


FIGURE = "join"
"""The diagram of the paper."""

_KEY = "target = server"
_WORST = {"columns": "max(rtt_ms) AS rtt_ms, max(sent_at) AS sent_at", "by": ["source", "target"]}

BEHIND_PINGS: Mapping[str, Mapping[str, Any]] = {
    "aggregate": {**_WORST, "window": "2s"},
    "dedup": {"by": ["source", "target"], "horizon": "1s"},
    "session": {**_WORST, "gap": "1s"},
    "slide": {**_WORST, "rows": 3},
    "tumble": {**_WORST, "by": ["source"], "columns": f"max(target) AS target, {_WORST['columns']}", "timeout": "5s"},
    "wsort": {"by": ["rtt_ms"], "timeout": "500ms"},
    "xsection": {**_WORST, "window": "2s", "every": "1s", "expire": "4s"},
}
"""Boxes that read the union of all pings, and whose results meet the loads."""

FOR_JOIN: Mapping[str, Mapping[str, Any]] = {
    "latest": {"on": _KEY, "within": "2s", "outer": True},
    "resample": {"columns": ["cpu"], "how": "nearest", "within": "2s", "on": _KEY},
}

BEHIND_JOIN: Mapping[str, Mapping[str, Any]] = {
    "lookup": {"table": "sites", "on": "target = host", "outer": True},
    "python": {
        "function": "tests.python_functions:written",
        "columns": "text string, nulls int",
        "reads": ["source", "target"],
        "deterministic": True,
    },
}
"""Steps on what comes out of the join."""

_JOINED = ("with_load", "known")
"""Boxes at the place of the join; the others are at that of the unions."""

DIAGRAMS = (FIGURE, *BEHIND_PINGS, *FOR_JOIN, *BEHIND_JOIN)
"""By the box that is new in each."""


def diagram_of(seed: int) -> str:
    return DIAGRAMS[seed % len(DIAGRAMS)]


def query(box: str = FIGURE) -> ab.Query:
    """The query of the example, whose rows say themselves when they happened, with a certain box."""
    form: Any = yaml_form.parse((ROOT / "examples/planetlab.yaml").read_text(), place="The example")
    for each in form["boxes"]:
        if (source := each.get("source")) is not None:
            time = TIMES[source["name"].partition("_")[0]]
            del source["feed"]
            source |= {"schema": f"{source['schema']}, {time} timestamp", "time": time, "disorder": f"{DISORDER_S}s"}
    _put(form, box)
    return ab.Query.from_dict(form)


def _put(form: Any, box: str) -> None:
    """What pings and loads meet in keeps its name, and so do the two that it reads."""
    *boxes, union, join = form["boxes"]
    if box in BEHIND_PINGS:
        union = {"union": {**union["union"], "name": "all_pings"}}
        boxes += [union, {box: {"name": "pings", "input": "all_pings", **BEHIND_PINGS[box]}}, join]
    elif box in FOR_JOIN:
        boxes += [union, {box: {"name": "with_load", "left": "pings", "right": "loads", **FOR_JOIN[box]}}]
    else:
        boxes += [union, join]
    if box in BEHIND_JOIN:
        boxes.append({box: {"name": "known", "input": "with_load", **BEHIND_JOIN[box]}})
        form["outputs"] = {OUTPUT: "known"}
    if box == "lookup":
        rows = [[server, f"site {server}"] for server in SERVERS[:3]]
        form["tables"] = {"sites": {"schema": "host string, site string", "key": "host", "rows": rows}}
    form["boxes"] = boxes


def record(seed: int, box: str = FIGURE) -> Recording:
    """A load and a ping lane for each server, without end."""
    plan = [(kind, server) for server in SERVERS for kind in TIMES]
    lanes = tuple(endless(_lane(kind, at), seed, SHAPE, _rows_of(kind, at)) for kind, at in plan)
    return Recording(seed=seed, diagram=query(box).checked(), lanes=lanes)


def _lane(kind: str, server: str) -> Lane:
    return Lane(
        source=f"{kind}_{server}",
        name=server,
        producer=server,
        time=TIMES[kind],
        disorder_us=DISORDER_S * SECOND,
        schema=pa.schema(list(COLUMNS[kind].items())),
    )


def _rows_of(kind: str, server: str) -> Any:
    others = [each for each in SERVERS if each != server]

    def load(rng: random.Random) -> dict[str, Any]:
        return {"server": server, "cpu": rng.choice([round(rng.random(), 3), rng.random(), None])}

    def ping(rng: random.Random) -> dict[str, Any]:
        target = rng.choice([*others, None]) if rng.random() < 0.1 else rng.choice(others)
        return {"source": server, "target": target, "rtt_ms": rng.choice([rng.uniform(20, 300), None])}

    return load if kind == "load" else ping


# --- the deployment ------------------------------------------------------------------------------------------------


def write_deployment(
    recording: Recording, folder: Path, *, joins: int, java: str = "", conf: Mapping[str, str] = MappingProxyType({})
) -> Path:
    """The file of a deployment at free ports, its query beside it; with so many copies of the join, and with these
    settings of Spark."""
    recording.write_query(folder / "planetlab.yaml")
    spark = {"spark.driver.memory": "600m", "spark.driver.extraJavaOptions": java or java_options(), **conf}
    settings = ", ".join(f'"{name}" = "{value}"' for name, value in spark.items())
    placed = JOINS[:joins]
    nodes = "\n".join(
        f'{name} = {{address = "127.0.0.1:{port}"}}'
        for name, port in zip([*SERVERS, *UNIONS, *placed], free_ports(6 + joins), strict=True)
    )
    entry = "\n".join(f"{name} = {nodes}" for name, nodes in EXAMPLE["queries"]["planetlab"]["entry"].items())
    file = folder / "planetlab.toml"
    file.write_text(f"""\
faults = true

[spark]
master = "local[1]"
conf = {{{settings}}}

[nodes]
{nodes}

[queries.planetlab]
file = "planetlab.yaml"
mode = "race"

[queries.planetlab.entry]
{entry}

[queries.planetlab.place]
{_places(recording, placed)}
{_links(placed)}""")
    return file


def _places(recording: Recording, joins: tuple[str, ...]) -> str:
    boxes = [box.name for box in recording.diagram.boxes if not isinstance(box, Source)]
    return "\n".join(f"{name} = {list(joins if name in _JOINED else UNIONS)}" for name in boxes)


def _links(joins: tuple[str, ...]) -> str:
    """As in the example; a second join is as far from the unions as the first."""
    links = list(EXAMPLE["links"])
    links += [
        {**link, "between": [link["between"][0], other]}
        for link in links
        for other in joins[1:]
        if link["between"][1] == JOINS[0]
    ]
    return "".join(
        f'\n[[links]]\nbetween = {link["between"]}\ndelay = "{link["delay"]}"\njitter = "{link["jitter"]}"\n'
        for link in links
    )
