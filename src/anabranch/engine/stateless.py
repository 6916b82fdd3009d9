"""Filter, Map, Python, Drop and Union as DataFrame operations.

They keep stream time and identity. A Union whose inputs have a source in common would show an identity twice, so there
the box and the number of the input become part of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from anabranch.engine.hashing import identity_hash, identity_parts
from anabranch.engine.python_calls import MADE, FunctionCall, all_rows, chosen_rows
from anabranch.functions import located
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.query.boxes import Drop, Filter, Map, Python, Union
from anabranch.query.sql import quote, select_items

ROW_HEADER = (STIME, ORIGIN, TID)
"""The header columns that travel through Spark. The kind is known (only insertions), the id is given by the log."""


_ALL_PARTITIONS = 1 << 20


def port_condition(box: Filter, port: int) -> Column:
    """True for the tuples of this port: no earlier predicate holds, and this one does (the last port: none does)."""
    holds = [F.coalesce(F.expr(predicate), F.lit(False)) for predicate in box.predicates]
    condition = holds[port] if port < len(holds) else F.lit(True)
    for earlier in reversed(holds[:port]):
        condition = F.when(earlier, F.lit(False)).otherwise(condition)
    return condition


def drop_condition(box: Drop, origins: Origins) -> Column:
    """True for the tuples that a Drop lets through."""
    if box.predicate is not None:
        return ~F.coalesce(F.expr(box.predicate), F.lit(False))
    drawn = identity_hash("drop", "", [("bigint", F.lit(box.seed).cast("bigint")), *identity_parts(origins)])
    dropped = math.ceil(Fraction(box.fraction or 0) * (1 << 64))  # of all hashes, which begin at -(1 << 63)
    return drawn >= F.lit(dropped - (1 << 63))


def passes(box: Filter | Drop, port: int, origins: Origins) -> Column:
    """True for the tuples that a box lets through to this port."""
    return port_condition(box, port) if isinstance(box, Filter) else drop_condition(box, origins)


def map_columns(box: Map, names: Sequence[str]) -> list[tuple[str, Column]]:
    """The select list as (name, expression); ``*`` stands for the data columns, never for the header."""
    return [(name, F.expr(sql)) for name, sql in select_items(box.columns, names)]


def with_function(frame: DataFrame, box: Python, names: Sequence[str], chosen: str | None = None) -> DataFrame:
    """The frame with what the function of a box makes of its columns, all as one; ``names`` are the data columns.

    Only rows for which the column ``chosen`` is true are shown to the function, where one is given: Spark calls a
    function for all rows, whatever condition stands around the call.
    """
    spelled = {name.lower(): name for name in names}
    reads = tuple(spelled[name.lower()] for name in box.reads) or tuple(names)
    makes = tuple((column.name, column.type or "") for column in box.columns)
    call = FunctionCall(box.name, box.function, *located(box.function), reads, makes)
    made = StructType([StructField(name, frame_type) for name, frame_type in _types(box)])
    function = F.arrow_udf(all_rows(call) if chosen is None else chosen_rows(call), made)  # type: ignore[call-overload]
    function = function if box.deterministic else function.asNondeterministic()
    arguments = [quote(name) for name in reads]
    return frame.withColumn(MADE, function(*([] if chosen is None else [chosen]), *arguments))


def _types(box: Python) -> list[tuple[str, DataType]]:
    return [(column.name, DataType.fromDDL(column.type or "")) for column in box.columns]


def function_columns(box: Python) -> list[tuple[str, Column]]:
    """The columns that a function made, taken out of the one value that they came as."""
    return [(column.name, F.col(f"{MADE}.{quote(column.name)}")) for column in box.columns]


def apply_step(frame: DataFrame, box: Filter | Map | Python | Drop, port: int, origins: Origins) -> DataFrame:
    """A Filter, Map, Python or Drop."""
    if isinstance(box, Python):
        names = data_columns(frame)
        added = [column.alias(name) for name, column in function_columns(box)]
        return with_function(frame, box, names).select(*ROW_HEADER, *[quote(name) for name in names], *added)
    if not isinstance(box, Map):
        return frame.filter(passes(box, port, origins))
    columns = [column.alias(name) for name, column in map_columns(box, data_columns(frame))]
    return frame.select(*ROW_HEADER, *columns)


def apply_union(frames: Sequence[DataFrame], box: Union, origins: Origins, *, hashed: bool) -> DataFrame:
    if hashed:
        frames = [_with_input_number(frame, box, origins, number) for number, frame in enumerate(frames)]
    merged = frames[0]
    for frame in frames[1:]:
        merged = merged.unionAll(frame)
    return merged


def apart(frame: DataFrame) -> DataFrame:
    """The same rows, with a border in the plan that Spark's rules do not look across.

    Several rules read all Filters and Maps down to the next border as one expression, once for each of them: the time
    for that grows with the cube of their number, and is spent again in every batch. No row moves: there are never so
    many partitions that some would be put together.
    """
    return frame.coalesce(_ALL_PARTITIONS)


def data_columns(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if name not in ROW_HEADER]


def _with_input_number(frame: DataFrame, box: Union, origins: Origins, number: int) -> DataFrame:
    parts = [("int", F.lit(number)), *identity_parts(origins)]
    tid = identity_hash("union", box.name, parts).alias(TID)
    return frame.select(STIME, ORIGIN, tid, *[quote(name) for name in data_columns(frame)])
