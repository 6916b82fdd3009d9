"""Python: columns that a function of the user makes, one tuple for each tuple."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.query.boxes import Python, Schema
from anabranch.query.checks import check_column, check_columns, check_type, check_unique
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import ARROW, FLAG, NAMES, SCHEMA, TEXT, Key
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report
from anabranch.query.schema import lookup, unique
from anabranch.query.value_flow import NONE, Columns, Flow

_NAME: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class PythonKind(Kind[Python]):
    makes = Python
    keys = (
        Key(name="input", form=ARROW),
        Key(name="function", form=TEXT),
        Key(name="columns", form=SCHEMA),
        Key(name="reads", form=NAMES, default=()),
        Key(name="deterministic", form=FLAG, default=False),
    )
    shape = ("[/", "/]")
    meaning = "one tuple for each tuple, with further columns that a Python function computes"
    class_ = "repeatable if it is declared deterministic, otherwise arbitrary"

    def lines(self, box: Python) -> Iterator[str]:
        yield f"{box.function}({', '.join(box.reads) or '*'})"

    def check(self, box: Python, inputs: Sequence[Schema | None], report: Report) -> None:
        if _NAME.fullmatch(box.function) is None:
            message = f"function: {box.function!r} is not the name of a function."
            report.add("bad-function", box.name, "function", message, "Write module:function, such as scoring:score.")
        for name in box.reads:
            check_column(box.name, "reads", name, inputs[0], report)
        check_unique(box.name, "reads", "column", box.reads, report, remedy="Name it once.")
        if not box.columns:
            message = "columns: no columns given that the function computes."
            report.add("unsupported-type", box.name, "columns", message, 'Write "name type, ...".')
        names = [column.name for column in box.columns]
        check_columns(box.name, "columns", names, report)
        for column in box.columns:
            check_type(box.name, "columns", column.name, column.type or "", report)
        for name in names:
            if inputs[0] is not None and lookup(inputs[0], name) is not None:
                message = f"columns: the input has a column {name!r} already."
                report.add("duplicate-name", box.name, "columns", message, "Rename one of them, with a map before it.")

    def schema(self, box: Python, inputs: Sequence[Schema]) -> Schema | None:
        return unique((*inputs[0], *box.columns))

    def judge(self, box: Python, order: Order) -> Judgement:
        if box.deterministic:
            return Judgement(
                OperatorClass.REPEATABLE, "each tuple by itself, and the function is declared deterministic"
            )
        return Judgement(OperatorClass.ARBITRARY, f"{box.function} is not declared deterministic")

    def flow(self, box: Python, flow: Flow) -> Columns:
        """Nobody knows what a function does with the last bits of what it reads: it counts as a decision."""
        read = [name for name in flow.first if not box.reads or name in {each.lower() for each in box.reads}]
        flow.decided(read, box.function)
        return {**flow.first, **{column.name.lower(): NONE for column in box.columns}}


PYTHON: Final = PythonKind()
