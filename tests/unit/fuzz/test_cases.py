"""Random cases are valid, follow from their seed, and can be kept in a file."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import cache

import pytest

from anabranch.query.boxes import Aggregate, Box, Filter, Join
from anabranch.query.catalog import KINDS
from anabranch.query.floats import float_columns
from anabranch.reference.diagram import ReferenceRun
from tests.fuzz.cases import Case, from_yaml, random_case, to_yaml
from tests.fuzz.diagrams import MOST_BOXES, TIME
from tests.fuzz.scripts import BUSY_S, EPOCH_S, START, epoch_of


@cache
def cases() -> list[Case]:
    return [random_case(seed, epochs=3) for seed in range(240)]


def test_the_reference_can_evaluate_every_case() -> None:
    for case in cases():
        ReferenceRun(case.diagram)


def test_together_they_have_every_box_in_many_numbers() -> None:
    kinds = Counter(type(box).__name__ for case in cases() for box in case.diagram.boxes)
    assert min(kinds[kind.makes.__name__] for kind in KINDS.values()) >= 20
    sizes = {len(case.diagram.boxes) - len(case.diagram.sources) for case in cases()}
    assert sizes >= set(range(1, MOST_BOXES))
    boxes = [box for case in cases() for box in case.diagram.boxes]
    assert any(isinstance(box, Filter) and box.otherwise and len(box.predicates) > 1 for box in boxes)
    aggregates = [box for box in boxes if isinstance(box, Aggregate)]
    assert any(box.time_window[1] < box.time_window[0] for box in aggregates)
    assert any(box.counts and box.every_rows != box.rows for box in aggregates)
    assert any(isinstance(box, Join) and "=" not in box.on for box in boxes)


def test_they_decide_by_sums_that_depend_on_the_order() -> None:
    columns = [column for case in cases() for column in float_columns(case.diagram)]
    assert all(column.scale is not None for column in columns)  # else two runs would differ in the last bits
    assert sum(bool(column.decisions) for column in columns) >= 40
    assert any(len(column.decisions) > 1 for column in columns)
    assert any(isinstance(column.box, Aggregate) and column.box.counts for column in columns)
    assert any(column.box.scale is not None and not column.decisions for column in columns)


def reach_us(box: Box) -> int:
    """For how long a tuple has an effect, by all durations that a box has; of windows their length."""
    durations = ("window_us", "within_us", "horizon_us", "gap_us", "timeout_us", "expire_us")
    return max((getattr(box, name, None) or 0 for name in durations), default=0)


def test_nothing_reaches_from_one_epoch_into_another() -> None:
    for case in cases():
        longest = sum(map(reach_us, case.diagram.boxes))
        disorder = max(source.disorder_us for source in case.diagram.sources)
        assert longest + disorder < (EPOCH_S - BUSY_S - 2) * 1_000_000
        for push in case.script:
            for row in push.rows:
                at = row[TIME]
                assert (at - START) % timedelta(seconds=EPOCH_S) <= timedelta(seconds=BUSY_S + 2)  # type: ignore[operator]


def test_a_case_follows_from_its_seed() -> None:
    assert random_case(7, epochs=3) == random_case(7, epochs=3)
    assert random_case(7, epochs=3) != random_case(8, epochs=3)


def test_epochs_are_counted() -> None:
    case = random_case(7, epochs=20)
    assert 10 < case.epochs == len({epoch_of(push) for push in case.script if not push.close}) <= 20


@pytest.mark.parametrize("seed", range(20))
def test_a_case_reads_back_from_its_file(seed: int) -> None:
    case = random_case(seed, epochs=2)
    text = to_yaml(case, ["something is wrong"])
    assert to_yaml(from_yaml(text), ["something is wrong"]) == text
    assert from_yaml(text).diagram == case.diagram
