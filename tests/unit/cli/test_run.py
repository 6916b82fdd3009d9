"""What ``anabranch run`` says of stages that fail, with a node that only pretends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from anabranch.cli import foreground
from anabranch.errors import AnabranchError, EngineError
from anabranch.query.files import load
from tests.unit.cli.conftest import Cli
from tests.unit.docs.pages import documented_keys

EXAMPLE = Path(__file__).parents[3] / "examples" / "slow_paths.py"


class FailingNode:
    """A node whose stages fail one after the other, each time that it is looked at."""

    address = "127.0.0.1:7700"
    stages: tuple[str, ...] = ()
    last_is_the_end = False
    lost: Mapping[str, AnabranchError] = MappingProxyType({})

    def __init__(self, *_: Any, **__: Any) -> None:
        self.diagram = load(EXAMPLE).checked()
        self._failed: dict[str, AnabranchError] = {}
        self._coming = list(self.stages)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def failure(self) -> AnabranchError | None:
        if self._coming:
            stage = self._coming.pop(0)
            self._failed[stage] = EngineError(f"Stage {stage} failed.", remedy="Do something.")
        return None if self._coming or not self.last_is_the_end else list(self._failed.values())[-1]

    def failed_stages(self) -> dict[str, AnabranchError]:
        return dict(self._failed)

    def failed_parts(self) -> dict[tuple[str, str], AnabranchError]:
        return {(EXAMPLE.stem, part): error for part, error in self.lost.items()}

    def failures(self) -> dict[str, AnabranchError]:
        return {}

    @property
    def host(self) -> FailingNode:
        return self


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> type[FailingNode]:
    made = type("Made", (FailingNode,), {})
    monkeypatch.setattr("anabranch.node.node.Node", made)
    monkeypatch.setattr("anabranch.engine.session.close_session", lambda: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(foreground, "LOOK_S", 0.001)
    return made


def test_a_failed_stage_is_told_once_and_the_node_runs_on(cli: Cli, node: type[FailingNode]) -> None:
    node.stages = ("a",)
    result = cli("run", str(EXAMPLE), "--for", "100ms")
    assert result.exit_code == 0, result.output
    assert result.stderr == "error[engine]: Stage a failed. Do something. The other stages continue.\n"


def test_a_part_that_is_lost_is_told_once_and_the_node_runs_on(cli: Cli, node: type[FailingNode]) -> None:
    node.lost = {"pairs": EngineError("The replica is lost.")}
    result = cli("run", str(EXAMPLE), "--for", "100ms")
    assert result.exit_code == 0, result.output
    told = "pairs of query slow_paths: error[engine]: The replica is lost. Its other parts continue.\n"
    assert result.stderr == told


def test_when_every_stage_has_failed_it_ends_with_an_error(cli: Cli, node: type[FailingNode]) -> None:
    node.stages, node.last_is_the_end = ("a", "b"), True
    result = cli("run", str(EXAMPLE), "--for", "1m")
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        "error[engine]: Stage a failed. Do something. The other stages continue.",
        "error[engine]: Stage b failed. Do something.",
    ]


def test_with_json_it_says_where_it_is_and_the_rest_goes_to_standard_error(
    cli: Cli, node: type[FailingNode], tmp_path: Path
) -> None:
    result = cli("run", str(EXAMPLE), "--for", "50ms", "--state", str(tmp_path), "--json")
    found = json.loads(result.stdout)
    assert found == {"query": "slow_paths", "state": str(tmp_path), "address": "127.0.0.1:7700"}
    assert found.keys() == documented_keys("run --json")
    assert result.stderr.splitlines()[-1] == "stopped"
