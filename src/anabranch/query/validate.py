"""Everything that is wrong with a diagram, at once and without Spark.

The shape first (names, arrows, cycles, what nobody reads), then each box against the schemas that reach it, in order of
flow. Where an input is unknown because of a mistake further up, what depends on it is passed over in silence: one
mistake is one problem. What only Spark can type is left to Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from anabranch.errors import Problem
from anabranch.limits import ORIGINS, SCANS
from anabranch.model.names import is_name
from anabranch.query import catalog, graph
from anabranch.query.boxes import Arrow, Box, Diagram, Maker, Schema, Source
from anabranch.query.checks import NAME_REMEDY
from anabranch.query.connector_checks import check_keys, check_writers
from anabranch.query.keys import ARROW, ARROWS
from anabranch.query.problems import Place, Report, candidates
from anabranch.query.schemas import add_outputs, inputs_of
from anabranch.query.table_checks import check_tables


def validate(diagram: Diagram, *, told: Collection[Place] = ()) -> list[Problem]:
    """All problems, in the order in which the boxes are declared. Places in ``told`` are not told again."""
    report = Report(told)
    _check_names(diagram, report)
    resolved = _check_arrows(diagram, report)
    _check_cycles(diagram, report)
    _check_use(diagram, report, resolved=resolved)
    _check_origins(diagram, report)
    _check_scans(diagram, report)
    check_writers(diagram, report)
    check_tables(diagram, report)
    found: dict[Arrow, Schema] = {}
    for box in graph.order(diagram):
        catalog.kind(box).check(box, inputs_of(found, box), report)
        add_outputs(found, box)
    for output in diagram.outputs:
        check_keys(output, found.get(output.input), report)
    return _as_declared(diagram, report.problems)


def _as_declared(diagram: Diagram, problems: list[Problem]) -> list[Problem]:
    names = ["", *(box.name for box in diagram.boxes), *(output.name for output in diagram.outputs)]
    rank = {name: index for index, name in reversed(list(enumerate(names)))}
    return sorted(problems, key=lambda problem: rank.get(problem.box, -1))


def _check_names(diagram: Diagram, report: Report) -> None:
    if not is_name(diagram.name):
        report.add("bad-name", "", "query", f"The query cannot be called {diagram.name!r}.", NAME_REMEDY)
    sources = [("a source", source.name) for source in diagram.sources]
    boxes = [("a box", box.name) for box in diagram.boxes if not isinstance(box, Source)]
    outputs = [("an output", output.name) for output in diagram.outputs]
    _check_different(sources + boxes, report)
    _check_different(sources + outputs, report)  # streams that can be read: an output may be called like a box


def _check_different(things: list[tuple[str, str]], report: Report) -> None:
    taken: dict[str, str] = {}
    for kind, name in things:
        if not is_name(name):
            report.add("bad-name", name, "name", f"{kind.capitalize()} cannot be called {name!r}.", NAME_REMEDY)
        elif name.casefold() in taken:
            message = f"{kind.capitalize()} and {taken[name.casefold()]} are both called {name!r}."
            report.add("duplicate-name", name, "name", message, "Choose names that differ in more than case.")
        else:
            taken[name.casefold()] = kind


def _check_arrows(diagram: Diagram, report: Report) -> bool:
    """Whether every arrow leads somewhere."""
    boxes = {box.name: box for box in reversed(diagram.boxes)}
    resolved = True
    for reader, field, arrow in _arrows(diagram):
        box = boxes.get(arrow.box)
        if box is not None and arrow.port < graph.ports(box):
            continue
        resolved = False
        if box is None:
            message = f"{field}: there is no box {arrow.box!r}." if arrow.box else f"{field}: no box is named."
            report.add("unknown-arrow", reader, field, message, candidates(arrow.box, boxes))
        elif graph.ports(box):
            ports = (str(Arrow(box.name, port)) for port in range(graph.ports(box)))
            message = f"{field}: {box.name!r} has no port {arrow.port}."
            report.add("unknown-arrow", reader, field, message, candidates(str(arrow), ports))
    return resolved


def _arrows(diagram: Diagram) -> Iterator[tuple[str, str, Arrow]]:
    """Every arrow, with who reads it and under which key."""
    for box in diagram.boxes:
        for key in catalog.kind(box).keys:
            if key.form is ARROW:
                yield box.name, key.name, getattr(box, key.field)
            elif key.form is ARROWS:
                field = "input" if len(box.inputs) == 1 else key.name
                yield from ((box.name, field, arrow) for arrow in getattr(box, key.field))
    yield from ((output.name, "input", output.input) for output in diagram.outputs)


def _check_cycles(diagram: Diagram, report: Report) -> None:
    """One problem per circle: boxes that are never reached in order of flow are in one, or behind one."""
    ordered = {box.name for box in graph.order(diagram)}
    stuck = {box.name: box for box in diagram.boxes if box.name not in ordered}
    while stuck:
        path = [next(iter(stuck))]
        while len(set(path)) == len(path):
            path.append(next(arrow.box for arrow in stuck[path[-1]].inputs if arrow.box in stuck))
        circle = path[path.index(path[-1]) :]
        report.add(
            "cycle",
            circle[0],
            "input",
            f"Boxes read each other in a cycle: {' <- '.join(circle)}.",
            "Remove one arrow.",
        )
        _forget(stuck, circle)


def _forget(stuck: dict[str, Box], names: list[str]) -> None:
    """Take a circle out, and then whatever was stuck only because it is behind it."""
    while names:
        for name in set(names):
            del stuck[name]
        names = [name for name, box in stuck.items() if not any(arrow.box in stuck for arrow in box.inputs)]


def _check_use(diagram: Diagram, report: Report, *, resolved: bool) -> None:
    if not diagram.outputs:
        report.add("no-output", "", "outputs", "The query has no outputs.", "Add an output.")
    elif resolved:  # with an arrow that leads nowhere, the box it should have led to only seems unused
        _check_unused(diagram, report)


def _check_unused(diagram: Diagram, report: Report) -> None:
    """One problem per box that nobody reads, with those that only feed it: they go together."""
    boxes = {box.name: box for box in reversed(diagram.boxes)}
    used = _upstream(boxes, [output.input.box for output in diagram.outputs])
    read = {arrow.box for box in diagram.boxes for arrow in box.inputs}
    for box in diagram.boxes:
        if box.name in used or box.name in read:
            continue
        feeders = sorted(_upstream(boxes, [box.name]) - used - {box.name})
        alone = f", or on {', '.join(feeders)}, which only feed it" if feeders else ""
        message = f"No output depends on this box{alone}."
        report.add("unused-box", box.name, "name", message, "Connect it to an output, or remove it.")


def _upstream(boxes: dict[str, Box], names: list[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and name in boxes:
            found.add(name)
            waiting.extend(arrow.box for arrow in boxes[name].inputs)
    return found


def _check_origins(diagram: Diagram, report: Report) -> None:
    count = sum(len(box.lanes) if isinstance(box, Source) else isinstance(box, Maker) for box in diagram.boxes)
    if count > ORIGINS:
        message = f"The query has {count} origins (producers, joins and aggregates); the limit is {ORIGINS}."
        report.add("too-many-origins", "", "boxes", message, "Let an entry point number the rows: leave producers out.")


def _check_scans(diagram: Diagram, report: Report) -> None:
    """One problem where it begins; what lies behind has as many scans only because of that."""
    scans = graph.scans(diagram)
    for box in diagram.boxes:
        count = scans.get(box.name, 0)
        if count > SCANS and all(scans.get(arrow.box, 0) <= SCANS for arrow in box.inputs):
            message = f"Its stage would read its streams in {count:,} places; the limit is {SCANS}."
            remedy = (
                "An input is read once for each path that leads to it: use fewer unions, or put an Aggregate between."
            )
            report.add("too-many-scans", box.name, "inputs", message, remedy)
