"""Nodes inside the test process: they share one Spark session, which the first of them starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss16m -Djdk.lang.Process.launchMechanism=VFORK"
QUICK_JVM += " -Dderby.stream.error.file=/dev/null"
"""A test is over before the JVM's full compiler pays. The database that comes with Spark writes no log beside it."""


@contextmanager
def running(query: Query | Diagram, state: Path, **settings: Any) -> Iterator[Node]:
    conf = {"spark.driver.extraJavaOptions": QUICK_JVM, **settings.pop("conf", {})}
    settings = {"disk_reserve_bytes": 1 << 20, **settings}
    node = Node(query, state, NodeSettings(master="local[2]", conf=conf, **settings))
    node.start()
    try:
        yield node
    finally:
        node.stop()
