"""Sessions and other windows by themselves: what they hold, under which identity and time, and what is promised."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.model.identity import identity_hash
from anabranch.query.boxes import Aggregate, Arrow, Session, Slide, Tumble, XSection
from anabranch.reference.ordered import OrderedBox
from anabranch.reference.windows import (
    CountAggregateBox,
    EarlyAggregateBox,
    SessionBox,
    SlideBox,
    TumbleBox,
    XSectionBox,
)
from tests.unit.reference.streams import row

MS = 1_000


def sessions(gap_ms: int, *origins: str) -> SessionBox:
    box = Session(name="s", input=Arrow("a"), columns="count(*) AS n, sum(v) AS v", by=("k",), gap_us=gap_ms * MS)
    return SessionBox(box, {"k": "string", "v": "int"}, origins or ["a/0"])


def test_a_session_is_put_out_when_its_gap_is_over() -> None:
    box = sessions(10)
    first, second = row("a/0", 3 * MS, 1, k="x", v=1), row("a/0", 5 * MS, 2, k="x", v=2)
    box.process(0, [second, first])
    assert box.punctuate(0, {"a/0": 14_999}) == {0: []}
    tid = identity_hash("session", "s", [("string", "x"), *first.identity_parts])
    assert box.punctuate(0, {"a/0": 15 * MS}) == {0: [row("s", 15 * MS, tid, k="x", n=2, v=3)]}
    assert box.promises() == {"s": 15_001}


def test_a_tuple_that_comes_when_the_gap_is_over_begins_another_session() -> None:
    box = sessions(10)
    box.process(0, [row("a/0", time, time, k="x", v=1) for time in (1_000, 10_999, 20_999, 30_999)])
    made = box.close(100 * MS)[0]
    assert [(each.stime, each.values["n"]) for each in made] == [(20_999, 2), (30_999, 1), (40_999, 1)]


def test_each_group_has_its_own_sessions() -> None:
    box = sessions(10)
    box.process(0, [row("a/0", time * MS, time, k=k, v=1) for time, k in [(1, "x"), (6, None), (11, "x"), (15, None)]])
    made = sorted(box.close(100 * MS)[0], key=lambda each: each.stime)
    assert [(each.values["k"], each.values["n"], each.stime) for each in made] == [
        ("x", 1, 11 * MS),
        ("x", 1, 21 * MS),
        (None, 2, 25 * MS),
    ]


def test_of_equal_times_the_first_in_canonical_order_names_the_session() -> None:
    box = sessions(10, "a/0", "b/0")
    tuples = [row(origin, MS, tid, k="x", v=1) for origin in ("b/0", "a/0") for tid in (7, -3)]
    box.process(0, tuples)
    (made,) = box.close(100 * MS)[0]
    assert made.tid == identity_hash("session", "s", [("string", "x"), *tuples[3].identity_parts])


def tumble(timeout_ms: int | None = None) -> TumbleBox:
    timeout_us = None if timeout_ms is None else timeout_ms * MS
    box = Tumble(name="t", input=Arrow("a"), columns="avg(B) AS Result", by=("A",), timeout_us=timeout_us)
    return TumbleBox(box, {"A": "int", "B": "int"}, ["a/0"])


FIGURE_2 = [(1, 2), (1, 3), (2, 2), (2, 1), (2, 6), (4, 5), (4, 2)]
"""The stream of the Aurora* paper: values of A and B, one tuple after the other."""


def test_the_example_of_the_paper() -> None:
    box = tumble()
    tuples = [row("a/0", number * MS, number, A=a, B=b) for number, (a, b) in enumerate(FIGURE_2, start=1)]
    for number, each in enumerate(tuples, start=1):
        box.process(0, [each])
        made = box.close((number + 1) * MS)[0]
        wanted = {3: [(1, 2.5)], 6: [(2, 3.0)]}.get(number, [])
        assert [(one.values["A"], one.values["Result"]) for one in made] == wanted
        assert all(one.stime == each.stime for one in made), "that of the tuple that ends it"
    assert box.promises() == {"t": 8 * MS}
    first = identity_hash("tumble", "t", [("int", 4), *tuples[5].identity_parts])
    box.process(0, [row("a/0", 9 * MS, 9, A=None, B=1)])
    assert [one.tid for one in box.close(10 * MS)[0]] == [first], "and NULL is another value"


def test_a_run_that_lasts_ends_by_its_timeout() -> None:
    box = tumble(timeout_ms=10)
    box.process(0, [row("a/0", time * MS, time, A=1, B=time) for time in (1, 5, 10, 11, 12)])
    ended = [(each.stime // MS, each.values["Result"]) for each in box.close(20 * MS)[0]]
    assert ended == [(11, 16 / 3)], "the one at 11 begins another, which is over at 21"
    assert [(each.stime // MS, each.values["Result"]) for each in box.close(21 * MS)[0]] == [(21, 11.5)]


def test_what_changes_the_value_before_the_timeout_ends_the_run() -> None:
    box = tumble(timeout_ms=10)
    box.process(0, [row("a/0", 1 * MS, 1, A=1, B=1), row("a/0", 4 * MS, 2, A=2, B=2)])
    assert [(each.stime // MS, each.values["A"]) for each in box.close(50 * MS)[0]] == [(4, 1), (14, 2)]


def slide(**options: int) -> SlideBox:
    box = Slide(name="s", input=Arrow("a"), columns="count(*) AS n, sum(v) AS v", by=("k",), **options)
    return SlideBox(box, {"k": "string", "v": "int"}, ["a/0"])


def results(box: SlideBox, *times_ms: int) -> list[tuple[int, object]]:
    box.process(0, [row("a/0", time * MS, time, k="x", v=time) for time in times_ms])
    return [(each.stime // MS, each.values["v"]) for each in box.close(100 * MS)[0]]


def test_a_result_is_over_the_last_tuples_with_its_own() -> None:
    assert results(slide(rows=2), 1, 2, 4, 8) == [(1, 1), (2, 3), (4, 6), (8, 12)]
    assert results(slide(rows=2, every_rows=2), 1, 2, 4, 8) == [(2, 3), (8, 12)]


def test_a_result_is_over_the_last_while() -> None:
    assert results(slide(window_us=4 * MS), 1, 2, 4, 8) == [(1, 1), (2, 3), (4, 7), (8, 8)], "4 is 4 ms before 8"
    assert results(slide(window_us=5 * MS, every_rows=4), 1, 2, 4, 8) == [(8, 12)]


def test_a_moment_has_a_result_if_a_tuple_came_since_the_last() -> None:
    assert results(slide(rows=2, every_us=4 * MS), 1, 2, 4, 20) == [(4, 3), (8, 6), (24, 24)]
    box = slide(rows=2, every_us=4 * MS)
    box.process(0, [row("a/0", 1 * MS, 1, k="x", v=1)])
    assert box.close(3 * MS) == {0: []}
    (made,) = box.close(4 * MS)[0]
    assert made.tid == identity_hash("slide", "s", [("string", "x"), ("bigint", 4 * MS)])
    assert box.promises() == {"s": 4 * MS + 1}


def test_a_moment_is_over_the_while_before_it() -> None:
    assert results(slide(window_us=4 * MS, every_us=2 * MS), 1, 2, 4, 5) == [(2, 1), (4, 3), (6, 11)], "2 is at 6 - 4"
    assert results(slide(window_us=4 * MS, every_us=4 * MS), 0, 1, 4) == [(4, 1), (8, 4)], "4 is not before 4"


def test_a_result_is_known_by_its_tuple() -> None:
    box = slide(rows=2)
    each = row("a/0", 1 * MS, 1, k="x", v=1)
    box.process(0, [each])
    (made,) = box.close(4 * MS)[0]
    assert made.tid == identity_hash("slide", "s", each.identity_parts)
    assert box.promises() == {"s": 4 * MS}


def sections(*, every_ms: int = 10, window_ms: int = 10, expire_ms: int = 10) -> XSectionBox:
    box = XSection(
        name="x",
        input=Arrow("a"),
        columns="count(*) AS n, sum(v) AS v",
        by=("k",),
        window_us=window_ms * MS,
        every_us=every_ms * MS,
        expire_us=expire_ms * MS,
    )
    return XSectionBox(box, {"k": "string", "v": "int"}, ["a/0"])


def counted(box: XSectionBox, *rows: tuple[int, str]) -> list[tuple[int, object, object]]:
    box.process(0, [row("a/0", time * MS, number, k=k, v=1) for number, (time, k) in enumerate(rows)])
    made = sorted(box.close(1_000 * MS)[0], key=lambda each: (each.stime, str(each.values["k"])))
    return [(each.stime // MS, each.values["k"], each.values["n"]) for each in made]


def test_a_group_without_a_new_tuple_has_a_result_until_it_expires() -> None:
    assert counted(sections(expire_ms=25), (3, "x"), (12, "y")) == [
        (10, "x", 1),
        (20, "x", 0),
        (20, "y", 1),
        (30, "y", 0),
    ]
    assert counted(sections(), (3, "x"), (12, "y")) == [(10, "x", 1), (20, "y", 1)]


def test_a_tuple_at_a_moment_counts_in_the_next() -> None:
    assert counted(sections(), (10, "x"), (20, "x")) == [(20, "x", 1), (30, "x", 1)]


def test_windows_of_moments_may_overlap_or_leave_gaps() -> None:
    assert counted(sections(every_ms=5), (3, "x")) == [(5, "x", 1), (10, "x", 1)]
    assert counted(sections(every_ms=30, expire_ms=40), (3, "x")) == [(30, "x", 0)]


def test_a_result_is_known_by_group_and_moment() -> None:
    box = sections()
    box.process(0, [row("a/0", 3 * MS, 1, k="x", v=1)])
    assert box.close(9_999) == {0: []}
    tid = identity_hash("xsection", "x", [("string", "x"), ("bigint", 10 * MS)])
    assert box.punctuate(0, {"a/0": 10 * MS}) == {0: [row("x", 10 * MS, tid, k="x", n=1, v=1)]}
    assert box.promises() == {"x": 10 * MS + 1}


# --- results before the end ----------------------------------------------------------------------------------------


def shown(box: OrderedBox, *times_ms: int, until_ms: int = 100) -> list[tuple[int, object]]:
    box.process(0, [row("a/0", time * MS, time, k="x", v=time) for time in times_ms])
    return [(each.stime // MS, each.values["n"]) for each in box.close(until_ms * MS)[0]]


def early(name: str, **options: Any) -> OrderedBox:
    kinds: dict[str, tuple[Any, Any]] = {
        "count": (Aggregate, CountAggregateBox),
        "window": (Aggregate, EarlyAggregateBox),
        "session": (Session, SessionBox),
        "tumble": (Tumble, TumbleBox),
    }
    declared, made = kinds[name]
    box = declared(name="s", input=Arrow("a"), columns="count(*) AS n", by=("k",), **options)
    found: OrderedBox = made(box, {"k": "string", "v": "int"}, ["a/0"])
    return found


def test_results_come_after_every_so_many_tuples_and_at_the_end() -> None:
    full = early("count", rows=4, every_rows=4, emit_rows=2)
    assert shown(full, 1, 2, 3, 4, 5, 6, 7) == [(2, 2), (4, 4), (6, 2)], "the full one comes once"
    timed = early("count", rows=4, every_rows=4, emit_rows=1, timeout_us=5 * MS)
    assert shown(timed, 1, 2, 8) == [(1, 1), (2, 2), (6, 2), (8, 1), (13, 1)]
    assert shown(early("window", window_us=10 * MS, every_us=10 * MS, emit_rows=2), 1, 2, 3, 12) == [
        (2, 2), (10, 3), (20, 1),
    ]  # fmt: skip
    assert shown(early("session", gap_us=5 * MS, emit_rows=2), 1, 2, 3, 12) == [(2, 2), (8, 3), (17, 1)]
    assert shown(early("tumble", emit_rows=2), 1, 2, 3, 4) == [(2, 2), (4, 4)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("count", {"rows": 4, "every_rows": 4}),
        ("window", {"window_us": 10 * MS, "every_us": 10 * MS}),
        ("session", {"gap_us": 10 * MS}),
        ("tumble", {}),
    ],
)
def test_a_result_before_the_end_is_known_by_its_first_and_its_last_tuple(name: str, options: dict[str, int]) -> None:
    box = early(name, emit_rows=2, **options)
    first, last = row("a/0", 1 * MS, 1, k="x", v=1), row("a/0", 2 * MS, 2, k="x", v=2)
    box.process(0, [last, first])
    assert box.close(2 * MS) == {0: []}
    (made,) = box.close(3 * MS)[0]
    assert made.stime == 2 * MS
    assert made.tid == identity_hash("count", "s", [("string", "x"), *first.identity_parts, *last.identity_parts])
    assert box.promises() == {"s": 3 * MS}, "a tuple at the watermark may have the next result"
