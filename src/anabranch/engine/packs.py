"""The steps of a plan for a box that works in order (``jvm/anabranch/Packing.java``).

In Spark's JVM ``pack`` makes one value of many rows, ``order`` keeps the state of the box and calls it in a Python
worker, and ``unpack`` takes apart what it makes. So rows pass through Python once, and state not by row. What is
unpacked is the rows of one batch, and no stream: it is grouped and aggregated as a table would be, without state.
``as_stream`` makes a stream of the result, which Spark writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from anabranch.engine.ordered import OrderedBox
from anabranch.engine.shards import RETURNED, visitor


def install(session: SparkSession) -> None:
    """Lets the session plan these steps."""
    _packing(session).install(session._jsparkSession)


def pack(rows: DataFrame) -> DataFrame:
    """One row for each shard: its number, which parts of it are touched, and the rows as an Arrow stream.

    The first two columns are hashes of the group, for shard and part; there are as many shards as the state has
    partitions.
    """
    session = rows.sparkSession
    return DataFrame(_packing(session).pack(rows._jdf), session)


def order(packed: DataFrame, box: OrderedBox) -> DataFrame:
    """What the box makes of packed rows, packed."""
    session = packed.sparkSession
    return DataFrame(_packing(session).order(packed.mapInArrow(visitor(box), RETURNED)._jdf), session)


def unpack(packed: DataFrame, made: StructType, together: Sequence[str] | None) -> DataFrame:
    """The rows, whose columns are ``made``. Those with equal values ``together`` lie in one partition; if there is no
    such column, all do. None makes no such promise."""
    session = packed.sparkSession
    names = None if together is None else _names(session, together)
    return DataFrame(_packing(session).unpack(packed._jdf, made.json(), names), session)


def gather(rows: DataFrame) -> DataFrame:
    """The same rows, in one task if all are few. A Union would have a task for each of its journals."""
    session = rows.sparkSession
    return DataFrame(_packing(session).gather(rows._jdf), session)


def as_stream(rows: DataFrame) -> DataFrame:
    session = rows.sparkSession
    return DataFrame(_packing(session).asStream(rows._jdf), session)


def _packing(session: SparkSession) -> Any:
    jvm: Any = session._jvm
    return jvm.anabranch.Packing


def _names(session: SparkSession, names: Sequence[str]) -> Any:
    gateway: Any = session.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.String, len(names))
    for index, name in enumerate(names):
        array[index] = name
    return array
