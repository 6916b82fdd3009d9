"""Types are told as Spark tells them, or not at all."""

from __future__ import annotations

import pytest

from anabranch.query.infer import canonical_type, infer
from anabranch.query.schema import parse_schema
from anabranch.query.sql import parse_expression

SCHEMA = parse_schema(
    "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, m decimal(10,2), c string, at timestamp"
)


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("I", "int"),
        ("_stime", "timestamp"),
        ("nope", None),
        ("i > 1", "boolean"),
        ("i IS NULL", "boolean"),
        ("i BETWEEN 1 AND 2", "boolean"),
        ("i IN (1, 2)", "boolean"),
        ("c LIKE 'a%'", "boolean"),
        ("c RLIKE 'a'", "boolean"),
        ("i <=> 1", "boolean"),
        ("NOT b AND b OR true", "boolean"),
        ("'x'", "string"),
        ("1", "int"),
        ("3000000000", "bigint"),
        ("1L", "bigint"),
        ("0.80", "decimal(2,2)"),
        ("12.5", "decimal(3,1)"),
        ("1e3", "double"),
        ("2.5D", "double"),
        ("-i", "int"),
        ("t + s", "smallint"),
        ("i * l", "bigint"),
        ("i + d", "double"),
        ("m + d", "double"),
        ("f + f", "float"),
        ("f + i", None),
        ("m + m", None),
        ("c + 1", None),
        ("i / 2", "double"),
        ("m / 2", None),
        ("at - at", None),
        ("CAST(i AS decimal(12, 3))", "decimal(12,3)"),
        ("c::timestamp", "timestamp"),
        ("CAST(c AS DATE)", "date"),
        ("try_cast(c AS int)", "int"),
        ("CAST(i AS array<int>)", "array<int>"),
        ("coalesce(i, NULL, 5)", "int"),
        ("coalesce(i, d)", None),
        ("if(b, c, 'x')", "string"),
        ("CASE WHEN b THEN d ELSE NULL END", "double"),
        ("upper(c)", "string"),
        ("length(c)", "int"),
        ("count(*)", "bigint"),
        ("count_if(b)", "bigint"),
        ("sum(i)", "bigint"),
        ("sum(f)", "double"),
        ("sum(m)", "decimal(20,2)"),
        ("avg(i)", "double"),
        ("mean(l)", "double"),
        ("avg(m)", "decimal(14,6)"),
        ("min(c)", "string"),
        ("max(at)", "timestamp"),
        ("bit_and(s)", "smallint"),
        ("stddev(d)", "double"),
        ("corr(d, d)", "double"),
        ("every(b)", "boolean"),
        ("any(b)", "boolean"),
        ("bool_or(b)", "boolean"),
        ("sum(i) FILTER (WHERE b)", "bigint"),
        ("sum(i) / count(*)", "double"),
        ("sum(c)", None),
        ("some_udf(i)", None),
    ],
)
def test_types(sql: str, type_: str | None) -> None:
    assert infer(parse_expression(sql).tree, SCHEMA) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("INTEGER", "int"),
        ("long", "bigint"),
        ("decimal", "decimal(10,0)"),
        ("numeric( 5 )", "decimal(5,0)"),
        ("DEC(5, 2)", "decimal(5,2)"),
        ("decimal(2,5)", None),
        ("decimal(0,0)", None),
        ("timestamp_ltz", "timestamp"),
        ("timestamp_ntz", None),
        ("string collate unicode", None),
        ("", None),
    ],
)
def test_spellings_of_types(text: str, type_: str | None) -> None:
    assert canonical_type(text) == type_
