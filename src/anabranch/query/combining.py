"""How an aggregate over all tuples is made of aggregates over shares of them: the *combine* of the Aurora* paper, 5.1.

A box that is split computes the *parts* of its columns on each share, and whoever merges the shares computes the
*whole* of the parts. Of ``count`` the part is a count and the whole is a sum; an average needs two parts. All of it is
SQL text, by which a query can be split without a function being sent anywhere.

For most aggregates the whole is the very value. For those that rest on floating-point numbers it is the same up to
rounding, as it is between any two runs (``floats``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from anabranch.query.sql import parse_expression
from anabranch.query.summations import Call, calls, with_condition


@dataclass(frozen=True, slots=True)
class Combine:
    """``parts`` are aggregates of the arguments ``{x}`` and ``{y}``; ``whole`` is one of the parts ``{0}``, ``{1}``."""

    parts: tuple[str, ...]
    whole: str
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Division:
    """A column of a box that is split: what each share computes, by name, and what is made of that."""

    parts: tuple[tuple[str, str], ...]
    whole: str
    is_exact: bool


def _same(function: str) -> Combine:
    return Combine((f"{function}({{x}})",), f"{function}({{0}})")


def _moments(whole: str, *others: str) -> Combine:
    """Of a number of values, their mean and their variance: means of powers about 0 can be added, those about the mean
    cannot."""
    return Combine(("count({x})", "avg({x})", "var_pop({x})", *others), whole, is_exact=False)


_N: Final = "nullif(sum({0}), 0)"
_MEAN: Final = f"(sum({{0}} * {{1}}) / {_N})"
_SQUARES: Final = f"(sum({{0}} * ({{2}} + {{1}} * {{1}})) / {_N})"
_VARIANCE: Final = f"greatest({_SQUARES} - {_MEAN} * {_MEAN}, 0D)"
_SAMPLE: Final = f"({_VARIANCE} * sum({{0}}) / nullif(sum({{0}}) - 1, 0))"

_THIRD: Final = "coalesce({3} * pow({2}, 1.5D), 0D)"
_CUBES: Final = f"(sum({{0}} * ({_THIRD} + 3 * {{1}} * {{2}} + pow({{1}}, 3))) / {_N})"
_SKEW: Final = f"({_CUBES} - 3 * {_MEAN} * {_SQUARES} + 2 * pow({_MEAN}, 3))"
_FOURTH: Final = "coalesce(({4} + 3) * {2} * {2}, 0D)"
_POWERS: Final = f"(sum({{0}} * ({_FOURTH} + 4 * {{1}} * {_THIRD} + 6 * {{1}} * {{1}} * {{2}} + pow({{1}}, 4))) / {_N})"
_KURT: Final = f"({_POWERS} - 4 * {_MEAN} * {_CUBES} + 6 * pow({_MEAN}, 2) * {_SQUARES} - 3 * pow({_MEAN}, 4))"

_PAIRED: Final = ("CASE WHEN {y} IS NOT NULL THEN {x} END", "CASE WHEN {x} IS NOT NULL THEN {y} END")
_TOGETHER: Final = (f"count({_PAIRED[0]})", f"avg({_PAIRED[0]})", f"avg({_PAIRED[1]})", "covar_pop({x}, {y})")
_OTHER_MEAN: Final = f"(sum({{0}} * {{2}}) / {_N})"
_COVARIANCE: Final = f"(sum({{0}} * ({{3}} + {{1}} * {{2}})) / {_N} - {_MEAN} * {_OTHER_MEAN})"


def _spread(mean: str, variance: str, middle: str) -> str:
    return f"(sum({{0}} * ({variance} + {mean} * {mean})) / {_N} - {middle} * {middle})"


_AVERAGE: Final = Combine(("sum({x})", "count({x})"), "sum({0}) / nullif(sum({1}), 0)", is_exact=False)
_DEVIATION: Final = _moments(f"sqrt({_SAMPLE})")
_SAMPLE_VARIANCE: Final = _moments(_SAMPLE)

COMBINES: Final[Mapping[str, Combine]] = {
    **{name: _same(name) for name in ("sum", "min", "max", "bool_and", "bool_or", "any", "some", "every")},
    **{name: _same(name) for name in ("bit_and", "bit_or", "bit_xor")},
    "count": Combine(("count({x})",), "coalesce(sum({0}), 0)"),
    "count_if": Combine(("count_if({x})",), "coalesce(sum({0}), 0)"),
    "avg": _AVERAGE,
    "mean": _AVERAGE,
    "var_pop": _moments(_VARIANCE),
    "var_samp": _SAMPLE_VARIANCE,
    "variance": _SAMPLE_VARIANCE,
    "stddev_pop": _moments(f"sqrt({_VARIANCE})"),
    "stddev_samp": _DEVIATION,
    "stddev": _DEVIATION,
    "std": _DEVIATION,
    "skewness": _moments(f"{_SKEW} / nullif(pow({_VARIANCE}, 1.5D), 0)", "skewness({x})"),
    "kurtosis": _moments(f"{_KURT} / nullif(pow({_VARIANCE}, 2), 0) - 3", "skewness({x})", "kurtosis({x})"),
    "covar_pop": Combine(_TOGETHER, _COVARIANCE, is_exact=False),
    "covar_samp": Combine(_TOGETHER, f"{_COVARIANCE} * sum({{0}}) / nullif(sum({{0}}) - 1, 0)", is_exact=False),
    "corr": Combine(
        (*_TOGETHER, f"var_pop({_PAIRED[0]})", f"var_pop({_PAIRED[1]})"),
        f"{_COVARIANCE} / nullif(sqrt({_spread('{1}', '{4}', _MEAN)} * {_spread('{2}', '{5}', _OTHER_MEAN)}), 0)",
        is_exact=False,
    ),
}
"""For every aggregate that a query may use."""


def divided(column: str, sql: str) -> Division:
    """An expression of aggregates, divided: its parts are called after the column, and the whole reads them."""
    parts: list[tuple[str, str]] = []
    pieces: list[str] = []
    done, is_exact = 0, True
    for call in calls(sql):
        combine = COMBINES[call.function]
        names = [f"{column}_{len(parts) + number}" for number in range(len(combine.parts))]
        parts += zip(names, _filled_parts(combine, call), strict=True)
        whole = combine.whole.format(*names)
        pieces += [sql[done : call.start], f"({whole})"]
        done, is_exact = call.end, is_exact and combine.is_exact
    return Division(tuple(parts), "".join([*pieces, sql[done:]]), is_exact)


def _filled_parts(combine: Combine, call: Call) -> list[str]:
    arguments = [f"({each})" if _is_compound(each) else each for each in call.arguments]
    given = dict(zip(("x", "y"), arguments, strict=False))
    filled = [part.format(**given) for part in combine.parts]
    return filled if call.condition is None else [with_condition(part, call.condition) for part in filled]


def _is_compound(sql: str) -> bool:
    """Whether an argument needs brackets inside of another expression."""
    return sql != "*" and parse_expression(sql).column is None
