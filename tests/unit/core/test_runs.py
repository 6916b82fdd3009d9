"""Rows with numbers of their own: whatever is missing or comes again, the lane gets every number once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.core.runs import Run, runs


def test_holes_become_voids_and_repetitions_are_left_out() -> None:
    numbers = np.array([3, 4, 7, 8, 9, 20], dtype=np.int64)
    assert runs(numbers, 4) == [Run(0, 1, 1), Run(2, 2, 3), Run(10, 5, 1)]
    assert runs(numbers, 21) == []
    assert runs(numbers, 1) == [Run(2, 0, 2), Run(2, 2, 3), Run(10, 5, 1)]


@given(st.sets(st.integers(1, 60), max_size=40), st.integers(1, 60))
def test_every_number_is_used_once_and_in_order(given_numbers: set[int], expected: int) -> None:
    numbers = np.array(sorted(given_numbers), dtype=np.int64)
    next_number = expected
    sent: list[int] = []
    for run in runs(numbers, expected):
        next_number += run.voids
        for row in range(run.start, run.start + run.rows):
            assert int(numbers[row]) == next_number
            sent.append(next_number)
            next_number += 1
    assert sent == [number for number in sorted(given_numbers) if number >= expected]
