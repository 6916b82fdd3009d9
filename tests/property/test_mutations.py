"""Every rule of the reference, broken: the recorded runs of Spark must contradict what is left.

A mutation that survives means that nobody would notice if the rule were wrong, in the reference or in the engine. What
no run can show (guards, and rules that only differ where boxes are fed by hand) is shown by the example named there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import pytest

from anabranch.errors import InvariantBroken
from anabranch.model.header import Kind
from anabranch.query.boxes import Diagram
from anabranch.reference import box
from anabranch.reference.box import ReferenceBox
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.joins import JoinBox
from anabranch.reference.steps import FilterBox, UnionBox
from anabranch.reference.tuples import Tuple
from anabranch.reference.windows import AggregateBox
from tests.property import oracle
from tests.property.diagrams import counting, joins, lookups, ordered, sliding, stateless_and_windows
from tests.property.mutations import Mutation
from tests.property.reference_rules import COUNTING, JOINS, LOOKUPS, ORDERED, SLIDING, WINDOWS
from tests.recording import RecordedStream, Recording
from tests.unit.reference import test_boxes, test_stage
from tests.unit.reference.streams import diagram, row, source

pytestmark = [pytest.mark.spark, pytest.mark.long]

Recorded = Callable[[Callable[[], Diagram]], Recording]
Known = Callable[[Callable[[], Diagram]], list[list[str]]]


def a_watermark_does_not_go_back() -> None:
    box = test_boxes.windows(10_000, 10_000)
    box.close(20_000)
    box.close(10_000)
    assert box.promises() == {"g": 20_001}


def a_closed_window_takes_nothing() -> None:
    box = test_boxes.windows(10_000, 10_000)
    box.close(20_000)
    with pytest.raises(InvariantBroken, match="is closed"):
        box.process(0, [row("a/0", 19_999, 1, K="x", v=1)])


def a_source_does_not_take_its_word_back() -> None:
    run = ReferenceRun(diagram(source("a", "x int"), out="a"))
    run.feed("a", [], {"a/0": 20})
    with pytest.raises(InvariantBroken, match="went back"):
        run.feed("a", [], {"a/0": 19})


ONLY_BY_HAND = [
    (
        Mutation("without otherwise the rest is gone", FilterBox.process, "elif self._otherwise:", "else:"),
        test_boxes.test_without_otherwise_the_rest_is_gone,
    ),
    (
        # Spark would not be asked: it is told to run only Unions whose inputs spell their columns alike.
        Mutation(
            "a Union has the column names of its first input",
            UnionBox._pass,
            "dict(zip(self.columns, each.values.values(), strict=True))",
            "each.values",
        ),
        test_boxes.test_a_union_keeps_identities_where_they_cannot_meet,
    ),
    (
        Mutation("a Join forgets what can match no more", JoinBox.punctuate, "if each.stime >= oldest", "if True"),
        test_boxes.test_a_join_forgets_only_what_can_match_no_more,
    ),
    (
        Mutation("a group shows zero, not minus zero", box.normal, "value + 0.0", "value"),
        test_boxes.test_zeros_are_one_group_and_so_are_nans,
    ),
    (
        Mutation("no tuple is below a promise", ReferenceBox._check_promises, "each.stime >= self", "True or self"),
        test_boxes.test_a_broken_promise_stops_the_box,
    ),
    (
        Mutation(
            "a tuple comes from a known origin",
            ReferenceBox._check_promises,
            "each.origin in self._promised[port]",
            "self._promised[port].setdefault(each.origin, 0) == 0",
        ),
        test_boxes.test_a_broken_promise_stops_the_box,
    ),
    (
        Mutation("a promise does not go back", ReferenceBox.punctuate, "time >= promised[origin]", "True"),
        test_boxes.test_a_broken_promise_stops_the_box,
    ),
    (
        Mutation("a source's promise does not go back", ReferenceRun.feed, "time >= promised[origin]", "True"),
        a_source_does_not_take_its_word_back,
    ),
    (
        # In a diagram promises do not go back, so neither does the smallest of them.
        Mutation(
            "a watermark does not go back", AggregateBox.close, "max(self.watermark_us, watermark_us)", "watermark_us"
        ),
        a_watermark_does_not_go_back,
    ),
    (
        Mutation("a closed window takes nothing", AggregateBox.process, "window[1] > self.watermark_us", "True"),
        a_closed_window_takes_nothing,
    ),
    (
        # All lanes of the script end, so there is none at the end that promised nothing.
        Mutation(
            "an origin that never promised is left out", ReferenceRun.punctuations, ".items() if time}", ".items()}"
        ),
        test_stage.test_a_source_may_be_a_root_and_so_may_a_union,
    ),
]


def faults(recording: Recording) -> Iterator[list[str]]:
    """What each oracle says; a reference that contradicts itself on this input says so too."""
    for compare in (oracle.batches_differ, oracle.last_punctuations_differ, oracle.contents_differ):
        try:
            yield compare(recording)
        except InvariantBroken as error:
            yield [str(error)]


def is_noticed(mutation: Mutation, recording: Recording, known: Iterable[list[str]]) -> bool:
    """Whether an oracle says something about the broken rule that it does not say without."""
    with mutation.applied():
        return any(now != then for now, then in zip(faults(recording), known, strict=False))


@pytest.fixture(scope="module")
def known(recorded: Recorded) -> Known:
    """What the oracles say with all rules in force: nothing, or ``test_spark`` fails."""
    return cache(lambda query: list(faults(recorded(query))))


@pytest.mark.spark
@pytest.mark.parametrize("mutation", WINDOWS, ids=str)
def test_windows_notice(mutation: Mutation, recorded: Recorded, known: Known) -> None:
    recording, before = recorded(stateless_and_windows), known(stateless_and_windows)
    assert is_noticed(mutation, recording, before), "this rule could be broken without anyone noticing"


@pytest.mark.spark
@pytest.mark.parametrize("mutation", JOINS, ids=str)
def test_joins_notice(mutation: Mutation, recorded: Recorded, known: Known) -> None:
    assert is_noticed(mutation, recorded(joins), known(joins)), "this rule could be broken without anyone noticing"


@pytest.mark.spark
@pytest.mark.parametrize("mutation", COUNTING, ids=str)
def test_counting_notices(mutation: Mutation, recorded: Recorded, known: Known) -> None:
    recording, before = recorded(counting), known(counting)
    assert is_noticed(mutation, recording, before), "this rule could be broken without anyone noticing"


@pytest.mark.spark
@pytest.mark.parametrize("mutation", ORDERED, ids=str)
def test_ordered_boxes_notice(mutation: Mutation, recorded: Recorded, known: Known) -> None:
    assert is_noticed(mutation, recorded(ordered), known(ordered)), "this rule could be broken without anyone noticing"


@pytest.mark.spark
@pytest.mark.parametrize("mutation", SLIDING, ids=str)
def test_sliding_boxes_notice(mutation: Mutation, recorded: Recorded, known: Known) -> None:
    assert is_noticed(mutation, recorded(sliding), known(sliding)), "this rule could be broken without anyone noticing"


@pytest.mark.spark
@pytest.mark.parametrize("mutation", LOOKUPS, ids=str)
def test_lookups_notice(mutation: Mutation, recorded: Recorded, known: Known) -> None:
    assert is_noticed(mutation, recorded(lookups), known(lookups)), "this rule could be broken without anyone noticing"


@pytest.mark.parametrize(("mutation", "example"), ONLY_BY_HAND, ids=lambda part: getattr(part, "__name__", str(part)))
def test_an_example_notices(mutation: Mutation, example: Callable[[], None]) -> None:
    example()
    with mutation.applied(), pytest.raises((AssertionError, pytest.fail.Exception)):
        example()


def recorded_wire(*wire: tuple[Kind, str, int], ids: Sequence[int] = (), tids: Sequence[int] = ()) -> Recording:
    tuples = [Tuple(origin="a/0", stime=5, tid=tid, values={}) for tid in tids]
    stream = RecordedStream(segments=[(tuples, {})], wire=list(wire), ids=list(ids))
    return Recording(diagram(source("a", "x int"), out="a"), streams={"out": stream})


def test_an_oracle_notices_a_broken_promise() -> None:
    promise, row = (Kind.BOUNDARY, "a/0", 5), (Kind.INSERTION, "a/0", 4)
    assert not oracle.promises_broken(recorded_wire(row, promise, (Kind.INSERTION, "a/0", 5)))
    assert not oracle.promises_broken(recorded_wire(promise, (Kind.INSERTION, "b/0", 4))), "nobody else is bound"
    assert oracle.promises_broken(recorded_wire(promise, row))
    assert oracle.promises_broken(recorded_wire(promise, (Kind.BOUNDARY, "a/0", 4)))


def test_an_oracle_notices_broken_ids() -> None:
    assert not oracle.ids_broken(recorded_wire(ids=[1, 2, 3], tids=[7, 8, 9]))
    assert oracle.ids_broken(recorded_wire(ids=[1, 3]))
    assert oracle.ids_broken(recorded_wire(ids=[1, 2, 2]))
    assert oracle.ids_broken(recorded_wire(ids=[1, 2], tids=[7, 7]))
