"""The class of a box is what it does on Spark, too: started again from an empty state, in the middle of its inputs.

One diagram has every box. It runs once as a whole, and once more on a node that has nothing but the later part of the
inputs. What comes out is held against what each class promises. The classes are not too weak either: wherever there
is a stronger one, what came out contradicts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from anabranch.query.boxes import Box
from anabranch.query.classes import judge
from anabranch.query.judgement import OperatorClass, Order
from anabranch.reference.tuples import Tuple
from tests.property.restarts import Runs, boxes_with_outputs, broken, every_box, output_of, random_restarts, script
from tests.recording import read_again, record

EPOCHS = 9
"""One that is lost, two for what random rows hardly show, and two of each kind of restart."""
SETTLE_AFTER = 24
"""Where the second run waits for its results. The segments of ``b`` are fewer, so it is ahead of ``a`` there, which it
never was in the first run: that is what a Union shows."""
SEEDS = (1, 2, 3)
"""The runs of the others are long."""

DIAGRAMS = {seed: every_box(long=seed > 1) for seed in SEEDS}
JUDGED = [
    (seed, box, order, judge(box, order).operator_class)
    for seed in SEEDS
    for order in Order
    for box in boxes_with_outputs(DIAGRAMS[seed])
]

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Runs]:
    @cache
    def run(seed: int) -> Runs:
        random = Random(f"restarts {seed}")
        pushes = script(random, EPOCHS)
        states = tmp_path_factory.mktemp("states")
        whole = record(DIAGRAMS[seed], pushes, states / "whole", random, restarts=0, settles=0)
        restarts = random_restarts(random, whole, EPOCHS, at_a_time_first=seed % 2 == 0)

        def chosen(source: str, rows: pa.Table) -> list[int]:
            return [place for restart in restarts for place in restart.read_again(source, rows)]

        again = read_again(whole, chosen, states / "again", random, settle_after=SETTLE_AFTER)
        return Runs(whole=whole, again=again, restarts=restarts)

    return run


def cases(judged: Iterable[tuple[int, Box, Order, OperatorClass]]) -> list[Any]:
    return [
        pytest.param(
            *(seed, box, order, found),
            id=f"{box.name} {order.value} is {found}, seed {seed}",
        )
        for seed, box, order, found in judged
    ]


@pytest.mark.parametrize(("seed", "box", "order", "found"), cases(JUDGED))
def test_a_box_keeps_what_its_class_promises(
    seed: int, box: Box, order: Order, found: OperatorClass, runs_of: Callable[[int], Runs]
) -> None:
    assert broken(box, found, order, runs_of(seed)) == []


@pytest.mark.parametrize(
    ("box", "order", "stronger"),
    [
        pytest.param(box, order, OperatorClass(found - 1), id=f"{box.name} {order.value} is not more than {found}")
        for seed, box, order, found in JUDGED
        if found and seed == SEEDS[-1]
    ],
)
def test_a_box_does_not_keep_what_the_next_stronger_class_promises(
    box: Box, order: Order, stronger: OperatorClass, runs_of: Callable[[int], Runs]
) -> None:
    """One run is enough to contradict it, and few random ones have what it takes."""
    seeds = [seed for seed in SEEDS if box in boxes_with_outputs(DIAGRAMS[seed])]
    assert any(broken(box, stronger, order, runs_of(seed)) for seed in seeds)


def changed(runs: Runs, box: Box, change: Callable[[Tuple], list[Tuple]]) -> Runs:
    """As if something else had come out of a box instead of its latest tuple, in an epoch read from its beginning."""
    name = output_of(box.name)
    stream = runs.again.streams[name]
    latest = max(stream.tuples, key=lambda each: each.stime)
    other = [one for each in stream.tuples for one in (change(each) if each is latest else [each])]
    streams = {**runs.again.streams, name: replace(stream, segments=[(other, {})])}
    return replace(runs, again=replace(runs.again, streams=streams))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: [], id="loses"),
        pytest.param(lambda each: [each, each], id="repeats"),
        pytest.param(lambda each: [replace(each, values={**each.values, "a": 999})], id="changes"),
        pytest.param(lambda each: [replace(each, tid=each.tid + 1)], id="renames"),
    ],
)
@pytest.mark.parametrize(
    ("seed", "box", "order", "found"), cases(case for case in JUDGED if case[2] is Order.NONE and case[0] == 1)
)
def test_a_box_that_loses_repeats_changes_or_renames_a_tuple_is_noticed(
    seed: int,
    box: Box,
    order: Order,
    found: OperatorClass,
    change: Callable[[Tuple], list[Tuple]],
    runs_of: Callable[[int], Runs],
) -> None:
    assert broken(box, found, order, changed(runs_of(seed), box, change)) != []
