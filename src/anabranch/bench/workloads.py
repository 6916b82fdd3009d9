"""The queries of the benchmarks and their rows: a filter, a window sum over 1000 keys, a join, and four boxes in one.

Rows are made from their numbers alone, so both sides get the same ones. Sums are of integers, because sums of floating
point differ in their last bits with the order of addition, and the outputs are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from anabranch import limits
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query

Piece = tuple[str, pa.RecordBatch]
"""Rows for a source, pushed at once or written to one file."""

BEGIN_US: Final = 1_767_225_600_000_000
WINDOW_US: Final = 10_000_000
WITHIN_US: Final = 1_000_000
HOUR_US: Final = 3_600_000_000
KEYS: Final = 1_000
JOIN_KEYS: Final = 10_000
VALUES: Final = 1_000
SELECTED: Final = VALUES // 10
"""One row in ten passes the filter."""

ROW_US: Final = 100
"""Stream time between the rows of a backlog: ten thousand a second."""

FLOW_ROWS_S: Final = 1_000
FLOW_PUSHES_S: Final = 10
"""A steady flow: so many rows a second, in so many pushes. Stream time moves by a window from one to the next, so that
every push has results to show."""

EVENTS: Final = "n bigint, key bigint, value bigint, weight double, at timestamp"
RIGHTS: Final = "m bigint, other bigint, amount bigint, load double, since timestamp"

OUTPUT: Final = "out"


@dataclass(frozen=True, slots=True)
class Workload:
    """A query with one output, named ``out``. ``share`` is its part of a backlog: Spark joins some 10,000 rows
    a second, and filters a million."""

    name: str
    diagram: Diagram
    share: float
    results: Callable[[Mapping[str, pa.Table]], int]
    """How many rows come out when all of these have come in."""

    throughput: float
    """The least ratio to plain Spark's throughput."""
    batch: float
    """The most that a micro-batch and the median of latency may take of what plain Spark takes."""


def workloads() -> list[Workload]:
    return [
        Workload("filter", _filter(SELECTED), 1.0, _filter_results(SELECTED), throughput=0.8, batch=0.9),
        Workload("filter that keeps all", _filter(VALUES), 1.0, _filter_results(VALUES), throughput=0.8, batch=0.9),
        Workload("window sum", window_sum(), 1.0, _window_results, throughput=0.9, batch=0.9),
        Workload("join", _join(), 0.04, _join_results, throughput=1.0, batch=1.0),
    ]


class Rows:
    """The rows that one side gets, in order; what was made so far decides what must have come out."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._sources = [source.name for source in workload.diagram.sources]
        self._made: dict[str, list[pa.RecordBatch]] = {source: [] for source in self._sources}
        self._next = 0
        self._now_us = BEGIN_US

    def backlog(self, count: int) -> list[Piece]:
        """So many rows over all sources, in pieces of a segment, and one row an hour later that closes all windows."""
        each = count // len(self._sources)
        pieces: list[Piece] = []
        for first in range(0, each, limits.SEGMENT_ROWS):
            offsets = np.arange(first, min(first + limits.SEGMENT_ROWS, each), dtype=np.int64)
            pieces += self._pieces(self._next + offsets, self._now_us + offsets * ROW_US)
        self._now_us += each * ROW_US // WINDOW_US * WINDOW_US + HOUR_US
        self._next += each
        return [*pieces, *self._closing()]

    def flow(self, seconds: float) -> list[list[Piece]]:
        """The pushes of a steady flow; ``flow_push`` tells of a result which of them made it."""
        each = FLOW_ROWS_S // FLOW_PUSHES_S // len(self._sources)
        pushes = []
        for _ in range(round(seconds * FLOW_PUSHES_S)):
            offsets = np.arange(each, dtype=np.int64)
            pushes.append(self._pieces(self._next + offsets, self._now_us + offsets))
            self._next += each
            self._now_us += WINDOW_US
        return pushes

    @property
    def now_us(self) -> int:
        return self._now_us

    def results(self) -> int:
        return self._workload.results({source: pa.Table.from_batches(made) for source, made in self._made.items()})

    def _closing(self) -> list[Piece]:
        pieces = self._pieces(np.array([self._next]), np.array([self._now_us]))
        self._next += 1
        self._now_us += WINDOW_US
        return pieces

    def _pieces(self, numbers: np.ndarray, times_us: np.ndarray) -> list[Piece]:
        pieces = [(source, _MAKERS[source](numbers, times_us)) for source in self._sources]
        for source, batch in pieces:
            self._made[source].append(batch)
        return pieces


def flow_push(stime_us: np.ndarray, began_us: int) -> np.ndarray:
    """Which push of a flow that began at this stream time made a result: the one at its time or its window's end."""
    return (stime_us - began_us) // WINDOW_US


def first_rows(count: int) -> pa.RecordBatch:
    """Rows of the window sum whose last one closes the window of the others."""
    numbers = np.arange(count, dtype=np.int64)
    return _events(numbers, np.where(numbers == count - 1, BEGIN_US - WINDOW_US, BEGIN_US - HOUR_US))


def first_of_each() -> list[Piece]:
    """Rows after which each output of ``four_stages`` has one result."""
    numbers = np.arange(1, dtype=np.int64)
    return [("events", first_rows(2)), ("rights", _rights(numbers, np.array([BEGIN_US - HOUR_US])))]


def event_rows(first: int, count: int, at_us: int) -> pa.RecordBatch:
    """Rows of ``events`` that were made at one moment."""
    return _events(np.arange(first, first + count, dtype=np.int64), np.full(count, at_us))


def window_sum(*, stamped: bool = True) -> Diagram:
    """One stage. With ``stamped`` rows say their time themselves, otherwise the entry point does."""
    query = Query("window_sum")
    events = query.source("events", EVENTS, time="at" if stamped else None)
    query.output(OUTPUT, events.aggregate("sum(value) AS total", by="key", window="10s", name="sums"))
    return query.checked()


def four_stages(*, stamped: bool = True) -> Diagram:
    """A filter, two windows and a join, each with an output, so that plain Spark can do the same by four queries."""
    query = Query("four_stages")
    events = query.source("events", EVENTS, time="at" if stamped else None)
    rights = query.source("rights", RIGHTS, time="since" if stamped else None)
    query.output("selected", events.filter(f"value < {SELECTED}", name="cheap"))
    query.output("sums", events.aggregate("sum(value) AS total", by="key", window="10s", name="totals"))
    query.output("tops", events.aggregate("max(value) AS top", by="key", window="60s", name="largest"))
    query.output("pairs", events.join(rights, on="key = other", within="1s", name="joined"))
    return query.checked()


def _filter(below: int) -> Diagram:
    query = Query("filter")
    events = query.source("events", EVENTS, time="at")
    query.output(OUTPUT, events.filter(f"value < {below}", name="selected"))
    return query.checked()


def _join() -> Diagram:
    query = Query("join")
    left = query.source("lefts", EVENTS, time="at")
    right = query.source("rights", RIGHTS, time="since")
    query.output(OUTPUT, left.join(right, on="key = other", within="1s", name="pairs"))
    return query.checked()


def _events(numbers: np.ndarray, times_us: np.ndarray, keys: int = KEYS) -> pa.RecordBatch:
    columns = {
        "n": numbers,
        "key": numbers % keys,
        "value": numbers * 7_919 % VALUES,
        "weight": (numbers % 97) / 97.0,
    }
    return pa.RecordBatch.from_pydict(
        {name: pa.array(values) for name, values in columns.items()} | {"at": _times(times_us)}
    )


def _rights(numbers: np.ndarray, times_us: np.ndarray) -> pa.RecordBatch:
    return _renamed(_lefts(numbers, times_us))


def _looks(numbers: np.ndarray, times_us: np.ndarray) -> pa.RecordBatch:
    """What an event is looked up in: a tuple of the same key at the same time."""
    return _renamed(_events(numbers, times_us))


def _pairs(numbers: np.ndarray, times_us: np.ndarray) -> pa.RecordBatch:
    """Events of which two that follow each other have the same number, and no others."""
    made = _events(numbers, times_us)
    return made.set_column(0, "n", pa.array(times_us // (2 * ROW_US)))


def _renamed(events: pa.RecordBatch) -> pa.RecordBatch:
    names = {"n": "m", "key": "other", "value": "amount", "weight": "load", "at": "since"}
    return events.rename_columns([names[name] for name in events.schema.names])


def _lefts(numbers: np.ndarray, times_us: np.ndarray) -> pa.RecordBatch:
    return _events(numbers, times_us, JOIN_KEYS)


def _times(times_us: np.ndarray) -> pa.Array:
    return pa.array(times_us).cast(pa.timestamp("us", "UTC"))


_MAKERS: Final[Mapping[str, Callable[[np.ndarray, np.ndarray], pa.RecordBatch]]] = {
    "events": _events,
    "lefts": _lefts,
    "rights": _rights,
    "others": _events,
    "looks": _looks,
    "pairs": _pairs,
}


def _filter_results(below: int) -> Callable[[Mapping[str, pa.Table]], int]:
    return lambda rows: int((rows["events"]["value"].to_numpy() < below).sum())


def _window_results(rows: Mapping[str, pa.Table]) -> int:
    """Groups of windows that have ended: a window whose end the last row has not reached is still open."""
    times = _micros(rows["events"]["at"])
    windows = times // WINDOW_US
    closed = windows < windows.max()
    groups = windows * KEYS + rows["events"]["key"].to_numpy()
    return len(np.unique(groups[closed]))


def _join_results(rows: Mapping[str, pa.Table]) -> int:
    """For each left row, the right ones of its key that are near, counted in one sorted array of key and time."""
    left, right = (
        rows[source][key].to_numpy() * (1 << 44) + _micros(rows[source][time]) - BEGIN_US
        for source, key, time in (("lefts", "key", "at"), ("rights", "other", "since"))
    )
    right = np.sort(right)
    after = np.searchsorted(right, left - WITHIN_US, side="right")
    before = np.searchsorted(right, left + WITHIN_US, side="left")
    return int((before - after).sum())


def _micros(times: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(times.cast(pa.int64()))


def total_rows(pieces: Sequence[Piece]) -> int:
    return sum(batch.num_rows for _, batch in pieces)
