"""Join, Latest and Resample: boxes that put tuples of two streams together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.errors import with_article
from anabranch.model.times import format_duration
from anabranch.query.boxes import Column, Join, Latest, Resample, Schema
from anabranch.query.checks import (
    check_column,
    check_condition,
    check_unique,
    check_window,
    columns_read,
    is_expression,
)
from anabranch.query.infer import is_number
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import ARROW, DURATION, FLAG, NAMES, TEXT, Key
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report, candidates
from anabranch.query.schema import lookup, unique
from anabranch.query.sql import column_pairs
from anabranch.query.value_flow import Columns, Flow

WAYS: Final = ("linear", "previous", "nearest", "mean")
"""How Resample makes a value at a time of those around it."""


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
    state = "the tuples of both sides that may still find a match"
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
        shared = check_sides(box.name, (str(box.left), left), (str(box.right), right), report)
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


class LatestKind(Kind[Latest]):
    makes = Latest
    keys = (
        Key(name="left", form=ARROW),
        Key(name="right", form=ARROW),
        Key(name="on", form=TEXT, default=None),
        Key(name="outer", form=FLAG, default=False),
        Key(name="within", attribute="within_us", form=DURATION, default=None),
    )
    shape = ("[", "]")
    meaning = "each tuple of the first stream with the newest of the second, per key, that is not later (as-of join)"
    state = "the newest tuple of the second stream for each key, and what waits for the punctuation"
    class_ = "deterministic; with `within` convergent-capable"

    def sql(self, box: Latest) -> tuple[str, ...]:
        return () if box.on is None else (box.on,)

    def lines(self, box: Latest) -> Iterator[str]:
        if box.on is not None:
            yield box.on
        if box.within_us is not None:
            yield f"within {format_duration(box.within_us)}"
        if box.outer:
            yield "outer"

    def check(self, box: Latest, inputs: Sequence[Schema | None], report: Report) -> None:
        if box.within_us is not None:
            check_window(box.name, "within", box.within_us, report)
        left, right = inputs
        if left is None or right is None:
            if box.on is not None:
                check_condition(box.name, "on", box.on, None, report)
            return
        check_sides(box.name, (str(box.left), left), (str(box.right), right), report)
        if box.on is not None:
            check_equalities(box.name, box.on, left, right, report)

    def schema(self, box: Latest, inputs: Sequence[Schema]) -> Schema | None:
        return unique((*inputs[0], *inputs[1]))

    def judge(self, box: Latest, order: Order) -> Judgement:
        if box.within_us is None:
            reason = "a restart does not know earlier tuples of the second stream, which may matter forever"
            return Judgement(OperatorClass.DETERMINISTIC, reason)
        reason = "a restart does not know earlier tuples of the second stream, which matter only for a while"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def flow(self, box: Latest, flow: Flow) -> Columns:
        both = {**flow.first, **flow.inputs[1]}
        flow.decide_all(self.sql(box), both)
        return both

    def waits_us(self, box: Latest) -> int | None:
        """All tuples of the left before the watermark have found their partner, so the next one is at or after it."""
        return 0


class ResampleKind(Kind[Resample]):
    makes = Resample
    keys = (
        Key(name="left", form=ARROW),
        Key(name="right", form=ARROW),
        Key(name="columns", form=NAMES),
        Key(name="how", form=TEXT),
        Key(name="within", attribute="within_us", form=DURATION),
        Key(name="on", form=TEXT, default=None),
    )
    shape = ("[", "]")
    meaning = (
        "each tuple of the first stream with what values of the second are at its time: interpolated, or the nearest"
    )
    state = "the tuples of both streams within twice the distance of the punctuation"
    class_ = "convergent-capable"

    def sql(self, box: Resample) -> tuple[str, ...]:
        return () if box.on is None else (box.on,)

    def lines(self, box: Resample) -> Iterator[str]:
        yield f"{box.how} {', '.join(box.columns)}"
        if box.on is not None:
            yield box.on
        yield f"within {format_duration(box.within_us)}"

    def check(self, box: Resample, inputs: Sequence[Schema | None], report: Report) -> None:
        check_window(box.name, "within", box.within_us, report)
        if box.how not in WAYS:
            message = f"how: there is no {box.how!r}."
            report.add("bad-resample", box.name, "how", message, candidates(box.how, WAYS))
        if not box.columns:
            remedy = candidates("", (column.name for column in inputs[1] or ()))
            report.add("missing-key", box.name, "columns", "columns: no columns given to resample.", remedy)
        check_unique(box.name, "columns", "column", box.columns, report, remedy="Name it once.")
        for name in box.columns:
            check_column(box.name, "columns", name, inputs[1], report)
        left, right = inputs
        if left is None or right is None:
            if box.on is not None:
                check_condition(box.name, "on", box.on, None, report)
            return
        made = [column for name in box.columns if (column := lookup(right, name)) is not None]
        for column in made:
            if column.type is not None and not is_number(column.type):
                message = f"columns: {column.name!r} is {with_article(column.type)}, which has no values in between."
                report.add("bad-resample", box.name, "columns", message, "Choose numbers.")
        check_sides(box.name, (str(box.left), left), (str(box.right), tuple(made)), report)
        if box.on is not None:
            check_equalities(box.name, box.on, left, right, report)

    def schema(self, box: Resample, inputs: Sequence[Schema]) -> Schema | None:
        made = [lookup(inputs[1], name) for name in box.columns]
        if None in made:
            return None
        return unique((*inputs[0], *(Column(column.name, "double") for column in made if column is not None)))

    def judge(self, box: Resample, order: Order) -> Judgement:
        reason = "a restart does not know earlier tuples of the second stream, which matter only for a while"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def flow(self, box: Resample, flow: Flow) -> Columns:
        flow.decide_all(self.sql(box), {**flow.first, **flow.inputs[1]})
        made = {name.lower() for name in box.columns}
        return {**flow.first, **{name: causes for name, causes in flow.inputs[1].items() if name in made}}

    def waits_us(self, box: Resample) -> int | None:
        """All tuples of the left are out that are as far before the watermark as one of the right may be after them."""
        return 1 - box.waits_for_us if box.waits_for_us else 0


def check_equalities(box: str, on: str, left: Schema, right: Schema, report: Report) -> None:
    """Equalities between columns of the two sides, which must be of one type: a key is the same as itself only."""
    told = len(report.problems)
    check_condition(box, "on", on, (*left, *right), report)
    if len(report.problems) > told or not is_expression(on):
        return
    pairs = column_pairs(on, [column.name for column in left], [column.name for column in right])
    if pairs is None:
        message = f"on: `{on}` is more than equalities between a column of either side."
        remedy = "Write left_column = right_column, with AND between several; filter or map before or after."
        report.add("not-an-equality", box, "on", message, remedy)
        return
    for one, other in pairs:
        types = [column.type for column in (lookup(left, one), lookup(right, other)) if column is not None]
        if len(set(types)) > 1 and None not in types:
            message = f"on: {one!r} is {types[0]} and {other!r} is {types[1]}."
            report.add("not-an-equality", box, "on", message, "Cast one of them with a map.")


def check_sides(box: str, left: tuple[str, Schema], right: tuple[str, Schema], report: Report) -> frozenset[str]:
    """The columns that both sides have, in lower case: they are told, because what comes out has those of both."""
    shared = {column.name.lower(): column.name for column in left[1] if lookup(right[1], column.name) is not None}
    if shared:
        first = next(iter(shared.values()))
        message = f"Both {left[0]!r} and {right[0]!r} have {', '.join(map(repr, shared.values()))}."
        remedy = f'Rename the columns of one side: .map("{first} AS other_{first}, ...").'
        report.add("duplicate-name", box, "inputs", message, remedy)
    return frozenset(shared)


JOIN: Final = JoinKind()
LATEST: Final = LatestKind()
RESAMPLE: Final = ResampleKind()
