"""Stored segments as what readers get: the wire form for subscribers, the journal form for Spark.

The wire form has every header column, names for origins, and a BOUNDARY row for each punctuation that a segment raised,
after its rows: log order, never a punctuation ahead of the backlog. The journal form is what one Spark input reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.errors import StreamNotFound
from anabranch.limits import FOLLOW_WAIT_S
from anabranch.model.header import KIND, ORIGIN, STIME, TID, Kind
from anabranch.model.position import Position
from anabranch.model.punctuation import smallest
from anabranch.node.selecting import selected
from anabranch.storage.log import Log, Segment
from anabranch.transport.ports import JournalRequest, ReadRequest
from anabranch.transport.tuples import boundaries, insertions, no_rows, one_row
from anabranch.transport.wire import wire_schema


def wire_batches(log: Log, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    """The stream from the asked place on, which is found now, not when the first batch is asked for; with ``follow``
    until the reader or the node goes."""
    incarnation = log.incarnation
    after_id, seq = _start(log, request.start)
    return _batches_after(log, incarnation, after_id, seq, cancelled, follow=request.follow)


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
            yield no_rows(schema)  # tells the reader that the stream is quiet, not dead


def journal_schema(log: Log, columns: Sequence[str]) -> pa.Schema:
    """The columns that are asked for, in this order, as Spark has them."""
    header = [(KIND, pa.int8()), (STIME, pa.timestamp("us", tz="UTC")), (ORIGIN, pa.int32()), (TID, pa.int64())]
    fields = {field.name: field for field in [*(pa.field(name, type_) for name, type_ in header), *log.spec.schema]}
    unknown = [name for name in columns if name not in fields]
    if unknown:
        raise StreamNotFound(f"Stream {log.name!r} has no column {unknown[0]!r}.", remedy="Only Spark asks this.")
    return pa.schema([fields[name] for name in columns])


def journal_batches(
    log: Log, origins: frozenset[str], request: JournalRequest, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a range, then its control row: the smallest punctuation over ``origins`` at the end of the range."""
    punctuations: Mapping[str, int] = {}
    for segment in log.read(request.after_seq, request.to_seq):
        punctuations = segment.punctuations
        rows = selected(segment.rows, request.rows) if segment.rows is not None else None
        if rows is not None and rows.num_rows:
            kind = pa.array(np.full(rows.num_rows, int(Kind.INSERTION), dtype=np.int8))
            columns = [kind if name == KIND else rows.column(name) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    control = smallest(punctuations, origins)
    if control > 0:
        yield one_row(schema, {KIND: int(Kind.BOUNDARY), STIME: control})


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
            f"Stream {log.name!r} holds {log.first_id()} to {log.last_id()}; position {start.id} is not among them.",
            remedy="Read what is left from start; a named reader keeps what it has not acknowledged.",
        )
    return start.id, log.seq_before_id(start.id + 1)


def _begun_anew(log: Log, incarnation: str) -> StreamNotFound:
    return StreamNotFound(
        f"Stream {log.name!r} is now incarnation {log.incarnation}, not {incarnation}.",
        remedy="Its contents began anew: read it from start.",
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
