"""Spark computes the same of shares as at once, for every aggregate: exactly, or up to rounding where that is said."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from anabranch.engine.session import SparkSettings, open_session
from anabranch.query.combining import COMBINES, Division, divided

pytestmark = pytest.mark.spark

ARGUMENTS = {"corr": "x, y", "covar_pop": "x, y", "covar_samp": "x, y", "count": "*"}
TRUTHS = ("bool_and", "bool_or", "any", "some", "every", "count_if")
WHOLE = ("bit_and", "bit_or", "bit_xor")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return open_session(SparkSettings())


def sql_of(function: str) -> str:
    given = "b" if function in TRUTHS else "n" if function in WHOLE else ARGUMENTS.get(function, "x")
    return f"{function}({given})"


def test_shares_give_the_whole(spark: SparkSession) -> None:
    random = Random(7)
    rows = [
        (
            random.choice("abcd"),
            random.choice((None, round(random.uniform(-50, 90), 3))),
            random.choice((None, round(random.uniform(0, 9), 3))),
            random.choice((None, random.randint(-9, 9))),
            random.choice((None, True, False)),
        )
        for _ in range(200)
    ]
    frame = spark.createDataFrame(
        [*rows, ("lonely", 3.5, None, 1, None)], "share string, x double, y double, n int, b boolean"
    )
    divisions: dict[str, Division] = {each: divided(each, sql_of(each)) for each in COMBINES}
    parts = [F.expr(text).alias(name) for division in divisions.values() for name, text in division.parts]
    shared = frame.groupBy("share").agg(*parts)
    wholes = shared.agg(*[F.expr(division.whole).alias(name) for name, division in divisions.items()]).collect()[0]
    at_once = frame.agg(*[F.expr(sql_of(name)).alias(name) for name in divisions]).collect()[0]
    for name, division in divisions.items():
        found, wanted = wholes[name], at_once[name]
        is_float = isinstance(wanted, float | Decimal)
        assert found == wanted if not is_float else math.isclose(found, wanted, rel_tol=1e-9), (name, found, wanted)
        assert division.is_exact or is_float, name
