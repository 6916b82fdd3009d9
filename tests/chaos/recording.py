"""The input of a chaos run, made from a seed, and what must come out of it.

Times tie, come in disorder, fall exactly on the punctuation and below it; lanes also send boundaries and voids. Nothing
depends on a clock, so every run on the same recording has the same output, and the plain reference can say which.

A lane has no end: a run that is hurt takes from it until the last fault has had its turn, however long that is. What it
took is the recording, for the reference and for runs that nobody disturbs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.model.names import lane_origin, late_stream
from anabranch.model.times import CLOSED_US, SECOND
from anabranch.query import yaml_form
from anabranch.query.boxes import Diagram
from anabranch.query.text import diagram_to_dict
from anabranch.reference.diagram import ReferenceRun
from anabranch.reference.tuples import Tuple
from tests.chaos.checkers import Row

BEGIN_US = 1_767_225_600 * SECOND  # 2026-01-01

Make = Callable[[random.Random], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that a producer sends: rows, or a boundary, or void numbers; nothing closes its lane.

    It takes ``numbers`` numbers.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    boundary_us: int | None = None
    voids: int = 0

    @property
    def numbers(self) -> int:
        return len(self.rows) or self.voids or 1


CLOSE = Entry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A lane's entries. ``producer`` is who sends them; in an owned lane that is only a client with a counter."""

    source: str
    name: str
    producer: str
    time: str
    disorder_us: int
    schema: pa.Schema
    entries: Iterable[Entry] = ()
    """Without end, or as many as were recorded. They are the same whenever they are read."""

    @property
    def origin(self) -> str:
        return lane_origin(self.source, self.name)

    def first(self, rows: int) -> Lane:
        """Its entries until there are so many rows."""
        taken: list[Entry] = []
        left = rows
        for entry in self.entries:
            if left <= 0:
                break
            taken.append(entry)
            left -= len(entry.rows)
        return replace(self, entries=tuple(taken))

    def table(self, entry: Entry) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([dict(row) for row in entry.rows], schema=self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The lanes of all sources of a query, without end or as they were recorded."""

    seed: int
    diagram: Diagram
    lanes: tuple[Lane, ...]

    @property
    def rows(self) -> int:
        """Of one that has an end."""
        return sum(len(entry.rows) for lane in self.lanes for entry in lane.entries)

    def first(self, rows: int) -> Recording:
        """About so many rows, the same number of each lane."""
        return replace(self, lanes=tuple(lane.first(rows // len(self.lanes)) for lane in self.lanes))

    @property
    def streams(self) -> list[str]:
        """All outputs, and the late rows of all sources."""
        late = dict.fromkeys(late_stream(lane.source) for lane in self.lanes)
        return [*(output.name for output in self.diagram.outputs), *late]

    def write_query(self, file: Path) -> None:
        file.write_text(yaml_form.dump(diagram_to_dict(self.diagram)))


@dataclass(slots=True)
class Expected:
    """A stream as it must be when all lanes are closed and everything is worked off."""

    rows: list[Row]
    punctuations: dict[str, int] = field(default_factory=dict)


def expected_output(recording: Recording) -> dict[str, Expected]:
    """Every output, and the late rows of every source, as the reference has them."""
    run = ReferenceRun(recording.diagram)
    late: dict[str, Expected] = {late_stream(lane.source): Expected([]) for lane in recording.lanes}
    stamped = [_stamp(lane, late[late_stream(lane.source)]) for lane in recording.lanes]
    for step in zip_longest(*stamped):
        for lane, fed in zip(recording.lanes, step, strict=True):
            if fed is not None:
                tuples, punctuation_us = fed
                run.feed(lane.source, tuples, {lane.origin: punctuation_us} if punctuation_us else {})
    for lane in recording.lanes:
        run.feed(lane.source, [], {lane.origin: CLOSED_US})
        late[late_stream(lane.source)].punctuations[lane.origin] = CLOSED_US
    outputs = [output.name for output in recording.diagram.outputs]
    results, punctuations = run.results(), run.punctuations()
    return late | {name: Expected([Row.of(each) for each in results[name]], punctuations[name]) for name in outputs}


# --- making rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the rows of a lane come: as many at a time at most, and each so much later than the one before."""

    batch_rows: int
    steps_us: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """Rows for a lane, between boundaries and voids; ``make`` gives all columns but the time."""

    seed: int
    lane: Lane
    shape: Shape
    make: Make

    def __iter__(self) -> Iterator[Entry]:
        lane, rng = self.lane, random.Random(f"{self.seed}/{self.lane.source}/{self.lane.name}")
        now_us, largest_us = BEGIN_US, BEGIN_US
        while True:
            kind = rng.random()
            if kind < 0.03:  # sometimes a promise beyond what the disorder allows: it makes rows late
                now_us += rng.randrange(SECOND)
                yield Entry(boundary_us=now_us - rng.randrange(lane.disorder_us))
            elif kind < 0.05:
                yield Entry(voids=rng.randint(1, 3))
            else:
                made = []
                for _ in range(rng.randint(1, self.shape.batch_rows)):
                    now_us += rng.choice(self.shape.steps_us)
                    at_us = _time(rng, now_us, largest_us, lane.disorder_us)
                    largest_us = max(largest_us, at_us)
                    made.append({**self.make(rng), lane.time: at_us})
                yield Entry(rows=tuple(made))


def endless(lane: Lane, seed: int, shape: Shape, make: Make) -> Lane:
    return replace(lane, entries=Endless(seed=seed, lane=lane, shape=shape, make=make))


def _time(rng: random.Random, now_us: int, largest_us: int, disorder_us: int) -> int:
    """Mostly a little out of order, on a coarse grid so that times tie."""
    kind = rng.random()
    if kind < 0.02:  # late
        return largest_us - disorder_us - rng.randint(1, 3 * SECOND)
    if kind < 0.05:  # exactly at the punctuation: not late
        return largest_us - disorder_us
    if kind < 0.10:  # finer than Spark's milliseconds
        return now_us + rng.randint(1, 1_500)
    return now_us - rng.randrange(0, disorder_us // 2, 20_000)


# --- the rules of a lane, straight from their definition -----------------------------------------------------------


def _stamp(lane: Lane, late: Expected) -> Iterator[tuple[list[Tuple], int]]:
    """The lane's tuples, entry by entry, with what it promises after each; late rows go aside."""
    number, boundary_us, largest_us = 1, 0, 0
    for entry in lane.entries:
        tuples = []
        for row in entry.rows:
            at_us, promised_us = row[lane.time], max(boundary_us, largest_us - lane.disorder_us)
            each = Tuple(origin=lane.origin, stime=max(at_us, promised_us), tid=number, values=row)
            if at_us < promised_us:
                late.rows.append(Row.of(each))
            else:
                tuples.append(each)
            largest_us = max(largest_us, at_us)
            number += 1
        boundary_us = max(boundary_us, entry.boundary_us or 0)
        number += entry.numbers - len(entry.rows)
        yield tuples, max(boundary_us, largest_us - lane.disorder_us, 0)
