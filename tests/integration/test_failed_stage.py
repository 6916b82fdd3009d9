"""A row that cannot be computed stops its own stage, is told, and leaves everything else as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

import anabranch as ab
from anabranch import limits
from anabranch.node.node import Node
from tests.spark import running
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


def query() -> ab.Query:
    made = ab.Query("dividing")
    divisors = made.source("divisors", "x int")
    made.output("divided", divisors.filter("10 / x > 1", name="divide"))
    made.output("fine", made.source("numbers", "x int").filter("x > 0"))
    return made


def numbers(connection: ab.Connection, stream: str) -> list[int]:
    batches = connection.subscribe(stream, start="start", follow=False)
    return [row["x"] for batch in batches for row in batch.to_pylist() if row["_kind"] == ab.Kind.INSERTION]


def test_the_other_stages_go_on_and_a_restart_tries_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "RESTART_BACKOFF_S", (0.1,))
    for start in (1, 2):
        with running(query(), tmp_path / "state") as node, ab.connect(node.address) as connection:
            if start == 1:
                connection.push("divisors", [{"x": 2}])
                wait_for(lambda: numbers(connection, "divided"))
                connection.push("divisors", [{"x": 0}])
            wait_for(node.failed_stages)
            assert_told(node)
            connection.push("divisors", [{"x": 5}])
            connection.push("numbers", [{"x": start}])
            wait_for(lambda: numbers(connection, "fine") == list(range(1, start + 1)))  # noqa: B023
            assert numbers(connection, "divided") == [2]
            assert not node.wait_caught_up(30)
    assert capfd.readouterr().err == ""  # no pages of Java: whoever runs the node tells it


def assert_told(node: Node) -> None:
    assert node.failure() is None
    found = node.statistics()
    assert found.state == "running"
    assert {name: stage.state for name, stage in found.stages.items()} == {
        "divisors": "failed",
        "numbers": "running",
    }
    told = found.stages["divisors"].error
    assert "Stage divisors failed in Spark in box divide at `10 / x`: [DIVIDE_BY_ZERO]" in told
    assert "Affected outputs: divided." in told
    assert "try_divide" in told
    assert "ansi" not in told
