"""How the last bits of a value go through one box: what carries them on, and what decides by them.

``floats`` asks every box of a diagram, in the order of flow, and each kind of box says by a ``Flow`` which of its
expressions carry a value on and by which it decides. Why that matters is said in ``floats``.

A value *carries on* through what is continuous: arithmetic, a choice between branches, a sum, a maximum. Everything
else is taken to decide by what it reads: a comparison, a cast to a whole number, ``floor`` and functions that are not
known here. After that nothing of rounding is left to follow: it has become another value, or has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from anabranch.query.boxes import Box, Schema, Summing, title
from anabranch.query.infer import infer
from anabranch.query.sql import is_aggregate, parse_expression, select_items

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


@dataclass(slots=True, eq=False)
class Cause:
    """A column that a box adds up, under way through the diagram."""

    box: Summing
    column: str
    sql: str
    sums: bool = False
    others: bool = False
    certain: bool = True
    nulls: bool = False
    decisions: dict[Decision, None] = field(default_factory=dict)


Causes = frozenset[Cause]
NONE: Final[Causes] = frozenset()
Columns = Mapping[str, Causes]
"""Per column in lower case, in the order of the schema, what its last bits depend on."""


class Flow:
    """One box: which causes go in, which come out, and by which it decides."""

    def __init__(self, box: Box, inputs: Sequence[Columns], schema: Schema) -> None:
        """``inputs`` are the columns of each input; ``schema`` is that of the first."""
        self.inputs: Final = inputs
        self.schema: Final = schema
        self.made: Final[list[Cause]] = []
        self._box = box

    @property
    def first(self) -> Columns:
        return self.inputs[0]

    def mapped(self, columns: str) -> Columns:
        """What comes out of a select list over the first input."""
        items = select_items(columns, [column.name for column in self.schema])
        return {name.lower(): self._carried(sql, self.first) for name, sql in items}

    def summed(self, box: Summing) -> Columns:
        """What comes out of aggregates over groups of the first input: by the group it is decided."""
        keys = self.grouped(box.by)
        made: dict[str, Causes] = {}
        for name, sql in select_items(box.columns, []):
            cause = _own(box, name, sql, self.schema)
            if cause is not None:
                self.made.append(cause)
            made[name.lower()] = self._carried(sql, self.first, cause)
        return {**keys, **made}

    def grouped(self, by: Iterable[str], port: int = 0) -> Columns:
        """The columns by which tuples of an input are told apart."""
        keys = {name.lower(): self.inputs[port].get(name.lower(), NONE) for name in by}
        for name in by:
            self._decide(keys[name.lower()], f"by {name}")
        return keys

    def decided(self, names: Iterable[str], what: str) -> None:
        """Something decides by columns of the first input that is no expression."""
        for name in names:
            self._decide(self.first.get(name, NONE), what)

    def decide_all(self, predicates: Iterable[str], columns: Columns) -> None:
        for sql in predicates:
            self._decide(self._carried(sql, columns), sql)

    def _carried(self, sql: str, columns: Columns, own: Cause | None = None) -> Causes:
        """The causes of an expression's value; by others that it reads it decides here."""
        carried, decided = _flow(parse_expression(sql).tree, columns, own)
        self._decide(decided, sql)
        return carried

    def _decide(self, causes: Causes, sql: str) -> None:
        for cause in causes:
            cause.decisions[Decision(self._box, sql)] = None


def _own(box: Summing, column: str, sql: str, schema: Schema) -> Cause | None:
    """What an Aggregate's column adds to the causes by itself; None if it is the same in any order."""
    cause = Cause(box, column, sql)
    for node in parse_expression(sql).tree.walk():
        if _is_summation(node):
            type_ = infer(node, schema)
            cause.sums |= type_ in ("double", None)
            cause.certain &= type_ is not None
        elif is_aggregate(node) and not _is_order_free(node):
            cause.others = True
            cause.nulls |= isinstance(node, _NULL_BY_ROUNDING)
    return cause if cause.sums or cause.others else None


def _flow(node: exp.Expr, columns: Columns, own: Cause | None) -> tuple[Causes, Causes]:
    """The causes of the node's value, and those by which something inside of it decides."""
    if isinstance(node, exp.Column):
        return columns.get(node.name.lower(), NONE), NONE
    if isinstance(node, exp.Filter):
        carried, decided = _flow(node.this, columns, own)
        return carried, decided | _read(node.expression, columns, own)
    if isinstance(node, (exp.Case, exp.If)):
        return _choice(node, columns, own)
    parts = [_flow(child, columns, own) for child in node.iter_expressions()]
    carried = NONE.union(*(part for part, _ in parts))
    decided = NONE.union(*(part for _, part in parts))
    if _tests_null(node):
        return NONE, decided | {cause for cause in carried if cause.nulls}
    if _is_summation(node) or (is_aggregate(node) and not _is_order_free(node)):
        return carried | (NONE if own is None else {own}), decided
    continuous = isinstance(node, _CONTINUOUS) or _casts_to_float(node)
    return (carried, decided) if continuous else (NONE, carried | decided)


def _read(node: exp.Expr, columns: Columns, own: Cause | None) -> Causes:
    """All causes in a part that decides by what it reads."""
    parts = [_flow(child, columns, own) for child in node.iter_expressions()]
    return NONE.union(*(part for both in parts for part in both))


def _choice(node: exp.Expr, columns: Columns, own: Cause | None) -> tuple[Causes, Causes]:
    """CASE and if(): by the conditions is decided, and one of the results carries on."""
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    conditions = [node.args.get("this") if isinstance(node, exp.Case) else None, *(each.this for each in branches)]
    results = [each.args.get("true") for each in branches] + [node.args.get("default"), node.args.get("false")]
    tested = [_flow(each, columns, own) for each in conditions if each is not None]
    chosen = [_flow(each, columns, own) for each in results if each is not None]
    return NONE.union(*(carried for carried, _ in chosen)), NONE.union(
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
