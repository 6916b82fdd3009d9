"""Reading SQL: select lists and join conditions keep the author's text."""

from __future__ import annotations

import pytest

from anabranch.errors import ConfigError
from anabranch.query.sql import parse_expression, parse_list, quote, select_items, split_join

LEFT = ["a", "b", "c"]
RIGHT = ["x", "y", "z"]


def test_a_select_list_is_cut_at_its_own_commas_only() -> None:
    parts = parse_list("coalesce(a, b) AS c, CAST(d AS decimal(10,2)) e, `f`, 'x,y' AS g -- the, end")
    assert [(part.sql, part.alias) for part in parts] == [
        ("coalesce(a, b)", "c"),
        ("CAST(d AS decimal(10,2))", "e"),
        ("`f`", None),
        ("'x,y'", "g"),
    ]


def test_expressions_stay_as_written() -> None:
    assert parse_expression("  date_sub( a ,1 )=b  ").sql == "date_sub( a ,1 )=b"


def test_columns_are_listed_once_and_without_the_variables_of_a_lambda() -> None:
    assert set(parse_expression("exists(split(a, b), x -> x = a)").columns) == {"a", "b"}


def test_a_star_is_spelled_out_with_the_data_columns() -> None:
    assert select_items("*, A + 1 AS d", ["a", "b"]) == [("a", "`a`"), ("b", "`b`"), ("d", "A + 1")]


def test_a_plain_column_keeps_the_spelling_of_the_schema() -> None:
    assert select_items("RTT_ms, n AS N2", ["rtt_MS", "n"]) == [("rtt_MS", "RTT_ms"), ("N2", "n")]


def test_quoting() -> None:
    assert quote("a`b") == "`a``b`"


@pytest.mark.parametrize(
    ("on", "equalities", "rest"),
    [
        ("a = x", [("a", "x")], None),
        ("x = a", [("a", "x")], None),
        ("A = X", [("A", "X")], None),
        ("a = x AND b + 1 = abs(y)", [("a", "x"), ("b + 1", "abs(y)")], None),
        ("(a = x) AND ((b = y AND c < z))", [("a", "x"), ("b", "y")], "(c < z)"),
        ("a = x AND b BETWEEN y AND z AND c = z", [("a", "x"), ("c", "z")], "(b BETWEEN y AND z)"),
        ("a = x OR b = y", [], "(a = x OR b = y)"),
        ("a = b AND x = 1", [], "(a = b) AND (x = 1)"),
        ("a + x = 1", [], "(a + x = 1)"),
        ("a <=> x", [], "(a <=> x)"),
        ("NOT a = x", [], "(NOT a = x)"),
        (
            "CASE WHEN a = x AND b = y THEN true END AND c = z",
            [("c", "z")],
            "(CASE WHEN a = x AND b = y THEN true END)",
        ),
        ("a = CASE WHEN x = 1 AND y = 2 THEN z END", [("a", "CASE WHEN x = 1 AND y = 2 THEN z END")], None),
        ("(a = x) = (b = y)", [], "((a = x) = (b = y))"),
        ("true", [], "(true)"),
    ],
)
def test_a_join_condition_is_split_into_equalities_and_the_rest(
    on: str, equalities: list[tuple[str, str]], rest: str | None
) -> None:
    assert split_join(on, LEFT, RIGHT) == (equalities, rest)


def test_an_expression_that_is_nested_too_deeply_is_an_error_like_any_other() -> None:
    with pytest.raises(ConfigError):
        parse_expression("(" * 5_000 + "a" + ")" * 5_000)
