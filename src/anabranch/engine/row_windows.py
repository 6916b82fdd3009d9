"""Aggregate over windows of a number of tuples (figure 4 of the racing paper), Tumble, Slide and XSection.

Spark has no such windows, so a stateful processor in Python (``ordered``) waits for the punctuation, counts in
canonical order, and puts out the rows of full windows. What is computed over a window is SQL like that of any other
Aggregate, and only Spark computes it exactly as it does: but a stream of Spark cannot aggregate the rows of a batch
without state and watermark. All rows of a window come out in one batch, and to Spark they are that batch and no stream
(``packs``): it aggregates them as it would a table.

Floating-point sums follow the same rule as in windows of time. The rows of a window leave the processor in canonical
order, and Spark happens to add them in that order while its memory suffices. But it promises no order to an aggregate,
and one that spills adds in pieces; so what something decides by is computed exactly here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from anabranch.engine.counting import (
    AFTER,
    BEFORE,
    CLOSES,
    FROM,
    MOMENT,
    NUMBER,
    TO,
    VALUE,
    CountWindows,
    CrossSections,
    Slides,
)
from anabranch.engine.exact import Scales, aggregate_columns
from anabranch.engine.hashing import TypedColumn, identity_hash, identity_parts, typed
from anabranch.engine.ordered_frame import in_order
from anabranch.engine.parting import PartedWindows, Runs, SessionWindows, TimedCountWindows, TimeWindows
from anabranch.engine.stateless import ROW_HEADER
from anabranch.engine.windows import spelled
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.query.boxes import Aggregate, Early, Session, Slide, Summing, Tumble, XSection
from anabranch.query.sql import parse_list, quote

_WINDOW: Final = "_window"
_FIRST: Final = "_first"
_LAST: Final = "_last"
"""In front of the header columns of a window's first and last row."""
_CLOSES: Final = StructField(CLOSES, TimestampType())


def count_windows(frame: DataFrame, box: Aggregate, origins: Origins, scales: Scales) -> DataFrame:
    """Windows of a number of tuples of a group."""
    rows = _rows(frame, box)
    keys = spelled(frame, box.by)
    group = typed(frame, keys)
    parts = [*group, *identity_parts(origins, _FIRST), *identity_parts(origins, _LAST)]
    if box.timeout_us is not None or box.emit_rows is not None:
        made = _parted(rows, box, group, TimedCountWindows(box.count_window[0], box.timeout_us, box.emit_rows))
        windows = _ended("count", parts, box, origins, group)
    else:
        made = in_order(rows, box.name, group, CountWindows(*box.count_window), _made(rows), together=keys)
        number = F.explode(F.sequence(FROM, TO)) if box.rows != box.every_rows else F.col(FROM)
        windows = _Windows(kind="count", number=number, parts=parts, stime=F.col(_LAST + STIME))
    return _summed(made, box, origins, scales, windows)


def tumble(frame: DataFrame, box: Tumble, origins: Origins, scales: Scales) -> DataFrame:
    """Runs of equal values among all tuples, so there is only one shard."""
    rows = _rows(frame, box)
    value = typed(frame, spelled(frame, box.by))
    hashed = rows.select(*[identity_hash(kind, box.name, value).alias(kind) for kind in VALUE], "*")
    made = in_order(hashed, box.name, [], Runs(box.timeout_us, box.emit_rows), _made(rows, _CLOSES), together=())
    windows = _ended("tumble", [*value, *identity_parts(origins, _FIRST)], box, origins, value)
    return _summed(made, box, origins, scales, windows)


def early_time_windows(frame: DataFrame, box: Aggregate, origins: Origins, scales: Scales) -> DataFrame:
    """Windows of time that have results before they end, by the order of their tuples."""
    rows = _rows(frame, box)
    group = typed(frame, spelled(frame, box.by))
    made = _parted(rows, box, group, TimeWindows(box.time_window[0], box.emit_rows))
    start, end = F.unix_micros(CLOSES) - F.lit(box.time_window[0]), F.unix_micros(CLOSES)
    windows = _ended("window", [*group, ("bigint", start), ("bigint", end)], box, origins, group)
    return _summed(made, box, origins, scales, windows)


def early_sessions(frame: DataFrame, box: Session, origins: Origins, scales: Scales) -> DataFrame:
    """Sessions that have results before they end."""
    rows = _rows(frame, box)
    group = typed(frame, spelled(frame, box.by))
    made = _parted(rows, box, group, SessionWindows(box.gap_us, box.emit_rows))
    windows = _ended("session", [*group, *identity_parts(origins, _FIRST)], box, origins, group)
    return _summed(made, box, origins, scales, windows)


def _parted(rows: DataFrame, box: Summing, group: Sequence[TypedColumn], windows: PartedWindows) -> DataFrame:
    return in_order(rows, box.name, group, windows, _made(rows, _CLOSES), together=spelled(rows, box.by))


def _ended(
    kind: str, parts: Sequence[TypedColumn], box: Early, origins: Origins, group: Sequence[TypedColumn]
) -> _Windows:
    """Windows that do not overlap. A result before the end of one is a window of tuples, up to its last."""
    ends = [*group, *identity_parts(origins, _FIRST), *identity_parts(origins, _LAST)]
    early = box.emit_rows is not None
    return _Windows(
        kind=kind,
        number=F.explode(F.sequence(FROM, TO)) if early else F.col(FROM),
        parts=parts,
        stime=F.coalesce(CLOSES, _LAST + STIME) if early else F.col(CLOSES),
        others=(F.min(CLOSES).alias(CLOSES),),
        early=identity_hash("count", box.name, ends) if early else None,
    )


def slide(frame: DataFrame, box: Slide, origins: Origins, scales: Scales) -> DataFrame:
    """The last tuples of a group, or those of the last while, for a tuple or at a moment."""
    rows = _rows(frame, box)
    keys = spelled(frame, box.by)
    group = typed(frame, keys)
    slides = Slides(box.rows, box.window_us, box.step, box.every_us)
    numbered = rows.select(F.lit(0).cast("bigint").alias(NUMBER), "*")
    made = in_order(numbered, box.name, group, slides, _made(rows), together=keys)
    last = _LAST + STIME
    if box.every_us is None:
        parts, stime = identity_parts(origins, _LAST), F.col(last)
    else:
        moment = F.expr(f"(unix_micros({last}) div {box.every_us} + 1) * {box.every_us}")
        parts, stime = [*group, ("bigint", moment)], F.timestamp_micros(moment)
    windows = _Windows(kind="slide", number=F.explode(F.sequence(FROM, TO)), parts=parts, stime=stime)
    return _summed(made, box, origins, scales, windows)


def cross_section(frame: DataFrame, box: XSection, origins: Origins, scales: Scales) -> DataFrame:
    """All live groups at regular moments. What stands for a result itself is left out by every aggregate."""
    rows = _rows(frame, box)
    keys = spelled(frame, box.by)
    group = typed(frame, keys)
    sections = CrossSections(box.window_us, box.every_us, box.expire_us)
    schema = StructType().add(MOMENT, TimestampType())
    made = in_order(rows, box.name, group, sections, _made(rows, *schema.fields, ends=False), together=keys)
    windows = _Windows(
        kind="xsection",
        number=F.explode(F.sequence(FROM, TO)),
        parts=[*group, ("bigint", F.unix_micros(MOMENT))],
        stime=F.col(MOMENT),
        others=(F.max(MOMENT).alias(MOMENT),),
        only=f"{MOMENT} IS NULL",
    )
    return _summed(made, box, origins, scales, windows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """How the rows of a batch are divided into windows, and what makes each of them: the number of a row's window, the
    parts of its identity, its time, and what else of its rows these need. ``only`` says which rows aggregates are
    over."""

    kind: str
    number: Column
    parts: Sequence[TypedColumn]
    stime: Column
    others: Sequence[Column] = ()
    only: str | None = None
    early: Column | None = None
    """The identity of a result before the end of its window."""


def _summed(rows: DataFrame, box: Summing, origins: Origins, scales: Scales, windows: _Windows) -> DataFrame:
    """One tuple per window, of the rows of one batch."""
    keys = [F.col(quote(name)) for name in spelled(rows, box.by)]
    items = aggregate_columns(rows, box, scales, only=windows.only)
    made = [*windows.others, *[column for _, column in items]]
    if AFTER in rows.columns:
        made += [*_header_of(F.col(_WINDOW) > F.col(AFTER), _FIRST), *_header_of(F.col(_WINDOW) < F.col(BEFORE), _LAST)]
    tid = identity_hash(windows.kind, box.name, windows.parts)
    if windows.early is not None:
        tid = F.when(F.col(CLOSES).isNull(), windows.early).otherwise(tid)
    header = (windows.stime.alias(STIME), F.lit(origins.code(box.name)).alias(ORIGIN), tid.alias(TID))
    columns = [*header, *keys, *[F.col(quote(name)) for name, _ in items]]
    return rows.withColumn(_WINDOW, windows.number).groupBy(_WINDOW, *keys).agg(*made).select(*columns)


def _header_of(only: Column, prefix: str) -> list[Column]:
    """The header of the one row of a window for which something holds. Numbers, not a struct of them: Spark adds up
    numbers in a hash table, and would sort all rows for a struct."""
    return [F.max(F.when(only, F.col(name))).alias(prefix + name) for name in ROW_HEADER]


def _rows(frame: DataFrame, box: Summing) -> DataFrame:
    """The columns that the box reads, each once: no other waits in the state."""
    read = [name for expression in parse_list(box.columns) for name in expression.columns]
    needed = dict.fromkeys(spelled(frame, [*box.by, *read]))
    return frame.select(*ROW_HEADER, *[quote(name) for name in needed])


def _made(rows: DataFrame, *others: StructField, ends: bool = True) -> StructType:
    """What comes out: rows with their windows, and perhaps of which of them a row is the first and the last one."""
    numbers = (*((AFTER, BEFORE) if ends else ()), FROM, TO)
    return StructType([*others, *[StructField(name, LongType()) for name in numbers], *rows.schema.fields])
