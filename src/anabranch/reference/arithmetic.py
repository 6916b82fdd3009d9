"""``+ - * / %`` as Spark 4 computes them in ANSI mode: the type of the result first, then the value in that type."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlglot import exp

from anabranch.reference import sql_types as types
from anabranch.reference.casts import EXACT, cast, fit_decimal, fit_fractional, fit_integral


class Operand(NamedTuple):
    """The type of an operand. An integer literal has its value too: beside a decimal it counts only its digits."""

    type: str
    literal: int | None = None

    def precision_scale(self) -> tuple[int, int]:
        if self.literal is not None and self.type in types.INTEGRAL:
            return len(str(abs(self.literal))), 0
        return types.precision_scale(self.type)


Compiled = tuple[str, Callable[[Any, Any], Any]]
DecimalRule = Callable[[int, int, int, int], tuple[int, int]]


def _add_type(p1: int, s1: int, p2: int, s2: int) -> tuple[int, int]:
    scale = max(s1, s2)
    return max(p1 - s1, p2 - s2) + scale + 1, scale


def _multiply_type(p1: int, s1: int, p2: int, s2: int) -> tuple[int, int]:
    return p1 + p2 + 1, s1 + s2


def _divide_type(p1: int, s1: int, p2: int, s2: int) -> tuple[int, int]:
    scale = max(6, s1 + p2 + 1)
    return p1 - s1 + s2 + scale, scale


def _remainder_type(p1: int, s1: int, p2: int, s2: int) -> tuple[int, int]:
    scale = max(s1, s2)
    return min(p1 - s1, p2 - s2) + scale, scale


def _compile(left: Operand, right: Operand, plain: Callable[[Any, Any], Any], rule: DecimalRule) -> Compiled:
    meeting = _meeting(left, right)
    if not types.is_decimal(meeting):
        fit = fit_integral if meeting in types.INTEGRAL else fit_fractional
        return meeting, lambda a, b: fit(plain(*_both(a, b, left, right, meeting)), meeting)
    result = types.adjusted(*rule(*left.precision_scale(), *right.precision_scale()))
    return result, lambda a, b: fit_decimal(plain(Decimal(a), Decimal(b)), result)


def _meeting(left: Operand, right: Operand) -> str:
    for operand in (left, right):
        if not types.is_numeric(operand.type) and operand.type != "void":
            raise NotImplementedError(f"The reference does not compute with {operand.type}.")
    meeting = types.common(left.type, right.type)
    return "double" if meeting == "void" else meeting


def _both(a: Any, b: Any, left: Operand, right: Operand, meeting: str) -> tuple[Any, Any]:
    return cast(a, left.type, meeting), cast(b, right.type, meeting)


def _add(left: Operand, right: Operand) -> Compiled:
    return _compile(left, right, lambda a, b: EXACT.add(a, b) if isinstance(a, Decimal) else a + b, _add_type)


def _subtract(left: Operand, right: Operand) -> Compiled:
    return _compile(left, right, lambda a, b: EXACT.subtract(a, b) if isinstance(a, Decimal) else a - b, _add_type)


def _multiply(left: Operand, right: Operand) -> Compiled:
    return _compile(left, right, lambda a, b: EXACT.multiply(a, b) if isinstance(a, Decimal) else a * b, _multiply_type)


def _divide(left: Operand, right: Operand) -> Compiled:
    """Everything but decimals divides as doubles, two ints included."""
    if types.is_decimal(_meeting(left, right)):
        return _compile(left, right, lambda a, b: EXACT.divide(a, _divisor(b)), _divide_type)
    return "double", lambda a, b: operator.truediv(*_both(a, _divisor(b), left, right, "double"))


def _remainder(left: Operand, right: Operand) -> Compiled:
    """With the sign of the dividend, as in Java."""

    def remainder(a: Any, b: Any) -> Any:
        _divisor(b)
        if isinstance(a, Decimal):
            return EXACT.remainder(a, b)
        if isinstance(a, float):
            return math.fmod(a, b) if math.isfinite(a) else math.nan
        return int(math.copysign(1, a)) * (abs(a) % abs(b))

    return _compile(left, right, remainder, _remainder_type)


def _divisor(value: Any) -> Any:
    if value == 0:
        raise ZeroDivisionError("division by zero is an error in ANSI mode")
    return value


def negated(type_name: str) -> Callable[[Any], Any]:
    return _unary(type_name, operator.neg)


def absolute(type_name: str) -> Callable[[Any], Any]:
    return _unary(type_name, abs)


def _unary(type_name: str, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if not types.is_numeric(type_name) and type_name != "void":
        raise NotImplementedError(f"The reference does not compute with {type_name}.")
    if type_name in types.INTEGRAL:
        return lambda value: fit_integral(compute(value), type_name)
    if types.is_decimal(type_name):
        return lambda value: fit_decimal(compute(value), type_name)
    return compute


ARITHMETIC: Final[dict[type[exp.Expr], Callable[[Operand, Operand], Compiled]]] = {
    exp.Add: _add,
    exp.Sub: _subtract,
    exp.Mul: _multiply,
    exp.Div: _divide,
    exp.Mod: _remainder,
}
