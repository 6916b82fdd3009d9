"""What must hold of a stream, one function per property; each returns what is wrong, in words, or nothing.

A stream is checked as it was read, from its first entry on: a list of rows and boundaries in log order. The checkers
know nothing of processes, kills or Spark, so any test that has read a stream may use them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from anabranch.model.header import HEADER, ID, KIND, ORIGIN, STIME, TID, Kind
from anabranch.reference.tuples import Tuple

TOLERANCE = 1e-12
"""How far a floating aggregate may be off, relatively: Spark adds in another order than the reference."""

SHOWN = 5
"""Rows that a message shows before it only counts."""

Identity = tuple[str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A stable tuple. Times are microseconds, as in the reference; ``id`` is its place in a log, if it has one."""

    origin: str
    stime: int
    tid: int
    values: Mapping[str, Any]
    id: int | None = None

    @property
    def identity(self) -> Identity:
        return self.origin, self.stime, self.tid

    @classmethod
    def of(cls, each: Tuple) -> Row:
        return cls(origin=each.origin, stime=each.stime, tid=each.tid, values=each.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """A punctuation: no later row of this origin lies below ``stime``."""

    origin: str
    stime: int


Entry = Row | Boundary


def entries_of(batches: Iterable[pa.RecordBatch]) -> list[Entry]:
    """A stream as it came over the wire."""
    return [entry for batch in batches for entry in _entries(batch)]


def rows_of(entries: Iterable[Entry]) -> list[Row]:
    return [entry for entry in entries if isinstance(entry, Row)]


# --- properties ----------------------------------------------------------------------------------------------------


def same_rows(expected: Sequence[Row], found: Sequence[Row], rounded: frozenset[str] = frozenset()) -> list[str]:
    """The same multiset of identities, each with the same columns; those in ``rounded`` up to rounding."""
    wanted, got = Counter(row.identity for row in expected), Counter(row.identity for row in found)
    problems = _listed("rows are missing", _of(expected, (wanted - got)))
    problems += _listed("rows are there that should not be, or too often", _of(found, (got - wanted)))
    by_identity = {row.identity: row for row in expected}
    pairs = ((by_identity[row.identity], row) for row in found if row.identity in by_identity)
    differing = [(a, b) for a, b in pairs if not _same_values(a.values, b.values, rounded)]
    return problems + _listed("rows have other columns than expected", [f"{a} came as {b}" for a, b in differing])


def nothing_twice(found: Sequence[Row]) -> list[str]:
    """Every identity at most once in a stream."""
    counted = Counter(row.identity for row in found)
    return _listed("identities came more than once", [f"{who} x{n}" for who, n in counted.items() if n > 1])


def ids_contiguous(found: Sequence[Row]) -> list[str]:
    """Ids are 1, 2, 3 … in log order."""
    for expected, row in enumerate(found, start=1):
        if row.id != expected:
            return [f"id {expected} was next and {row.id} came: {row}"]
    return []


def punctuations_monotone(entries: Sequence[Entry]) -> list[str]:
    """The boundaries of an origin never go back."""
    last: dict[str, int] = {}
    problems = []
    for number, entry in enumerate(entries):
        if isinstance(entry, Boundary):
            if entry.stime < last.get(entry.origin, 0):
                problems.append(f"entry {number}: {entry.origin} went back from {last[entry.origin]} to {entry.stime}")
            last[entry.origin] = entry.stime
    return _listed("boundaries go back", problems)


def punctuations_true(entries: Sequence[Entry]) -> list[str]:
    """No row lies below an earlier boundary of its origin."""
    promised: dict[str, int] = {}
    problems = []
    for number, entry in enumerate(entries):
        if isinstance(entry, Boundary):
            promised[entry.origin] = max(entry.stime, promised.get(entry.origin, 0))
        elif entry.stime < promised.get(entry.origin, 0):
            problems.append(f"entry {number}: {entry} after a boundary at {promised[entry.origin]}")
    return _listed("rows lie below a boundary of their origin", problems)


def last_punctuations(entries: Sequence[Entry]) -> dict[str, int]:
    """What a stream promises at its end."""
    return {entry.origin: entry.stime for entry in entries if isinstance(entry, Boundary)}


def same_punctuations(expected: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """The same last promise for every origin."""
    origins = sorted(expected.keys() | found.keys())
    return [
        f"the last punctuation of {origin} is {found.get(origin)}, expected {expected.get(origin)}"
        for origin in origins
        if expected.get(origin) != found.get(origin)
    ]


def followed_exactly(log: Sequence[Row], seen: Sequence[Row]) -> list[str]:
    """A reader that came back after each crash got the log's rows: all of them, once, in the log's order."""
    by_id = {row.id: row for row in log}
    ids = [row.id for row in seen]
    problems = _listed("rows reached the follower more than once", [i for i, n in Counter(ids).items() if n > 1])
    problems += _listed("rows never reached the follower", [row for row in log if row.id not in set(ids)])
    problems += _listed("rows were taken back after the follower saw them", [r for r in seen if by_id.get(r.id) != r])
    if not problems and ids != [row.id for row in log]:
        problems.append("the follower saw the rows in another order")
    return problems


# --- within --------------------------------------------------------------------------------------------------------


def _entries(batch: pa.RecordBatch) -> list[Entry]:
    columns = {name: _plain(batch.column(name)) for name in batch.schema.names}
    data = [name for name in batch.schema.names if name not in HEADER]
    entries: list[Entry] = []
    for index, kind in enumerate(columns[KIND]):
        origin, stime = columns[ORIGIN][index], columns[STIME][index]
        if kind == Kind.BOUNDARY:
            entries.append(Boundary(origin=origin, stime=stime))
        else:
            values = {name: columns[name][index] for name in data}
            entries.append(
                Row(origin=origin, stime=stime, tid=columns[TID][index], values=values, id=columns[ID][index])
            )
    return entries


def _plain(column: pa.Array) -> list[Any]:
    """Values as the reference has them: times as microseconds, dates as days."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return list(column.to_pylist())


def _same_values(expected: Mapping[str, Any], found: Mapping[str, Any], rounded: frozenset[str]) -> bool:
    if list(expected) != list(found):
        return False
    return all(_same(expected[name], found[name], name in rounded) for name in expected)


def _same(expected: Any, found: Any, rounded: bool) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected) or math.isnan(found):
            return math.isnan(expected) and math.isnan(found)
        return math.isclose(expected, found, rel_tol=TOLERANCE) if rounded else expected == found
    return type(expected) is type(found) and expected == found


def _of(rows: Sequence[Row], counted: Counter[Identity]) -> list[Row]:
    """The rows with these identities, the last ones of each: the first are those that were expected."""
    left = Counter(counted)
    chosen = []
    for row in reversed(rows):
        if left[row.identity] > 0:
            left[row.identity] -= 1
            chosen.append(row)
    return chosen[::-1]


def _listed(what: str, cases: Sequence[Any]) -> list[str]:
    if not cases:
        return []
    shown = "".join(f"\n      {case}" for case in cases[:SHOWN])
    more = f"\n      … and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
    return [f"{len(cases)} {what}:{shown}{more}"]
