"""The aggregate functions over a handful of rows."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from anabranch.reference.aggregates import ROWS, compile_aggregate
from anabranch.reference.expressions import parse

COLUMNS = {"i": "int", "d": "double", "dec": "decimal(5,2)", "s": "string", "b": "boolean", "g": "string"}
ROWS_OF_GROUP: list[dict[str, Any]] = [
    {"i": 1, "d": 1.0, "dec": Decimal("1.10"), "s": "b", "b": True, "g": "k"},
    {"i": 2, "d": 2.0, "dec": Decimal("2.25"), "s": "a", "b": None, "g": "k"},
    {"i": None, "d": None, "dec": None, "s": None, "b": False, "g": "k"},
    {"i": 6, "d": 6.0, "dec": Decimal("3.00"), "s": "c", "b": True, "g": "k"},
]


def aggregate(text: str, rows: list[dict[str, Any]]) -> tuple[str, Any]:
    compiled = compile_aggregate(parse(text), {"g": "string"}, COLUMNS)
    return compiled.type, compiled.of({"g": "k", ROWS: rows})


@pytest.mark.parametrize(
    ("text", "type_name", "value", "of_nulls"),
    [
        ("count(*)", "bigint", 4, 1),
        ("count(1)", "bigint", 4, 1),
        ("count(i)", "bigint", 3, 0),
        ("count(i, b)", "bigint", 2, 0),
        ("count_if(i > 1)", "bigint", 2, 0),
        ("sum(i)", "bigint", 9, None),
        ("sum(d)", "double", 9.0, None),
        ("sum(dec)", "decimal(15,2)", Decimal("6.35"), None),
        ("sum(i * 2)", "bigint", 18, None),
        ("avg(i)", "double", 3.0, None),
        ("mean(d)", "double", 3.0, None),
        ("avg(dec)", "decimal(9,6)", Decimal("2.116667"), None),
        ("min(s)", "string", "a", None),
        ("max(s)", "string", "c", None),
        ("max(dec)", "decimal(5,2)", Decimal("3.00"), None),
        ("bool_and(b)", "boolean", False, None),
        ("every(b)", "boolean", False, None),
        ("bool_or(b)", "boolean", True, None),
        ("any(b)", "boolean", True, None),
        ("some(b)", "boolean", True, None),
        ("bit_or(i)", "int", 7, None),
        ("bit_and(i)", "int", 0, None),
        ("bit_xor(i)", "int", 5, None),
        ("var_pop(i)", "double", 14 / 3, None),
        ("var_samp(i)", "double", 7.0, None),
        ("variance(d)", "double", 7.0, None),
        ("stddev(d)", "double", math.sqrt(7), None),
        ("std(d)", "double", math.sqrt(7), None),
        ("stddev_samp(dec)", "double", pytest.approx(0.957, abs=1e-3), None),
        ("stddev_pop(i)", "double", math.sqrt(14 / 3), None),
        ("skewness(i)", "double", pytest.approx(0.5951700641), None),
        ("kurtosis(i)", "double", pytest.approx(-1.5), None),
        ("covar_pop(i, d)", "double", 14 / 3, None),
        ("covar_samp(i, d)", "double", 7.0, None),
        ("corr(i, d)", "double", pytest.approx(1.0), None),
        ("sum(i) / count(*)", "double", 9 / 4, None),
        ("sum(i) FILTER (WHERE i > 1)", "bigint", 8, None),
        ("count(*) FILTER (WHERE b)", "bigint", 2, 0),
        ("concat(g, max(s))", "string", "kc", None),
    ],
)
def test_of_rows_and_of_nulls_only(text: str, type_name: str, value: object, of_nulls: object) -> None:
    assert aggregate(text, ROWS_OF_GROUP) == (type_name, value)
    nulls: dict[str, Any] = {**dict.fromkeys(COLUMNS), "g": "k"}
    assert aggregate(text, [nulls]) == (type_name, of_nulls)


def test_spread_of_one_value() -> None:
    one = [ROWS_OF_GROUP[0]]
    assert aggregate("var_samp(i)", one)[1] is None
    assert aggregate("stddev_samp(i)", one)[1] is None
    assert aggregate("covar_samp(i, d)", one)[1] is None
    assert aggregate("var_pop(i)", one)[1] == 0.0
    assert aggregate("skewness(i)", one)[1] is None


def test_nan_is_the_largest_and_spoils_a_sum() -> None:
    rows = [{**ROWS_OF_GROUP[0], "d": value} for value in (1.0, math.nan, math.inf)]
    assert math.isnan(aggregate("max(d)", rows)[1])
    assert aggregate("min(d)", rows)[1] == 1.0
    assert math.isnan(aggregate("sum(d)", rows)[1])


def test_infinities_of_both_signs_add_up_to_nan() -> None:
    rows = [{**ROWS_OF_GROUP[0], "d": value} for value in (math.inf, -math.inf)]
    assert math.isnan(aggregate("sum(d)", rows)[1])


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    compiled = compile_aggregate(parse("sum(l)"), {}, {"l": "bigint"})
    with pytest.raises(OverflowError):
        compiled.of({ROWS: [{"l": (1 << 63) - 1}, {"l": 1}]})


@pytest.mark.parametrize("text", ["count(DISTINCT i)", "first(i)", "sum(s)", "i + sum(i)", "collect_list(i)"])
def test_what_is_not_supported_says_so(text: str) -> None:
    with pytest.raises(NotImplementedError):
        aggregate(text, ROWS_OF_GROUP)
