"""What a query must be like for a technique that racing is compared with (``model.techniques``).

They are there for an experiment, so what they cannot do is refused instead of built.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from anabranch.model.techniques import COMPARED, Technique
from anabranch.query.boxes import Diagram
from anabranch.query.flow import Flow
from anabranch.query.graph import Stage
from anabranch.query.problems import candidates

LEAVE_OUT: Final = "Leave the technique out: race needs none."


def unknown_technique(name: str) -> tuple[str, str] | None:
    """What is wrong with the name of a technique, and what to change."""
    if name in ("", *COMPARED):
        return None
    return f"There is no technique {name!r}.", candidates(name, COMPARED)


def unfit_for(technique: Technique, diagram: Diagram, found: Flow) -> str | None:
    """Why the technique cannot hold tuples of this query; the first reason is enough."""
    replicated = [stage for stage in found.stages if len(found.run_on[stage.name]) > 1]
    if not replicated:
        return "No box has several copies."
    reasons = _unfit_to_synchronize if technique is Technique.SYNCHRONIZATION else _unfit_to_order
    return next(chain(_without_partner(replicated, diagram, found), reasons(replicated, diagram)), None)


def _without_partner(replicated: list[Stage], diagram: Diagram, found: Flow) -> Iterator[str]:
    runs: dict[str, set[str]] = {}
    for stage in found.stages:
        for node in found.run_on[stage.name]:
            runs.setdefault(node, set()).add(stage.name)
    entering = {node for source in diagram.sources for node in found.made_on[source.name]}
    for stage in replicated:
        first, *others = nodes = found.run_on[stage.name]
        if any(runs[other] != runs[first] for other in others):
            yield f"The nodes that run {stage.name!r} do not run the same boxes: {', '.join(nodes)}."
        if entering & set(nodes):
            yield f"A node that runs {stage.name!r} is also an entry point."


def _unfit_to_synchronize(replicated: list[Stage], diagram: Diagram) -> Iterator[str]:
    outputs = {output.name for output in diagram.outputs}
    for stage in replicated:
        for target in stage.targets:
            if target.stream in outputs:
                yield f"The output {target.stream!r} has several copies, but what clients read is not held back."


def _unfit_to_order(replicated: list[Stage], diagram: Diagram) -> Iterator[str]:
    sources = {source.name: source for source in diagram.sources}
    for stage in replicated:
        for stream in stage.inputs:
            source = sources.get(stream)
            if source is None:
                yield f"{stage.name!r} has several copies and reads {stream!r}, which is not a source."
            elif source.time is not None or len(source.lanes) > 1:
                yield f"The rows of {stream!r} do not arrive in time order."
