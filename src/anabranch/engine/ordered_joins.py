"""Latest and Resample in Spark: the rows of two streams in one canonical order.

Both are one stream with the columns of both, and a mark that says from which of them a row is.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.engine.hashing import TypedColumn, identity_hash, identity_parts, typed
from anabranch.engine.matching import LatestMatched
from anabranch.engine.ordered import SIDE
from anabranch.engine.ordered_frame import in_order
from anabranch.engine.resampling import Resampled
from anabranch.engine.stateless import ROW_HEADER, data_columns
from anabranch.engine.windows import spelled
from anabranch.errors import ConfigError
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.query.boxes import Latest, Resample
from anabranch.query.sql import column_pairs, quote


def apply_latest(left: DataFrame, right: DataFrame, box: Latest, origins: Origins) -> DataFrame:
    names, others = data_columns(left), data_columns(right)
    pairs = (box.on and column_pairs(box.on, names, others)) or []
    for _, name in pairs:  # NULL equals nothing
        right = right.filter(F.col(quote(name)).isNotNull())
    if not box.outer:
        for name, _ in pairs:
            left = left.filter(F.col(quote(name)).isNotNull())
    both = two_sides(left, right)
    made = StructType([field for field in both.schema.fields if field.name != SIDE])
    matched = LatestMatched(tuple(others), box.outer, box.within_us)
    rows = in_order(both, box.name, _key(left, right, pairs), matched, made)
    tid = identity_hash("latest", box.name, identity_parts(origins))
    origin = F.lit(origins.code(box.name))
    return rows.select(STIME, origin.alias(ORIGIN), tid.alias(TID), *[quote(name) for name in (*names, *others)])


def apply_resample(left: DataFrame, right: DataFrame, box: Resample, origins: Origins) -> DataFrame:
    names, others = data_columns(left), data_columns(right)
    pairs = (box.on and column_pairs(box.on, names, others)) or []
    for _, name in pairs:  # NULL equals nothing
        right = right.filter(F.col(quote(name)).isNotNull())
    made = spelled(right, box.columns)
    keys = {name: f"_key{number}" for number, (_, name) in enumerate(pairs)}
    right = right.select(
        *ROW_HEADER,
        *[F.col(quote(name)).alias(key) for name, key in keys.items()],
        *[F.col(quote(name)).cast("double").alias(name) for name in made],
    )
    both = two_sides(left, right)
    key = _key(left, right, [(one, keys[other]) for one, other in pairs])
    schema = StructType([field for field in both.schema.fields if field.name not in (SIDE, *keys.values())])
    resampled = Resampled(tuple(made), box.how, box.within_us, box.waits_for_us)
    rows = in_order(both, box.name, key, resampled, schema, without=tuple(keys.values()))
    tid = identity_hash("resample", box.name, identity_parts(origins))
    origin = F.lit(origins.code(box.name))
    return rows.select(STIME, origin.alias(ORIGIN), tid.alias(TID), *[quote(name) for name in (*names, *made)])


def two_sides(left: DataFrame, right: DataFrame) -> DataFrame:
    """The rows of both, with the columns of both: NULL in those of the other."""

    def missing(frame: DataFrame) -> list[Column]:
        fields = {field.name: field.dataType for field in frame.schema.fields}
        return [F.lit(None).cast(fields[name]).alias(name) for name in data_columns(frame)]

    def own(frame: DataFrame) -> list[Column]:
        return [F.col(quote(name)) for name in data_columns(frame)]

    first = left.select(F.lit(0).alias(SIDE), *ROW_HEADER, *own(left), *missing(right))
    return first.unionAll(right.select(F.lit(1).alias(SIDE), *ROW_HEADER, *missing(left), *own(right)))


def _key(left: DataFrame, right: DataFrame, pairs: list[tuple[str, str]]) -> list[TypedColumn]:
    """The key of a row, whichever side it is of."""
    key = []
    for (type_, one), (other_type, other) in zip(
        typed(left, [name for name, _ in pairs]), typed(right, [name for _, name in pairs]), strict=True
    ):
        if type_ != other_type:
            raise ConfigError(f"The sides of an equality are {type_} and {other_type}: cast one of them with a map.")
        key.append((type_, F.when(F.col(SIDE) == 0, one).otherwise(other)))
    return key
