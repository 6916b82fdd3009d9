"""What is read in the runs with restarts, without Spark: the reference says that no box breaks its class, whatever the
seed, and that a few seeds are enough to show that no class is too weak. ``test_restarts`` does the same on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from random import Random

import pyarrow as pa
import pytest

from anabranch.model.header import STIME
from anabranch.model.names import OWNED_LANE
from anabranch.model.times import CLOSED_US
from anabranch.query.boxes import Box, Diagram, Stateful
from anabranch.query.classes import judge
from anabranch.query.judgement import OperatorClass, Order
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.amounts import tries
from tests.property.restarts import SHIFTED, Runs, boxes_with_outputs, broken, every_box, random_restarts, script
from tests.property.test_restarts import DIAGRAMS, EPOCHS
from tests.property.test_restarts import SEEDS as ON_SPARK
from tests.recording import Push, RecordedStream, Recording

SEEDS = range(1, 1 + tries(4, long=8))
DIAGRAM = every_box(long=True)
ORDERED = [box for box in boxes_with_outputs(DIAGRAM) if isinstance(box, Stateful)]


def entered(pushes: Iterable[Push]) -> dict[str, list[Tuple]]:
    """Per source, its tuples as they come."""
    numbers = Counter[str]()
    found: dict[str, list[Tuple]] = {"a": [], "b": []}
    for push in pushes:
        origin = f"{push.source}/{push.producer or OWNED_LANE}"
        for row in push.rows:
            numbers[origin] += 1
            stime = round(row["since"].timestamp() * 1_000_000)  # type: ignore[attr-defined]
            values = {**row, "since": stime}
            found[push.source].append(Tuple(origin=origin, stime=stime, tid=numbers[origin], values=values))
    return found


def recorded(diagram: Diagram, tuples: dict[str, list[Tuple]]) -> Recording:
    """As if a node had run it."""
    run = ReferenceRun(diagram)
    for source in diagram.sources:
        run.feed(source.name, tuples[source.name], dict.fromkeys(source.origins, CLOSED_US))
    streams = {name: RecordedStream(segments=[(made, {})]) for name, made in run.results().items()}
    rows = {
        source: pa.table({STIME: [each.stime for each in found], source: [each.values[source] for each in found]})
        for source, found in tuples.items()
    }
    return Recording(diagram, streams=streams, rows=rows)


@cache
def runs_of(seed: int) -> Runs:
    random = Random(f"restarts {seed}")
    tuples = entered(script(random, EPOCHS))
    whole = recorded(DIAGRAM, tuples)
    restarts = random_restarts(random, whole, EPOCHS, at_a_time_first=seed % 2 == 0)
    read = {
        source: [found[place] for restart in restarts for place in restart.read_again(source, whole.rows[source])]
        for source, found in tuples.items()
    }
    return Runs(whole=whole, again=recorded(DIAGRAM, read), restarts=restarts)


@pytest.mark.parametrize("order", Order, ids=lambda order: order.value)
@pytest.mark.parametrize("box", ORDERED, ids=lambda box: box.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_box_keeps_what_its_class_promises(seed: int, box: Box, order: Order) -> None:
    assert broken(box, judge(box, order).operator_class, order, runs_of(seed)) == []


@pytest.mark.parametrize("order", Order, ids=lambda order: order.value)
@pytest.mark.parametrize("box", [box for box in ORDERED if box.name in SHIFTED], ids=lambda box: box.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_random_rows_hardly_show_is_shown_for_every_seed(seed: int, box: Box, order: Order) -> None:
    stronger, runs = OperatorClass(judge(box, order).operator_class - 1), runs_of(seed)
    if box.name != "wsort" or runs.restarts[0].is_in(order):  # only the first restart finds it in an empty state
        assert broken(box, stronger, order, runs) != []


@pytest.mark.parametrize("order", Order, ids=lambda order: order.value)
@pytest.mark.parametrize("box", ORDERED, ids=lambda box: box.name)
def test_a_box_does_not_keep_what_the_next_stronger_class_promises(box: Box, order: Order) -> None:
    found = judge(box, order).operator_class
    long = [seed for seed in ON_SPARK if box in boxes_with_outputs(DIAGRAMS[seed])]
    assert not found or any(broken(box, OperatorClass(found - 1), order, runs_of(seed)) for seed in long)
