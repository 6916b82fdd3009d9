"""What a box does to recovery: section 3.2 and figure 3 of the high-availability paper, and its table 2.

A box that starts again from nothing and reads an earlier part of its inputs once more may repeat the tuples it made
before (*repeatable*), make some others first and then the same (*convergent-capable*), make others for ever though it
makes the same from the same beginning (*deterministic*), or not even that (*arbitrary*). Each of these contains the
one before it, and a query is as general as its most general box.

The class depends on what the mode takes a stream to be. By arrival, a Union shows in which order its inputs came. In
``race`` a stream is a set of identities, so there is no order to show; in ``dpc`` inputs are put into canonical order
first. Timeouts are of stream time, which is data. Sources have no class: what they decide, they decide once, and keep.

An Aggregate is arbitrary, too, where something decides by floating-point numbers that it adds in no fixed order and
that cannot be added exactly (``floats``). Their last bits alone are not counted by any class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Final

from anabranch.errors import ConfigError, Problem
from anabranch.query import catalog, floats, graph
from anabranch.query.boxes import Box, Diagram, Python, Source, Stateful, title
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.problems import candidates
from anabranch.query.sql import parse_list, variations


class Recovery(Enum):
    """What the output shows after a failure: figure 2 of the paper."""

    PRECISE = "precise"
    REPEATING = "repeating"
    CONVERGENT = "convergent"
    DIVERGENT = "divergent"
    GAP = "gap"
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How a mode sees streams, and what comes of each class: a row of table 2, classes from left to right."""

    order: Order
    recoveries: tuple[Recovery, Recovery, Recovery, Recovery]


SINGLE: Final = "single"
"""The mode without a second node: after a failure the checkpoint goes on, so there is nothing to show."""

_STANDBY: Final = (Recovery.REPEATING, Recovery.REPEATING, Recovery.REPEATING, Recovery.DIVERGENT)
_REPLICAS: Final = (Recovery.PRECISE, Recovery.PRECISE, Recovery.PRECISE, Recovery.REFUSED)

MODES: Final[Mapping[str, Mode]] = {
    "amnesia": Mode(order=Order.ARRIVAL, recoveries=(Recovery.GAP,) * 4),
    "passive_standby": Mode(order=Order.ARRIVAL, recoveries=_STANDBY),
    "upstream_backup": Mode(
        order=Order.ARRIVAL,
        recoveries=(Recovery.REPEATING, Recovery.CONVERGENT, Recovery.DIVERGENT, Recovery.DIVERGENT),
    ),
    "active_standby": Mode(order=Order.ARRIVAL, recoveries=_STANDBY),
    "race": Mode(order=Order.NONE, recoveries=_REPLICAS),
    "dpc": Mode(order=Order.CANONICAL, recoveries=_REPLICAS),
}
"""Table 2 for the standby modes, amnesia from section 4. In ``race`` and ``dpc`` replicas compute the same tuples, so
nothing shows; what they could not agree on is refused there."""


def judge(box: Box, order: Order) -> Judgement:
    """The class of a box where streams have this order."""
    for reason in _variations(box):
        return Judgement(OperatorClass.ARBITRARY, reason)
    return catalog.kind(box).judge(box, order)


def judgements(diagram: Diagram, order: Order) -> dict[str, Judgement]:
    """The class of each box in its diagram: what others make of its values counts, too."""
    judged = {box.name: judge(box, order) for box in _judged(diagram)}
    for column in floats.float_columns(diagram):
        if column.refused and judged[column.box.name].operator_class is not OperatorClass.ARBITRARY:
            reason = f"{column.column} depends on the order of addition, and {column.decisions[0]}"
            judged[column.box.name] = Judgement(OperatorClass.ARBITRARY, reason)
    return judged


def refusals(diagram: Diagram, mode: str) -> list[Problem]:
    """Why a valid query may not run in this mode: what its replicas need not agree on, with box and column.

    Empty where it may, which is always so in a mode that keeps no replicas: ``single`` and the standby modes.
    """
    if mode != SINGLE and mode not in MODES:
        raise ConfigError(f"There is no mode {mode!r}.", remedy=candidates(mode, (SINGLE, *MODES)))
    if mode == SINGLE or MODES[mode].recoveries[OperatorClass.ARBITRARY] is not Recovery.REFUSED:
        return []
    return [*_arbitrary_functions(diagram), *floats.inexact_decisions(diagram)]


def _arbitrary_functions(diagram: Diagram) -> Iterator[Problem]:
    for box in diagram.boxes:
        if isinstance(box, Python) and not box.deterministic:
            message = f"{box.function} is not declared deterministic: each replica could produce different tuples."
            remedy = "Declare it, if it returns the same for a row everywhere and always, or run the query on one node."
            yield Problem(code="arbitrary-function", box=box.name, message=message, remedy=remedy)


def query_class(diagram: Diagram, order: Order) -> tuple[OperatorClass, tuple[str, ...]]:
    """The class of the most general box, and the names of all boxes that have it."""
    judged = {name: found.operator_class for name, found in judgements(diagram, order).items()}
    highest = max(judged.values(), default=OperatorClass.REPEATABLE)
    return highest, tuple(name for name, found in judged.items() if found is highest)


def recoveries(diagram: Diagram) -> dict[str, Recovery]:
    """What a failure shows in each mode."""
    return {name: mode.recoveries[query_class(diagram, mode.order)[0]] for name, mode in MODES.items()}


def states(diagram: Diagram) -> dict[str, str]:
    """What each box keeps between batches, of those that keep anything; sources keep their lanes."""
    return {box.name: catalog.kind(box).kept(box) for box in _judged(diagram) if isinstance(box, Stateful)}


def python_calls(diagram: Diagram) -> dict[str, str]:
    """What each Python box costs: all else is computed inside of Spark."""
    return {box.name: _call(box) for box in diagram.boxes if isinstance(box, Python)}


def _call(box: Python) -> str:
    there, back = ", ".join(box.reads) or "all columns", ", ".join(column.name for column in box.columns)
    return f"{box.function} runs in Spark's Python workers: in every batch {there} go there and {back} come back"


def as_data(diagram: Diagram) -> dict[str, object]:
    """The same as ``as_text``, for scripts."""
    judged = {order: judgements(diagram, order) for order in Order}
    return {
        "classes": {
            box.name: {
                order.value: {"class": str(found[box.name].operator_class), "reason": found[box.name].reason}
                for order, found in judged.items()
            }
            for box in _judged(diagram)
        },
        "state": states(diagram),
        "python": python_calls(diagram),
        "recovery": {mode: str(recovery) for mode, recovery in recoveries(diagram).items()},
        **floats.as_data(diagram),
        "refusals": {mode: [asdict(problem) for problem in refusals(diagram, mode)] for mode in MODES},
    }


def as_text(diagram: Diagram) -> str:
    """The class of each box with its reason, what decides by rounded values, what is kept, and what a failure shows."""
    lines = ["classes"]
    judged = {order: judgements(diagram, order) for order in Order}
    for box in _judged(diagram):
        lines.extend(
            f"  {line}" for line in _box_lines(box, {order: found[box.name] for order, found in judged.items()})
        )
    lines += floats.as_lines(diagram)
    kept = states(diagram)
    lines += ["", "state", *(f"  {title(diagram.box(name))}: {state}" for name, state in kept.items())] if kept else []
    calls = python_calls(diagram)
    lines += ["", "python", *(f"  {title(diagram.box(name))}: {call}" for name, call in calls.items())] if calls else []
    lines += ["", "recovery"]
    found = recoveries(diagram)
    for name, mode in MODES.items():
        general, boxes = query_class(diagram, mode.order)
        because = f" ({', '.join(boxes)})" if general > OperatorClass.REPEATABLE else ""
        lines.append(f"  {name:<16} {found[name]!s:<11} the query is {general}{because}")
    return "\n".join(lines) + "\n"


def _judged(diagram: Diagram) -> tuple[Box, ...]:
    return tuple(box for box in graph.order(diagram) if not isinstance(box, Source))


def _box_lines(box: Box, judged: Mapping[Order, Judgement]) -> Iterator[str]:
    """One line if the class is the same in every mode, otherwise one for each order."""
    if len(set(judged.values())) == 1:
        yield f"{title(box)}: {judged[Order.ARRIVAL].operator_class}; {judged[Order.ARRIVAL].reason}"
        return
    for order, judgement in judged.items():
        yield f"{title(box)}: {judgement.operator_class} {order.value}; {judgement.reason}"


def _variations(box: Box) -> Iterator[str]:
    """The functions of a box that two runs need not agree on; SQL that cannot be read is told by ``validate``."""
    for text in catalog.sql_of(box):
        try:
            expressions = parse_list(text)
        except ConfigError:
            continue
        for expression in expressions:
            yield from variations(expression)
