"""Aggregate over time windows: figure 3 of the racing paper, with Spark's watermark as the punctuation.

Spark closes a window ``[a, b)`` when its watermark reaches b. It has one watermark for all groups, so the slowest
source holds every group, where the figure would hold only the groups that this source feeds.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.engine.exact import Scales, aggregate_columns
from anabranch.engine.hashing import identity_hash
from anabranch.engine.stateless import ROW_HEADER
from anabranch.engine.watermark import as_event_time
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.model.times import MS
from anabranch.query.boxes import Aggregate
from anabranch.query.sql import quote


def apply_aggregate(frame: DataFrame, box: Aggregate, origins: Origins, scales: Scales) -> DataFrame:
    timed = as_event_time(frame, F.col(STIME), STIME)
    window_us, every_us = box.time_window
    window = F.window(STIME, f"{window_us // MS} milliseconds", f"{every_us // MS} milliseconds")
    names = spelled(frame, box.by)
    keys = [F.col(quote(name)) for name in names]
    items = aggregate_columns(frame, box, scales)
    grouped = timed.groupBy(window.alias("_window"), *keys).agg(*[column for _, column in items])
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    parts = [(types[key], F.col(quote(key))) for key in names]
    parts += [("bigint", F.unix_micros(f"_window.{edge}")) for edge in ("start", "end")]
    header = (
        F.col("_window.end").alias(STIME),
        F.lit(origins.code(box.name)).alias(ORIGIN),
        identity_hash("window", box.name, parts).alias(TID),
    )
    return grouped.select(*header, *keys, *[F.col(quote(name)) for name, _ in items])


def spelled(frame: DataFrame, wanted: Iterable[str]) -> list[str]:
    """Columns as the input spells them (SQL names are the same in any case)."""
    names = {name.lower(): name for name in frame.columns if name not in ROW_HEADER}
    return [names[name.lower()] for name in wanted]
