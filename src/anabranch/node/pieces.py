"""A log as one of several copies: piece by piece in log order, for replicas and for clients that read several copies.

First what had been promised at the reader's place, then segment after segment: never a present punctuation ahead of the
backlog. Rows go out as they are stored. What a reader is told of its place is decided elsewhere: for replicas by
``copying``, for clients here.

A client is no reader with floors of its own. What a copy lacks for it is what was trimmed before the client had it. One
that goes on after what it has, in the same incarnation, lacks nothing. Any other is sent what is held at or above its
punctuations, and is told the floors of all that was ever trimmed (design note 12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.errors import StreamNotFound
from anabranch.limits import FOLLOW_WAIT_S
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.storage.codec import stored_schema
from anabranch.storage.log import Log
from anabranch.transport.ports import CopyPiece, PieceAnswer, PieceRequest
from anabranch.transport.tuples import no_rows


def pieces(
    log: Log, first_id: int, over: Callable[[], bool], *, follow: bool = True, quiet_s: float = FOLLOW_WAIT_S
) -> Iterator[CopyPiece]:
    """The log from this tuple on. ``over`` is asked after every piece, and when the log is woken. Ends where the next
    tuple was trimmed. A piece without rows comes after so long without news."""
    return _pieces_after(log, log.seq_before_id(first_id), first_id, over, follow, quiet_s)


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

    return answer, _pieces_after(log, seq, first_id, over, request.follow, FOLLOW_WAIT_S)


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
    log: Log, seq: int, first_id: int, over: Callable[[], bool], follow: bool, quiet_s: float
) -> Iterator[CopyPiece]:
    nothing = no_rows(stored_schema(log.spec.schema))
    promises: Punctuations = log.punctuations_at(seq)
    yield CopyPiece(first_id=first_id, rows=nothing, promises=promises)
    if over():
        return
    while True:
        end = log.end_seq()
        try:
            for segment in log.read(seq, end):
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
        if not log.wait_beyond(seq, quiet_s):
            if over():
                return
            yield CopyPiece(first_id=first_id, rows=nothing, promises=promises)  # a sign of life
