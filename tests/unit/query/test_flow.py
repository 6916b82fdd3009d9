"""Where the stages of a query run: where the box is placed that they are named after."""

from __future__ import annotations

from anabranch.query.builder import Query
from anabranch.query.flow import flow


def test_every_output_of_a_box_runs_where_the_box_is_placed() -> None:
    query = Query("q")
    in_order, late = query.source("letters", "number int").wsort("number", timeout="1s", name="desk")
    query.output("in_order", in_order)
    query.output("late", late.filter("number > 1", name="large"))
    placed = {"letters": ("entry",), "desk": ("a", "b"), "large": ("c",)}
    found = flow(query.checked(), placed)
    assert found.run_on == {"desk": ("a", "b"), "desk.1": ("a", "b"), "large": ("c",)}
    assert found.made_on == {
        "letters": ("entry",),
        "in_order": ("a", "b"),
        "box:desk.1": ("a", "b"),
        "late": ("c",),
    }
