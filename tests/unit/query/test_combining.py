"""An aggregate is the same whether it is computed at once or of shares, wherever the reference can compute it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.query.combining import COMBINES, divided
from anabranch.query.functions import AGGREGATES
from anabranch.reference.aggregates import ROWS, compile_aggregate
from anabranch.reference.expressions import parse

COLUMNS = {"x": "int", "b": "boolean"}
rows = st.lists(
    st.fixed_dictionaries({"x": st.none() | st.integers(-5, 5), "b": st.none() | st.booleans()}), max_size=9
)

EXACT = [
    "count(*)",
    "count(x)",
    "count_if(b)",
    "sum(x)",
    "min(x)",
    "max(x + 1)",
    "bool_and(b)",
    "bool_or(b)",
    "every(b)",
    "some(b)",
    "bit_and(x)",
    "bit_or(x)",
    "bit_xor(x)",
    "sum(x) FILTER (WHERE b) + 2 * count(*)",
    "coalesce(max(x), 0) - count(x) FILTER (WHERE x > 1 OR b)",
]


def test_every_aggregate_has_one() -> None:
    assert COMBINES.keys() == AGGREGATES


@pytest.mark.parametrize("sql", EXACT)
@given(shares=st.lists(rows, min_size=1, max_size=4))
def test_the_whole_is_made_of_parts(sql: str, shares: list[list[dict[str, object]]]) -> None:
    division = divided("c", sql)
    assert division.is_exact
    at_once = compile_aggregate(parse(sql), {}, COLUMNS).of({ROWS: [row for share in shares for row in share]})
    parts = {name: compile_aggregate(parse(text), {}, COLUMNS) for name, text in division.parts}
    computed = [{name: part.of({ROWS: share}) for name, part in parts.items()} for share in shares]
    whole = compile_aggregate(parse(division.whole), {}, {name: part.type for name, part in parts.items()})
    assert whole.of({ROWS: computed}) == at_once


def test_the_example_of_the_paper_counts_in_shares_and_adds_up() -> None:
    division = divided("cnt", "count(*)")
    assert division.parts == (("cnt_0", "count(*)"),)
    assert division.whole == "(coalesce(sum(cnt_0), 0))"


def test_what_rests_on_floating_point_says_so() -> None:
    for function in ("avg", "stddev", "corr", "kurtosis"):
        arguments = "x, y" if function == "corr" else "x"
        assert not divided("c", f"{function}({arguments})").is_exact


def test_a_condition_counts_for_every_part() -> None:
    division = divided("m", "avg(x * 2) FILTER (WHERE b)")
    assert division.parts == (
        ("m_0", "sum((x * 2)) FILTER (WHERE b)"),
        ("m_1", "count((x * 2)) FILTER (WHERE b)"),
    )
