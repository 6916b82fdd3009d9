"""Makes a failing case small: fewer epochs, boxes, pushes and rows, as long as it still fails.

Each try is a run of Spark, so the large steps come first, and the tries are counted. What fails only now and then may
not shrink; it is then kept as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from anabranch.query.boxes import Arrow, Diagram, Output
from anabranch.query.validate import validate
from tests.fuzz.cases import Case
from tests.fuzz.scripts import epoch_of
from tests.recording import Push

Fails = Callable[[Case], list[str]]
Item = TypeVar("Item")


def shrink(case: Case, faults: list[str], judge: Fails, tries: int) -> tuple[Case, list[str]]:
    """The smallest failing case that was found within this many tries, and what is wrong with it."""
    left = tries
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in _smaller(case):
            left -= 1
            found = judge(smaller)
            if found:
                case, faults, progress = smaller, found, True
                break
            if left <= 0:
                break
    return case, faults


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with less in them, those with much less first."""
    if case.restarts:
        yield dataclasses.replace(case, restarts=0)
    epochs = sorted({epoch for push in case.script if (epoch := epoch_of(push)) is not None})
    for kept in _parts(epochs):
        yield _with_script(case, [push for push in case.script if epoch_of(push) in (None, *kept)])
    for outputs in _parts(case.diagram.outputs):
        yield _with_diagram(case, _reaching(case.diagram, outputs))
    for diagram in _without_last_boxes(case.diagram):
        yield _with_diagram(case, diagram)
    said = [push for push in case.script if not push.close]
    if len(epochs) == 1:
        for some in _parts(said):
            yield _with_script(case, [push for push in case.script if push.close or push in some])
        for number, push in enumerate(said):
            for rows in _parts(push.rows):
                fewer = [*said[:number], dataclasses.replace(push, rows=tuple(rows)), *said[number + 1 :]]
                yield _with_script(case, [*fewer, *(each for each in case.script if each.close)])


def _parts(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Halves, then all but one; never nothing."""
    if len(items) < 2:
        return
    middle = len(items) // 2
    yield list(items[:middle])
    yield list(items[middle:])
    if len(items) > 2:
        for number in range(len(items)):
            yield [*items[:number], *items[number + 1 :]]


def _reaching(diagram: Diagram, outputs: Sequence[Output]) -> Diagram:
    """The diagram with these outputs, and only the boxes that they need."""
    needed: set[str] = set()
    waiting = [output.input.box for output in outputs]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [arrow.box for arrow in diagram.box(name).inputs]
    boxes = tuple(box for box in diagram.boxes if box.name in needed)
    return dataclasses.replace(diagram, boxes=boxes, outputs=tuple(outputs))


def _without_last_boxes(diagram: Diagram) -> Iterator[Diagram]:
    """Each output moved down, to an input of its box."""
    for number, output in enumerate(diagram.outputs):
        for arrow in diagram.box(output.input.box).inputs:
            moved = _moved(diagram, number, arrow)
            if not validate(moved):
                yield moved


def _moved(diagram: Diagram, number: int, arrow: Arrow) -> Diagram:
    output = dataclasses.replace(diagram.outputs[number], input=arrow)
    return _reaching(diagram, [*diagram.outputs[:number], output, *diagram.outputs[number + 1 :]])


def _with_diagram(case: Case, diagram: Diagram) -> Case:
    sources = {source.name for source in diagram.sources}
    return dataclasses.replace(
        case, diagram=diagram, script=tuple(push for push in case.script if push.source in sources)
    )


def _with_script(case: Case, script: Sequence[Push]) -> Case:
    return dataclasses.replace(case, script=tuple(script))
