"""Join: figure 2 of the racing paper as a stream-stream join of Spark.

Spark is given event times that are shifted on both sides: differences stay what they are.

Spark needs an equality to join on. A predicate without one is joined on a time bucket of the join's own width: two
tuples less than ``within`` apart lie in the same bucket or in neighbours, and the right side is repeated in its
neighbours.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.engine.hashing import identity_hash, identity_parts
from anabranch.engine.stateless import data_columns
from anabranch.engine.watermark import SHIFT_US, event_time, shifted
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.query.boxes import Join
from anabranch.query.sql import quote, split_join

_TIME = "_time"


def apply_join(left: DataFrame, right: DataFrame, box: Join, origins: Origins) -> DataFrame:
    left_names, right_names = data_columns(left), data_columns(right)
    left, right = _side(left, "_l"), _side(right, "_r")
    equalities, rest = split_join(box.on, left_names, right_names)
    condition = _within(box.within_us)
    for left_side, right_side in equalities:
        condition &= F.expr(left_side) == F.expr(right_side)
        # Spark's streaming join finds a NULL key equal to another one, and relies on such filters to be inferred.
        left, right = left.filter(F.expr(left_side).isNotNull()), right.filter(F.expr(right_side).isNotNull())
    if rest is not None:  # wrapped, because Spark searches bare comparisons for limits of time, and warns when it fails
        condition &= F.coalesce(F.expr(rest), F.lit(False))
    if not equalities:
        left, right = _bucketed(left, right, box.within_us)
        condition &= F.col("_l_bucket") == F.col("_r_bucket")
    left_us, right_us = _stime_us("_l"), _stime_us("_r")
    identities = [
        *identity_parts(origins, "_l", stime_us=left_us),
        *identity_parts(origins, "_r", stime_us=right_us),
    ]
    return left.join(right, condition, "inner").select(
        F.timestamp_micros(F.greatest(left_us, right_us)).alias(STIME),
        F.lit(origins.code(box.name)).alias(ORIGIN),
        identity_hash("join", box.name, identities).alias(TID),
        *[quote(name) for name in (*left_names, *right_names)],
    )


def _side(frame: DataFrame, side: str) -> DataFrame:
    """One input with its header renamed and its event time shifted."""
    return frame.select(
        event_time(shifted(F.col(STIME)), side + _TIME),
        F.col(ORIGIN).alias(side + ORIGIN),
        F.col(TID).alias(side + TID),
        *[F.col(quote(name)) for name in data_columns(frame)],
    )


def _stime_us(side: str) -> Column:
    """The stream time of one side again."""
    return F.unix_micros(side + _TIME) - F.lit(SHIFT_US)


def _within(within_us: int) -> Column:
    """``|t1 - t2| < within`` in the form from which Spark derives how long to keep a row."""
    seconds, micros = divmod(within_us, 1_000_000)
    width = f"INTERVAL '{seconds}.{micros:06d}' SECOND"
    return F.expr(f"_l_time > _r_time - {width} AND _l_time < _r_time + {width}")


def _bucketed(left: DataFrame, right: DataFrame, within_us: int) -> tuple[DataFrame, DataFrame]:
    def bucket(side: str) -> str:
        return f"unix_micros({side}_time) div {within_us}"

    neighbours = F.expr(f"explode(sequence({bucket('_r')} - 1, {bucket('_r')} + 1))")
    return left.withColumn("_l_bucket", F.expr(bucket("_l"))), right.withColumn("_r_bucket", neighbours)
