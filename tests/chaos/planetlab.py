"""The experiment of the racing paper (figure 7) for a chaos run: its query, rows for it from a seed, its deployment.

Query and delays are those of ``examples/planetlab.*``. Three things differ. The rows have a time of their own and are
pushed, so that every run has the same input. Every source has three entry points: one may die. And the join may have a
second copy, ``osu2``, which the figure does not have.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.model.times import SECOND
from anabranch.query import yaml_form
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


def query() -> ab.Query:
    """The query of the example, whose rows say themselves when they happened."""
    form: Any = yaml_form.parse((ROOT / "examples/planetlab.yaml").read_text(), place="The example")
    for box in form["boxes"]:
        if (source := box.get("source")) is not None:
            time = TIMES[source["name"].partition("_")[0]]
            del source["feed"]
            source |= {"schema": f"{source['schema']}, {time} timestamp", "time": time, "disorder": f"{DISORDER_S}s"}
    return ab.Query.from_dict(form)


def record(seed: int) -> Recording:
    """A load and a ping lane for each server, without end."""
    plan = [(kind, server) for server in SERVERS for kind in TIMES]
    lanes = tuple(endless(_lane(kind, at), seed, SHAPE, _rows_of(kind, at)) for kind, at in plan)
    return Recording(seed=seed, diagram=query().checked(), lanes=lanes)


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


def write_deployment(recording: Recording, folder: Path, *, joins: int) -> Path:
    """The file of a deployment at free ports, its query beside it; with so many copies of the join."""
    recording.write_query(folder / "planetlab.yaml")
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
conf = {{spark.driver.memory = "600m", spark.driver.extraJavaOptions = "{java_options()}"}}

[nodes]
{nodes}

[queries.planetlab]
file = "planetlab.yaml"
mode = "race"

[queries.planetlab.entry]
{entry}

[queries.planetlab.place]
loads = {list(UNIONS)}
pings = {list(UNIONS)}
with_load = {list(placed)}
{_links(placed)}""")
    return file


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
