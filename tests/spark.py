"""Nodes inside the test process: they share one Spark session, which the first of them starts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query
from tests.amounts import is_long

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss16m -Djdk.lang.Process.launchMechanism=VFORK"
QUICK_JVM += " -Dderby.stream.error.file=/dev/null"
"""A test is over before the JVM's full compiler pays. The database that comes with Spark writes no log beside it."""


COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Whether Spark makes Java code of expressions, as it does for users, or not: a page with many small queries makes
more code than rows. Nodes of a process share a session, so each of them says which it wants. In every run random
diagrams, the queries of Nexmark and the demo are compiled; in the long run all but the lightest are."""

LIGHT = {**INTERPRETED, "spark.sql.shuffle.partitions": "1"}
"""For nodes with few rows whose faults are the matter, and not what Spark computes: each batch costs them least."""

LIGHT_OPTIONS = ("--master", "local[1]", *(f"--conf={key}={value}" for key, value in LIGHT.items()))
"""The same for ``anabranch run``."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for nodes. Spark may still write to a checkpoint for a moment when its node has stopped, so what
    comes after it was removed goes when the process ends."""
    directory = Path(tempfile.mkdtemp(dir=_all_scratch().name))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@cache
def _all_scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="anabranch-test-", ignore_cleanup_errors=True)


@contextmanager
def running(query: Query | Diagram, state: Path, **settings: Any) -> Iterator[Node]:
    code = COMPILED if is_long() else INTERPRETED
    conf = {"spark.driver.extraJavaOptions": QUICK_JVM, **code, **settings.pop("conf", {})}
    settings = {"disk_reserve_bytes": 1 << 20, **settings}
    node = Node(query, state, NodeSettings(master="local[2]", conf=conf, **settings))
    node.start()
    try:
        yield node
    finally:
        node.stop()
