"""Which floating-point aggregates something decides by.

Floating-point numbers give another sum in another order, and Spark adds in no fixed order: two replicas may compute
values that differ in their last bits. Identities do not depend on values, so nothing is lost by that, unless a value
decides: whether a tuple passes a Filter, which tuples a Join pairs, which group a tuple is in. Replicas would then
differ by whole tuples. So this module follows each value that comes of adding floating-point numbers through the
diagram, column by column, to the places that decide by it.

Sums and averages that something decides by are computed exactly (``engine.exact``, ``reference.exact``), in every mode,
so that a query gives the same stream in each. Nothing else of that sort can be: modes with replicas refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from anabranch.errors import ConfigError, Problem
from anabranch.limits import SUM_SCALE
from anabranch.query import catalog, graph
from anabranch.query.boxes import Diagram, Source, Summing, title
from anabranch.query.schemas import schemas
from anabranch.query.value_flow import NONE, Cause, Columns, Decision, Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatColumn:
    """A column of an Aggregate whose value depends on the order in which floating-point numbers are added.

    ``sums`` says that sums or averages are in it, ``others`` that there are functions that cannot be computed exactly.
    ``certain`` is False where only Spark can tell whether what is added is floating point at all.
    """

    box: Summing
    column: str
    sql: str
    sums: bool
    others: bool
    certain: bool
    decisions: tuple[Decision, ...]

    @property
    def scale(self) -> int | None:
        """Digits after the point, if its sums are computed exactly: where something decides by it, or if declared."""
        if not self.sums or not (self.decisions or self.box.scale is not None):
            return None
        return SUM_SCALE if self.box.scale is None else self.box.scale

    @property
    def refused(self) -> bool:
        """Whether replicas could decide differently by it."""
        return self.others and bool(self.decisions)


def float_columns(diagram: Diagram) -> tuple[FloatColumn, ...]:
    """All such columns, in order of flow. What cannot be read, or has no known columns, is left to ``validate``."""
    return _found(diagram)


def exact_scales(diagram: Diagram) -> dict[str, dict[str, int]]:
    """Per Aggregate, its columns whose sums are computed exactly, in lower case, and with how many digits."""
    scales: dict[str, dict[str, int]] = {}
    for each in float_columns(diagram):
        if each.scale is not None:
            scales.setdefault(each.box.name, {})[each.column.lower()] = each.scale
    return scales


def inexact_decisions(diagram: Diagram) -> list[Problem]:
    """What a mode must refuse in which replicas have to agree, with box and column."""
    return [
        Problem(
            code="inexact-decision",
            box=each.box.name,
            message=f"{each.column!r} is `{each.sql}`, which depends on the order of addition, and {decision}.",
            remedy="Decide by a sum, an average, a count, a minimum or a maximum, or use a mode without replicas.",
        )
        for each in float_columns(diagram)
        if each.refused
        for decision in each.decisions[:1]
    ]


def as_data(diagram: Diagram) -> dict[str, object]:
    """The same as ``as_lines``, for scripts: by box and column."""
    found: dict[str, dict[str, object]] = {}
    for each in float_columns(diagram):
        found.setdefault(each.box.name, {})[each.column] = {
            "scale": each.scale,
            "refused": each.refused,
            "certain": each.certain,
            "decisions": [{"box": decision.box.name, "sql": decision.sql} for decision in each.decisions],
        }
    return {"floats": found}


def as_lines(diagram: Diagram) -> list[str]:
    """A paragraph that says of each such column how it is computed and what decides by it; nothing if there is none."""
    columns = float_columns(diagram)
    lines = [f"  {title(each.box)}, {each.column}: {_told(each)}" for each in columns]
    return ["", "floating point", *lines] if lines else []


def _told(column: FloatColumn) -> str:
    decided = str(column.decisions[0]) if column.decisions else "nothing decides by it"
    more = f", and {len(column.decisions) - 1} more do" if len(column.decisions) > 1 else ""
    if column.refused:
        return f"depends on the order of addition; {decided}{more}; refused where replicas must agree"
    if column.scale is None:
        return f"may differ in its last bits; {decided}"
    perhaps = "" if column.certain else ", if Spark finds it to be floating point"
    digits = "1 digit" if column.scale == 1 else f"{column.scale} digits"
    return f"exact to {digits} after the point{perhaps}; {decided}{more}"


@lru_cache(maxsize=16)
def _found(diagram: Diagram) -> tuple[FloatColumn, ...]:
    known = schemas(diagram)
    columns: dict[str, Columns] = {}
    causes: list[Cause] = []
    for box in graph.order(diagram):
        inputs = [columns.get(arrow.box) for arrow in box.inputs]
        if isinstance(box, Source):
            columns[box.name] = {column.name.lower(): NONE for column in box.schema}
        elif all(arrow in known for arrow in box.inputs) and None not in inputs:
            flow = Flow(box, [each for each in inputs if each is not None], known[box.inputs[0]])
            try:
                columns[box.name] = catalog.kind(box).flow(box, flow)
            except ConfigError:
                continue  # SQL that cannot be read
            causes += flow.made
    return tuple(
        FloatColumn(
            box=each.box,
            column=each.column,
            sql=each.sql,
            sums=each.sums,
            others=each.others,
            certain=each.certain,
            decisions=tuple(each.decisions),
        )
        for each in causes
    )
