"""Lookup: a join of Spark with a table that every worker has whole.

The table is part of the plan: the node has read it once, at its start, and no batch reads a file or asks a database.
Spark keeps it in its cache while the stage runs, from which a batch has it a few times faster than from the plan.
Each row says whether it is the first of those with its values in the columns of the condition. So a tuple that finds
several rows can be told from what is repeated of it, and one that finds none from one that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.columns import arrow_schema
from anabranch.engine.hashing import identity_hash, identity_parts, typed
from anabranch.engine.stateless import data_columns
from anabranch.model.header import ORIGIN, STIME, TID
from anabranch.model.names import Origins
from anabranch.query.boxes import Lookup, Table
from anabranch.query.sql import column_pairs, quote

FIRST: Final = "_first"
"""True for the first row of a table with its values, false for the others; NULL where a tuple found no row."""
_ROW: Final = "_row"


class Tables:
    """The rows that Lookups read, by table. A table that is not here has none: such a plan does not run."""

    def __init__(self, rows: Mapping[str, pa.Table] | None = None) -> None:
        self._rows = rows or {}
        self._frames: dict[tuple[str, tuple[str, ...]], DataFrame] = {}

    def frame(self, session: SparkSession, table: Table, by: tuple[str, ...]) -> DataFrame:
        """The rows as Spark has them, marked by these columns; made once."""
        if (table.name, by) not in self._frames:
            schema = arrow_schema((column.name, column.type or "") for column in table.schema)
            rows = self._rows.get(table.name, schema.empty_table())
            self._frames[table.name, by] = session.createDataFrame(rows.append_column(FIRST, _firsts(rows, by)))
        return self._frames[table.name, by]

    def keep(self) -> None:
        """Lets Spark hold the tables in its cache, for a query that starts."""
        for frame in self._frames.values():
            frame.persist()

    def release(self) -> None:
        for frame in self._frames.values():
            frame.unpersist()


def apply_lookup(frame: DataFrame, box: Lookup, origins: Origins, tables: Tables) -> DataFrame:
    names = data_columns(frame)
    table, condition = table_frame(frame, box, names, tables)
    joined = frame.join(table, condition, "left" if box.outer else "inner")
    columns = [quote(name) for name in (*names, *box.table.columns)]
    return joined.select(STIME, ORIGIN, lookup_identity(joined, box, origins).alias(TID), *columns)


def table_frame(frame: DataFrame, box: Lookup, names: Sequence[str], tables: Tables) -> tuple[DataFrame, Column]:
    """The table of a Lookup, and the condition under which a tuple with these columns finds a row."""
    pairs = column_pairs(box.on, names, box.table.columns) or []
    table = tables.frame(frame.sparkSession, box.table, tuple(dict.fromkeys(other for _, other in pairs)))
    condition = reduce(and_, [F.col(quote(one)) == F.col(quote(other)) for one, other in pairs])
    return F.broadcast(table), condition


def lookup_identity(joined: DataFrame, box: Lookup, origins: Origins) -> Column:
    """Of the tuple and the key of the row that it found."""
    spelled = {name.lower(): name for name in box.table.columns}
    key = typed(joined, [spelled[name.lower()] for name in box.table.key])
    return identity_hash("lookup", box.name, [*identity_parts(origins), *key])


def _firsts(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Whether each row is the first with its values in these columns, alike where Spark finds them alike."""
    numbers = pa.array(range(rows.num_rows), pa.int64())
    keys = [_comparable(rows.column(name)) for name in columns]
    numbered = pa.table([*keys, numbers], names=[*(f"k{index}" for index in range(len(keys))), _ROW])
    firsts = numbered.group_by(numbered.column_names[:-1]).aggregate([(_ROW, "min")]).column(f"{_ROW}_min")
    return pc.is_in(numbers, value_set=firsts.combine_chunks())


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pt.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))
