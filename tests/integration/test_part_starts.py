"""A host with two parts of a query, and a full log between them: the first waits for room that only the second makes.

    b    totals    sums with the entry point

Another host runs ``totals``, too, which makes it a part of its own; it is never started.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.deploy.parts import assigned
from anabranch.deploy.plan import load_plan
from anabranch.node.hosted_part import HostedPart
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from tests.chaos.checkers import nothing_twice, rows_of, same_rows
from tests.chaos.clients import read_stream
from tests.integration.test_parts import rows
from tests.integration.test_shared_replicas import QUERY, expected
from tests.spark import LIGHT, QUICK_JVM
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

PLACED = """\
[queries.layers]
file = "layers.yaml"
mode = "race"

[queries.layers.place]
totals = ["a", "b"]
sums = ["b"]

[queries.layers.entry]
events = ["b"]
"""

LIMIT = 20_000
ENDED = 0.13
"""Results for each row: three groups in each window of 20 rows, less the windows that have not ended yet."""


def made(directory: Path, ports: list[int]) -> Node:
    nodes = "".join(f'{name} = {{address = "127.0.0.1:{port}"}}\n' for name, port in zip("ab", ports, strict=True))
    (directory / "layers.yaml").write_text(QUERY)
    (directory / "layers.toml").write_text(f"[nodes]\n{nodes}\n{PLACED}")
    plan = load_plan(directory / "layers.toml")
    settings = NodeSettings(
        master="local[2]",
        conf={"spark.driver.extraJavaOptions": QUICK_JVM, **LIGHT},
        port=ports[1],
        disk_reserve_bytes=1 << 20,
        log_bytes=LIMIT,
    )
    part = assigned(plan, "b", "layers")
    return Node(plan.queries["layers"].diagram, directory / "b", settings, part=part)


def test_a_host_starts_with_a_full_log_between_two_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = free_ports(2)
    node = made(tmp_path, ports)
    totals, sums = node.parts.parts
    with monkeypatch.context() as patched:
        # Its stages do not begin, and nothing reads what totals makes.
        start = HostedPart._start_stages
        patched.setattr(HostedPart, "_start_stages", lambda part: part._opened.set() if part is sums else start(part))
        with node, ab.connect(node.address) as connection, connection.producer("events", "p") as producer:
            log = totals.streams.logs["box:totals"][1]
            pushed = 0
            while not log.is_full():
                producer.push(rows(pushed, pushed + 400))
                pushed += 400
                wait_for(lambda: log.is_full() or log.last_id() >= ENDED * pushed)  # noqa: B023
    node = made(tmp_path, ports)
    started = threading.Thread(target=node.start, daemon=True)
    started.start()
    try:
        wait_for(lambda: not started.is_alive(), lambda: f"it starts: {node.statistics()}")
        with ab.connect(node.address) as connection:
            connection.client.close_lane("events", "p")
        wait_for(lambda: len(rows_of(read_stream(node.address, "sums"))) == len(expected(pushed)))
        found = rows_of(read_stream(node.address, "sums"))
        assert same_rows(expected(pushed), found) == nothing_twice(found) == []
    finally:
        node.stop()
