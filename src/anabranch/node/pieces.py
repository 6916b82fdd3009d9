"""A log as one of several copies: piece by piece in log order, for replicas and for clients that read several copies.

First what had been promised at the reader's place, then segment after segment: never a present punctuation ahead of the
backlog. Rows go out as they are stored. What a reader is told of its place is decided elsewhere: for replicas by
``copying``, for clients here.

A client is no reader with floors of its own. What a copy lacks for it is what was trimmed before the client had it. One
that goes on after what it has, in the same incarnation, lacks nothing. Any other is sent what is held at or above its
punctuations, and is told the floors of all that was ever trimmed (design note 12).

A reader that would let a few rows wait may say so: they are collected here then, and sent as one piece. A message for
each row of a trickle costs both sides more than anything that is done with the row (design note 42).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from anabranch.errors import StreamNotFound
from anabranch.limits import FOLLOW_WAIT_S, PACE_ROWS
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.node.reading import followed
from anabranch.storage.codec import stored_schema
from anabranch.storage.log import Log, Segment
from anabranch.transport.ports import CopyPiece, PieceAnswer, PieceRequest
from anabranch.transport.tuples import no_rows

JOINED_ROWS: Final = 64
"""Rows of segments that are sent as one piece: an inlet may put off as many (``node.inlet.SMALL_ROWS``)."""


def pieces(
    log: Log,
    first_id: int,
    over: Callable[[], bool],
    *,
    follow: bool = True,
    quiet_s: float = FOLLOW_WAIT_S,
    hold_s: Callable[[], float] = lambda: 0.0,
) -> Iterator[CopyPiece]:
    """The log from this tuple on. ``over`` is asked after every piece, and when the log is woken. Ends where the next
    tuple was trimmed. A piece without rows comes after so long without news. ``hold_s`` says how long a few rows may
    be collected behind a piece with few."""
    return _pieces_after(log, log.seq_before_id(first_id), first_id, over, follow, quiet_s, hold_s)


def client_pieces(
    log: Log, reaching: tuple[str, ...], request: PieceRequest, cancelled: Callable[[], bool]
) -> tuple[PieceAnswer, Iterator[CopyPiece]]:
    """What a client is answered, and sent. ``reaching`` are the origins that the tuples of the stream can have."""
    seq, first_id, goes_on = _place(log, request)
    answer = PieceAnswer(
        incarnation=log.incarnation,
        first_id=first_id,
        floors={} if goes_on else log.floors(),
        goes_on=goes_on,
        origins=log.spec.origins,
        reaching=reaching,
        schema=stored_schema(log.spec.schema),
    )

    def over() -> bool:
        return cancelled() or log.incarnation != answer.incarnation

    sent = _pieces_after(log, seq, first_id, over, request.follow, FOLLOW_WAIT_S, lambda: 0.0)
    return answer, followed(log, sent) if request.follow else sent


def _place(log: Log, request: PieceRequest) -> tuple[int, int, bool]:
    """After which segment and with which tuple reading begins, and whether nothing is missing before it."""
    match request.start:
        case Position(incarnation=log.incarnation, id=last_id) if last_id + 1 >= log.first_id():
            return log.seq_before_id(last_id + 1), last_id + 1, True
        case "end":
            seq = log.end_seq()
            return seq, log.id_at(seq) + 1, True
        case "start" if request.reader is not None and request.reader in log.readers():
            seq = log.readers()[request.reader]
            return seq, log.id_at(seq) + 1, True
    seq = log.seq_before_times(request.punctuations)
    return seq, log.id_at(seq) + 1, False


def _pieces_after(
    log: Log,
    seq: int,
    first_id: int,
    over: Callable[[], bool],
    follow: bool,
    quiet_s: float,
    hold_s: Callable[[], float],
) -> Iterator[CopyPiece]:
    nothing = no_rows(stored_schema(log.spec.schema))
    promises: Punctuations = log.punctuations_at(seq)
    yield CopyPiece(first_id=first_id, rows=nothing, promises=promises)
    if over():
        return
    while True:
        end = log.end_seq()
        held_s, before_id = hold_s(), first_id
        try:
            segments = log.read(seq, end)
            for segment in _joined(segments) if held_s > 0 else segments:
                rows, begin = nothing, max(first_id, segment.first_id)
                if segment.rows is not None:
                    rows = segment.rows.slice(begin - segment.first_id)
                first_id, seq, promises = begin + rows.num_rows, segment.seq, segment.punctuations
                if over():  # after the segment was read: it may lie behind a hole
                    return
                yield CopyPiece(first_id=begin, rows=rows, promises=promises)
        except StreamNotFound:  # trimmed before we came to it
            if log.first_id() > first_id:
                return  # the reader asks again, and is told its floors
            seq = log.first_seq() - 1
            promises = log.punctuations_at(seq)
            yield CopyPiece(first_id=first_id, rows=nothing, promises=promises)
        if not follow and seq >= end:
            return
        if held_s > 0 and first_id - before_id < PACE_ROWS:
            log.wait_row(first_id - 1 + PACE_ROWS, held_s)
            if over():
                return
        if not log.wait_beyond(seq, quiet_s):
            if over():
                return
            yield CopyPiece(first_id=first_id, rows=nothing, promises=promises)  # a sign of life


@dataclass(frozen=True, slots=True)
class _Joined:
    """Segments that follow each other, as one: the last of them says what is promised."""

    seq: int
    first_id: int
    rows: pa.RecordBatch | None
    punctuations: Punctuations


def _joined(segments: Iterable[Segment]) -> Iterator[Segment | _Joined]:
    """Small ones together, up to what a reader lets wait."""
    few: list[Segment] = []
    count = 0
    for segment in segments:
        rows = 0 if segment.rows is None else segment.rows.num_rows
        if few and count + rows > JOINED_ROWS:
            yield _as_one(few)
            few, count = [], 0
        few.append(segment)
        count += rows
    if few:
        yield _as_one(few)


def _as_one(segments: list[Segment]) -> Segment | _Joined:
    if len(segments) == 1:
        return segments[0]
    batches = [each.rows for each in segments if each.rows is not None]
    rows = pa.concat_batches(batches) if len(batches) > 1 else next(iter(batches), None)
    return _Joined(segments[-1].seq, segments[0].first_id, rows, segments[-1].punctuations)
