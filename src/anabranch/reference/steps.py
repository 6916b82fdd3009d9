"""Filter, Map, Python, Drop and Union: each tuple by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from anabranch.columns import arrow_schema
from anabranch.functions import called, find
from anabranch.model.identity import identity_hash
from anabranch.query import boxes
from anabranch.reference.box import Columns, Emitted, Promises, ReferenceBox, row_of, scope_of, spelling
from anabranch.reference.expressions import Typed, compile_expression, parse, parse_select
from anabranch.reference.tuples import Tuple


class FilterBox(ReferenceBox):
    """A tuple goes to the port of the first predicate that holds; NULL does not hold."""

    def __init__(self, box: boxes.Filter, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        self.columns = columns
        self._otherwise = box.otherwise
        self._predicates = [compile_expression(parse(text), scope_of(columns)) for text in box.predicates]

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        emitted: Emitted = {}
        for each in tuples:
            row = row_of(each)
            first = next((n for n, holds in enumerate(self._predicates) if holds.of(row) is True), None)
            if first is not None:
                emitted.setdefault(first, []).append(each)
            elif self._otherwise:
                emitted.setdefault(len(self._predicates), []).append(each)
        return emitted

    def promises(self) -> Promises:
        return dict(self._promised[0])


class MapBox(ReferenceBox):
    """One tuple out for one in, with the same identity."""

    def __init__(self, box: boxes.Map, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        self._made: dict[str, Typed] = {}
        for node in parse_select(box.columns):
            if isinstance(node, exp.Star):
                self._made |= {name: compile_expression(exp.column(name), scope_of(columns)) for name in columns}
            else:
                self._made[spelling(node, columns)] = compile_expression(node.unalias(), scope_of(columns))
        self.columns = {name: made.type for name, made in self._made.items()}

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        return {0: [self._map(each) for each in tuples]}

    def _map(self, each: Tuple) -> Tuple:
        row = row_of(each)
        values = {name: made.of(row) for name, made in self._made.items()}
        return Tuple(origin=each.origin, stime=each.stime, tid=each.tid, values=values)

    def promises(self) -> Promises:
        return dict(self._promised[0])


class PythonBox(ReferenceBox):
    """The function is called for each tuple by itself: what it makes of one must not depend on those beside it."""

    def __init__(self, box: boxes.Python, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        spelled = {name.lower(): name for name in columns}
        self._box = box
        self._call = find(box.function).call
        self._reads = [spelled[name.lower()] for name in box.reads] or list(columns)
        self._read = arrow_schema((name, columns[name]) for name in self._reads)
        self._makes = arrow_schema((column.name, column.type or "?") for column in box.columns)
        self.columns = {**columns, **{column.name: column.type or "?" for column in box.columns}}

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        return {0: [self._extended(each) for each in tuples]}

    def _extended(self, each: Tuple) -> Tuple:
        batch = pa.record_batch([pa.array([each.values[name]], type_) for name, type_ in self._types()], self._read)
        made = called(self._box.name, self._box.function, self._call, batch, self._makes)
        values = {field.name: _plain(column) for field, column in zip(self._makes, made, strict=True)}
        return Tuple(origin=each.origin, stime=each.stime, tid=each.tid, values={**each.values, **values})

    def _types(self) -> list[tuple[str, pa.DataType]]:
        return list(zip(self._read.names, self._read.types, strict=True))

    def promises(self) -> Promises:
        return dict(self._promised[0])


def _plain(column: pa.Array) -> object:
    """The one value of a column: times in microseconds, dates in days."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())[0].as_py()
    return (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column)[0].as_py()


class DropBox(ReferenceBox):
    """All tuples but those for which the predicate holds, or those whose hash lies in the lowest part of all hashes."""

    def __init__(self, box: boxes.Drop, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        self.columns = columns
        self._box = box
        self._predicate = None
        if box.predicate is not None:
            self._predicate = compile_expression(parse(box.predicate), scope_of(columns))

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        return {0: [each for each in tuples if not self._drops(each)]}

    def _drops(self, each: Tuple) -> bool:
        if self._predicate is not None:
            return self._predicate.of(row_of(each)) is True
        drawn = identity_hash("drop", "", [("bigint", self._box.seed), *each.identity_parts])
        return Fraction(drawn + (1 << 63), 1 << 64) < Fraction(self._box.fraction or 0)

    def promises(self) -> Promises:
        return dict(self._promised[0])


class UnionBox(ReferenceBox):
    """All tuples of all inputs. Where two inputs share a source, each tuple's identity says which way it came."""

    def __init__(self, box: boxes.Union, columns: Columns, inputs: Sequence[Iterable[str]], *, hashes: bool) -> None:
        super().__init__(inputs)
        self.columns = columns
        self._name = box.name
        self._hashes = hashes

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        return {0: [self._pass(port, each) for each in tuples]}

    def _pass(self, port: int, each: Tuple) -> Tuple:
        tid = each.tid
        if self._hashes:
            tid = identity_hash("union", self._name, [("int", port), *each.identity_parts])
        values = dict(zip(self.columns, each.values.values(), strict=True))
        return Tuple(origin=each.origin, stime=each.stime, tid=tid, values=values)

    def promises(self) -> Promises:
        """Per origin, the smallest over the inputs that carry it, be it that one of them has promised nothing yet."""
        origins = {origin for promised in self._promised for origin in promised}
        return {
            origin: min(promised[origin] for promised in self._promised if origin in promised) for origin in origins
        }
