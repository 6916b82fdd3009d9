"""When a node cannot go on: not for one failed stage, but for all of them, or for one that found its state broken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.errors import AnabranchError, EngineError, InvariantBroken, StateError
from anabranch.node.node import Node


@dataclass
class Runner:
    """A stage as far as its failure goes."""

    stage: Any
    failed: AnabranchError | None = None
    last_error: AnabranchError | None = None
    has_run: bool = False

    @property
    def is_broken(self) -> bool:
        return isinstance(self.failed, InvariantBroken | StateError)


@pytest.fixture
def node(tmp_path: Path) -> Any:
    query = ab.Query("q")
    for name in ("a", "b"):
        query.output(f"{name}s", query.source(name, "x int"))
    node = Node(query, tmp_path / "state")
    stages = node.hosted._stages
    assert stages is not None
    stages.runners.update({stage.name: Runner(stage) for stage in node.hosted.part.stages})  # type: ignore[misc]
    yield node
    stages.runners.clear()
    node.stop()


def test_one_failed_stage_is_told_and_the_node_goes_on(node: Any) -> None:
    node.hosted.runners["a"].failed = error = EngineError("boom")
    assert node.failure() is None
    assert node.failed_stages() == {"a": error}


def test_a_node_whose_stages_have_all_failed_has_failed(node: Any) -> None:
    for runner in node.hosted.runners.values():
        runner.failed = EngineError(runner.stage.name)
    assert str(node.failure()) == "a"


@pytest.mark.parametrize("error", [InvariantBroken("rows were dropped"), StateError("damaged")])
def test_a_broken_state_ends_the_node_at_once(node: Any, error: AnabranchError) -> None:
    node.hosted.runners["b"].failed = error
    assert node.failure() is error
    node.hosted.runners["b"].last_error = error
    node.hosted.runners["a"].has_run = True
    with pytest.raises(type(error)):
        node.hosted._stages.wait_first_batches(lambda _: None)


def test_a_start_does_not_wait_for_a_stage_that_fails(node: Any) -> None:
    node.hosted.runners["a"].last_error = EngineError("boom")
    node.hosted.runners["b"].has_run = True
    said: list[str] = []
    node.hosted._stages.wait_first_batches(said.append)
    first, retried, second = said
    assert (first, second) == tuple(f"running the first batch of stage {name}" for name in "ab")
    assert retried == "will retry stage a: boom"


def test_a_start_that_waits_for_a_first_batch_ends_when_spark_is_given_up(node: Any) -> None:
    node.hosted._spark.failed = EngineError("no JVM")
    with pytest.raises(EngineError, match="no JVM"):
        node.hosted._stages.wait_first_batches(lambda _: None)
