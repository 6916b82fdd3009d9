"""Lookup: which rows a tuple finds, under which identity, and what the box promises."""

from __future__ import annotations

import math

from anabranch.model.identity import identity_hash
from anabranch.query.boxes import Arrow, Column, Lookup, Table
from anabranch.reference.lookups import LookupBox
from tests.unit.reference.streams import row

TABLE = Table(
    name="t",
    schema=(Column("code", "string"), Column("n", "int"), Column("f", "double")),
    key=("Code",),
    rows=(("a", 1, 0.0), ("b", 1, math.nan), ("c", None, None)),
)
COLUMNS = {"k": "string", "x": "int", "y": "double"}


def box(on: str, *, outer: bool = False) -> LookupBox:
    return LookupBox(Lookup(name="l", input=Arrow("s"), table=TABLE, on=on, outer=outer), COLUMNS, ["s/0"])


def hashed(time: int, tid: int, key: str | None) -> int:
    return identity_hash("lookup", "l", [("string", "s/0"), ("bigint", time), ("bigint", tid), ("string", key)])


def test_a_tuple_keeps_origin_and_time_and_is_known_by_the_key_of_its_row() -> None:
    (made,) = box("k = code").process(0, [row("s/0", 10, 7, k="a", x=5, y=None)])[0]
    assert made == row("s/0", 10, hashed(10, 7, "a"), k="a", x=5, y=None, code="a", n=1, f=0.0)


def test_every_row_that_matches_makes_a_tuple_of_its_own() -> None:
    made = box("x = n").process(0, [row("s/0", 10, 7, k="z", x=1, y=None)])[0]
    assert [(each.values["code"], each.tid) for each in made] == [("a", hashed(10, 7, "a")), ("b", hashed(10, 7, "b"))]


def test_a_tuple_without_a_row_is_gone_or_has_null() -> None:
    lost = row("s/0", 10, 7, k="z", x=1, y=None)
    assert box("k = code").process(0, [lost]) == {0: []}
    (made,) = box("k = code", outer=True).process(0, [lost])[0]
    assert made == row("s/0", 10, hashed(10, 7, None), k="z", x=1, y=None, code=None, n=None, f=None)


def test_null_equals_nothing_and_nan_and_zero_equal_themselves() -> None:
    null, nan, zero = (row("s/0", 10, n, k="z", x=None, y=y) for n, y in enumerate((None, math.nan, -0.0)))
    assert box("x = n").process(0, [null]) == {0: []}
    assert [each.values["code"] for each in box("y = f").process(0, [null, nan, zero])[0]] == ["b", "a"]


def test_all_equalities_must_hold() -> None:
    found = box("k = code AND x = n").process(
        0, [row("s/0", 1, 1, k="a", x=1, y=None), row("s/0", 1, 2, k="a", x=2, y=None)]
    )
    assert [each.values["x"] for each in found[0]] == [1]


def test_promises_pass() -> None:
    made = box("k = code")
    made.punctuate(0, {"s/0": 50})
    assert made.promises() == {"s/0": 50}
    assert made.columns == {**COLUMNS, "code": "string", "n": "int", "f": "double"}
