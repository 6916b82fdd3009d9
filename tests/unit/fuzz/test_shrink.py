"""A failing case is made as small as what is wrong with it."""

from __future__ import annotations

from anabranch.query.boxes import Aggregate
from anabranch.query.validate import validate
from tests.fuzz.cases import Case, random_case
from tests.fuzz.shrink import shrink


def sums(case: Case) -> list[str]:
    """Fails where an Aggregate meets a row whose first column is NULL."""
    found = any(isinstance(box, Aggregate) for box in case.diagram.boxes)
    nulls = any(next(iter(row.values())) is None for push in case.script for row in push.rows)
    return ["a NULL was summed up"] if found and nulls else []


def failing() -> Case:
    return next(
        case for seed in range(100) if sums(case := random_case(seed, epochs=5)) and len(case.diagram.boxes) > 6
    )


def test_what_is_left_is_what_fails() -> None:
    case = failing()
    small, faults = shrink(case, sums(case), sums, tries=10_000)
    assert faults == ["a NULL was summed up"]
    assert not validate(small.diagram)
    assert [type(box).__name__ for box in small.diagram.boxes if isinstance(box, Aggregate)] == ["Aggregate"]
    rows = [row for push in small.script for row in push.rows]
    assert len(rows) == 1
    assert small.epochs == 1
    assert small.restarts == 0
    assert {push.source for push in small.script} <= {source.name for source in small.diagram.sources}


def test_tries_are_bounded_and_what_does_not_shrink_is_kept() -> None:
    tried = 0

    def judge(_: Case) -> list[str]:
        nonlocal tried
        tried += 1
        return []

    case = failing()
    assert shrink(case, ["only once"], judge, tries=7) == (case, ["only once"])
    assert tried == 7
