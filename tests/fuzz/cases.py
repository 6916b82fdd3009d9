"""A case: a diagram, a script of pushes, and how it is run. It can be written to a file and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

import anabranch as ab
from anabranch.query.boxes import Diagram
from anabranch.query.text import diagram_to_dict
from tests.fuzz import values
from tests.fuzz.diagrams import random_diagram
from tests.fuzz.scripts import epoch_of, random_script
from tests.recording import Push

REGRESSIONS: Final = Path(__file__).with_name("regressions")
"""Where cases that failed once are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``seed`` decides where the run waits and where it is restarted; ``batch_rows`` is the largest batch of Spark."""

    diagram: Diagram
    script: tuple[Push, ...]
    seed: int
    batch_rows: int
    restarts: int

    @property
    def epochs(self) -> int:
        """How many independent cases of data it holds."""
        return len({epoch_of(push) for push in self.script} - {None})


def random_case(seed: int, epochs: int) -> Case:
    random = Random(f"case {seed}")
    diagram = random_diagram(random)
    return Case(
        diagram=diagram,
        script=tuple(random_script(random, diagram, epochs)),
        seed=seed,
        batch_rows=random.choice((50, 200, 1_000)),
        restarts=random.choice((0, 0, 1)),
    )


def to_yaml(case: Case, faults: list[str]) -> str:
    """The case as a file, with what was wrong when it was found."""
    data = {
        "found": faults,
        "seed": case.seed,
        "batch_rows": case.batch_rows,
        "restarts": case.restarts,
        "query": diagram_to_dict(case.diagram),
        "script": [_push_to_dict(push) for push in case.script],
    }
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120))


def from_yaml(text: str) -> Case:
    data = yaml.safe_load(text)
    diagram = ab.Query.from_dict(data["query"]).checked()
    return Case(
        diagram=diagram,
        script=tuple(_push_from_dict(each, diagram) for each in data["script"]),
        seed=data["seed"],
        batch_rows=data["batch_rows"],
        restarts=data["restarts"],
    )


def keep(case: Case, faults: list[str], directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"case-{case.seed}.yaml"
    path.write_text(to_yaml(case, faults))
    return path


def _push_to_dict(push: Push) -> dict[str, Any]:
    said: dict[str, Any] = {"source": push.source}
    if push.producer is not None:
        said["producer"] = push.producer
    if push.rows:
        said["rows"] = [{name: values.written(value) for name, value in row.items()} for row in push.rows]
    if push.boundary_us is not None:
        said["boundary_us"] = push.boundary_us
    if push.close:
        said["close"] = True
    return said


def _push_from_dict(said: Mapping[str, Any], diagram: Diagram) -> Push:
    types = {column.name: str(column.type) for column in _source(diagram, said["source"]).schema}
    rows = [{name: values.read(value, types[name]) for name, value in row.items()} for row in said.get("rows", ())]
    return Push(
        source=said["source"],
        producer=said.get("producer"),
        rows=tuple(rows),
        boundary_us=said.get("boundary_us"),
        close=said.get("close", False),
    )


def _source(diagram: Diagram, name: str) -> Any:
    return next(source for source in diagram.sources if source.name == name)
