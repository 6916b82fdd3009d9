"""Deployment files for tests: a query with everything in it that can be placed, and a file that places it well."""

from __future__ import annotations

from pathlib import Path

from anabranch.bench.processes import free_ports
from anabranch.deploy.plan import Plan, load_plan
from anabranch.deploy.validate import check_file
from anabranch.errors import Mistake

QUERY = """\
query: paths
boxes:
  - source: {name: ping, schema: "target string, rtt_ms double", producers: [p, q]}
  - source: {name: load, schema: "server string, cpu double"}
  - filter: {name: slow, input: ping, where: "rtt_ms > 100", otherwise: true}
  - join: {name: pairs, left: slow, right: load, on: "target = server", within: 1s}
  - aggregate: {name: counts, input: pairs, columns: "count(*) AS n", by: target, window: 10s}
outputs:
  quick: slow.1
  per_target: counts
"""

WITH_TABLE = (
    QUERY.replace("left: slow,", "left: placed,").replace(
        "  - join:", '  - lookup: {name: placed, input: slow, table: hosts, on: "target = host"}\n  - join:'
    )
    + 'tables:\n  hosts: {schema: "host string, site string", key: host, file: hosts.csv}\n'
)
"""The same with a Lookup in a table, on ``b`` and ``c``."""

GOOD = """\
[nodes]
a = {address = "127.0.0.1:7001"}
b = {address = "127.0.0.1:7002"}
c = {address = "127.0.0.1:7003"}
d = {address = "127.0.0.1:7004"}

[queries.paths]
file = "paths.yaml"
mode = "race"
on = ["b", "c"]

[queries.paths.place]
counts = "d"

[queries.paths.entry]
ping = ["a", "b"]
load = ["a"]
"""


def with_free_ports(text: str = GOOD) -> str:
    """The same file, with ports that nobody uses now."""
    for number, port in enumerate(free_ports(4), start=7001):
        text = text.replace(f":{number}", f":{port}")
    return text


def write(folder: Path, text: str = GOOD, query: str = QUERY) -> Path:
    """The file of a deployment, with its query beside it."""
    (folder / "paths.yaml").write_text(query)
    file = folder / "deployment.toml"
    file.write_text(text)
    return file


def mistakes(folder: Path, text: str, query: str = QUERY) -> list[Mistake]:
    return list(check_file(write(folder, text, query)).mistakes)


def plan(folder: Path, text: str = GOOD, query: str = QUERY) -> Plan:
    return load_plan(write(folder, text, query))
