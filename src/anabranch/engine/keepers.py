"""Dedup and WSort in Spark: rows in canonical order, of which some pass, or pass later.

Spark's own ``dropDuplicatesWithinWatermark`` keeps what arrives first, and measures from there: two replicas would keep
different tuples. So it is a box on ordered rows, like windows of tuples.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.engine.deduping import Deduped
from anabranch.engine.hashing import typed
from anabranch.engine.ordered_frame import in_order
from anabranch.engine.sorting import Counter, Sorted
from anabranch.engine.windows import spelled
from anabranch.query.boxes import Dedup, WSort


def apply_dedup(frame: DataFrame, box: Dedup) -> DataFrame:
    keys = typed(frame, spelled(frame, box.by))
    return in_order(frame, box.name, keys, Deduped(box.horizon_us), frame.schema)


def apply_wsort(frame: DataFrame, box: WSort, port: int, counter: Counter) -> DataFrame:
    """One of its two streams. All tuples are sorted together, so there is only one shard."""
    by = tuple(spelled(frame, box.by))
    return in_order(frame, box.name, [], Sorted(by, box.timeout_us, late=port == 1, counter=counter), frame.schema)
