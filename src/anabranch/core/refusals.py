"""Everything a lane refuses, in words: what happened, in which lane, and what the client should do."""

from __future__ import annotations

from anabranch import limits
from anabranch.core.lane_messages import SESSION_EXPIRED, Refuse
from anabranch.core.stamping import BadRow


def unknown_producer(lane: str, owner: str | None, who: str | None) -> Refuse:
    sender = "a client without a name" if who is None else f"producer {who!r}"
    return Refuse(
        code="unknown-producer",
        message=f"Lane {lane!r} accepts entries only from producer {owner!r}, but this one came from {sender}.",
        remedy="Push under the name that the query declares for this lane.",
    )


def session_expired(lane: str, producer: str, session: int | None, present: int | None) -> Refuse:
    why = "is not registered" if present is None else f"has session {present} now"
    return Refuse(
        code=SESSION_EXPIRED,
        message=f"Lane {lane!r} refused session {session} of producer {producer!r}, which {why}.",
        remedy="One client at a time may use a producer's name; register to take over from the others.",
    )


def number_missing(lane: str, producer: str, first: int | None, expected: int) -> Refuse:
    return Refuse(
        code="number-missing",
        message=f"Producer {producer!r} sent entries to lane {lane!r} under the number {first}.",
        remedy=f"A producer numbers its entries from 1; the next number is {expected}.",
        expected=expected,
    )


def number_gap(lane: str, first: int, expected: int) -> Refuse:
    return Refuse(
        code="number-gap",
        message=f"Lane {lane!r} expected number {expected} and got {first}.",
        remedy=f"Resend from number {expected}, or give up the numbers between as voids.",
        expected=expected,
    )


def void_count(lane: str, count: int) -> Refuse:
    return Refuse(
        code="void-count",
        message=f"Lane {lane!r} was asked to void {count} numbers.",
        remedy=f"A void gives up 1 to {limits.VOIDS:,} numbers.",
    )


def lane_closed(lane: str) -> Refuse:
    return Refuse(
        code="lane-closed",
        message=f"Lane {lane!r} is closed.",
        remedy="A closed lane accepts no more entries; declare another producer in a new query.",
    )


def bad_row(lane: str, bad: BadRow) -> Refuse:
    return Refuse(
        code=bad.code,
        message=f"Lane {lane!r} refused row {bad.row} of the batch, and with it the whole batch: {bad.reason}.",
        remedy="Correct or leave out that row and send the batch again.",
        row=bad.row,
    )


def boundary_not_taken(lane: str) -> Refuse:
    return Refuse(
        code="boundary-not-taken",
        message=f"Lane {lane!r} accepts no boundaries from clients: its entry point stamps the rows by its clock.",
        remedy="Declare a time column, or producers that stamp their rows.",
    )


def boundary_range(lane: str, time_us: int) -> Refuse:
    return Refuse(
        code="time-range",
        message=f"Lane {lane!r} refused a boundary at {time_us} us: it is not in the years 1970 to 9998.",
        remedy="Microseconds since 1970 are expected. To end the lane, close it.",
    )
