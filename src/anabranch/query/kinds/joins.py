"""Join: boxes that put tuples of two streams together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.model.times import format_duration
from anabranch.query.boxes import Join, Schema
from anabranch.query.checks import check_condition, check_window, columns_read
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import ARROW, DURATION, TEXT, Key
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report
from anabranch.query.schema import lookup, unique
from anabranch.query.value_flow import Columns, Flow


class JoinKind(Kind[Join]):
    makes = Join
    keys = (
        Key(name="left", form=ARROW),
        Key(name="right", form=ARROW),
        Key(name="on", form=TEXT),
        Key(name="within", attribute="within_us", form=DURATION),
    )
    shape = ("[", "]")
    meaning = "one tuple for each pair of tuples that are less than a time apart and for which a condition holds"
    state = "the tuples of both sides that may still find a partner"
    class_ = "repeatable"

    def sql(self, box: Join) -> tuple[str, ...]:
        return (box.on,)

    def lines(self, box: Join) -> Iterator[str]:
        yield box.on
        yield f"within {format_duration(box.within_us)}"

    def check(self, box: Join, inputs: Sequence[Schema | None], report: Report) -> None:
        check_window(box.name, "within", box.within_us, report)
        left, right = inputs
        if left is None or right is None:
            check_condition(box.name, "on", box.on, None, report)
            return
        shared = check_sides(box, left, right, report)
        for name in columns_read(box.on):
            if name.lower() in shared:
                message = f"on: {name!r} could be the column of {str(box.left)!r} or of {str(box.right)!r}."
                report.add("ambiguous-column", box.name, "on", message, "Rename one of them with a map.")
        check_condition(box.name, "on", box.on, (*left, *right), report)

    def schema(self, box: Join, inputs: Sequence[Schema]) -> Schema | None:
        return unique((*inputs[0], *inputs[1]))

    def judge(self, box: Join, order: Order) -> Judgement:
        return Judgement(OperatorClass.REPEATABLE, "one tuple of either input makes one, and there is no timeout")

    def flow(self, box: Join, flow: Flow) -> Columns:
        both = {**flow.first, **flow.inputs[1]}
        flow.decide_all([box.on], both)
        return both


def check_sides(box: Join, left: Schema, right: Schema, report: Report) -> frozenset[str]:
    """The columns that both sides have, in lower case: they are told, because what comes out has those of both."""
    shared = {column.name.lower(): column.name for column in left if lookup(right, column.name) is not None}
    if shared:
        first = next(iter(shared.values()))
        message = f"Both {str(box.left)!r} and {str(box.right)!r} have {', '.join(map(repr, shared.values()))}."
        remedy = f'Rename the columns of one side: .map("{first} AS other_{first}, ...").'
        report.add("duplicate-name", box.name, "inputs", message, remedy)
    return frozenset(shared)


JOIN: Final = JoinKind()
