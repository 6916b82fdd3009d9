"""A run of a node on a script of pushes, recorded whole: every stream, and every batch of every stage.

Tests hold the record against the reference. Nothing is trimmed, because a named reader of every stream never
acknowledges. The script is cut at random: where it says so and now and then, it waits until everything is worked off,
and in the middle the node is stopped and started again on its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import anabranch as ab
from anabranch.engine.run import StageBatch
from anabranch.model.header import HEADER, ID, KIND, ORIGIN, STIME, TID, Kind
from anabranch.model.times import CLOSED_US
from anabranch.node.node import Node
from anabranch.node.stages import StageRunner
from anabranch.query.boxes import Diagram
from anabranch.query.graph import stages
from anabranch.reference.tuples import Tuple
from anabranch.storage.state import LogSpec
from tests.spark import running
from tests.waiting import HANG_S

Segment = tuple[pa.Table | None, dict[str, int]]
"""Rows of a source, and its punctuations after them."""

Chosen = Callable[[str, pa.Table], Sequence[int]]
"""Of a source and its rows, the places of those that are read again."""

HOUR_US = 3600 * 1_000_000
"""A boundary interval that never comes: what the lanes say is in the script alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """Rows for a source (as its producer, if it has any), or a boundary in microseconds, or the end of the lane.

    With ``settle``, the script goes on when everything is worked off.
    """

    source: str
    producer: str | None = None
    rows: tuple[Mapping[str, object], ...] = ()
    boundary_us: int | None = None
    close: bool = False
    settle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch:
    """What a stage read, the watermark it ran with, and what it promised after."""

    ends: Mapping[str, int]
    watermark_us: int
    punctuations: Mapping[str, int]
    written: Mapping[str, int]


@dataclass(slots=True)
class RecordedStream:
    """A log from its first segment on: tuples and punctuations after each segment, and the wire order."""

    segments: list[tuple[list[Tuple], dict[str, int]]] = field(default_factory=list)
    wire: list[tuple[Kind, str, int]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    @property
    def tuples(self) -> list[Tuple]:
        return [each for tuples, _ in self.segments for each in tuples]

    @property
    def punctuations(self) -> dict[str, int]:
        return self.segments[-1][1] if self.segments else {}

    def between(self, after: int, to: int) -> list[Tuple]:
        return [each for tuples, _ in self.segments[after:to] for each in tuples]


@dataclass(slots=True)
class Recording:
    """All streams and batches of a run, by name; of the sources also the rows as they are stored."""

    diagram: Diagram
    streams: dict[str, RecordedStream] = field(default_factory=dict)
    batches: dict[str, list[RecordedBatch]] = field(default_factory=dict)
    rows: dict[str, pa.Table] = field(default_factory=dict)

    @classmethod
    def of(cls, diagram: Diagram) -> Recording:
        return cls(diagram, batches={stage.name: [] for stage in stages(diagram)})


def record(
    diagram: Diagram,
    script: list[Push],
    state: Path,
    random: Random,
    *,
    restarts: int = 1,
    settles: float = 0.08,
    **settings: Any,
) -> Recording:
    """Runs the script on a node, with ``restarts`` clean stops in between; ``settles`` is how often it waits."""
    recording = Recording.of(diagram)
    cuts = sorted(random.sample(range(1, len(script)), restarts))
    pieces = [script[low:high] for low, high in zip([0, *cuts], [*cuts, len(script)], strict=True)]
    with _noting_batches(recording):
        for piece in pieces:
            with running(diagram, state, boundary_interval_us=HOUR_US, **settings) as node:
                _keep_everything(node)
                _play(node, piece, random, settles)
                if piece is pieces[-1]:
                    _read_all(node, recording)
    return recording


def replicate(first: Recording, state: Path, random: Random, **settings: Any) -> Recording:
    """A node whose sources have the same contents in another order, cut and interleaved in another way.

    That is what a replica sees: the first of several copies of each tuple, whenever it arrives.
    """
    return read_again(first, lambda _, rows: _another_order(rows, random), state, random, **settings)


def read_again(
    first: Recording, chosen: Chosen, state: Path, random: Random, *, settle_after: int | None = None, **settings: Any
) -> Recording:
    """A node with an empty state whose sources have the chosen rows, in that order, cut and interleaved anew.

    It waits until everything is worked off after so many segments, or now and then.
    """
    recording = Recording.of(first.diagram)
    with _noting_batches(recording), running(first.diagram, state, boundary_interval_us=HOUR_US, **settings) as node:
        _keep_everything(node)
        waiting: dict[str, list[Segment]] = {
            source.name: [
                *_segments(first.rows.get(source.name), chosen, node.hosted.streams.logs[source.name][1].spec, random),
                (None, dict.fromkeys(source.origins, CLOSED_US)),
            ]
            for source in first.diagram.sources
        }
        for number in range(1, 1 + sum(map(len, waiting.values()))):
            source = random.choice([name for name, segments in waiting.items() if segments])
            rows, punctuations = waiting[source].pop(0)
            with node.hosted.streams.logs[source][0].transaction() as transaction:
                transaction.append(source, rows, punctuations, now_us=0)
            if number == settle_after or (settle_after is None and random.random() < 0.05):
                _settle(node)
        _read_all(node, recording)
    return recording


def replay(first: Recording, state: Path, order: Sequence[int], **settings: Any) -> Recording:
    """A node that reads the stored rows of the only source in this order, all at once."""
    (source,) = first.diagram.sources
    recording = Recording.of(first.diagram)
    with _noting_batches(recording), running(first.diagram, state, boundary_interval_us=HOUR_US, **settings) as node:
        _keep_everything(node)
        rows, closed = first.rows[source.name].take(order), dict.fromkeys(source.origins, CLOSED_US)
        with node.hosted.streams.logs[source.name][0].transaction() as transaction:
            transaction.append(source.name, rows, closed, now_us=0)
        _read_all(node, recording)
    return recording


def _another_order(rows: pa.Table, random: Random) -> list[int]:
    spread_us = random.choice((0, 2_000_000, 30_000_000, HOUR_US))
    times = rows.column(STIME).cast(pa.int64()).to_pylist()
    return sorted(range(len(times)), key=lambda place: times[place] + random.uniform(0, spread_us))


def _segments(rows: pa.Table | None, chosen: Chosen, log: LogSpec, random: Random) -> list[Segment]:
    """Segments of these rows, and after each what is then true: nothing older is left of that origin."""
    if rows is None:
        return []
    times = rows.column(STIME).cast(pa.int64()).to_pylist()
    names = [log.origins[code] for code in rows.column(ORIGIN).to_pylist()]
    places = list(chosen(log.name, rows))
    segments: list[Segment] = []
    while places:
        size = random.randint(1, 12)
        taken, places = places[:size], places[size:]
        left = {name: [times[place] for place in places if names[place] == name] for name in set(names)}
        promised = {name: min(times) for name, times in left.items() if times and random.random() < 0.5}
        segments.append((rows.take(taken), promised))
    return segments


def _play(node: Node, script: list[Push], random: Random, settles: float) -> None:
    with ab.connect(node.address) as connection:
        producers: dict[tuple[str, str], ab.Producer] = {}
        for push in script:
            who = producers.get((push.source, push.producer or "script"))
            if who is None:
                who = connection.producer(push.source, push.producer or "script")
                producers[push.source, push.producer or "script"] = who
            if push.rows:
                who.push(list(push.rows))
            if push.boundary_us is not None:
                who.boundary(push.boundary_us)
            if push.close:
                who.close_lane()
            if push.settle or random.random() < settles:
                _settle(node)


def _settle(node: Node) -> None:
    settled = node.wait_caught_up(HANG_S)
    if not settled:
        raise AssertionError(f"the node does not catch up: {node.failure() or node.statistics().stages}")


def _keep_everything(node: Node) -> None:
    for name, (store, log) in node.hosted.streams.logs.items():
        if "test" not in log.readers():
            with store.transaction() as transaction:
                transaction.add_reader(name, "test", at_seq=0)


@contextmanager
def _noting_batches(recording: Recording) -> Iterator[None]:
    """Notes every batch that is appended, from the very first on."""
    append = StageRunner._append

    def noted(runner: StageRunner, batch: StageBatch, entry: object) -> None:
        append(runner, batch, entry)  # type: ignore[arg-type]
        written = {name: table.num_rows for name, table in batch.tables.items()}
        promised = runner.store.log(next(iter(written))).punctuations()
        recording.batches[runner.stage.name].append(
            RecordedBatch(ends=batch.ends, watermark_us=batch.watermark_us, punctuations=promised, written=written)
        )

    with patch.object(StageRunner, "_append", noted):
        yield


def _read_all(node: Node, recording: Recording) -> None:
    _settle(node)
    recording.streams = {name: _read(node, name) for name in node.hosted.streams.logs}
    for source in recording.diagram.sources:
        log = node.hosted.streams.logs[source.name][1]
        stored = [segment.rows for segment in log.read(0, log.end_seq()) if segment.rows is not None]
        if stored:
            recording.rows[source.name] = pa.Table.from_batches(stored)


def _read(node: Node, name: str) -> RecordedStream:
    log = node.hosted.streams.logs[name][1]
    stream = RecordedStream()
    for segment in log.read(0, log.end_seq()):
        rows = [] if segment.rows is None else tuples_of(segment.rows, log.spec.origins)
        stream.segments.append((rows, dict(segment.punctuations)))
    with ab.connect(node.address) as connection:
        for batch in connection.subscribe(name, start="start", follow=False):
            columns = batch.select([KIND, ID, STIME, ORIGIN]).to_pydict()
            times = batch.column(STIME).cast(pa.int64()).to_pylist()
            stream.wire += zip(map(Kind, columns[KIND]), columns[ORIGIN], times, strict=True)
            stream.ids += [number for number in columns[ID] if number is not None]
    return stream


def tuples_of(batch: pa.RecordBatch, origins: tuple[str, ...] | None = None) -> list[Tuple]:
    """The rows of a stored or sent batch, as the reference writes them."""
    data = [name for name in batch.schema.names if name not in HEADER]
    values = [batch.column(name) for name in data]
    plain = [
        column.cast(pa.int64()).to_pylist()
        if pa.types.is_timestamp(column.type)
        else column.cast(pa.int32()).to_pylist()
        if pa.types.is_date(column.type)
        else column.to_pylist()
        for column in values
    ]
    names = batch.column(ORIGIN).to_pylist()
    if origins is not None:
        names = [origins[code] for code in names]
    times = batch.column(STIME).cast(pa.int64()).to_pylist()
    tids = batch.column(TID).to_pylist()
    return [
        Tuple(origin=origin, stime=time, tid=tid, values=dict(zip(data, row, strict=True)))
        for origin, time, tid, *row in zip(names, times, tids, *plain, strict=True)
    ]
