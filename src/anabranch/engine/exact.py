"""Sums of floating-point numbers that do not depend on the order of addition, as SQL.

Each value becomes a whole number of units of 10^-scale, and whole numbers give the same sum in any order. A value is
taken apart first, into what is before the point (a bigint, exact) and what is behind it (a double times 10^scale,
rounded to a whole number). Spark's own cast to decimal would go through the text that Java writes for a double, and
Java 17 and 21 do not write the same text: replicas could differ by their Java.

What is too large for that, infinite or no number counts as infinity of its sign, or as NaN. The smallest of these plus
the largest is then the sum, in any order: infinity if all are of one sign, else NaN. So no value makes a batch fail.
The result is a double again. -0.0 becomes 0.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType

from anabranch.limits import SUM_DIGITS
from anabranch.query.boxes import Summing
from anabranch.query.sql import select_items
from anabranch.query.summations import Summation, with_condition, with_summations

Scales = Mapping[str, int]
"""The columns of an Aggregate that are computed exactly, in lower case, and their digits after the point."""

_BEFORE_THE_POINT = 18
"""Digits of every bigint."""

_HALF = 10**9
"""Half of these digits: 9 * 10^9 such numbers can be added before a bigint could overflow."""


def aggregate_columns(
    frame: DataFrame, box: Summing, scales: Scales, *, only: str | None = None
) -> list[tuple[str, Column]]:
    """The select list of aggregates over this input, or its rows for which ``only`` holds, as (name, expression)."""
    columns = []
    for name, sql in select_items(box.columns, []):
        filtered = sql if only is None else with_condition(sql, only)
        exact = exact_sql(frame, filtered, scales[name.lower()]) if name.lower() in scales else filtered
        columns.append((name, F.expr(exact).alias(name)))
    return columns


def exact_sql(frame: DataFrame, sql: str, scale: int) -> str:
    """The expression with exact sums in the place of floating-point ones. Which these are, Spark knows for sure."""

    def replaced(each: Summation) -> str | None:
        plain = frame.groupBy().agg(F.expr(f"{each.function}({each.argument})").alias("_plain"))
        return _exact(each, scale) if isinstance(plain.schema["_plain"].dataType, DoubleType) else None

    return with_summations(sql, replaced)


def _exact(each: Summation, scale: int) -> str:
    where = f" FILTER (WHERE {each.condition})" if each.condition is not None else ""
    value = f"CAST({each.argument} AS DOUBLE)"
    limit = f"1E{min(_BEFORE_THE_POINT, SUM_DIGITS - scale)}D"
    whole = f"CASE WHEN abs({value}) < {limit} THEN CAST({value} AS BIGINT) END"
    behind = f"CAST(rint(({value} - CAST({whole} AS DOUBLE)) * 1E{scale}D) AS BIGINT)"
    units = f"{_sum_of_longs(whole, where)} * 1{'0' * scale}BD + {_sum_of_longs(behind, where)}"
    beyond = f"CASE WHEN abs({value}) >= {limit} THEN {value} * CAST('Infinity' AS DOUBLE) END"  # NaN is the largest
    total = f"CAST({units} AS DOUBLE) / 1E{scale}D"
    if each.function != "sum":
        total = f"{total} / nullif(count({value}){where}, 0)"
    return f"coalesce(min({beyond}){where} + max({beyond}){where}, {total})"


def _sum_of_longs(value: str, where: str) -> str:
    """The sum of values of up to 18 digits, which can have 28, as a decimal.

    Adding decimals row by row takes several times as long as adding the two halves of each value as they are.
    """
    halves = [
        f"CAST(sum({half}){where} AS DECIMAL(19,0))" for half in (f"({value}) div {_HALF}L", f"({value}) % {_HALF}L")
    ]
    return f"({halves[0]} * {_HALF}BD + {halves[1]})"
