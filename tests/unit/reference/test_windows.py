"""Sessions and other windows by themselves: what they hold, under which identity and time, and what is promised."""

from __future__ import annotations

from anabranch.model.identity import identity_hash
from anabranch.query.boxes import Arrow, Session
from anabranch.reference.windows import SessionBox
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
