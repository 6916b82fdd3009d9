"""Stored segments as what subscribers get: the wire form.

The wire form has every header column, names for origins, and a BOUNDARY row for each punctuation that a segment raised,
after its rows: log order, never a punctuation ahead of the backlog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa

from anabranch.errors import StreamNotFound
from anabranch.limits import FOLLOW_WAIT_S
from anabranch.model.position import Position
from anabranch.storage.log import Log, Segment
from anabranch.transport.ports import ReadRequest
from anabranch.transport.tuples import boundaries, insertions, no_rows
from anabranch.transport.wire import wire_schema

T = TypeVar("T")


def wire_batches(log: Log, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    """The stream from the asked place on, which is found now, not when the first batch is asked for; with ``follow``
    until the reader or the node goes."""
    incarnation = log.incarnation
    after_id, seq = _start(log, request.start)
    batches = _batches_after(log, incarnation, after_id, seq, cancelled, follow=request.follow)
    return followed(log, batches) if request.follow else batches


def followed(log: Log, read: Iterator[T]) -> Iterator[T]:
    """What is read of a log by somebody who waits for more."""
    with log.followed():
        yield from read


def _batches_after(
    log: Log, incarnation: str, after_id: int, seq: int, cancelled: Callable[[], bool], *, follow: bool
) -> Iterator[pa.RecordBatch]:
    schema = wire_schema(log.spec.schema)
    known: Mapping[str, int] = log.punctuations_at(seq)
    if known:
        yield boundaries(known, schema)
    while not cancelled():
        end = log.end_seq()
        for segment in log.read(seq, end):
            if log.incarnation != incarnation:  # after the segment was read: it may lie behind a hole
                raise _begun_anew(log, incarnation)
            yield from _segment_batches(segment, known, after_id, log.spec.origins, schema)
            known, seq = segment.punctuations, segment.seq
            if cancelled():
                return
        if seq >= end and not follow:
            return
        if not log.wait_beyond(seq, FOLLOW_WAIT_S):
            yield no_rows(schema)  # reports that the stream is quiet, not dead


def _start(log: Log, start: str | Position) -> tuple[int, int]:
    """The last id that the reader has, and the segment after which reading begins."""
    if start == "start":
        return log.first_id() - 1, log.first_seq() - 1
    if start == "end":
        return log.last_id(), log.end_seq()
    assert isinstance(start, Position)
    if start.incarnation != log.incarnation:
        raise _begun_anew(log, start.incarnation)
    if not log.first_id() - 1 <= start.id <= log.last_id():
        raise StreamNotFound(
            f"Stream {log.name!r} holds rows {log.first_id()} to {log.last_id()}, not position {start.id}.",
            remedy="Read what is left from start; the log keeps what a named reader has not acknowledged.",
        )
    return start.id, log.seq_before_id(start.id + 1)


def _begun_anew(log: Log, incarnation: str) -> StreamNotFound:
    return StreamNotFound(
        f"Stream {log.name!r} is now incarnation {log.incarnation}, not {incarnation}.",
        remedy="Its contents started over: read it from start.",
    )


def _segment_batches(
    segment: Segment, known: Mapping[str, int], after_id: int, origins: tuple[str, ...], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if segment.rows is not None:
        skip = max(0, after_id + 1 - segment.first_id)
        rows = segment.rows.slice(skip)
        if rows.num_rows:
            yield insertions(rows, segment.first_id + skip, origins, schema)
    raised = {origin: time for origin, time in segment.punctuations.items() if time > known.get(origin, 0)}
    if raised:
        yield boundaries(raised, schema)
