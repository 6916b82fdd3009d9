"""Exact sums by their definition."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.reference.aggregates import ROWS, compile_aggregate
from anabranch.reference.exact import exact_sum
from anabranch.reference.expressions import parse

SCALE = 9


@given(st.lists(st.floats(), min_size=1), st.integers(0, 18), st.randoms())
def test_the_order_does_not_matter(values: list[float], scale: int, random: Random) -> None:
    shuffled = random.sample(values, len(values))
    first, second = exact_sum(values, scale), exact_sum(shuffled, scale)
    assert first == second or (math.isnan(first) and math.isnan(second))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50))
def test_the_sum_is_right_to_its_digits(values: list[float]) -> None:
    """Each value is rounded by half a unit at most, and the sum twice by its own last bit."""
    exact = sum(Fraction(value) for value in values)
    bound = Fraction(len(values), 2 * 10**SCALE) * (1 + Fraction(1, 10**6)) + abs(exact) / 2**51
    assert abs(Fraction(exact_sum(values, SCALE)) - exact) <= bound


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([0.1, 0.2, 0.3], 0.6),
        ([1e16, 0.5, -1e16], 0.5),
        ([0.1] * 10, 1.0),
        ([1e-9, 2e-9], 3e-9),
        ([4e-10] * 3, 0.0),  # each is rounded, then they are added
        ([2.5e-9], 2e-9),  # halves to even
        ([1e17, 1e17], 2e17),
        ([9e17] * 20, 1.8e19),  # the sum may be larger than a value
        ([1e18, 1.0], math.inf),
        ([-1e18, 1.0], -math.inf),
        ([1e300, -math.inf, 1.0], math.nan),
        ([math.nan, 1.0], math.nan),
        ([math.inf, 1e300], math.inf),
    ],
)
def test_sums(values: list[float], total: float) -> None:
    assert exact_sum(values, SCALE) == pytest.approx(total, rel=0, abs=0, nan_ok=True)


def test_the_sum_of_nothing_but_minus_zero_is_zero() -> None:
    assert math.copysign(1, exact_sum([-0.0, -1e-300], SCALE)) == 1


def test_more_digits_after_the_point_leave_fewer_before_it() -> None:
    assert exact_sum([1e-18, 9e9], 18) == 9e9
    assert exact_sum([1e-18, 1e-18], 18) == 2e-18
    assert exact_sum([1e10], 18) == math.inf
    assert exact_sum([1e17, 0.4], 0) == 1e17


def aggregate(sql: str, scale: int | None, *values: float | None) -> object:
    compiled = compile_aggregate(parse(sql), {}, {"x": "double", "n": "bigint"}, scale)
    return compiled.of({ROWS: [{"x": value, "n": 3} for value in values]})


def test_an_aggregate_with_a_scale_adds_exactly() -> None:
    assert aggregate("sum(x)", SCALE, 1e16, 0.5, None, -1e16) == 0.5
    assert aggregate("avg(x)", SCALE, 1e16, 0.5, None, -1e16, 0.5) == 0.25
    assert aggregate("sum(x) / count(*) + mean(x)", SCALE, 0.1, 0.3) == 0.4
    assert aggregate("sum(x) FILTER (WHERE x > 1)", SCALE, 0.5, 2.0) == 2.0
    assert aggregate("sum(x)", SCALE, None) is None
    assert aggregate("avg(x)", SCALE, None) is None
    assert aggregate("sum(n)", SCALE, 1.0) == 3


def test_without_one_it_does_not() -> None:
    assert aggregate("sum(x)", None, 1e-12, 2e-12) == 3e-12
    assert aggregate("sum(x)", SCALE, 1e-12, 2e-12) == 0.0
