"""The evaluator against what Spark 4 answers in ANSI mode: types, NULLs, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from anabranch.model.times import SECOND
from anabranch.reference.expressions import compile_expression, parse

SCOPE = {
    "i": "int",
    "l": "bigint",
    "t": "tinyint",
    "f": "float",
    "d": "double",
    "dec": "decimal(5,2)",
    "s": "string",
    "b": "boolean",
    "n": "int",
    "nb": "boolean",
    "day": "date",
    "ts": "timestamp",
    "bin": "binary",
    "_stime": "timestamp",
}
ROW: dict[str, Any] = {
    "i": 7,
    "l": 1 << 40,
    "t": 100,
    "f": 0.5,
    "d": 2.5,
    "dec": Decimal("12.34"),
    "s": "Ab",
    "b": True,
    "n": None,
    "nb": None,
    "day": 19_723,
    "ts": 1_700_000_000 * SECOND + 5,
    "bin": b"\x00\x01",
    "_stime": 42,
}


def evaluate(text: str, **values: Any) -> Any:
    return compile_expression(parse(text), SCOPE).of(ROW | values)


def type_of(text: str) -> str:
    return compile_expression(parse(text), SCOPE).type


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("i", "int", 7),
        ("I + 1", "int", 8),
        ("`i` - 10", "int", -3),
        ("i * l", "bigint", 7 << 40),
        ("t + t * 0", "int", 100),
        ("i / 2", "double", 3.5),
        ("6 / 3", "double", 2.0),
        ("f / f", "double", 1.0),
        ("-7 % 4", "int", -3),
        ("7 % -4", "int", 3),
        ("d % 2", "double", 0.5),
        ("-i", "int", -7),
        ("abs(i - 10)", "int", 3),
        ("f + f", "float", 1.0),
        ("f + i", "double", 7.5),
        ("d + 0.5", "double", 3.0),
        ("1e1", "double", 10.0),
        ("1L", "bigint", 1),
        ("3000000000", "bigint", 3_000_000_000),
        ("0.8", "decimal(1,1)", Decimal("0.8")),
        ("0.05", "decimal(2,2)", Decimal("0.05")),
        ("10.00", "decimal(4,2)", Decimal("10.00")),
        ("dec + 1", "decimal(6,2)", Decimal("13.34")),
        ("dec + i", "decimal(13,2)", Decimal("19.34")),
        ("dec - -1", "decimal(6,2)", Decimal("13.34")),
        ("dec * dec", "decimal(11,4)", Decimal("152.2756")),
        ("dec / 3", "decimal(9,6)", Decimal("4.113333")),
        ("dec / dec", "decimal(13,8)", Decimal(1)),
        ("dec % 5", "decimal(3,2)", Decimal("2.34")),
        ("dec + d", "double", 14.84),
        ("s || 'c'", "string", "Abc"),
        ("concat(s, '-', i, b)", "string", "Ab-7true"),
        ("upper(s)", "string", "AB"),
        ("lower(s)", "string", "ab"),
        ("length(s)", "int", 2),
        ("length('Zoë☃')", "int", 4),
        ("length(bin)", "int", 2),
        ("coalesce(n, i)", "int", 7),
        ("coalesce(n, l)", "bigint", 1 << 40),
        ("coalesce(NULL, 0.5)", "decimal(1,1)", Decimal("0.5")),
        ("CASE WHEN i > 9 THEN 'big' WHEN i > 5 THEN 'mid' ELSE 'small' END", "string", "mid"),
        ("CASE i WHEN 1 THEN 1 WHEN 7 THEN 2.5 END", "decimal(11,1)", Decimal("2.5")),
        ("CASE WHEN nb THEN 1 ELSE 2 END", "int", 2),
        ("CASE WHEN FALSE THEN 1 END", "int", None),
        ("if(nb, 1, 2)", "int", 2),
        ("(i + 1) * 2", "int", 16),
        ("_stime", "timestamp", 42),
        ("NULL", "void", None),
    ],
)
def test_values_and_types(text: str, type_name: str, value: object) -> None:
    assert (type_of(text), evaluate(text)) == (type_name, value)
    assert type(evaluate(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i = 7", True),
        ("i == 8", False),
        ("i <> 8", True),
        ("i != 7", False),
        ("i < 7", False),
        ("i <= 7", True),
        ("i > 6.9", True),
        ("i >= 7.1", False),
        ("d < 2.51", True),
        ("f = 0.5", True),
        ("l > 1.5e0", True),
        ("s < 'b'", True),
        ("s = 'AB'", False),
        ("n = 7", None),
        ("n = n", None),
        ("n <=> n", True),
        ("n <=> 7", False),
        ("i <=> 7", True),
        ("n IS NULL", True),
        ("i IS NULL", False),
        ("n IS NOT NULL", False),
        ("b IS TRUE", True),
        ("nb IS TRUE", False),
        ("nb IS NOT FALSE", True),
        ("i IN (1, 7)", True),
        ("i IN (1, 2)", False),
        ("i IN (1, NULL)", None),
        ("i IN (7, NULL)", True),
        ("n IN (1)", None),
        ("i NOT IN (1, 2)", True),
        ("i NOT IN (1, NULL)", None),
        ("i BETWEEN 7 AND 8", True),
        ("i BETWEEN 8 AND 9", False),
        ("i BETWEEN n AND 9", None),
        ("i BETWEEN n AND 6", False),
        ("i NOT BETWEEN 1 AND 6", True),
        ("NOT b", False),
        ("NOT nb", None),
        ("dec = 12.340", True),
        ("day = DATE '2024-01-01'", True),
        ("day < ts", False),
        ("ts >= TIMESTAMP '2023-11-14 22:13:20'", True),
        ("upper(n) IS NULL", True),
        ("n + 1 IS NULL", True),
        ("1 / n IS NULL", True),
        ("n / 0 IS NULL", True),
    ],
)
def test_conditions(text: str, value: bool | None) -> None:
    assert type_of(text) == "boolean"
    assert evaluate(text) is value


TRUTH = {"TRUE": True, "FALSE": False, "NULL": None}


@pytest.mark.parametrize("left", TRUTH)
@pytest.mark.parametrize("right", TRUTH)
def test_three_valued_logic(left: str, right: str) -> None:
    both = {TRUTH[left], TRUTH[right]}
    conjunction = False if False in both else None if None in both else True
    disjunction = True if True in both else None if None in both else False
    assert evaluate(f"{left} AND {right}") is conjunction
    assert evaluate(f"{left} OR {right}") is disjunction


def test_the_remainder_of_infinity_is_nan() -> None:
    assert math.isnan(evaluate("d % 3", d=math.inf))


def test_nan_equals_itself_and_is_the_largest() -> None:
    assert evaluate("d = d", d=math.nan) is True
    assert evaluate("d > 1e300", d=math.nan) is True
    assert evaluate("1e300 < d", d=math.nan) is True
    assert evaluate("d < d", d=math.nan) is False


def test_minus_zero_equals_zero() -> None:
    assert evaluate("d = 0", d=-0.0) is True


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("CAST(2.9 AS INT)", "int", 2),
        ("CAST(-2.9 AS INT)", "int", -2),
        ("CAST(d AS BIGINT)", "bigint", 2),
        ("CAST(i AS DOUBLE)", "double", 7.0),
        ("CAST(0.1 AS FLOAT)", "float", 0.10000000149011612),
        ("CAST(d AS DECIMAL(3, 0))", "decimal(3,0)", Decimal(3)),
        ("CAST(-2.5 AS DECIMAL(3))", "decimal(3,0)", Decimal(-3)),
        ("CAST(dec AS DECIMAL(4,1))", "decimal(4,1)", Decimal("12.3")),
        ("CAST(i AS DECIMAL)", "decimal(10,0)", Decimal(7)),
        ("CAST('12' AS INT)", "int", 12),
        ("CAST(' 1.5 ' AS DOUBLE)", "double", 1.5),
        ("CAST('1.55' AS DECIMAL(3,1))", "decimal(3,1)", Decimal("1.6")),
        ("CAST('Yes' AS BOOLEAN)", "boolean", True),
        ("CAST('f' AS BOOLEAN)", "boolean", False),
        ("CAST(i AS BOOLEAN)", "boolean", True),
        ("CAST(b AS INT)", "int", 1),
        ("CAST(i AS STRING)", "string", "7"),
        ("CAST(dec AS STRING)", "string", "12.34"),
        ("CAST(b AS STRING)", "string", "true"),
        ("CAST(day AS STRING)", "string", "2024-01-01"),
        ("CAST(ts AS BIGINT)", "bigint", 1_700_000_000),
        ("CAST(i AS TIMESTAMP)", "timestamp", 7 * SECOND),
        ("CAST(ts AS DATE)", "date", 19_675),
        ("CAST(day AS TIMESTAMP)", "timestamp", 19_723 * 86_400 * SECOND),
        ("CAST(NULL AS INT)", "int", None),
        ("CAST(n AS STRING)", "string", None),
    ],
)
def test_casts(text: str, type_name: str, value: object) -> None:
    assert (type_of(text), evaluate(text)) == (type_name, value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("i / 0", ZeroDivisionError),
        ("d / 0.0e0", ZeroDivisionError),
        ("i % 0", ZeroDivisionError),
        ("dec / 0", ZeroDivisionError),
        ("2147483647 + i", OverflowError),
        ("t + t", OverflowError),
        ("CAST(300 AS TINYINT)", OverflowError),
        ("CAST(123.45 AS DECIMAL(4,2))", OverflowError),
        ("CAST('x' AS INT)", ValueError),
        ("CAST('maybe' AS BOOLEAN)", ValueError),
    ],
)
def test_what_spark_stops_at_stops_here_too(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        evaluate(text)


@pytest.mark.parametrize(
    "text",
    [
        "i = '7'",
        "i + day",
        "s + 1",
        "soundex(s)",
        "try_cast(s AS INT)",
        "CAST(d AS STRING)",
        "missing + 1",
        "x.i",
        "i AND b",
    ],
)
def test_what_is_not_supported_says_so(text: str) -> None:
    with pytest.raises(NotImplementedError):
        evaluate(text)
