"""Aggregate and Session: boxes that compute aggregate functions over windows of their input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.limits import LARGEST_SUM_SCALE, WINDOW_ROWS, WINDOWS
from anabranch.model.times import MS, format_duration
from anabranch.query.boxes import Aggregate, Schema, Session, Summing
from anabranch.query.checks import (
    check_by,
    check_expression,
    check_made,
    check_window,
    parsed,
    report_missing_alias,
)
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import ARROW, DURATION, NAMES, TEXT, WHOLE, Key
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report
from anabranch.query.schema import made_columns
from anabranch.query.sql import Expression, columns_outside_aggregates, is_aggregate
from anabranch.query.summations import summations
from anabranch.query.value_flow import Columns, Flow


class AggregateKind(Kind[Aggregate]):
    makes = Aggregate
    keys = (
        Key(name="input", form=ARROW),
        Key(name="columns", form=TEXT),
        Key(name="by", form=NAMES, default=()),
        Key(name="window", attribute="window_us", form=DURATION, default=None, unless="rows"),
        Key(name="every", attribute="every_us", form=DURATION, default_from="window_us"),
        Key(name="rows", form=WHOLE, default=None),
        Key(name="every_rows", form=WHOLE, default_from="rows"),
        Key(name="scale", form=WHOLE, default=None),
    )
    shape = ("[[", "]]")
    meaning = "aggregates over windows of time, or of a number of tuples, per group"
    state = "a partial result for each group and window of time; the tuples of windows that are not full"
    class_ = "convergent-capable over time, deterministic over tuples"

    def sql(self, box: Aggregate) -> tuple[str, ...]:
        return (box.columns,)

    def lines(self, box: Aggregate) -> Iterator[str]:
        yield from summing_lines(box)
        if box.window_us is not None and box.every_us is not None:
            yield f"window {format_duration(box.window_us)} every {format_duration(box.every_us)}"
        if box.rows is not None:
            yield f"window of {box.rows} rows every {box.every_rows} rows"
        yield from scale_lines(box)

    def check(self, box: Aggregate, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        _check_kind_of_window(box, report)
        if box.window_us is not None and box.every_us is not None:
            _check_time_windows(box.name, box.window_us, box.every_us, report)
        if box.rows is not None and box.every_rows is not None:
            _check_count_windows(box.name, box.rows, box.every_rows, report)
        check_summing(box, inputs[0], report)

    def schema(self, box: Aggregate, inputs: Sequence[Schema]) -> Schema | None:
        return made_columns(box.columns, box.by, inputs[0])

    def judge(self, box: Aggregate, order: Order) -> Judgement:
        """Only where its windows lie keeps a deterministic box from converging.

        A box that begins a window with every tuple makes no other windows of one sequence from a later point on. But
        two lanes need not be read from the same time on, and tuples need not come in canonical order: then the first
        windows are full without a tuple that is missing between the others.
        """
        if not box.counts:
            reason = "a restart misses tuples in its first windows only: windows lie where 1970 puts them"
            return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)
        if box.rows == 1:
            return Judgement(OperatorClass.REPEATABLE, "each tuple by itself")
        if box.every_rows != 1:
            reason = "a restart counts from another tuple, and its windows stay shifted"
            return Judgement(OperatorClass.DETERMINISTIC, reason)
        if order is Order.CANONICAL:
            reason = "a window begins with every tuple, and a restart lies between two"
            return Judgement(OperatorClass.REPEATABLE, reason)
        reason = "a window begins with every tuple, and only the first may lack one between their own"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def flow(self, box: Aggregate, flow: Flow) -> Columns:
        return flow.summed(box)

    def waits_us(self, box: Aggregate) -> int | None:
        """Windows of tuples: all tuples before the watermark are counted, and the next window ends with one at or after
        it. Windows of time: all that end at or before the watermark are out, and the next one ends at least one unit
        later."""
        return 0 if box.counts else 1


class SessionKind(Kind[Session]):
    makes = Session
    keys = (
        Key(name="input", form=ARROW),
        Key(name="columns", form=TEXT),
        Key(name="by", form=NAMES, default=()),
        Key(name="gap", attribute="gap_us", form=DURATION),
        Key(name="scale", form=WHOLE, default=None),
    )
    shape = ("[[", "]]")
    meaning = "aggregates over sessions: tuples of a group that follow each other with less than a gap between them"
    state = "a partial result for each session that is not over"
    class_ = "convergent-capable"

    def sql(self, box: Session) -> tuple[str, ...]:
        return (box.columns,)

    def lines(self, box: Session) -> Iterator[str]:
        yield from summing_lines(box)
        yield f"gap {format_duration(box.gap_us)}"
        yield from scale_lines(box)

    def check(self, box: Session, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        check_window(box.name, "gap", box.gap_us, report)
        check_summing(box, inputs[0], report)

    def schema(self, box: Session, inputs: Sequence[Schema]) -> Schema | None:
        return made_columns(box.columns, box.by, inputs[0])

    def judge(self, box: Session, order: Order) -> Judgement:
        reason = "a restart misses tuples in the first session of a group only: the next begins after a gap"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def flow(self, box: Session, flow: Flow) -> Columns:
        return flow.summed(box)

    def waits_us(self, box: Session) -> int | None:
        """All sessions whose gap ends at or before the watermark are out; that of a later one ends at least one unit
        later."""
        return 1


# --- what boxes with aggregate functions share ---------------------------------------------------------------------


def summing_lines(box: Summing) -> Iterator[str]:
    yield box.columns
    if box.by:
        yield f"by {', '.join(box.by)}"


def scale_lines(box: Summing) -> Iterator[str]:
    if box.scale is not None:
        yield f"scale {box.scale}"


def check_summing(box: Summing, schema: Schema | None, report: Report) -> None:
    """The select list of aggregates, and how exact their sums are."""
    expressions = parsed(box.name, "columns", box.columns, report)
    for expression in expressions:
        _check_aggregate_column(box, expression, schema, report)
    _check_scale(box, expressions, report)
    check_made(box, expressions, box.by, schema, report)


def _check_aggregate_column(box: Summing, expression: Expression, schema: Schema | None, report: Report) -> None:
    fine = check_expression(box.name, "columns", expression, schema, report, aggregates=True)
    if fine and not any(is_aggregate(node) for node in expression.tree.walk()):
        message = f"`{expression.sql}` is not an aggregate."
        report.add("bad-aggregate", box.name, "columns", message, "Use an aggregate function, or name it in `by`.")
    elif fine and (outside := columns_outside_aggregates(expression)):
        message = f"`{expression.sql}` reads {', '.join(map(repr, outside))} outside an aggregate function."
        report.add("bad-aggregate", box.name, "columns", message, "Every column must be an argument of an aggregate.")
    elif expression.alias is None:
        report_missing_alias(box.name, expression, report)


def _check_scale(box: Summing, expressions: Sequence[Expression], report: Report) -> None:
    if box.scale is None:
        return
    if not 0 <= box.scale <= LARGEST_SUM_SCALE:
        message = f"scale: {box.scale} is not a number of digits from 0 to {LARGEST_SUM_SCALE}."
        report.add("bad-scale", box.name, "scale", message, "Write how many digits after the point exact sums have.")
    elif expressions and not any(True for each in expressions for _ in summations(each.sql)):
        message = "scale: there is no sum and no average that could have so many digits."
        report.add("meaningless-option", box.name, "scale", message, "Leave `scale` out.")


# --- windows of an Aggregate ---------------------------------------------------------------------------------------


def _check_kind_of_window(box: Aggregate, report: Report) -> None:
    """Windows are of a time, with ``every``, or of a number of tuples, with ``every_rows``."""
    if box.window_us is None and box.rows is None:
        message = "Nothing says what a window is."
        report.add(
            "bad-window", box.name, "window", message, "Give `window`, a duration, or `rows`, a number of tuples."
        )
        return
    if box.window_us is not None:
        meant, others = "window", {"rows": box.rows, "every_rows": box.every_rows}
    else:
        meant, others = "rows", {"every": box.every_us}
    for field, value in others.items():
        if value is not None:
            message = f"{field}: windows are made by `{meant}` here."
            report.add("meaningless-option", box.name, field, message, f"Leave `{meant}` or `{field}` out.")
            return


def _check_time_windows(box: str, window_us: int, every_us: int, report: Report) -> None:
    check_window(box, "window", window_us, report)
    if every_us != window_us:
        check_window(box, "every", every_us, report)
    if every_us > window_us > 0:
        message = f"every: {format_duration(every_us)} is longer than the window of {format_duration(window_us)}."
        report.add("bad-window", box, "every", message, "Tuples between two windows would be lost: shorten it.")
    elif every_us >= MS and window_us > every_us * WINDOWS:
        _report_many_windows(box, "every", -(-window_us // every_us), report)


def _check_count_windows(box: str, rows: int, every_rows: int, report: Report) -> None:
    for field, count in (("rows", rows), ("every_rows", every_rows)):
        if count < 1 and (field == "rows" or every_rows != rows):
            message = f"{field}: {count} is not a number of tuples."
            report.add("bad-window", box, field, message, "Write 1 or more.")
    if rows > WINDOW_ROWS:
        message = f"rows: a window of {rows:,} tuples is too large; {WINDOW_ROWS:,} are possible."
        report.add("bad-window", box, "rows", message, "Use a window of time, or a smaller one.")
    elif every_rows > rows > 0:
        message = f"every_rows: {every_rows} is more than the {rows} of the window."
        report.add("bad-window", box, "every_rows", message, "Tuples between two windows would be lost: lessen it.")
    elif every_rows > 0 and rows > every_rows * WINDOWS:
        _report_many_windows(box, "every_rows", -(-rows // every_rows), report)


def _report_many_windows(box: str, field: str, windows: int, report: Report) -> None:
    message = f"{field}: a tuple would lie in {windows:,} windows; {WINDOWS:,} are possible."
    report.add("bad-window", box, field, message, "Let windows begin less often, or make them shorter.")


AGGREGATE: Final = AggregateKind()
SESSION: Final = SessionKind()
