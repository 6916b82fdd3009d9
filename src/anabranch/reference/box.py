"""What all boxes over lists of tuples share, straight from the racing paper: sections 3.3 and 3.4, figures 2 to 4.

A box has input ports and output ports, numbered from 0. ``process`` takes tuples on a port; ``punctuate`` takes a later
promise on a port; both return what the box emits, per output port. ``promises`` is what the box may promise for its
outputs. One deviation from figures 3 and 4: a window closes by the smallest punctuation of all origins of the input,
not only of those that reach its group, and at whole milliseconds, because Spark has one watermark of that
resolution.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from anabranch.errors import check
from anabranch.model.header import STIME
from anabranch.model.identity import Part
from anabranch.reference.tuples import Tuple

Columns = Mapping[str, str]
"""The columns of a stream in order: name to type."""

Group = tuple[object, ...]
Emitted = dict[int, list[Tuple]]
Promises = dict[str, int]


class ReferenceBox(ABC):
    """What all boxes share: their columns, and what was promised to them on each port."""

    columns: Columns

    def __init__(self, inputs: Sequence[Iterable[str]]) -> None:
        """``inputs`` names, per port, every origin that can reach it: one that is silent holds what waits."""
        self._promised: list[Promises] = [dict.fromkeys(origins, 0) for origins in inputs]

    @abstractmethod
    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted: ...

    @abstractmethod
    def promises(self) -> Promises: ...

    def punctuate(self, port: int, promises: Mapping[str, int]) -> Emitted:
        promised = self._promised[port]
        for origin, time in promises.items():
            check(origin in promised, f"{origin!r} punctuates an input that it does not reach.")
            check(time >= promised[origin], f"The punctuation of {origin!r} went back to {time}.")
            promised[origin] = time
        return {}

    def _smallest(self, port: int) -> int:
        return min(self._promised[port].values(), default=0)

    def _check_promises(self, port: int, tuples: Sequence[Tuple]) -> None:
        for each in tuples:
            check(each.origin in self._promised[port], f"A tuple of {each.origin!r} came where it does not reach.")
            check(each.stime >= self._promised[port][each.origin], f"{each} is below the punctuation of its origin.")


class Groups:
    """The group of a tuple: the values of some of its columns, alike where Spark's grouping finds them alike."""

    def __init__(self, by: Iterable[str], columns: Columns) -> None:
        spelled = {name.lower(): name for name in columns}
        self.types = {spelled[name.lower()]: columns[spelled[name.lower()]] for name in by}

    def of(self, each: Tuple) -> Group:
        return tuple(normal(each.values[name]) for name in self.types)

    def columns(self, group: Group) -> dict[str, object]:
        return dict(zip(self.types, group, strict=True))

    def parts(self, group: Group) -> list[Part]:
        """The group, as it is hashed into an identity."""
        return list(zip(self.types.values(), group, strict=True))


def scope_of(columns: Columns) -> dict[str, str]:
    return {name.lower(): type_ for name, type_ in columns.items()} | {STIME: "timestamp"}


def row_of(each: Tuple) -> dict[str, Any]:
    return {name.lower(): value for name, value in each.values.items()} | {STIME: each.stime}


def spelling(node: exp.Expr, columns: Columns) -> str:
    """The name of a column: its alias, or that of the column it is, as the input spells it."""
    name: str = node.alias_or_name
    if isinstance(node, exp.Alias):
        return name
    return next((column for column in columns if column.lower() == name.lower()), name)


def normal(value: object) -> object:
    """Grouping makes minus zero and zero one value, and all NaNs."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value
