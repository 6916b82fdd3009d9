"""Aggregate, Session, Tumble, Slide and XSection: boxes that compute aggregate functions over windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.limits import LARGEST_SUM_SCALE, WINDOW_ROWS, WINDOWS
from anabranch.model.times import MS, format_duration
from anabranch.query.boxes import Aggregate, Early, Schema, Session, Slide, Summing, Tumble, XSection
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
from anabranch.query.problems import Report, candidates
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
        Key(name="timeout", attribute="timeout_us", form=DURATION, default=None),
        Key(name="emit_rows", form=WHOLE, default=None),
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
        if box.timeout_us is not None:
            yield f"timeout {format_duration(box.timeout_us)}"
        yield from early_lines(box)
        yield from scale_lines(box)

    def check(self, box: Aggregate, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        _check_kind_of_window(box, report)
        if box.window_us is not None and box.every_us is not None:
            _check_time_windows(box.name, box.window_us, box.every_us, report)
        if box.rows is not None and box.every_rows is not None:
            _check_count_windows(box.name, box.rows, box.every_rows, report)
        if box.timeout_us is not None:
            _check_timeout(box, box.timeout_us, report)
        check_early(box, report)
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
            reason = "a restart misses tuples in its first windows only: windows are aligned to 1970"
            return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)
        if box.rows == 1:
            return Judgement(OperatorClass.REPEATABLE, "each tuple by itself")
        if box.every_rows != 1 or box.timeout_us is not None:
            reason = "a restart counts from another tuple, and its windows stay shifted"
            return Judgement(OperatorClass.DETERMINISTIC, reason)
        if order is Order.CANONICAL:
            reason = "a window begins with every tuple, and a restart lies between two"
            return Judgement(OperatorClass.REPEATABLE, reason)
        reason = "a window begins with every tuple, and only the first may lack one between their own"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def kept(self, box: Aggregate) -> str:
        if box.emit_rows is not None:
            return "the tuples of windows that are not over"
        both = self.state.split("; ")
        return both[1] if box.counts else both[0]

    def flow(self, box: Aggregate, flow: Flow) -> Columns:
        return flow.summed(box)

    def waits_us(self, box: Aggregate) -> int | None:
        """Windows of tuples: all tuples before the watermark are counted, and the next window ends with one at or after
        it. Windows of time: all that end at or before the watermark are out, and the next one ends at least one unit
        later; a result before the end of one has the time of a tuple at or after the watermark."""
        return 0 if box.counts or box.emit_rows is not None else 1


class SessionKind(Kind[Session]):
    makes = Session
    keys = (
        Key(name="input", form=ARROW),
        Key(name="columns", form=TEXT),
        Key(name="by", form=NAMES, default=()),
        Key(name="gap", attribute="gap_us", form=DURATION),
        Key(name="emit_rows", form=WHOLE, default=None),
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
        yield from early_lines(box)
        yield from scale_lines(box)

    def check(self, box: Session, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        check_window(box.name, "gap", box.gap_us, report)
        check_early(box, report)
        check_summing(box, inputs[0], report)

    def schema(self, box: Session, inputs: Sequence[Schema]) -> Schema | None:
        return made_columns(box.columns, box.by, inputs[0])

    def judge(self, box: Session, order: Order) -> Judgement:
        reason = "a restart misses tuples in the first session of a group only: the next begins after a gap"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def kept(self, box: Session) -> str:
        return self.state if box.emit_rows is None else "the tuples of each session that is not over"

    def flow(self, box: Session, flow: Flow) -> Columns:
        return flow.summed(box)

    def waits_us(self, box: Session) -> int | None:
        """All sessions whose gap ends at or before the watermark are out; that of a later one ends at least one unit
        later. A result before that has the time of a tuple at or after the watermark."""
        return 0 if box.emit_rows is not None else 1


class TumbleKind(Kind[Tumble]):
    makes = Tumble
    keys = (
        Key(name="input", form=ARROW),
        Key(name="columns", form=TEXT),
        Key(name="by", form=NAMES),
        Key(name="timeout", attribute="timeout_us", form=DURATION, default=None),
        Key(name="emit_rows", form=WHOLE, default=None),
        Key(name="scale", form=WHOLE, default=None),
    )
    shape = ("[[", "]]")
    meaning = "aggregates over runs of tuples with equal values: a result when the value changes, or after a timeout"
    state = "the tuples of the run under way"
    class_ = "convergent-capable; with a timeout deterministic"

    def sql(self, box: Tumble) -> tuple[str, ...]:
        return (box.columns,)

    def lines(self, box: Tumble) -> Iterator[str]:
        yield from summing_lines(box)
        if box.timeout_us is not None:
            yield f"timeout {format_duration(box.timeout_us)}"
        yield from early_lines(box)
        yield from scale_lines(box)

    def check(self, box: Tumble, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        if not box.by:
            message = "by: no columns given whose change ends a run."
            remedy = candidates("", (column.name for column in inputs[0] or ()))
            report.add("missing-key", box.name, "by", message, remedy)
        if box.timeout_us is not None:
            check_window(box.name, "timeout", box.timeout_us, report)
        check_early(box, report)
        check_summing(box, inputs[0], report)

    def schema(self, box: Tumble, inputs: Sequence[Schema]) -> Schema | None:
        return made_columns(box.columns, box.by, inputs[0])

    def judge(self, box: Tumble, order: Order) -> Judgement:
        if box.timeout_us is None:
            reason = "a restart misses tuples in the first run only: the next begins where the value changes"
            return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)
        reason = "a restart begins a run with another tuple, and its timeouts stay shifted while the value is the same"
        return Judgement(OperatorClass.DETERMINISTIC, reason)

    def flow(self, box: Tumble, flow: Flow) -> Columns:
        return flow.summed(box)

    def waits_us(self, box: Tumble) -> int | None:
        """The next run ends with a tuple at or after the watermark, or by a timeout after it."""
        return 0


class SlideKind(Kind[Slide]):
    makes = Slide
    keys = (
        Key(name="input", form=ARROW),
        Key(name="columns", form=TEXT),
        Key(name="by", form=NAMES, default=()),
        Key(name="rows", form=WHOLE, default=None, unless="window"),
        Key(name="window", attribute="window_us", form=DURATION, default=None),
        Key(name="every_rows", form=WHOLE, default=None),
        Key(name="every", attribute="every_us", form=DURATION, default=None),
        Key(name="scale", form=WHOLE, default=None),
    )
    shape = ("[[", "]]")
    meaning = "for each tuple, aggregates over the last tuples, or the last while, of its group"
    state = "the tuples that a next result may need: the last of each group, or those of the last while"
    class_ = "convergent-capable; with `every_rows` deterministic"

    def sql(self, box: Slide) -> tuple[str, ...]:
        return (box.columns,)

    def lines(self, box: Slide) -> Iterator[str]:
        yield from summing_lines(box)
        if box.rows is not None:
            yield f"last {box.rows} rows"
        if box.window_us is not None:
            yield f"last {format_duration(box.window_us)}"
        if box.every_rows is not None:
            yield f"every {box.every_rows} rows"
        if box.every_us is not None:
            yield f"every {format_duration(box.every_us)}"
        yield from scale_lines(box)

    def check(self, box: Slide, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        _check_last(box, report)
        _check_advance(box, report)
        check_summing(box, inputs[0], report)

    def schema(self, box: Slide, inputs: Sequence[Schema]) -> Schema | None:
        return made_columns(box.columns, box.by, inputs[0])

    def judge(self, box: Slide, order: Order) -> Judgement:
        if box.step > 1:
            reason = "a restart counts from another tuple, and other tuples have results"
            return Judgement(OperatorClass.DETERMINISTIC, reason)
        if box.rows == 1 and box.every_us is None:
            return Judgement(OperatorClass.REPEATABLE, "each tuple by itself")
        reason = "a restart misses tuples in the windows of the first results only"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def flow(self, box: Slide, flow: Flow) -> Columns:
        return flow.summed(box)

    def waits_us(self, box: Slide) -> int | None:
        """The next result is that of a tuple at or after the watermark; or of a moment after it, since all up to it are
        out."""
        return 0 if box.every_us is None else 1


def _check_last(box: Slide, report: Report) -> None:
    """The last tuples, or the last while."""
    if box.rows is None and box.window_us is None:
        message = "No window given to compute results over."
        remedy = "Give `rows`, a number of tuples, or `window`, a duration."
        report.add("bad-window", box.name, "rows", message, remedy)
    elif box.rows is not None and box.window_us is not None:
        message = "window: results are over the last `rows` here."
        report.add("meaningless-option", box.name, "window", message, "Leave `rows` or `window` out.")
    if box.window_us is not None:
        check_window(box.name, "window", box.window_us, report)
    if box.rows is not None and not 1 <= box.rows <= WINDOW_ROWS:
        message = f"rows: {box.rows:,} is not a number of tuples from 1 to {WINDOW_ROWS:,}."
        report.add("bad-window", box.name, "rows", message, "Write another number, or use `window`, a duration.")


def _check_advance(box: Slide, report: Report) -> None:
    """Every so many tuples, or every while."""
    if box.every_us is not None and box.every_rows is not None:
        message = "every_rows: results come by `every` here."
        report.add("meaningless-option", box.name, "every_rows", message, "Leave `every` or `every_rows` out.")
    elif box.every_us is not None and box.window_us is not None and box.rows is None:
        _check_time_advance(box.name, box.window_us, box.every_us, report)
    elif box.every_us is not None:
        check_window(box.name, "every", box.every_us, report)
    if box.every_rows is not None and box.every_rows < 1:
        message = f"every_rows: {box.every_rows} is not a number of tuples."
        report.add("bad-window", box.name, "every_rows", message, "Write 1 or more.")
    elif box.rows is not None and box.every_us is None and WINDOW_ROWS >= box.rows > box.step * WINDOWS:
        _report_many_windows(box.name, "every_rows", -(-box.rows // box.step), report)


class XSectionKind(Kind[XSection]):
    makes = XSection
    keys = (
        Key(name="input", form=ARROW),
        Key(name="columns", form=TEXT),
        Key(name="by", form=NAMES, default=()),
        Key(name="window", attribute="window_us", form=DURATION),
        Key(name="every", attribute="every_us", form=DURATION, default_from="window_us"),
        Key(name="expire", attribute="expire_us", form=DURATION, default_from="window_us"),
        Key(name="scale", form=WHOLE, default=None),
    )
    shape = ("[[", "]]")
    meaning = "at regular moments, aggregates for every live group, also for those without a new tuple"
    state = "the tuples of windows to come, and the last tuple of each live group"
    class_ = "convergent-capable"

    def sql(self, box: XSection) -> tuple[str, ...]:
        return (box.columns,)

    def lines(self, box: XSection) -> Iterator[str]:
        yield from summing_lines(box)
        yield f"window {format_duration(box.window_us)} every {format_duration(box.every_us)}"
        if box.expire_us != box.window_us:
            yield f"expires after {format_duration(box.expire_us)}"
        yield from scale_lines(box)

    def check(self, box: XSection, inputs: Sequence[Schema | None], report: Report) -> None:
        check_by(box.name, box.by, inputs[0], report)
        check_window(box.name, "window", box.window_us, report)
        if box.every_us != box.window_us:
            check_window(box.name, "every", box.every_us, report)
            if box.every_us >= MS and box.window_us > box.every_us * WINDOWS:
                _report_many_windows(box.name, "every", -(-box.window_us // box.every_us), report)
        if box.expire_us != box.window_us:
            check_window(box.name, "expire", box.expire_us, report)
            if 0 < box.expire_us < box.window_us:
                expire, window = format_duration(box.expire_us), format_duration(box.window_us)
                message = f"expire: {expire} is shorter than the window of {window}."
                remedy = "A group would expire while the window still has its tuples: make it at least as long."
                report.add("bad-window", box.name, "expire", message, remedy)
        check_summing(box, inputs[0], report)

    def schema(self, box: XSection, inputs: Sequence[Schema]) -> Schema | None:
        return made_columns(box.columns, box.by, inputs[0])

    def judge(self, box: XSection, order: Order) -> Judgement:
        reason = "a restart misses tuples and groups until they would have expired: moments are aligned to 1970"
        return Judgement(OperatorClass.CONVERGENT_CAPABLE, reason)

    def flow(self, box: XSection, flow: Flow) -> Columns:
        return flow.summed(box)

    def waits_us(self, box: XSection) -> int | None:
        """All moments up to the watermark are out; the next is at least one unit later."""
        return 1


# --- what boxes with aggregate functions share ---------------------------------------------------------------------


def summing_lines(box: Summing) -> Iterator[str]:
    yield box.columns
    if box.by:
        yield f"by {', '.join(box.by)}"


def scale_lines(box: Summing) -> Iterator[str]:
    if box.scale is not None:
        yield f"scale {box.scale}"


def early_lines(box: Early) -> Iterator[str]:
    if box.emit_rows is not None:
        yield f"also after every {box.emit_rows} rows"


def check_early(box: Early, report: Report) -> None:
    """After how many tuples of a window there is a result before its end."""
    if box.emit_rows is None:
        return
    if box.emit_rows < 1:
        message = f"emit_rows: {box.emit_rows} is not a number of tuples."
        report.add("bad-window", box.name, "emit_rows", message, "Write 1 or more.")
    elif isinstance(box, Aggregate) and (box.window_us != box.every_us or box.rows != box.every_rows):
        message = "emit_rows: windows overlap, so their results come often enough."
        report.add("meaningless-option", box.name, "emit_rows", message, "Leave it out, or use a Slide.")
    elif isinstance(box, Aggregate) and box.rows is not None:
        _check_early_counts(box.name, box.rows, box.emit_rows, report)


def _check_early_counts(box: str, rows: int, emit_rows: int, report: Report) -> None:
    if emit_rows >= rows > 0:
        message = f"emit_rows: a window is full after {rows} tuples, so no result comes before that."
        report.add("meaningless-option", box, "emit_rows", message, "Leave it out, or lower it.")
    elif rows > emit_rows * WINDOWS:
        _report_many_windows(box, "emit_rows", -(-rows // emit_rows), report)


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
        message = "No window given."
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
    _check_time_advance(box, window_us, every_us, report)


def _check_time_advance(box: str, window_us: int, every_us: int, report: Report) -> None:
    """How far apart windows of time lie."""
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
        message = f"rows: a window of {rows:,} tuples is too large; the limit is {WINDOW_ROWS:,}."
        report.add("bad-window", box, "rows", message, "Use a window of time, or a smaller one.")
    elif every_rows > rows > 0:
        message = f"every_rows: {every_rows} is more than the {rows} of the window."
        report.add("bad-window", box, "every_rows", message, "Tuples between two windows would be lost: lower it.")
    elif every_rows > 0 and rows > every_rows * WINDOWS:
        _report_many_windows(box, "every_rows", -(-rows // every_rows), report)


def _check_timeout(box: Aggregate, timeout_us: int, report: Report) -> None:
    check_window(box.name, "timeout", timeout_us, report)
    if not box.counts:
        message = "timeout: a window of time is over at its end."
        report.add("meaningless-option", box.name, "timeout", message, "Leave `timeout` out, or use `rows`.")
    elif box.every_rows != box.rows:
        message = "timeout: windows overlap, and begin with every `every_rows`-th tuple whatever else is over."
        report.add("meaningless-option", box.name, "timeout", message, "Leave `timeout` or `every_rows` out.")


def _report_many_windows(box: str, field: str, windows: int, report: Report) -> None:
    message = f"{field}: a tuple would lie in {windows:,} windows; the limit is {WINDOWS:,}."
    report.add("bad-window", box, field, message, "Let windows begin less often, or make them shorter.")


AGGREGATE: Final = AggregateKind()
SESSION: Final = SessionKind()
TUMBLE: Final = TumbleKind()
SLIDE: Final = SlideKind()
XSECTION: Final = XSectionKind()
