"""Aggregate over windows of a number of tuples: figure 4 of the racing paper.

Spark has no such windows, so a stateful processor in Python (``ordered``) waits for the punctuation, counts in
canonical order, and puts out the rows of full windows. What is computed over a window is SQL like that of any other
Aggregate, and only Spark computes it exactly as it does: but a stream of Spark cannot aggregate the rows of a batch
without state and watermark. All rows of a window come out in one batch, so the batch is aggregated when it is there,
as a plain DataFrame.

Floating-point sums follow the same rule as in windows of time. The rows of a window leave the processor in canonical
order, and Spark happens to add them in that order while its memory suffices. But it promises no order to an aggregate,
and one that spills adds in pieces; so what something decides by is computed exactly here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from anabranch.engine.counting import FROM, TO, CountWindows
from anabranch.engine.exact import Scales, aggregate_columns
from anabranch.engine.hashing import identity_hash, identity_parts, typed
from anabranch.engine.ordered_frame import in_order
from anabranch.engine.roots import Root
from anabranch.engine.stateless import ROW_HEADER
from anabranch.engine.windows import spelled
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.query.boxes import Aggregate
from anabranch.query.sql import parse_list, quote

_WINDOW: Final = "_window"


def count_windows(frame: DataFrame, box: Aggregate, origins: Origins, scales: Scales) -> Root:
    rows = _counted(frame, box)
    return Root(rows, _summing(rows, box, origins, scales))


def _counted(frame: DataFrame, box: Aggregate) -> DataFrame:
    """The rows of full windows, with the numbers of their windows, as a stream."""
    rows = frame.select(*ROW_HEADER, *[quote(name) for name in _needed(frame, box)])
    schema = StructType().add(FROM, LongType()).add(TO, LongType())
    made = StructType([*schema.fields, *rows.schema.fields])
    group = typed(frame, spelled(frame, box.by))
    return in_order(rows, box.name, group, CountWindows(*box.count_window), made)


def _summing(rows: DataFrame, box: Aggregate, origins: Origins, scales: Scales) -> Callable[[DataFrame], DataFrame]:
    """Makes one tuple per window of the rows of one batch. ``rows`` has the columns of such a batch.

    The columns of the result are made here, once: each is several trips to the JVM, and a batch should not wait for
    them.
    """
    names = spelled(rows, box.by)
    keys = [F.col(quote(name)) for name in names]
    items = aggregate_columns(rows, box, scales)
    window = F.explode(F.sequence(FROM, TO)) if box.rows != box.every_rows else F.col(FROM)
    identity = F.struct(*ROW_HEADER)
    ends = (F.min(identity).alias("_first"), F.max(identity).alias("_last"))
    made = [*ends, *[column for _, column in items]]
    parts = [*typed(rows, names), *identity_parts(origins, "_first."), *identity_parts(origins, "_last.")]
    header = (
        F.col("_last._stime").alias(STIME),
        F.lit(origins.code(box.name)).alias(ORIGIN),
        identity_hash("count", box.name, parts).alias(TID),
    )
    columns = [*header, *keys, *[F.col(quote(name)) for name, _ in items]]

    def summaries(batch: DataFrame) -> DataFrame:
        return batch.withColumn(_WINDOW, window).groupBy(_WINDOW, *keys).agg(*made).select(*columns)

    return summaries


def _needed(frame: DataFrame, box: Aggregate) -> list[str]:
    """The columns that the box reads, each once: no other waits in the state."""
    read = [name for expression in parse_list(box.columns) for name in expression.columns]
    return list(dict.fromkeys(spelled(frame, [*box.by, *read])))
