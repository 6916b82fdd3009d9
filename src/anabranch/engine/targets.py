"""Several streams from one stage: a chain of steps for each, all above the same root.

The root is computed once. Each tuple of it becomes one row with a nullable struct per target: null where the target's
Filters and Drops turned it away, otherwise the target's header and columns. The batch is split again when it has
arrived as Arrow.

A Map behind a Filter sees only what the Filter let through (``filter("b <> 0").map("a / b")`` must not divide by zero),
so its expressions are guarded by the Filter's condition.

A Lookup may make several rows of one. What earlier targets have, and the root, stay with the first of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.engine.lookups import FIRST, Tables, lookup_identity, table_frame
from anabranch.engine.stateless import (
    ROW_HEADER,
    apart,
    data_columns,
    function_columns,
    map_columns,
    passes,
    with_function,
)
from anabranch.limits import PLAN_STEPS
from anabranch.model.header import TID
from anabranch.model.names import Origins
from anabranch.query.boxes import Lookup, Map, Python, Step
from anabranch.query.sql import quote

_KEEP = "_keep"
_ROOT = "_root"


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps from the root of a stage up to one target stream."""

    stream: str
    steps: tuple[tuple[Step, int], ...]


def tagged(root: DataFrame, chains: Sequence[Chain], origins: Origins, tables: Tables) -> DataFrame:
    """One row per tuple of the root, or several where it finds several rows of a table; one nullable struct per
    target."""
    columns = root.columns
    frame = root.select(F.struct(*[quote(name) for name in columns]).alias(_ROOT))
    for number, chain in enumerate(chains):
        frame = _with_target(frame, chain, columns, number, origins, tables)
    tags = [_tag(number) for number in range(len(chains))]
    return frame.select(*tags).filter(reduce(or_, [F.col(tag).isNotNull() for tag in tags]))


def split(table: pa.Table, chains: Sequence[Chain]) -> dict[str, pa.Table]:
    """The tables of the targets, from the Arrow form of a stage's batch."""
    if len(chains) == 1:
        return {chains[0].stream: table}
    tables = {}
    for number, chain in enumerate(chains):
        rows = table.column(_tag(number)).combine_chunks().drop_null()
        tables[chain.stream] = pa.Table.from_arrays(rows.flatten(), names=[field.name for field in rows.type])
    return tables


def _tag(number: int) -> str:
    return f"_t{number}"


def _with_target(
    frame: DataFrame, chain: Chain, columns: Sequence[str], number: int, origins: Origins, tables: Tables
) -> DataFrame:
    """The frame with one more struct: the chain applied to the root's columns, which are unpacked for it."""
    carried = [_ROOT, *[_tag(earlier) for earlier in range(number)]]
    there = F.col(_ROOT).isNotNull().alias(_KEEP)
    made = frame.select(*carried, there, *[F.col(f"{_ROOT}.{quote(name)}") for name in columns])
    hidden = {*carried, _KEEP}
    for count, (box, port) in enumerate(chain.steps, start=1):
        if isinstance(box, Map):
            names = [name for name in data_columns(made) if name not in hidden]
            mapped = [F.when(F.col(_KEEP), value).alias(name) for name, value in map_columns(box, names)]
            made = made.select(*carried, _KEEP, *ROW_HEADER, *mapped)
        elif isinstance(box, Lookup):
            made = _looked_up(made, box, carried, origins, tables)
        elif isinstance(box, Python):
            names = [name for name in data_columns(made) if name not in hidden]
            added = [column.alias(name) for name, column in function_columns(box)]
            made = with_function(made, box, names, _KEEP)
            made = made.select(*carried, _KEEP, *ROW_HEADER, *[quote(name) for name in names], *added)
        else:
            made = made.withColumn(_KEEP, F.when(F.col(_KEEP), passes(box, port, origins)).otherwise(F.lit(False)))
        made = apart(made) if count % PLAN_STEPS == 0 else made
    # Guarded once more, which makes every field nullable: Arrow refuses a null struct with fields that are not.
    fields = [F.when(F.col(_KEEP), F.col(quote(name))).alias(name) for name in made.columns if name not in hidden]
    row = F.struct(*fields)
    return made.select(*carried, F.when(F.col(_KEEP), row).alias(_tag(number)))


def _looked_up(made: DataFrame, box: Lookup, carried: Sequence[str], origins: Origins, tables: Tables) -> DataFrame:
    """What was turned away already finds nothing, and so stays one row."""
    names = [name for name in data_columns(made) if name not in (*carried, _KEEP)]
    table, condition = table_frame(made, box, names, tables)
    joined = made.join(table, F.col(_KEEP) & condition, "left")
    stays = F.coalesce(F.col(FIRST), F.lit(True))
    keep = F.col(_KEEP) if box.outer else F.col(FIRST).isNotNull()
    return joined.select(
        *[F.when(stays, F.col(name)).alias(name) for name in carried],
        keep.alias(_KEEP),
        *[name for name in ROW_HEADER if name != TID],
        lookup_identity(joined, box, origins).alias(TID),
        *[quote(name) for name in (*names, *box.table.columns)],
    )
