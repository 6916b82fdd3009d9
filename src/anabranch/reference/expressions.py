"""SQL expressions over one row, evaluated in Python with Spark 4's ANSI semantics and three-valued logic.

``compile_expression`` turns a sqlglot tree into a typed function, so that types decide as they do in Spark: an int by
an int divides as doubles, ``0.8`` is a decimal, an overflow is an error. What is not supported says so: an oracle that
guesses is worse than none. Column names are compared without regard to case.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import sqlglot
from sqlglot import exp

from anabranch.query.bounds import interval_us
from anabranch.reference import sql_types as types
from anabranch.reference.arithmetic import ARITHMETIC, Operand, absolute, negated
from anabranch.reference.casts import cast

Row = Mapping[str, Any]
"""Values by lower-case column name."""

Scope = Mapping[str, str]
"""Types by lower-case column name."""

Hook = Callable[[exp.Expr, "Scope"], "Typed | None"]
"""Gets each node first: an Aggregate compiles its functions with it."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression: Spark's type of it, and its value for a row. ``literal`` holds the value of an integer literal."""

    type: str
    of: Callable[[Row], Any]
    literal: int | None = None


def parse(text: str) -> exp.Expr:
    """One expression."""
    tree: exp.Expr = parse_select(text)[0]
    return tree


def parse_select(columns: str) -> list[exp.Expr]:
    """The expressions of a select list, aliases included."""
    select = sqlglot.parse_one("SELECT " + columns, dialect="spark")
    expressions: list[exp.Expr] = select.expressions
    return expressions


def compile_expression(node: exp.Expr, scope: Scope, hook: Hook | None = None) -> Typed:
    """The expression over rows with the columns of ``scope``."""
    return _Compiler(scope, hook).compile(node)


class _Compiler:
    def __init__(self, scope: Scope, hook: Hook | None) -> None:
        self._scope = scope
        self._hook = hook

    def compile(self, node: exp.Expr) -> Typed:
        hooked = self._hook(node, self._scope) if self._hook is not None else None
        if hooked is not None:
            return hooked
        if type(node) in ARITHMETIC:
            return self._arithmetic(node)
        if type(node) in _COMPARISONS:
            holds = _COMPARISONS[type(node)]
            return _strict("boolean", lambda a, b: holds(compare(a, b)), *self._together([node.this, node.expression]))
        rule = _RULES.get(type(node))
        if rule is None:
            raise NotImplementedError(f"The reference does not evaluate `{node.sql(dialect='spark')}` ({node.key}).")
        return rule(self, node)

    def _together(self, nodes: list[exp.Expr]) -> list[Typed]:
        """The expressions, cast to the one type that they meet in."""
        compiled = [self.compile(node) for node in nodes]
        meeting = compiled[0].type
        for each in compiled[1:]:
            meeting = types.common(meeting, each.type)
        return [_cast(each, meeting) for each in compiled]

    def _boolean(self, node: exp.Expr) -> Typed:
        compiled = self.compile(node)
        if compiled.type not in ("boolean", "void"):
            raise NotImplementedError(f"`{node.sql(dialect='spark')}` is {compiled.type}, not boolean.")
        return compiled

    def _arithmetic(self, node: exp.Expr) -> Typed:
        left, right = self.compile(node.this), self.compile(node.expression)
        if (left.type, right.type) == ("timestamp", "interval") and isinstance(node, (exp.Add, exp.Sub)):
            return _strict("timestamp", operator.add if isinstance(node, exp.Add) else operator.sub, left, right)
        type_name, compute = ARITHMETIC[type(node)](_operand(left), _operand(right))
        return _strict(type_name, compute, left, right)

    def column(self, node: exp.Expr) -> Typed:
        name = node.name.lower()
        if node.args.get("table") or name not in self._scope:
            raise NotImplementedError(f"There is no column `{node.sql(dialect='spark')}` among {sorted(self._scope)}.")
        return Typed(self._scope[name], lambda row: row[name])

    def literal(self, node: exp.Expr) -> Typed:
        text: str = node.name
        if node.args["is_string"]:
            return Typed("string", lambda row: text)
        if text.isdigit():
            value = int(text)
            fits = next((name for name in ("int", "bigint") if value < 1 << (types.bits(name) - 1)), None)
            return Typed(
                fits or types.decimal(len(str(value)), 0), lambda row: value if fits else Decimal(value), value
            )
        if "e" in text.lower():
            return Typed("double", lambda row: float(text))
        number = Decimal(text)
        digits, scale = len(number.as_tuple().digits), len(text.partition(".")[2])
        return Typed(types.decimal(max(digits, scale), scale), lambda row: number)

    def negation(self, node: exp.Expr) -> Typed:
        value = self.compile(node.this)
        compute = negated(value.type)
        literal = None if value.literal is None else -value.literal
        return replace(_strict(value.type, compute, value), literal=literal)

    def absolute(self, node: exp.Expr) -> Typed:
        value = self.compile(node.this)
        return _strict(value.type, absolute(value.type), value)

    def conjunction(self, node: exp.Expr) -> Typed:
        return self._connect(node, decides=False)

    def disjunction(self, node: exp.Expr) -> Typed:
        return self._connect(node, decides=True)

    def _connect(self, node: exp.Expr, *, decides: bool) -> Typed:
        """One FALSE decides an AND, one TRUE an OR; otherwise one NULL makes it NULL."""
        left, right = self._boolean(node.this), self._boolean(node.expression)

        def value(row: Row) -> Any:
            first = left.of(row)
            if first is decides:
                return decides
            second = right.of(row)
            if second is decides:
                return decides
            return None if first is None or second is None else not decides

        return Typed("boolean", value)

    def inversion(self, node: exp.Expr) -> Typed:
        return _strict("boolean", operator.not_, self._boolean(node.this))

    def is_(self, node: exp.Expr) -> Typed:
        """``IS NULL``, ``IS TRUE`` and ``IS FALSE``: never NULL."""
        value, wanted = self.compile(node.this), self.compile(node.expression).of({})
        return Typed("boolean", lambda row: value.of(row) is wanted)

    def null_safe_equality(self, node: exp.Expr) -> Typed:
        left, right = self._together([node.this, node.expression])

        def value(row: Row) -> bool:
            first, second = left.of(row), right.of(row)
            return first is second if first is None or second is None else compare(first, second) == 0

        return Typed("boolean", value)

    def membership(self, node: exp.Expr) -> Typed:
        if not node.args.get("expressions"):
            raise NotImplementedError("The reference evaluates IN over a list only.")
        wanted, *members = self._together([node.this, *node.expressions])

        def value(row: Row) -> bool | None:
            found = wanted.of(row)
            others = [member.of(row) for member in members]
            if found is not None and any(other is not None and compare(found, other) == 0 for other in others):
                return True
            return None if found is None or None in others else False

        return Typed("boolean", value)

    def between(self, node: exp.Expr) -> Typed:
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return self.compile(exp.And(this=low, expression=high))

    def case(self, node: exp.Expr) -> Typed:
        branches = node.args["ifs"]
        subject = node.args.get("this")
        tests = [
            exp.EQ(this=subject.copy(), expression=each.this.copy()) if subject else each.this for each in branches
        ]
        return self._choose(tests, [each.args["true"] for each in branches], node.args.get("default"))

    def if_(self, node: exp.Expr) -> Typed:
        return self._choose([node.this], [node.args["true"]], node.args.get("false"))

    def _choose(self, tests: list[exp.Expr], results: list[exp.Expr], default: exp.Expr | None) -> Typed:
        conditions = [self._boolean(test) for test in tests]
        *values, otherwise = self._together([*results, default if default is not None else exp.Null()])

        def value(row: Row) -> Any:
            for condition, result in zip(conditions, values, strict=True):
                if condition.of(row) is True:
                    return result.of(row)
            return otherwise.of(row)

        return Typed(otherwise.type, value)

    def coalesce(self, node: exp.Expr) -> Typed:
        values = self._together([node.this, *node.expressions])
        return Typed(
            values[0].type,
            lambda row: next((found for each in values if (found := each.of(row)) is not None), None),
        )

    def concat(self, node: exp.Expr) -> Typed:
        nodes = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
        return _strict(
            "string", lambda *texts: "".join(texts), *(_cast(self.compile(each), "string") for each in nodes)
        )

    def upper(self, node: exp.Expr) -> Typed:
        return _strict("string", str.upper, _cast(self.compile(node.this), "string"))

    def lower(self, node: exp.Expr) -> Typed:
        return _strict("string", str.lower, _cast(self.compile(node.this), "string"))

    def length(self, node: exp.Expr) -> Typed:
        value = self.compile(node.this)
        return _strict("int", len, value if value.type == "binary" else _cast(value, "string"))

    def cast(self, node: exp.Expr) -> Typed:
        if node.args.get("safe"):
            raise NotImplementedError("The reference does not evaluate try_cast.")
        value = self.compile(node.this)
        target = _type_name(node.args["to"])
        of = _cast(value, target).of
        return Typed(target, of)

    def interval(self, node: exp.Expr) -> Typed:
        us = interval_us(node)
        if us is None:
            raise NotImplementedError(f"The reference does not evaluate `{node.sql(dialect='spark')}`.")
        return Typed("interval", lambda row: us)

    def paren(self, node: exp.Expr) -> Typed:
        return self.compile(node.this)

    def null(self, node: exp.Expr) -> Typed:
        return Typed("void", lambda row: None)

    def boolean(self, node: exp.Expr) -> Typed:
        value = bool(node.this)
        return Typed("boolean", lambda row: value)


def compare(first: Any, second: Any) -> int:
    """Less, equal, greater. NaN equals itself and is greater than every other number."""
    if isinstance(first, float) and isinstance(second, float) and (math.isnan(first) or math.isnan(second)):
        return math.isnan(first) - math.isnan(second)
    return int(first > second) - int(first < second)


def _strict(type_name: str, compute: Callable[..., Any], *operands: Typed) -> Typed:
    """NULL if any operand is NULL: the rule for everything without a rule of its own."""

    def value(row: Row) -> Any:
        values = [operand.of(row) for operand in operands]
        return None if None in values else compute(*values)

    return Typed(type_name, value)


def _cast(value: Typed, target: str) -> Typed:
    if value.type == target:
        return value
    return Typed(target, lambda row: cast(value.of(row), value.type, target))


def _operand(value: Typed) -> Operand:
    return Operand(value.type, value.literal)


def _type_name(data_type: exp.Expr) -> str:
    text = data_type.sql(dialect="spark").lower().replace(" ", "")
    return {"decimal": "decimal(10,0)"}.get(text, f"{text[:-1]},0)" if "(" in text and "," not in text else text)


_COMPARISONS: Final[dict[type[exp.Expr], Callable[[int], bool]]] = {
    exp.EQ: lambda sign: sign == 0,
    exp.NEQ: lambda sign: sign != 0,
    exp.LT: lambda sign: sign < 0,
    exp.LTE: lambda sign: sign <= 0,
    exp.GT: lambda sign: sign > 0,
    exp.GTE: lambda sign: sign >= 0,
}

_RULES: Final[dict[type[exp.Expr], Callable[[_Compiler, exp.Expr], Typed]]] = {
    exp.Column: _Compiler.column,
    exp.Literal: _Compiler.literal,
    exp.Null: _Compiler.null,
    exp.Boolean: _Compiler.boolean,
    exp.Paren: _Compiler.paren,
    exp.Neg: _Compiler.negation,
    exp.Abs: _Compiler.absolute,
    exp.And: _Compiler.conjunction,
    exp.Or: _Compiler.disjunction,
    exp.Not: _Compiler.inversion,
    exp.Is: _Compiler.is_,
    exp.NullSafeEQ: _Compiler.null_safe_equality,
    exp.In: _Compiler.membership,
    exp.Between: _Compiler.between,
    exp.Case: _Compiler.case,
    exp.If: _Compiler.if_,
    exp.Coalesce: _Compiler.coalesce,
    exp.Concat: _Compiler.concat,
    exp.DPipe: _Compiler.concat,
    exp.Upper: _Compiler.upper,
    exp.Lower: _Compiler.lower,
    exp.Length: _Compiler.length,
    exp.Interval: _Compiler.interval,
    exp.Cast: _Compiler.cast,
    exp.TryCast: _Compiler.cast,
}
