"""Punctuation as Spark's watermark.

A journal ends every range with a control row: its mark is the smallest punctuation there. The mark is null on every
other row, so only control rows raise the watermark, and the watermark is exactly the
punctuation: a source that runs ahead closes nothing, and no row is late because of another source. Above the watermark
the control rows are filtered out, and a stateful box marks the time it works with as event time.

Spark documents neither half, so both are pinned by tests, and ``control_rows_pass`` looks at every plan that runs.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.engine.connector import MARK
from anabranch.engine.stateless import ROW_HEADER
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.times import MS
from anabranch.query.sql import quote

EVENT_TIME: Final = "spark.watermarkDelayMs"
"""The metadata key by which Spark's stateful operators find the event time."""

SHIFT_US: Final = MS
"""How much later than stream time the event time is that raw times are compared with: Spark drops a row whose time
equals the watermark, while a punctuation p still allows a tuple at p."""

EMPTY_JOURNAL: Final = "LocalRelation"
"""What Spark puts in the place of a journal that has no news in a batch."""

_BELOW_WATERMARK: Final = frozenset(
    {
        "Project",
        "StreamingRelationV2",
        "StreamingDataSourceV2Relation",
        "StreamingDataSourceV2ScanRelation",
        EMPTY_JOURNAL,
    }
)
"""What may stand between a journal and its watermark: nothing that can drop a row."""


def punctuated(journal: DataFrame) -> DataFrame:
    """The rows of a journal, with its control rows as the watermark. Where none are asked for, none is needed."""
    if MARK in journal.columns:
        journal = journal.withWatermark(MARK, "0 seconds").filter(F.col(MARK).isNull())
    data = [quote(name) for name in journal.columns if name not in (MARK, *ROW_HEADER)]
    return journal.select(STIME, *_identity(journal), *data)


def _identity(journal: DataFrame) -> list[Column]:
    """Zeros where nobody above will ask which tuple a tuple is: few steps are planned faster than many."""
    types = {ORIGIN: "int", TID: "bigint"}
    return [F.col(n) if n in journal.columns else F.lit(0).cast(type_).alias(n) for n, type_ in types.items()]


def shifted(time: Column) -> Column:
    """The event time for a stream time. By numbers: Spark adds an interval by way of a calendar, for each row anew."""
    return F.timestamp_micros(F.unix_micros(time) + F.lit(SHIFT_US))


def event_time(time: Column, name: str) -> Column:
    """``time`` as the event time of the stateful box above it."""
    return time.alias(name, metadata={EVENT_TIME: 0})


def as_event_time(frame: DataFrame, time: Column, name: str) -> DataFrame:
    """The frame with ``time`` as the event time of the stateful box above it, under ``name``."""
    others = [F.col(f"`{column}`") for column in frame.columns if column != name]
    return frame.select(event_time(time, name), *others)


def control_rows_pass(plan: Any) -> bool:
    """Whether, in a logical plan of the JVM, every watermark sees all rows of its journal."""
    return all(_reaches_journal(node.child()) for node in _nodes(plan) if node.nodeName() == "EventTimeWatermark")


def has_empty_journal(plan: Any) -> bool:
    """Whether a journal is missing from a plan, so that the plan does not tell what stands above it."""
    return any(node.nodeName().split()[0] == EMPTY_JOURNAL and node.isStreaming() for node in _nodes(plan))


def _reaches_journal(node: Any) -> bool:
    return all(below.nodeName().split()[0] in _BELOW_WATERMARK for below in _nodes(node))


def _nodes(plan: Any) -> list[Any]:
    found = [plan]
    children = plan.children()
    for index in range(children.size()):
        found += _nodes(children.apply(index))
    return found
