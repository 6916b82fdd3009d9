"""The class of a box is what it does: started again from nothing, in the middle of any input.

Every box of the reference runs on a random input once as a whole, and once more as a new box that sees only what comes
after a random point of each input stream. What comes out is held against what the class promises, and for the classes
that promise less, an example shows that they could not promise more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.query.boxes import (
    Arrow,
    Box,
    Column,
    Dedup,
    Diagram,
    Drop,
    Filter,
    Latest,
    Lookup,
    Map,
    Resample,
    Session,
    Slide,
    Table,
    Tumble,
    Union,
    WSort,
    XSection,
)
from anabranch.query.classes import judge
from anabranch.query.judgement import OperatorClass, Order
from anabranch.reference.network import make_boxes
from anabranch.reference.tuples import Tuple
from tests.unit.reference.streams import aggregate, contents, counting, diagram, join, row, source, union

MS = 1_000
END_US = 100 * MS
WINDOW_US = 4 * MS

FILTER = Filter(name="box", input=Arrow("a"), predicates=("v > 1",))
MAP = Map(name="box", input=Arrow("a"), columns="k, v + 1 AS v")
DROP = Drop(name="box", input=Arrow("a"), fraction=0.5)
TABLE = Table(name="t", schema=(Column("t", "int"), Column("tv", "int")), key=("t",), rows=((1, 0), (2, 1), (3, 1)))
LOOKUP = Lookup(name="box", input=Arrow("a"), table=TABLE, on="v = tv")
UNION = union("box", "a", "b")
JOIN = join("box", "a", "renamed", "k = k2", 3 * MS)
TIME_WINDOW = aggregate("box", "a", "count(*) AS n, sum(v) AS v", ("k",), WINDOW_US, 2 * MS)
THREES = counting("box", "a", "count(*) AS n, sum(v) AS v", ("k",), 3, 3)
SLIDING = counting("box", "a", "count(*) AS n, sum(v) AS v", ("k",), 3, 1)
ONES = counting("box", "a", "count(*) AS n, sum(v) AS v", ("k",), 1, 1)
SESSION = Session(name="box", input=Arrow("a"), columns="count(*) AS n, sum(v) AS v", by=("k",), gap_us=3 * MS)
LATEST = Latest(name="box", left=Arrow("a"), right=Arrow("renamed"), on="k = k2")
LATEST_WITHIN = replace(LATEST, within_us=5 * MS)
TUMBLE = Tumble(name="box", input=Arrow("a"), columns="count(*) AS n, sum(v) AS v", by=("k",))
TUMBLE_TIMEOUT = replace(TUMBLE, timeout_us=3 * MS)
LAST_THREE = Slide(name="box", input=Arrow("a"), columns="count(*) AS n, sum(v) AS v", by=("k",), rows=3)
LAST_MS = replace(LAST_THREE, rows=None, window_us=4 * MS)
EVERY_OTHER = replace(LAST_MS, every_rows=2)
LAST_ONE = replace(LAST_THREE, rows=1)
SECTIONS = XSection(
    name="box",
    input=Arrow("a"),
    columns="count(*) AS n, sum(v) AS v",
    by=("k",),
    window_us=4 * MS,
    every_us=2 * MS,
    expire_us=6 * MS,
)
RESAMPLE = Resample(
    name="box", left=Arrow("a"), right=Arrow("renamed"), columns=("v2",), how="mean", within_us=4 * MS, on="k = k2"
)
WSORT = WSort(name="box", input=Arrow("a"), by=("v",), timeout_us=3 * MS)
DEDUP = Dedup(name="box", input=Arrow("a"), by=("k",), horizon_us=5 * MS)
ALL = [
    FILTER,
    MAP,
    DROP,
    LOOKUP,
    UNION,
    JOIN,
    TIME_WINDOW,
    THREES,
    SLIDING,
    ONES,
    SESSION,
    LATEST,
    LATEST_WITHIN,
    TUMBLE,
    TUMBLE_TIMEOUT,
    LAST_THREE,
    LAST_MS,
    EVERY_OTHER,
    LAST_ONE,
    SECTIONS,
    RESAMPLE,
    WSORT,
    DEDUP,
]

Input = list[Tuple]
inputs = st.lists(st.tuples(st.integers(1, 20), st.sampled_from("xy"), st.integers(0, 3)), min_size=1, max_size=14).map(
    lambda rows: [row("?", MS * time, number, k=k, v=v) for number, (time, k, v) in enumerate(rows)]
)


def around(box: Box) -> Diagram:
    """A diagram with just this box, between two sources and an output."""
    rename = Map(name="renamed", input=Arrow("b"), columns="k AS k2, v AS v2")
    return diagram(source("a", "k string", "v int"), source("b", "k string", "v int"), rename, box, out="box")


def run(box: Box, a: Input, b: Input, *, interleaved: Callable[[int], int] = lambda n: n) -> list[Tuple]:
    """All that comes out of a new box, in the order in which it does."""
    worker = make_boxes(around(box))[box.name]
    arrivals = [(0, "a/0", each) for each in a]
    if len(box.inputs) == 2:
        arrivals += [(1, "b/0", each) for each in b]
    arrivals = [arrivals[place] for place in sorted(range(len(arrivals)), key=interleaved)]
    made: list[Tuple] = []
    for port, origin, each in arrivals:
        values = (
            {"k2": each.values["k"], "v2": each.values["v"]} if port and not isinstance(box, Union) else each.values
        )
        there = Tuple(origin=origin, stime=each.stime, tid=each.tid, values=values)
        made += worker.process(port, [there]).get(0, [])
    for port in range(len(box.inputs)):
        made += worker.punctuate(port, {("a/0", "b/0")[port]: END_US}).get(0, [])
    return made


def of(operator_class: OperatorClass, order: Order = Order.NONE) -> Sequence[Box]:
    return [box for box in ALL if judge(box, order).operator_class is operator_class]


def names(box: Box) -> str:
    return f"{type(box).__name__}-{getattr(box, 'rows', None) or ''}".strip("-")


def test_every_class_is_tried() -> None:
    assert [names(box) for box in of(OperatorClass.REPEATABLE)] == [
        "Filter", "Map", "Drop", "Lookup", "Union", "Join", "Aggregate-1", "Slide-1",
    ]  # fmt: skip
    assert of(OperatorClass.CONVERGENT_CAPABLE) == [
        TIME_WINDOW, SLIDING, SESSION, LATEST_WITHIN, TUMBLE, LAST_THREE, LAST_MS, SECTIONS, RESAMPLE,
    ]  # fmt: skip
    assert of(OperatorClass.DETERMINISTIC) == [THREES, LATEST, TUMBLE_TIMEOUT, EVERY_OTHER, WSORT, DEDUP]
    assert SLIDING in of(OperatorClass.REPEATABLE, Order.CANONICAL)
    assert of(OperatorClass.ARBITRARY, Order.ARRIVAL) == [UNION]


@pytest.mark.parametrize("box", of(OperatorClass.REPEATABLE, Order.CANONICAL), ids=names)
@given(a=inputs, b=inputs, cut_a=st.integers(0, 14), cut_b=st.integers(0, 14))
def test_a_repeatable_box_makes_nothing_that_it_would_not_have_made(
    box: Box, a: Input, b: Input, cut_a: int, cut_b: int
) -> None:
    in_order = sorted(a, key=lambda each: each.stime), sorted(b, key=lambda each: each.stime)
    whole = contents(run(box, *in_order))
    again = contents(run(box, in_order[0][cut_a:], in_order[1][cut_b:]))
    assert again <= whole


@given(a=inputs, cut=st.integers(0, 14))
def test_windows_of_time_come_back_to_what_they_would_have_been(a: Input, cut: int) -> None:
    lost = max((each.stime for each in a[:cut]), default=0)
    whole, again = run(TIME_WINDOW, a, []), run(TIME_WINDOW, a[cut:], [])
    settled = lost + WINDOW_US  # every window that began before has ended
    assert contents(each for each in again if each.stime > settled) == contents(
        each for each in whole if each.stime > settled
    )


@given(a=inputs, cut=st.integers(0, 14))
def test_sessions_come_back_to_what_they_would_have_been(a: Input, cut: int) -> None:
    lost = max((each.stime for each in a[:cut]), default=0)
    begins = {}  # of each group, when a session begins that has nothing of what was lost
    for group in "xy":
        times = [lost, *sorted(each.stime for each in a if each.stime > lost and each.values["k"] == group)]
        later = [time for before, time in pairwise(times) if time - before >= SESSION.gap_us]
        begins[group] = min(later, default=END_US)
    whole, again = (
        contents(each for each in made if each.stime > begins[str(each.values["k"])] + SESSION.gap_us - 1)
        for made in (run(SESSION, a, []), run(SESSION, a[cut:], []))
    )
    assert again == whole


@pytest.mark.parametrize("box", [LATEST_WITHIN, RESAMPLE], ids=names)
@given(a=inputs, b=inputs, cut_a=st.integers(0, 14), cut_b=st.integers(0, 14))
def test_what_counts_for_a_while_is_forgotten_by_both(box: Box, a: Input, b: Input, cut_a: int, cut_b: int) -> None:
    settled = max((each.stime for each in (*a[:cut_a], *b[:cut_b])), default=0) + 5 * MS
    whole, again = (
        contents(each for each in made if each.stime > settled)
        for made in (run(box, a, b), run(box, a[cut_a:], b[cut_b:]))
    )
    assert again == whole


@given(a=inputs, cut=st.integers(0, 14))
def test_runs_come_back_to_what_they_would_have_been(a: Input, cut: int) -> None:
    lost = max((each.stime for each in a[:cut]), default=0)
    values = [(each.stime, each.values["k"]) for each in sorted(a, key=lambda each: (each.stime, each.tid))]
    changes = [later[0] for earlier, later in pairwise(values) if earlier[0] > lost and earlier[1] != later[1]]
    settled = min(changes, default=END_US)  # the first run that has nothing of what was lost begins there
    whole, again = (
        contents(each for each in made if each.stime > settled)
        for made in (run(TUMBLE, a, []), run(TUMBLE, a[cut:], []))
    )
    assert again == whole


@given(a=inputs, cut=st.integers(0, 14))
def test_the_last_while_comes_back_to_what_it_would_have_been(a: Input, cut: int) -> None:
    settled = max((each.stime for each in a[:cut]), default=0) + 4 * MS
    whole, again = (
        contents(each for each in made if each.stime > settled)
        for made in (run(LAST_MS, a, []), run(LAST_MS, a[cut:], []))
    )
    assert again == whole


@given(a=inputs, cut=st.integers(0, 14))
def test_sections_come_back_to_what_they_would_have_been(a: Input, cut: int) -> None:
    settled = max((each.stime for each in a[:cut]), default=0) + SECTIONS.expire_us
    whole, again = (
        contents(each for each in made if each.stime > settled)
        for made in (run(SECTIONS, a, []), run(SECTIONS, a[cut:], []))
    )
    assert again == whole


@given(a=inputs, cut=st.integers(0, 14))
def test_windows_from_every_tuple_come_back_to_what_they_would_have_been(a: Input, cut: int) -> None:
    lost = max((each.stime for each in a[:cut]), default=0)
    settled = {}  # when a group has had as many tuples as a window after the last that was lost
    for group in "xy":
        later = sorted(each.stime for each in a if each.stime > lost and each.values["k"] == group)
        settled[group] = later[2] if len(later) > 2 else END_US
    whole, again = (
        contents(each for each in made if each.stime > settled[str(each.values["k"])])
        for made in (run(SLIDING, a, []), run(SLIDING, a[cut:], []))
    )
    assert again == whole


def test_a_convergent_capable_box_may_make_others_first() -> None:
    a = [row("?", MS, 1, k="x", v=1), row("?", MS, 2, k="x", v=2)]
    assert not contents(run(TIME_WINDOW, a[1:], [])) <= contents(run(TIME_WINDOW, a, []))
    late = [row("?", MS * time, number, k="x", v=1) for number, time in enumerate((2, 1, 3, 4))]
    assert not contents(run(SLIDING, late[1:], [])) <= contents(run(SLIDING, late, [])), "the second, between others"


@pytest.mark.parametrize("box", ALL, ids=names)
@given(a=inputs, b=inputs, data=st.data())
def test_a_deterministic_box_makes_the_same_of_the_same_in_whatever_order_it_came(
    box: Box, a: Input, b: Input, data: st.DataObject
) -> None:
    places = data.draw(st.permutations(range(len(a) + len(b))))
    assert contents(run(box, a, b, interleaved=places.__getitem__)) == contents(run(box, a, b))


@given(st.integers(4, 12), st.sampled_from([1, 2]))
def test_a_deterministic_box_may_make_others_for_ever(rows: int, cut: int) -> None:
    a = [row("?", MS * number, number, k="x", v=number) for number in range(1, 3 * rows)]
    whole, again = contents(run(THREES, a, [])), contents(run(THREES, a[cut:], []))
    assert again.keys().isdisjoint(whole.keys())
    assert contents(run(THREES, a[3:], [])) <= whole, "unless the restart happens to hit the beginning of a window"


def test_an_arbitrary_box_shows_in_which_order_its_inputs_came() -> None:
    a, b = [row("?", MS, 1, k="x", v=1)], [row("?", MS, 1, k="x", v=2)]
    one, other = run(UNION, a, b), run(UNION, a, b, interleaved=lambda place: -place)
    assert one != other
    assert contents(one) == contents(other), "as a set, which is all that race asks for, it is the same"
