"""Which floating-point aggregates something decides by.

Floating-point numbers give another sum in another order, and Spark adds in no fixed order: two replicas may compute
values that differ in their last bits. Identities do not depend on values, so nothing is lost by that, unless a value
decides: whether a tuple passes a Filter, which tuples a Join pairs, which group a tuple is in. Replicas would then
differ by whole tuples. So this module follows each value that comes of adding floating-point numbers through the
diagram, column by column, to the places that decide by it.

Sums and averages that something decides by are computed exactly (``engine.exact``, ``reference.exact``), in every mode,
so that a query gives the same stream in each. Nothing else of that sort can be: modes with replicas refuse it.

A value *carries on* through what is continuous: arithmetic, a choice between branches, a sum, a maximum. Everything
else is taken to decide by what it reads: a comparison, a cast to a whole number, ``floor`` and functions that are not
known here. After that nothing of rounding is left to follow: it has become another value, or has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from sqlglot import exp

from anabranch.errors import ConfigError, Problem
from anabranch.limits import SUM_SCALE
from anabranch.query import graph
from anabranch.query.boxes import Aggregate, Box, Diagram, Drop, Filter, Join, Map, Schema, Source, Union
from anabranch.query.infer import infer
from anabranch.query.schema import schemas
from anabranch.query.sql import is_aggregate, parse_expression, select_items
from anabranch.query.text import title

_CONTINUOUS: Final = (
    exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Abs, exp.Coalesce, exp.Greatest, exp.Least, exp.Sqrt,
    exp.Cbrt, exp.Pow, exp.Exp, exp.Degrees, exp.Radians, exp.Min, exp.Max,
)  # fmt: skip
"""Neither jumps nor turns to NULL anywhere: ``ln`` and ``try_divide`` do, at 0."""
_COUNTED: Final = (exp.CountIf, exp.LogicalAnd, exp.LogicalOr, exp.Any, exp.BitwiseAndAgg, exp.BitwiseOrAgg,
                   exp.BitwiseXorAgg)  # fmt: skip
"""Aggregates of truth values and whole numbers: the same in any order."""
_COUNTED_BY_NAME: Final = frozenset({"every", "some"})
_NULL_TESTS: Final = frozenset({"isnull", "isnotnull"})
_NULL_BY_ROUNDING: Final = (exp.Skewness, exp.Kurtosis)
"""NULL where the variance is 0, which may be a matter of its last bit. Elsewhere NULL follows from counts alone."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A box that decides by a value, and the predicate, key or expression in which it does."""

    box: Box
    sql: str

    def __str__(self) -> str:
        return f"{title(self.box)} decides by it (`{self.sql}`)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatColumn:
    """A column of an Aggregate whose value depends on the order in which floating-point numbers are added.

    ``sums`` says that sums or averages are in it, ``others`` that there are functions that cannot be computed exactly.
    ``certain`` is False where only Spark can tell whether what is added is floating point at all.
    """

    box: Aggregate
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
            remedy="Decide by a sum, an average, a count or an extreme, or use a mode without replicas.",
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


# --- following -----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Cause:
    """A column of an Aggregate under way through the diagram."""

    box: Aggregate
    column: str
    sql: str
    sums: bool = False
    others: bool = False
    certain: bool = True
    nulls: bool = False
    decisions: dict[Decision, None] = field(default_factory=dict)


_Causes = frozenset[_Cause]
_NONE: Final[_Causes] = frozenset()
_Columns = Mapping[str, _Causes]
"""Per column in lower case, in the order of the schema, what its last bits depend on."""


@lru_cache(maxsize=16)
def _found(diagram: Diagram) -> tuple[FloatColumn, ...]:
    known = schemas(diagram)
    columns: dict[str, _Columns] = {}
    causes: list[_Cause] = []
    for box in graph.order(diagram):
        inputs = [columns.get(arrow.box) for arrow in box.inputs]
        if isinstance(box, Source):
            columns[box.name] = {column.name.lower(): _NONE for column in box.schema}
        elif all(arrow in known for arrow in box.inputs) and None not in inputs:
            try:
                following = _Following(box, [each for each in inputs if each is not None])
                columns[box.name] = following.columns(known[box.inputs[0]])
            except ConfigError:
                continue  # SQL that cannot be read
            causes += following.made
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


class _Following:
    """One box: which causes go in, which come out, and by which it decides."""

    def __init__(self, box: Box, inputs: list[_Columns]) -> None:
        self._box = box
        self._inputs = inputs
        self.made: list[_Cause] = []

    def columns(self, schema: Schema) -> _Columns:
        """What comes out; ``schema`` is that of the first input."""
        first = self._inputs[0]
        match self._box:
            case Filter():
                self._decide_all(self._box.predicates, first)
                return first
            case Drop():
                self._decide_all([self._box.predicate] if self._box.predicate is not None else [], first)
                return first
            case Union():
                together = zip(*(each.values() for each in self._inputs), strict=False)
                return dict(zip(first, (frozenset[_Cause]().union(*each) for each in together), strict=False))
            case Join():
                both = {**first, **self._inputs[1]}
                self._decide_all([self._box.on], both)
                return both
            case Map():
                items = select_items(self._box.columns, [column.name for column in schema])
                return {name.lower(): self._carried(sql, first) for name, sql in items}
            case Aggregate():
                return self._aggregate(self._box, schema, first)
            case Source():
                return first

    def _aggregate(self, box: Aggregate, schema: Schema, columns: _Columns) -> _Columns:
        keys = {name.lower(): columns.get(name.lower(), _NONE) for name in box.by}
        for name in box.by:
            self._decide(keys[name.lower()], f"by {name}")
        made: dict[str, _Causes] = {}
        for name, sql in select_items(box.columns, []):
            cause = _own(box, name, sql, schema)
            self.made += [cause] if cause is not None else []
            made[name.lower()] = self._carried(sql, columns, cause)
        return {**keys, **made}

    def _carried(self, sql: str, columns: _Columns, own: _Cause | None = None) -> _Causes:
        """The causes of an expression's value; by others that it reads it decides here."""
        carried, decided = _flow(parse_expression(sql).tree, columns, own)
        self._decide(decided, sql)
        return carried

    def _decide_all(self, predicates: Iterable[str], columns: _Columns) -> None:
        for sql in predicates:
            self._decide(self._carried(sql, columns), sql)

    def _decide(self, causes: _Causes, sql: str) -> None:
        for cause in causes:
            cause.decisions[Decision(self._box, sql)] = None


def _own(box: Aggregate, column: str, sql: str, schema: Schema) -> _Cause | None:
    """What an Aggregate's column adds to the causes by itself; None if it is the same in any order."""
    cause = _Cause(box, column, sql)
    for node in parse_expression(sql).tree.walk():
        if _is_summation(node):
            type_ = infer(node, schema)
            cause.sums |= type_ in ("double", None)
            cause.certain &= type_ is not None
        elif is_aggregate(node) and not _is_order_free(node):
            cause.others = True
            cause.nulls |= isinstance(node, _NULL_BY_ROUNDING)
    return cause if cause.sums or cause.others else None


def _flow(node: exp.Expr, columns: _Columns, own: _Cause | None) -> tuple[_Causes, _Causes]:
    """The causes of the node's value, and those by which something inside of it decides."""
    if isinstance(node, exp.Column):
        return columns.get(node.name.lower(), _NONE), _NONE
    if isinstance(node, exp.Filter):
        carried, decided = _flow(node.this, columns, own)
        return carried, decided | _read(node.expression, columns, own)
    if isinstance(node, (exp.Case, exp.If)):
        return _choice(node, columns, own)
    parts = [_flow(child, columns, own) for child in node.iter_expressions()]
    carried = _NONE.union(*(part for part, _ in parts))
    decided = _NONE.union(*(part for _, part in parts))
    if _tests_null(node):
        return _NONE, decided | {cause for cause in carried if cause.nulls}
    if _is_summation(node) or (is_aggregate(node) and not _is_order_free(node)):
        return carried | (_NONE if own is None else {own}), decided
    continuous = isinstance(node, _CONTINUOUS) or _casts_to_float(node)
    return (carried, decided) if continuous else (_NONE, carried | decided)


def _read(node: exp.Expr, columns: _Columns, own: _Cause | None) -> _Causes:
    """All causes in a part that decides by what it reads."""
    parts = [_flow(child, columns, own) for child in node.iter_expressions()]
    return _NONE.union(*(part for both in parts for part in both))


def _choice(node: exp.Expr, columns: _Columns, own: _Cause | None) -> tuple[_Causes, _Causes]:
    """CASE and if(): by the conditions is decided, and one of the results carries on."""
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    conditions = [node.args.get("this") if isinstance(node, exp.Case) else None, *(each.this for each in branches)]
    results = [each.args.get("true") for each in branches] + [node.args.get("default"), node.args.get("false")]
    tested = [_flow(each, columns, own) for each in conditions if each is not None]
    chosen = [_flow(each, columns, own) for each in results if each is not None]
    return _NONE.union(*(carried for carried, _ in chosen)), _NONE.union(
        *(part for both in tested for part in both), *(decided for _, decided in chosen)
    )


def _is_summation(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Sum, exp.Avg)) or (isinstance(node, exp.Anonymous) and node.name.lower() == "mean")


def _is_order_free(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and node.name.lower() in _COUNTED_BY_NAME
    return named or isinstance(node, (*_COUNTED, exp.Count, exp.Min, exp.Max))


def _tests_null(node: exp.Expr) -> bool:
    """Whether the node sees of its arguments only whether they are NULL."""
    if isinstance(node, exp.Is):
        return isinstance(node.expression, exp.Null)
    return isinstance(node, exp.Count) or (isinstance(node, exp.Anonymous) and node.name.lower() in _NULL_TESTS)


def _casts_to_float(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Cast, exp.TryCast)) and node.args["to"].is_type("float", "double")
