"""The boxes over lists of tuples, straight from the racing paper: sections 3.3 and 3.4, figures 2 to 4.

A box has input ports and output ports, numbered from 0. ``process`` takes tuples on a port; ``punctuate`` takes a later
promise on a port; both return what the box emits, per output port. ``promises`` is what the box may promise for its
outputs. One deviation from figures 3 and 4: a window closes by the smallest punctuation of all origins of the input,
not only of those that reach its group, and at whole milliseconds, because Spark has one watermark of that
resolution.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sqlglot import exp

from anabranch.errors import check
from anabranch.model.header import STIME
from anabranch.model.identity import Part, identity_hash
from anabranch.query import boxes
from anabranch.reference.aggregates import ROWS, compile_aggregate
from anabranch.reference.expressions import Typed, compile_expression, parse, parse_select
from anabranch.reference.tuples import Tuple

Columns = Mapping[str, str]
"""The columns of a stream in order: name to type."""

NO_SCALES: Mapping[str, int] = {}
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


class FilterBox(ReferenceBox):
    """A tuple goes to the port of the first predicate that holds; NULL does not hold."""

    def __init__(self, box: boxes.Filter, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        self.columns = columns
        self._otherwise = box.otherwise
        self._predicates = [compile_expression(parse(text), _scope(columns)) for text in box.predicates]

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        emitted: Emitted = {}
        for each in tuples:
            row = _row(each)
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
                self._made |= {name: compile_expression(exp.column(name), _scope(columns)) for name in columns}
            else:
                self._made[_spelling(node, columns)] = compile_expression(node.unalias(), _scope(columns))
        self.columns = {name: made.type for name, made in self._made.items()}

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        return {0: [self._map(each) for each in tuples]}

    def _map(self, each: Tuple) -> Tuple:
        row = _row(each)
        values = {name: made.of(row) for name, made in self._made.items()}
        return Tuple(origin=each.origin, stime=each.stime, tid=each.tid, values=values)

    def promises(self) -> Promises:
        return dict(self._promised[0])


class DropBox(ReferenceBox):
    """All tuples but those for which the predicate holds, or those whose hash lies in the lowest part of all hashes."""

    def __init__(self, box: boxes.Drop, columns: Columns, origins: Iterable[str]) -> None:
        super().__init__([origins])
        self.columns = columns
        self._box = box
        self._predicate = None
        if box.predicate is not None:
            self._predicate = compile_expression(parse(box.predicate), _scope(columns))

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        return {0: [each for each in tuples if not self._drops(each)]}

    def _drops(self, each: Tuple) -> bool:
        if self._predicate is not None:
            return self._predicate.of(_row(each)) is True
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


class JoinBox(ReferenceBox):
    """Figure 2: match a new tuple with what the other input brought, emit at once, remember it while it is of use."""

    def __init__(self, box: boxes.Join, left: Columns, right: Columns, inputs: Sequence[Iterable[str]]) -> None:
        super().__init__(inputs)
        self.columns = {**left, **right}
        self._name = box.name
        self._within_us = box.within_us
        self._on = compile_expression(parse(box.on), {name.lower(): type_ for name, type_ in self.columns.items()})
        self._buffers: tuple[list[Tuple], list[Tuple]] = ([], [])

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        made: list[Tuple] = []
        for each in tuples:
            for other in self._buffers[1 - port]:
                left, right = (each, other) if port == 0 else (other, each)
                if abs(left.stime - right.stime) < self._within_us and self._on.of(_row(left) | _row(right)) is True:
                    made.append(self._concatenate(left, right))
            self._buffers[port].append(each)
        return {0: made}

    def _concatenate(self, left: Tuple, right: Tuple) -> Tuple:
        return Tuple(
            origin=self._name,
            stime=max(left.stime, right.stime),
            tid=identity_hash("join", self._name, [*left.identity_parts, *right.identity_parts]),
            values={**left.values, **right.values},
        )

    def punctuate(self, port: int, promises: Mapping[str, int]) -> Emitted:
        super().punctuate(port, promises)
        oldest = self._smallest(port) - self._within_us
        self._buffers[1 - port][:] = [each for each in self._buffers[1 - port] if each.stime >= oldest]
        return {}

    def promises(self) -> Promises:
        """A pair is as late as the later of the two, and each of them is at or above what its input promised."""
        return {self._name: min(self._smallest(0), self._smallest(1))}


class WindowBox(ReferenceBox):
    """What windows of time and of tuples share: groups, their columns, and Spark's watermark."""

    def __init__(
        self, box: boxes.Aggregate, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        """``scales`` has the columns whose sums are exact, in lower case, and their digits after the point."""
        super().__init__([origins])
        spelled = {name.lower(): name for name in columns}
        self._keys = {spelled[name.lower()]: columns[spelled[name.lower()]] for name in box.by}
        groups = {name.lower(): type_ for name, type_ in self._keys.items()}
        self._made = {
            name: compile_aggregate(node.unalias(), groups, _scope(columns), scales.get(name.lower()))
            for name, node in ((_spelling(node, columns), node) for node in parse_select(box.columns))
        }
        self.columns = {**self._keys, **{name: made.type for name, made in self._made.items()}}
        self._box = box
        self.watermark_us = 0

    def punctuate(self, port: int, promises: Mapping[str, int]) -> Emitted:
        super().punctuate(port, promises)
        return self.close(self._smallest(port) // 1_000 * 1_000)

    @abstractmethod
    def close(self, watermark_us: int) -> Emitted:
        """Put out every window that the watermark completes."""

    def _group(self, each: Tuple) -> Group:
        return tuple(_normal(each.values[name]) for name in self._keys)

    def _summary(self, kind: str, group: Group, window: Sequence[Part], stime: int, tuples: list[Tuple]) -> Tuple:
        """The tuple of a window, whose identity is that of its group and what ``window`` says of it."""
        keys = dict(zip(self._keys, group, strict=True))
        parts: list[Part] = [(type_, keys[name]) for name, type_ in self._keys.items()]
        row = {name.lower(): value for name, value in keys.items()} | {ROWS: [_row(each) for each in tuples]}
        return Tuple(
            origin=self._box.name,
            stime=stime,
            tid=identity_hash(kind, self._box.name, [*parts, *window]),
            values={**keys, **{name: made.of(row) for name, made in self._made.items()}},
        )


class AggregateBox(WindowBox):
    """Figure 3: collect each group's tuples by window; a window is put out when nothing can be missing from it."""

    def __init__(
        self, box: boxes.Aggregate, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__(box, columns, origins, scales)
        self._windows: dict[tuple[int, int], dict[Group, list[Tuple]]] = {}

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        for each in tuples:
            group = self._group(each)
            for window in self._windows_of(each.stime):
                check(window[1] > self.watermark_us, f"{each} belongs to a window that is closed.")
                self._windows.setdefault(window, {}).setdefault(group, []).append(each)
        return {}

    def _windows_of(self, time: int) -> list[tuple[int, int]]:
        """All windows ``[k * every, k * every + size)`` that hold the time."""
        size, every = self._box.time_window
        first, last = (time - size) // every + 1, time // every
        return [(k * every, k * every + size) for k in range(first, last + 1)]

    def close(self, watermark_us: int) -> Emitted:
        self.watermark_us = max(self.watermark_us, watermark_us)
        closed = sorted(window for window in self._windows if window[1] <= self.watermark_us)
        return {
            0: [
                self._summary("window", group, [("bigint", start), ("bigint", end)], end, tuples)
                for start, end in closed
                for group, tuples in self._windows.pop((start, end)).items()
            ]
        }

    def promises(self) -> Promises:
        """Every window that ends at the watermark is out, so the next one ends later."""
        return {self._box.name: self.watermark_us + 1 if self.watermark_us else 0}


class CountAggregateBox(WindowBox):
    """Figure 4: collect each group's tuples until all before them are known, then count them in canonical order."""

    def __init__(
        self, box: boxes.Aggregate, columns: Columns, origins: Iterable[str], scales: Mapping[str, int] = NO_SCALES
    ) -> None:
        super().__init__(box, columns, origins, scales)
        self._waiting: list[Tuple] = []
        self._counts: Counter[Group] = Counter()
        self._windows: dict[Group, dict[int, list[Tuple]]] = {}

    def process(self, port: int, tuples: Sequence[Tuple]) -> Emitted:
        self._check_promises(port, tuples)
        self._waiting += tuples
        return {}

    def close(self, watermark_us: int) -> Emitted:
        self.watermark_us = max(self.watermark_us, watermark_us)
        complete = [each for each in self._waiting if each.stime < self.watermark_us]
        self._waiting = [each for each in self._waiting if each.stime >= self.watermark_us]
        ordered = sorted(complete, key=lambda each: (each.stime, each.origin, each.tid))
        return {0: [summary for each in ordered for summary in self._count(each)]}

    def _count(self, each: Tuple) -> Iterator[Tuple]:
        """Put the next tuple of a group into its windows; one of them may be full then."""
        size, every = self._box.count_window
        group = self._group(each)
        windows = self._windows.setdefault(group, {})
        number = self._counts[group]
        self._counts[group] += 1
        for first in range(max(0, -((size - 1 - number) // every)) * every, number + 1, every):
            windows.setdefault(first, []).append(each)
        if len(windows.get(number - size + 1, ())) == size:
            tuples = windows.pop(number - size + 1)
            ends = [*tuples[0].identity_parts, *tuples[-1].identity_parts]
            yield self._summary("count", group, ends, tuples[-1].stime, tuples)

    def promises(self) -> Promises:
        """Every tuple before the watermark is counted, so the next window ends with one at or after it."""
        return {self._box.name: self.watermark_us}


def _scope(columns: Columns) -> dict[str, str]:
    return {name.lower(): type_ for name, type_ in columns.items()} | {STIME: "timestamp"}


def _row(each: Tuple) -> dict[str, Any]:
    return {name.lower(): value for name, value in each.values.items()} | {STIME: each.stime}


def _spelling(node: exp.Expr, columns: Columns) -> str:
    """The name of a column: its alias, or that of the column it is, as the input spells it."""
    name: str = node.alias_or_name
    if isinstance(node, exp.Alias):
        return name
    return next((column for column in columns if column.lower() == name.lower()), name)


def _normal(value: object) -> object:
    """Grouping makes minus zero and zero one value, and all NaNs."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value
