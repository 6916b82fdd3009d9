"""Aggregate over time windows, and Session: figure 3 of the racing paper, with Spark's watermark as the punctuation.

Spark closes a window ``[a, b)`` when its watermark reaches b. It has one watermark for all groups, so the slowest
source holds every group, where the figure would hold only the groups that this source feeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.engine.exact import Scales, aggregate_columns
from anabranch.engine.hashing import identity_hash, identity_parts, typed
from anabranch.engine.stateless import ROW_HEADER
from anabranch.engine.watermark import as_event_time
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.model.times import MS
from anabranch.query.boxes import Aggregate, Session
from anabranch.query.sql import quote

_WINDOW: Final = "_window"
_TIME: Final = "_time"
_ALL: Final = "_all"
_FIRST: Final = "_first"


def apply_aggregate(frame: DataFrame, box: Aggregate, origins: Origins, scales: Scales) -> DataFrame:
    timed = as_event_time(frame, F.col(STIME), STIME)
    window_us, every_us = box.time_window
    window = F.window(STIME, f"{window_us // MS} milliseconds", f"{every_us // MS} milliseconds")
    names = spelled(frame, box.by)
    keys = [F.col(quote(name)) for name in names]
    items = aggregate_columns(frame, box, scales)
    grouped = timed.groupBy(window.alias("_window"), *keys).agg(*[column for _, column in items])
    parts = [*typed(frame, names), *[("bigint", F.unix_micros(f"_window.{edge}")) for edge in ("start", "end")]]
    header = (
        F.col("_window.end").alias(STIME),
        F.lit(origins.code(box.name)).alias(ORIGIN),
        identity_hash("window", box.name, parts).alias(TID),
    )
    return grouped.select(*header, *keys, *[F.col(quote(name)) for name, _ in items])


def apply_session(frame: DataFrame, box: Session, origins: Origins, scales: Scales) -> DataFrame:
    """Sessions of Spark, which are one if the next begins when the last ends, and are closed by a watermark that is
    there. A tuple at the watermark may still come. So event times are a microsecond late, and gaps as much shorter:
    then a tuple that comes when the gap is over is not in the session, whether that was closed before or not."""
    late = F.timestamp_micros(F.unix_micros(STIME) + 1)
    names = spelled(frame, box.by)
    keys = [F.col(quote(name)) for name in names]
    items = aggregate_columns(frame, box, scales)
    timed = as_event_time(frame, late, _TIME).withColumn(_ALL, F.col(ORIGIN) * 0)  # Spark wants at least one key
    session = F.session_window(_TIME, f"{box.gap_us - 1} microseconds").alias(_WINDOW)
    first = F.min(F.struct(*ROW_HEADER)).alias(_FIRST)
    grouped = timed.groupBy(session, _ALL, *keys).agg(first, *[column for _, column in items])
    header = (
        F.col(f"{_WINDOW}.end").alias(STIME),
        F.lit(origins.code(box.name)).alias(ORIGIN),
        identity_hash("session", box.name, [*typed(frame, names), *identity_parts(origins, f"{_FIRST}.")]).alias(TID),
    )
    return grouped.select(*header, *keys, *[F.col(quote(name)) for name, _ in items])


def spelled(frame: DataFrame, wanted: Iterable[str]) -> list[str]:
    """Columns as the input spells them (SQL names are the same in any case)."""
    names = {name.lower(): name for name in frame.columns if name not in ROW_HEADER}
    return [names[name.lower()] for name in wanted]
