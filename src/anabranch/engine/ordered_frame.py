"""A stream through a box that depends on order: rows go to the shards of their groups, and what comes out is a stream.

The one way by which every such box gets its state in Spark: ``ordered`` says what it sees, ``shards`` what it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.engine.hashing import TypedColumn, identity_hash
from anabranch.engine.ordered import OrderedBox
from anabranch.engine.packing import EARLIEST, GROUP, PACKED, ROWS, SHARD, pack, unpack
from anabranch.engine.shards import MADE, OrderedRows
from anabranch.engine.watermark import as_event_time, shifted
from anabranch.limits import WINDOW_SHARDS
from anabranch.query.sql import quote


def in_order(
    frame: DataFrame,
    name: str,
    group: Sequence[TypedColumn],
    box: OrderedBox,
    made: StructType,
    *,
    without: Sequence[str] = (),
) -> DataFrame:
    """What a box called ``name`` makes of the frame's rows, each group by itself; ``made`` has the columns of that.

    Columns ``without`` which it can do are there for the group alone.
    """
    hashes = [identity_hash(kind, name, group).alias(kind) for kind in GROUP]
    rows = frame.select(*hashes, *[quote(column) for column in frame.columns if column not in without])
    sharded = rows.select(F.pmod(GROUP[0], F.lit(WINDOW_SHARDS)).cast("int").alias(SHARD), "*")
    packed = sharded.mapInArrow(pack, PACKED)
    timed = as_event_time(packed, shifted(F.col(EARLIEST)), EARLIEST).select(SHARD, EARLIEST, ROWS)
    worked = timed.groupBy(SHARD).transformWithStateInPandas(
        OrderedRows(box), MADE, outputMode="append", timeMode="EventTime"
    )
    return worked.mapInArrow(unpack, made)
