"""The aggregate functions, over the list of a group's rows.

Results depend on the multiset of rows alone. Integers and decimals are exact; floating-point sums are rounded once
(``math.fsum``), so they may differ from Spark's, which rounds at every addition, in the last bits. Those by which
something decides have the value that ``exact`` defines.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from anabranch.reference import sql_types as types
from anabranch.reference.casts import EXACT, cast, fit_decimal, fit_integral
from anabranch.reference.exact import exact_sum
from anabranch.reference.expressions import Row, Scope, Typed, compare, compile_expression

ROWS: Final = "_rows"
"""Where an aggregate expression finds the rows of its group."""

Values = list[Any]
"""The values of the argument that are not NULL."""


def compile_aggregate(node: exp.Expr, groups: Scope, columns: Scope, scale: int | None = None) -> Typed:
    """One column of an Aggregate: evaluated over the group's key columns and, under ``ROWS``, the list of its rows.

    With a ``scale``, its floating-point sums and averages are exact.
    """

    def hook(inner: exp.Expr, scope: Scope) -> Typed | None:
        return _function(inner, columns, scale)

    return compile_expression(node, groups, hook)


def _function(node: exp.Expr, columns: Scope, scale: int | None) -> Typed | None:
    if isinstance(node, exp.Filter):
        return _filtered(node, columns, scale)
    name = _NAMES.get(type(node)) or (node.name.lower() if isinstance(node, exp.Anonymous) else None)
    if name is None:
        return None
    if node.find(exp.Distinct):
        raise NotImplementedError("The reference does not evaluate DISTINCT.")
    arguments = _arguments(node)
    if name == "count":
        return _count(arguments, columns)
    compiled = [compile_expression(argument, columns) for argument in arguments]
    rule = _RULES.get(name)
    if rule is None:
        raise NotImplementedError(f"The reference has no aggregate `{node.sql(dialect='spark')}`.")
    type_name, compute = rule(*(argument.type for argument in compiled))
    if scale is not None and name in _EXACT and type_name == "double":
        compute = _exactly(compiled[0].type, scale, averages=name != "sum")
    return Typed(type_name, lambda group: compute(_values(group[ROWS], compiled)))


def _filtered(node: exp.Expr, columns: Scope, scale: int | None) -> Typed | None:
    inner = _function(node.this, columns, scale)
    if inner is None:
        return None
    holds = compile_expression(node.expression.this, columns)
    return Typed(
        inner.type, lambda group: inner.of({**group, ROWS: [row for row in group[ROWS] if holds.of(row) is True]})
    )


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    first = [node.this] if isinstance(node.this, exp.Expr) else []
    second = node.args.get("expression")
    return [*first, *([second] if second is not None else []), *(node.args.get("expressions") or [])]


def _values(rows: Sequence[Row], arguments: Sequence[Typed]) -> Values:
    """One value per row, or a pair for two arguments; rows with a NULL among them do not count."""
    found = ([argument.of(row) for argument in arguments] for row in rows)
    return [values[0] if len(values) == 1 else tuple(values) for values in found if None not in values]


def _count(arguments: list[exp.Expr], columns: Scope) -> Typed:
    compiled = [compile_expression(each, columns) for each in arguments if not isinstance(each, exp.Star)]
    return Typed("bigint", lambda group: len(_values(group[ROWS], compiled) if compiled else group[ROWS]))


Rule = Callable[..., tuple[str, Callable[[Values], Any]]]


def _or_null(compute: Callable[[Values], Any]) -> Callable[[Values], Any]:
    return lambda values: compute(values) if values else None


def _sum(argument: str) -> tuple[str, Callable[[Values], Any]]:
    if argument in types.INTEGRAL:
        return "bigint", _or_null(lambda values: fit_integral(sum(values), "bigint"))
    if argument in types.FRACTIONAL:
        return "double", _or_null(_float_sum)
    precision, scale = _decimal(argument)
    result = types.bounded(precision + 10, scale)
    return result, _or_null(lambda values: fit_decimal(_decimal_sum(values), result))


def _average(argument: str) -> tuple[str, Callable[[Values], Any]]:
    if argument in types.INTEGRAL or argument in types.FRACTIONAL:
        return "double", _or_null(lambda values: _float_sum([float(value) for value in values]) / len(values))
    precision, scale = _decimal(argument)
    result = types.bounded(precision + 4, scale + 4)
    return result, _or_null(
        lambda values: fit_decimal(EXACT.divide(_decimal_sum(values), Decimal(len(values))), result)
    )


def _exactly(argument: str, scale: int, *, averages: bool) -> Callable[[Values], Any]:
    def compute(values: Values) -> float:
        total = exact_sum([cast(value, argument, "double") for value in values], scale)
        return total / len(values) if averages else total

    return _or_null(compute)


def _decimal(argument: str) -> tuple[int, int]:
    if not types.is_decimal(argument):
        raise NotImplementedError(f"The reference does not add up {argument}.")
    return types.precision_scale(argument)


def _decimal_sum(values: Values) -> Decimal:
    total: Decimal = functools.reduce(EXACT.add, values)
    return total


def _float_sum(values: Values) -> float:
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):  # infinities of both signs, or a sum that is one
        return float(sum(values))


def _extreme(sign: int) -> Rule:
    best = functools.cmp_to_key(compare)
    return lambda argument: (argument, _or_null(lambda values: (max if sign > 0 else min)(values, key=best)))


def _boolean(decide: Callable[[Values], bool]) -> Rule:
    return lambda argument: ("boolean", _or_null(decide))


def _bitwise(combine: Callable[[int, int], int]) -> Rule:
    return lambda argument: (argument, _or_null(lambda values: functools.reduce(combine, values)))


def _moments(of: Callable[[list[float]], float | None]) -> Rule:
    def rule(argument: str) -> tuple[str, Callable[[Values], Any]]:
        return "double", _or_null(lambda values: of([cast(value, argument, "double") for value in values]))

    return rule


def _central(values: Sequence[float], power: int) -> float:
    """The sum of the powers of the distances from the mean."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** power for value in values)


def _variance(values: list[float], *, less: int) -> float | None:
    return _central(values, 2) / (len(values) - less) if len(values) > less else None


def _deviation(values: list[float], *, less: int) -> float | None:
    variance = _variance(values, less=less)
    return None if variance is None else math.sqrt(variance)


def _skewness(values: list[float]) -> float | None:
    spread = _central(values, 2)
    return math.sqrt(len(values)) * _central(values, 3) / math.sqrt(spread**3) if spread else None


def _kurtosis(values: list[float]) -> float | None:
    spread = _central(values, 2)
    return len(values) * _central(values, 4) / (spread * spread) - 3 if spread else None


def _pairs(of: Callable[[list[float], list[float]], float | None]) -> Rule:
    def rule(first: str, second: str) -> tuple[str, Callable[[Values], Any]]:
        def compute(pairs: Values) -> float | None:
            xs = [cast(x, first, "double") for x, _ in pairs]
            return of(xs, [cast(y, second, "double") for _, y in pairs])

        return "double", _or_null(compute)

    return rule


def _together(xs: list[float], ys: list[float]) -> float:
    """The sum of the products of both distances from the means."""
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    return math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))


def _covariance(xs: list[float], ys: list[float], *, less: int) -> float | None:
    return _together(xs, ys) / (len(xs) - less) if len(xs) > less else None


def _correlation(xs: list[float], ys: list[float]) -> float | None:
    return _together(xs, ys) / math.sqrt(_central(xs, 2) * _central(ys, 2)) if len(xs) > 1 else None


_EXACT: Final = frozenset({"sum", "avg", "mean"})
_SAMPLE: Final = _moments(functools.partial(_deviation, less=1))
_SAMPLE_VARIANCE: Final = _moments(functools.partial(_variance, less=1))

_RULES: Final[dict[str, Rule]] = {
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "min": _extreme(-1),
    "max": _extreme(+1),
    "count_if": lambda argument: ("bigint", lambda values: sum(value is True for value in values)),
    "bool_and": _boolean(all),
    "every": _boolean(all),
    "bool_or": _boolean(any),
    "any": _boolean(any),
    "some": _boolean(any),
    "bit_and": _bitwise(operator.and_),
    "bit_or": _bitwise(operator.or_),
    "bit_xor": _bitwise(operator.xor),
    "stddev": _SAMPLE,
    "std": _SAMPLE,
    "stddev_samp": _SAMPLE,
    "stddev_pop": _moments(functools.partial(_deviation, less=0)),
    "variance": _SAMPLE_VARIANCE,
    "var_pop": _moments(functools.partial(_variance, less=0)),
    "skewness": _moments(_skewness),
    "kurtosis": _moments(_kurtosis),
    "covar_pop": _pairs(functools.partial(_covariance, less=0)),
    "covar_samp": _pairs(functools.partial(_covariance, less=1)),
    "corr": _pairs(_correlation),
}

_NAMES: Final[dict[type[exp.Expr], str]] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Any: "any",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.Stddev: "stddev",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "variance",
    exp.VariancePop: "var_pop",
    exp.Skewness: "skewness",
    exp.Kurtosis: "kurtosis",
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.Corr: "corr",
}
