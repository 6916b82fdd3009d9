"""Filter, Map, Drop and Union: each tuple by itself, its identity and time kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.query.boxes import Drop, Filter, Map, Schema, Union
from anabranch.query.checks import check_condition, check_expression, check_made, parsed, report_missing_alias
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import ARROW, ARROWS, FLAG, NUMBER, TEXT, TEXTS, WHOLE, Key
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report
from anabranch.query.schema import format_schema, made_columns, same_columns
from anabranch.query.value_flow import NONE, Columns, Flow

_BY_ITSELF: Final = Judgement(OperatorClass.REPEATABLE, "each tuple by itself")


class FilterKind(Kind[Filter]):
    makes = Filter
    keys = (
        Key(name="input", form=ARROW),
        Key(name="where", attribute="predicates", form=TEXTS),
        Key(name="otherwise", form=FLAG, default=False),
    )
    shape = ("{{", "}}")
    meaning = "a tuple goes to the output of the first predicate that holds"
    class_ = "repeatable"

    def sql(self, box: Filter) -> tuple[str, ...]:
        return box.predicates

    def lines(self, box: Filter) -> Iterator[str]:
        several = box.ports > 1
        yield from (f"{port}: {text}" if several else text for port, text in enumerate(box.predicates))
        if box.otherwise:
            yield f"{len(box.predicates)}: otherwise"

    def check(self, box: Filter, inputs: Sequence[Schema | None], report: Report) -> None:
        if not box.predicates:
            report.add(
                "bad-sql", box.name, "where", "where: no condition given.", "Write at least one, such as rtt_ms > 1000."
            )
        for predicate in box.predicates:
            check_condition(box.name, "where", predicate, inputs[0], report, stime=True)

    def schema(self, box: Filter, inputs: Sequence[Schema]) -> Schema | None:
        return inputs[0]

    def judge(self, box: Filter, order: Order) -> Judgement:
        return _BY_ITSELF

    def flow(self, box: Filter, flow: Flow) -> Columns:
        flow.decide_all(box.predicates, flow.first)
        return flow.first


class MapKind(Kind[Map]):
    makes = Map
    keys = (Key(name="input", form=ARROW), Key(name="columns", form=TEXT))
    shape = ("[/", "/]")
    meaning = "one tuple for each tuple, with the columns of a SQL select list"
    class_ = "repeatable"

    def sql(self, box: Map) -> tuple[str, ...]:
        return (box.columns,)

    def lines(self, box: Map) -> Iterator[str]:
        yield box.columns

    def check(self, box: Map, inputs: Sequence[Schema | None], report: Report) -> None:
        expressions = parsed(box.name, "columns", box.columns, report)
        for expression in expressions:
            check_expression(box.name, "columns", expression, inputs[0], report, stime=True)
            if not expression.is_star and expression.alias is None and expression.column is None:
                report_missing_alias(box.name, expression, report)
        check_made(box, expressions, (), inputs[0], report)

    def schema(self, box: Map, inputs: Sequence[Schema]) -> Schema | None:
        return made_columns(box.columns, (), inputs[0])

    def judge(self, box: Map, order: Order) -> Judgement:
        return _BY_ITSELF

    def flow(self, box: Map, flow: Flow) -> Columns:
        return flow.mapped(box.columns)


class DropKind(Kind[Drop]):
    makes = Drop
    keys = (
        Key(name="input", form=ARROW),
        Key(name="fraction", form=NUMBER, default=None, unless="where"),
        Key(name="seed", form=WHOLE, default=0),
        Key(name="where", attribute="predicate", form=TEXT, default=None),
    )
    shape = (">", "]")
    meaning = "all tuples but a fraction of them, the same in every run, or but those for which a predicate holds"
    class_ = "repeatable"

    def sql(self, box: Drop) -> tuple[str, ...]:
        return () if box.predicate is None else (box.predicate,)

    def lines(self, box: Drop) -> Iterator[str]:
        if box.predicate is not None:
            yield f"where {box.predicate}"
        elif box.fraction is not None:
            yield f"{box.fraction:g} of all, seed {box.seed}"

    def check(self, box: Drop, inputs: Sequence[Schema | None], report: Report) -> None:
        if box.predicate is not None:
            check_condition(box.name, "where", box.predicate, inputs[0], report, stime=True)
            for field, given in (("fraction", box.fraction is not None), ("seed", box.seed != 0)):
                if given:
                    message = f"{field}: a predicate decides which tuples are dropped."
                    report.add("meaningless-option", box.name, field, message, f"Leave {field} or the predicate out.")
        elif box.fraction is None:
            message = "No fraction or predicate given to choose the tuples to drop."
            report.add("bad-drop", box.name, "fraction", message, "Give one: a fraction such as 0.1, or a predicate.")
        elif not 0 < box.fraction < 1:
            message = f"fraction: {box.fraction:g} is not between 0 and 1."
            report.add("bad-drop", box.name, "fraction", message, "Write 0.1 to drop every tenth tuple, more or less.")
        if not -(1 << 63) <= box.seed < 1 << 63:
            message = f"seed: {box.seed} does not fit into 64 bits."
            report.add("bad-drop", box.name, "seed", message, "Write a number from -2**63 to 2**63 - 1.")

    def schema(self, box: Drop, inputs: Sequence[Schema]) -> Schema | None:
        return inputs[0]

    def judge(self, box: Drop, order: Order) -> Judgement:
        if box.predicate is None:
            return Judgement(OperatorClass.REPEATABLE, "seed and identity decide, not chance")
        return _BY_ITSELF

    def flow(self, box: Drop, flow: Flow) -> Columns:
        flow.decide_all(self.sql(box), flow.first)
        return flow.first


class UnionKind(Kind[Union]):
    makes = Union
    keys = (Key(name="inputs", form=ARROWS),)
    shape = ("((", "))")
    meaning = "all tuples of all inputs"
    class_ = "by arrival arbitrary, in race and dpc repeatable"

    def lines(self, box: Union) -> Iterator[str]:
        yield from ()

    def check(self, box: Union, inputs: Sequence[Schema | None], report: Report) -> None:
        if not box.inputs:
            report.add("no-input", box.name, "inputs", "inputs: no inputs given.", "Name at least one stream.")
        known = [(arrow, schema) for arrow, schema in zip(box.inputs, inputs, strict=True) if schema is not None]
        for arrow, schema in known[1:]:
            first_arrow, first = known[0]
            if not same_columns(first, schema):
                one = f"{str(first_arrow)!r} has ({format_schema(first)})"
                other = f"{str(arrow)!r} has ({format_schema(schema)})"
                message = f"{one}, but {other}: {_difference(first, schema)}."
                report.add("union-type-clash", box.name, "inputs", message, "Make them equal with a map.")

    def schema(self, box: Union, inputs: Sequence[Schema]) -> Schema | None:
        return inputs[0] if all(same_columns(inputs[0], schema) for schema in inputs) else None

    def judge(self, box: Union, order: Order) -> Judgement:
        match order:
            case Order.ARRIVAL:
                return Judgement(OperatorClass.ARBITRARY, "it shows in which order its inputs came")
            case Order.NONE:
                return Judgement(OperatorClass.REPEATABLE, "each tuple by itself, and streams have no order")
            case Order.CANONICAL:
                return Judgement(OperatorClass.REPEATABLE, "its inputs are put into canonical order first")

    def flow(self, box: Union, flow: Flow) -> Columns:
        together = zip(*(each.values() for each in flow.inputs), strict=False)
        return dict(zip(flow.first, (NONE.union(*each) for each in together), strict=False))


def _difference(first: Schema, second: Schema) -> str:
    for one, other in zip(first, second, strict=False):
        if one.name.lower() != other.name.lower():
            return f"column {one.name!r} meets {other.name!r}"
        if one.type != other.type and None not in (one.type, other.type):
            return f"column {one.name!r} is {one.type} and {other.type}"
    return f"{len(first)} columns meet {len(second)}"


FILTER: Final = FilterKind()
MAP: Final = MapKind()
DROP: Final = DropKind()
UNION: Final = UnionKind()
