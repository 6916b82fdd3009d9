"""Lookup: each tuple of a stream with the rows of a static table that have equal keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.query.boxes import Lookup, Schema
from anabranch.query.checks import check_condition
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import ARROW, FLAG, TABLE, TEXT, Key
from anabranch.query.kinds.joins import check_equalities, check_sides
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report
from anabranch.query.schema import unique
from anabranch.query.value_flow import NONE, Columns, Flow


class LookupKind(Kind[Lookup]):
    makes = Lookup
    keys = (
        Key(name="input", form=ARROW),
        Key(name="table", form=TABLE),
        Key(name="on", form=TEXT),
        Key(name="outer", form=FLAG, default=False),
    )
    shape = ("[", "]")
    meaning = "each tuple with the rows of a static table that have equal keys"
    state = "none; the table is loaded at the start"
    class_ = "repeatable"

    def sql(self, box: Lookup) -> tuple[str, ...]:
        return (box.on,)

    def lines(self, box: Lookup) -> Iterator[str]:
        yield f"table {box.table.name}"
        yield box.on
        if box.outer:
            yield "outer"

    def check(self, box: Lookup, inputs: Sequence[Schema | None], report: Report) -> None:
        left = inputs[0]
        if left is None or not box.table.schema:
            check_condition(box.name, "on", box.on, None, report)
            return
        check_sides(box.name, (str(box.input), left), (box.table.name, box.table.schema), report)
        check_equalities(box.name, box.on, left, box.table.schema, report)

    def schema(self, box: Lookup, inputs: Sequence[Schema]) -> Schema | None:
        return unique((*inputs[0], *box.table.schema)) if box.table.schema else None

    def judge(self, box: Lookup, order: Order) -> Judgement:
        return Judgement(OperatorClass.REPEATABLE, "each tuple by itself, and the table is the same in every run")

    def flow(self, box: Lookup, flow: Flow) -> Columns:
        both = {**flow.first, **{name.lower(): NONE for name in box.table.columns}}
        flow.decide_all([box.on], both)
        return both


LOOKUP: Final = LookupKind()
