"""Source: where tuples enter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from anabranch.errors import with_article
from anabranch.model.names import is_name
from anabranch.model.times import format_duration
from anabranch.query.boxes import Column, Schema, Source
from anabranch.query.checks import NAME_REMEDY, check_columns, check_duration, check_type, check_unique
from anabranch.query.connector_checks import check_feed
from anabranch.query.infer import canonical_type
from anabranch.query.judgement import Judgement, OperatorClass, Order
from anabranch.query.keys import DURATION, FEED, NAMES, SCHEMA, TEXT, Key
from anabranch.query.kinds.kind import Kind
from anabranch.query.problems import Report, candidates
from anabranch.query.schema import lookup
from anabranch.query.specs import kind_name
from anabranch.query.value_flow import NONE, Columns, Flow


class SourceKind(Kind[Source]):
    makes = Source
    keys = (
        Key(name="schema", form=SCHEMA),
        Key(name="time", form=TEXT, default=None),
        Key(name="disorder", attribute="disorder_us", form=DURATION, default=0),
        Key(name="idle", attribute="idle_us", form=DURATION, default=None),
        Key(name="silence", attribute="silence_us", form=DURATION, default=None),
        Key(name="horizon", attribute="horizon_us", form=DURATION, default=None),
        Key(name="producers", form=NAMES, default=()),
        Key(name="feed", form=FEED, default=None),
    )
    shape = ("([", "])")
    meaning = "where tuples enter: pushed by clients, or brought by a feed"
    state = "the last number and time of each lane"
    class_ = "none: what it decides, it decides once"

    def lines(self, box: Source) -> Iterator[str]:
        if box.time is not None:
            yield f"time {box.time}, disorder {format_duration(box.disorder_us)}"
        if box.idle_us is not None:
            yield f"idle after {format_duration(box.idle_us)}"
        if box.silence_us is not None:
            yield f"closed after {format_duration(box.silence_us)} of silence"
        if box.horizon_us is not None:
            yield f"no more than {format_duration(box.horizon_us)} ahead of the slowest"
        if box.producers:
            yield f"producers {', '.join(box.producers)}"
        if box.feed is not None:
            yield f"fed by {kind_name(box.feed)}"

    def check(self, box: Source, inputs: Sequence[Schema | None], report: Report) -> None:
        if not box.schema:
            report.add("unsupported-type", box.name, "schema", "schema: no columns given.", 'Write "name type, ...".')
        check_columns(box.name, "schema", [column.name for column in box.schema], report)
        for column in box.schema:
            check_type(box.name, "schema", column.name, column.type or "", report)
        for field in ("disorder", "idle", "silence", "horizon"):
            check_duration(box.name, field, getattr(box, f"{field}_us"), report)
        _check_time(box, report)
        for producer in box.producers:
            if not is_name(producer):
                message = f"producers: a producer cannot be called {producer!r}."
                report.add("bad-name", box.name, "producers", message, NAME_REMEDY)
        check_unique(box.name, "producers", "producer", box.producers, report, remedy="Name it once.")
        if box.feed is not None:
            check_feed(box, box.feed, report)

    def schema(self, box: Source, inputs: Sequence[Schema]) -> Schema | None:
        columns = {column.name.lower(): column for column in reversed(box.schema)}
        return tuple(
            Column(column.name, canonical_type(column.type or ""))
            for column in box.schema
            if columns[column.name.lower()] is column  # the first of two with one name
        )

    def judge(self, box: Source, order: Order) -> Judgement:
        return Judgement(OperatorClass.REPEATABLE, "each tuple by itself")

    def flow(self, box: Source, flow: Flow) -> Columns:
        return {column.name.lower(): NONE for column in box.schema}


def _check_time(box: Source, report: Report) -> None:
    def meaningless(field: str, why: str, remedy: str) -> None:
        report.add("meaningless-option", box.name, field, f"{field}: {why}.", remedy)

    if box.time is not None:
        _check_time_column(box, box.time, report)
    else:
        if box.disorder_us:
            meaningless("disorder", "rows that are stamped on arrival are never late", "Name a time column.")
        if box.idle_us is not None:
            meaningless("idle", "a source that stamps its rows follows the clock anyway", "Name a time column.")
        if box.silence_us is not None and not box.producers:
            meaningless("silence", "a source that stamps its rows is never silent", "Name its producers.")
    if box.idle_us is not None and box.producers:
        meaningless(
            "idle", "only a producer itself can say that it has nothing", "Use silence, or leave producers out."
        )


def _check_time_column(box: Source, time: str, report: Report) -> None:
    column = lookup(box.schema, time)
    if column is None:
        remedy = candidates(time, (column.name for column in box.schema))
        report.add("unknown-column", box.name, "time", f"time: there is no column {time!r}.", remedy)
    elif column.type not in ("timestamp", None) and canonical_type(column.type) is not None:
        message = f"time: column {column.name!r} is {with_article(column.type)}."
        timestamps = [other.name for other in box.schema if other.type == "timestamp"]
        remedy = candidates(time, timestamps) or "Declare it as timestamp."
        report.add("bad-time-column", box.name, "time", message, remedy)


SOURCE: Final = SourceKind()
