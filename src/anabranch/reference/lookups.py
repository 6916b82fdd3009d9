"""Lookup: each tuple with the rows of a table that have equal keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from anabranch.errors import check
from anabranch.model.identity import identity_hash
from anabranch.query import boxes
from anabranch.query.sql import column_pairs
from anabranch.reference.box import Columns, Emitted, Promises, ReferenceBox, normal
from anabranch.reference.tuples import Tuple

Rows = Mapping[str, Sequence[tuple[object, ...]]]
"""Per table, its rows: values in the order of its columns, times and dates as numbers."""


class LookupBox(ReferenceBox):
    """Look at every row of the table; NULL equals nothing. The key of the row that matches is part of the identity."""

    def __init__(self, box: boxes.Lookup, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        table = {column.name: column.type or "?" for column in box.table.schema}
        self.columns = {**columns, **table}
        self._box = box
        self._pairs = column_pairs(box.on, list(columns), list(table)) or []
        spelled = {name.lower(): name for name in table}
        self._key = {spelled[name.lower()]: table[spelled[name.lower()]] for name in box.table.key}
        check(box.table.rows is not None, f"The rows of the table {box.table.name!r} are not known.")
        self._rows = [
            {name: _typed(value, table[name]) for name, value in zip(table, row, strict=True)}
            for row in box.table.rows or ()
        ]
        self._nothing: dict[str, object] = dict.fromkeys(table)

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        return {0: [made for each in tuples for made in self._found(each)]}

    def _found(self, each: Tuple) -> list[Tuple]:
        rows = [row for row in self._rows if all(_equal(each.values[one], row[other]) for one, other in self._pairs)]
        if not rows and self._box.outer:
            return [self._made(each, self._nothing)]
        return [self._made(each, row) for row in rows]

    def _made(self, each: Tuple, row: Mapping[str, object]) -> Tuple:
        key = [(type_, row[name]) for name, type_ in self._key.items()]
        tid = identity_hash("lookup", self._box.name, [*each.identity_parts, *key])
        return Tuple(origin=each.origin, stime=each.stime, tid=tid, values={**each.values, **row})

    def promises(self) -> Promises:
        return dict(self._promised[0])


def with_rows(diagram: boxes.Diagram, rows: Rows) -> boxes.Diagram:
    """The diagram with the rows of its tables in it, wherever they were."""
    return replace(diagram, boxes=tuple(_with_rows(box, rows) for box in diagram.boxes))


def _with_rows(box: boxes.Box, rows: Rows) -> boxes.Box:
    if not isinstance(box, boxes.Lookup) or box.table.name not in rows:
        return box
    found: tuple[tuple[object, ...], ...] = tuple(rows[box.table.name])
    return replace(box, table=replace(box.table, rows=found))  # type: ignore[arg-type]


def _typed(value: object, type_: str) -> object:
    """A query may write 1 where a double is wanted."""
    return float(value) if type_ == "double" and isinstance(value, int) else value


def _equal(one: object, other: object) -> bool:
    """As Spark compares: NULL equals nothing, NaN itself, and minus zero zero."""
    if one is None or other is None:
        return False
    one, other = normal(one), normal(other)
    return one is other or one == other
