"""Functions of users in Spark's Python workers: found beside the query, told by box and function when they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.model.times import SECOND
from anabranch.query.files import load
from anabranch.transport.session import Connection
from tests.spark import running
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

QUERY = """
query: scored
boxes:
  - source: {name: rides, schema: "who string, km double"}
  - python: {name: scored, input: rides, function: "ride_scoring:score", columns: "score double", reads: km,
             deterministic: true}
outputs: {scored: scored}
"""
MODULE = "import pyarrow.compute as pc\ndef score(rows):\n    return pc.multiply(rows['km'], 2.0)\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A query with a module beside it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "ride_scoring.py").write_text(MODULE)
    path = tmp_path / "query.yaml"
    path.write_text(QUERY)
    yield path
    sys.modules.pop("ride_scoring", None)


def first_rows(connection: Connection, stream: str, count: int) -> list[dict[str, Any]]:
    """The first tuples of a stream; what it promises is left out."""
    found: list[dict[str, Any]] = []
    for batch in connection.subscribe(stream, start="start"):
        found += [row for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]
        if len(found) >= count:
            return found
    raise AssertionError("the stream ended")


def test_a_module_beside_the_query_is_called_and_a_changed_one_is_another_stream(file: Path) -> None:
    state = file.parent / "state"
    with running(load(file), state) as node, ab.connect(node.address) as connection:
        connection.push("rides", [{"who": "ann", "km": 1.5}, {"who": "bob", "km": None}])
        found = {row["who"]: row["score"] for row in first_rows(connection, "scored", 2)}
        assert found == {"ann": 3.0, "bob": None}
    sys.modules.pop("ride_scoring")
    (file.parent / "ride_scoring.py").write_text(MODULE.replace("2.0", "3.0"))
    with pytest.raises(ab.StateError, match="holds results of a different version of the module ride_scoring"):
        ab.Node(load(file), state)


def test_a_missing_function_is_told_before_spark_starts(file: Path, tmp_path: Path) -> None:
    file.write_text(QUERY.replace("scoring:score", "scoring:rate"))
    with pytest.raises(ab.QueryError) as told:
        ab.Node(load(file), tmp_path / "state")
    (problem,) = told.value.problems
    assert (problem.code, problem.box) == ("bad-function", "scored")
    assert "ride_scoring.py has no 'rate'." in problem.message
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("too_few", "Box made: tests.python_functions:too_few returned 1 values of n for 2 rows."),
        ("too_small", "Box made: tests.python_functions:too_small returned n as int32, and the box declares int64."),
        ("fails", "Box made: tests.python_functions:fails raised ValueError: cannot score 2 rows"),
    ],
)
def test_a_function_that_fails_names_box_and_function(
    function: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RESTART_BACKOFF_S", (0.1,))
    query = ab.Query("failing")
    numbers = query.source("numbers", "x int")
    query.output("out", numbers.python(f"tests.python_functions:{function}", "n bigint", name="made"))
    query.output("plain", numbers)
    with running(query, tmp_path / "state") as node, ab.connect(node.address) as connection:
        connection.push("numbers", [{"x": 1}, {"x": 2}])
        wait_for(node.failed_stages)
        (error,) = node.failed_stages().values()
        assert message in str(error)
        assert "Traceback" not in str(error)


def test_what_is_not_deterministic_runs_in_workers_on_one_node(tmp_path: Path) -> None:
    query = ab.Query("process")
    numbers = query.source("numbers", "x int, at timestamp", time="at")
    made = numbers.python("tests.python_functions:process", "pid bigint", reads="x", name="made")
    query.output("pids", made.aggregate("min(pid) AS pid, count(*) AS n", window="1s", name="pids"))
    with running(query, tmp_path / "state") as node, ab.connect(node.address) as connection:
        connection.push("numbers", [{"x": x, "at": x * SECOND // 10} for x in range(1, 30)])
        first = first_rows(connection, "pids", 1)[0]
        assert first["n"] == 9
        assert first["pid"] != os.getpid()
