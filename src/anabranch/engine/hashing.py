"""``model.identity`` as a Spark expression: the same hash, computed without leaving Spark.

A property test holds the two against each other for every column type.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.model.identity import IDENTITY_TYPES, label
from anabranch.model.names import Origins
from anabranch.query.sql import quote

TypedColumn = tuple[str, Column]


def identity_hash(kind: str, box: str, parts: Sequence[TypedColumn]) -> Column:
    """The ``_tid`` of the tuple that ``box`` makes from ``parts``."""
    columns = [F.lit(label(kind, box, [type_name for type_name, _ in parts]))]
    for type_name, column in parts:
        columns += [column.isNull(), _normal(type_name, column)]
    return F.xxhash64(*columns)


def identity_parts(origins: Origins, prefix: str = "", *, stime_us: Column | None = None) -> list[TypedColumn]:
    """The identity of an input tuple whose header columns carry ``prefix``, as parts of a hash.

    ``stime_us`` is its stream time in microseconds, where the frame does not have it as it is.
    """
    names = F.array(*[F.lit(name) for name in origins.names])
    origin = F.element_at(names, F.col(f"{prefix}_origin") + 1)
    stime_us = F.unix_micros(f"{prefix}_stime") if stime_us is None else stime_us
    columns = (origin, stime_us, F.col(f"{prefix}_tid"))
    return list(zip(IDENTITY_TYPES, columns, strict=True))


def typed(frame: DataFrame, names: Sequence[str]) -> list[TypedColumn]:
    """Columns of a frame with their types, as parts of a hash."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    return [(types[name], F.col(quote(name))) for name in names]


def _normal(type_name: str, column: Column) -> Column:
    """Minus zero and NaN as grouping sees them."""
    if type_name not in ("float", "double"):
        return column
    zero, nan = F.lit(0.0).cast(type_name), F.lit("NaN").cast(type_name)
    return F.when(F.isnan(column), nan).when(column == 0, zero).otherwise(column)
