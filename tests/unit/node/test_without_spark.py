"""A node that only takes rows in loads no Spark: a deployment has many of them, and they start in a second."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import anabranch as ab
from anabranch.node.node import Node
from tests.assigning import assigned

query = ab.Query("q")
numbers = query.source("numbers", "n bigint", feed="generator:rate=1000")  # without an end: that would close the lane
query.output("even", numbers.filter("n % 2 = 0"))
diagram = query.checked()
part = assigned(diagram, "a", entries=["numbers"], feeds=["numbers"], readers={"numbers": ("b",)})
with Node(diagram, sys.argv[1], part=part) as node, ab.connect(node.address) as connection:
    assert connection.status().state == "running"
    connection.push("numbers", [{"n": 1}])
print(*sorted({"pyspark", "py4j"} & sys.modules.keys()))
"""


def test_an_entry_point_loads_no_spark(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "state")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
