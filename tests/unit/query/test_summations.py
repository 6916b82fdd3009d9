"""Sums and averages in the text of an expression."""

from __future__ import annotations

import pytest

from anabranch.query.summations import summations, with_condition, with_summations


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("sum(x)", [("sum", "x", None)]),
        ("SUM( ALL x + (y) )", [("sum", "x + (y)", None)]),
        ("`sum`(x)", [("sum", "x", None)]),
        ("1 + avg (a) / mean(b)", [("avg", "a", None), ("mean", "b", None)]),
        ("sum(x) FILTER (WHERE y > (1)) * 2", [("sum", "x", "y > (1)")]),
        ("CASE WHEN sum(if(a = ')', 1, 2)) > 3 THEN 1 END", [("sum", "if(a = ')', 1, 2)", None)]),
        ("max(sum) + count(avg)", []),
        ("concat('sum(x)', k)", []),
        ("summary(x)", []),
    ],
)
def test_calls_are_found_with_what_they_add(sql: str, found: list[tuple[str, str, str | None]]) -> None:
    assert [(each.function, each.argument, each.condition) for each in summations(sql)] == found


def test_everything_around_them_stays_as_it_is_written() -> None:
    sql = "1 +  sum( x ) FILTER(WHERE y) /mean(z) -avg(w)"
    assert with_summations(sql, lambda each: None) == sql
    assert with_summations(sql, lambda each: f"<{each.argument}>") == "1 +  <x> /<z> -<w>"
    assert with_summations(sql, lambda each: "!" if each.function == "mean" else None) == sql.replace("mean(z)", "!")


@pytest.mark.parametrize(
    ("sql", "filtered"),
    [
        ("count(*)", "count(*) FILTER (WHERE c)"),
        ("1 + sum(x) / count(y)", "1 + sum(x) FILTER (WHERE c) / count(y) FILTER (WHERE c)"),
        ("sum(x) FILTER (WHERE a OR b) + 1", "sum(x) FILTER (WHERE (a OR b) AND c) + 1"),
        ("round(avg(abs(x)), 2)", "round(avg(abs(x)) FILTER (WHERE c), 2)"),
        ("any(s LIKE ANY ('a', 'b'))", "any(s LIKE ANY ('a', 'b')) FILTER (WHERE c)"),
        ("coalesce(bool_or(x > 1), every(y))", "coalesce(bool_or(x > 1) FILTER (WHERE c), every(y) FILTER (WHERE c))"),
    ],
)
def test_a_condition_is_put_behind_every_aggregate(sql: str, filtered: str) -> None:
    assert with_condition(sql, "c") == filtered
