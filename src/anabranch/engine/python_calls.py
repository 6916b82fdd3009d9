"""Python boxes in Spark: a function of the user, called in Spark's Python workers on whole Arrow batches.

It is a column of Spark, an Arrow UDF, not ``mapInArrow``: only the columns that the function reads go to a worker, and
only those that it makes come back. All others, the header among them, stay in the JVM, and Spark's rules go on to see
which columns are needed. Imported by Spark's workers, which load nothing else of the engine for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.columns import arrow_schema
from anabranch.functions import Found, called, find_again

MADE: Final = "_python"
"""What the function made of a row, as one value, until it becomes columns."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """What a worker is told of a box."""

    box: str
    function: str
    root: str
    digest: str
    reads: tuple[str, ...]
    makes: tuple[tuple[str, str], ...]

    def of(self, columns: tuple[pa.Array, ...]) -> pa.Array:
        """What the function makes of these columns, which are those that it reads."""
        made = arrow_schema(self.makes)
        if len(columns[0]) == 0:
            return pa.array([], pa.struct(list(made)))
        batch = pa.record_batch(list(columns), list(self.reads))
        arrays = called(self.box, self.function, _found(self.function, self.root, self.digest).call, batch, made)
        return pa.StructArray.from_arrays(arrays, fields=list(made))

    def of_some(self, chosen: pa.Array, columns: tuple[pa.Array, ...]) -> pa.Array:
        """The same for some rows; NULL for the others, which the function does not see."""
        made = self.of(tuple(column.filter(chosen) for column in columns))
        places = pc.subtract(pc.cumulative_sum(chosen.cast(pa.int64())), 1)
        return made.take(pc.if_else(chosen, places, pa.scalar(None, pa.int64())))


@cache
def _found(function: str, root: str, digest: str) -> Found:
    return find_again(function, root, digest)


def all_rows(call: FunctionCall) -> Callable[..., pa.Array]:
    """The call as Spark wants it: a function of the columns that it reads."""

    def function(*columns: pa.Array) -> pa.Array:
        return call.of(columns)

    return function


def chosen_rows(call: FunctionCall) -> Callable[..., pa.Array]:
    """The same with one more column before the others: whether the function may see the row."""

    def function(chosen: pa.Array, *columns: pa.Array) -> pa.Array:
        return call.of_some(chosen, columns)

    return function
