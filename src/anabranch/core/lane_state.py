"""What is fixed about a lane, and what it remembers.

``LaneState`` is one frozen value, stored in the same transaction as the rows it speaks of: a failed transaction leaves
lane and log as they were. All that decides stamps, lateness and punctuation (``next_number``, ``last_stamp_us``,
``max_time_us``, ``boundary_us``, ``closed``) is a function of the lane's entries; the two clock readings only decide
when the lane itself speaks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from anabranch import limits
from anabranch.errors import StateError
from anabranch.model.times import CLOSED_US
from anabranch.query.boxes import Source

FORMAT: Final = 1

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRules:
    """What the query and the node say about a lane. ``producer`` is None for a lane that its entry point owns."""

    producer: str | None = None
    timed: bool = False
    disorder_us: int = 0
    idle_us: int | None = None
    silence_us: int | None = None
    boundary_interval_us: int = limits.BOUNDARY_INTERVAL_US

    @classmethod
    def of(cls, source: Source, lane: str, *, boundary_interval_us: int = limits.BOUNDARY_INTERVAL_US) -> LaneRules:
        return cls(
            producer=lane if source.producers else None,
            timed=source.time is not None,
            disorder_us=min(source.disorder_us, CLOSED_US),  # no time lies further back; and int64 holds the difference
            idle_us=source.idle_us,
            silence_us=source.silence_us,
            boundary_interval_us=boundary_interval_us,
        )

    @property
    def speaks_every_us(self) -> int | None:
        """How long the lane may be silent until it says something by itself; None if it never does."""
        if self.producer is not None:
            return self.silence_us
        if not self.timed:
            return self.boundary_interval_us
        return None if self.idle_us is None else self.idle_us + self.boundary_interval_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """One numbering client: ``session`` fences its older selves, ``next_number`` is what it must send next."""

    session: int
    next_number: int
    seen_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneState:
    next_number: int = 1
    last_stamp_us: int = 0
    """Lanes without a time column: the last stamp or boundary."""
    max_time_us: int = 0
    """Lanes with a time column: the largest time of any row."""
    boundary_us: int = 0
    """Lanes with a time column: the largest boundary."""
    closed: bool = False
    last_session: int = 0
    """Sessions are counted per lane, not per producer: a forgotten producer's old session is never valid again."""
    last_activity_us: int = 0
    """When a client last spoke, by the clock of the entry point: what ``idle`` and ``silence`` count from."""
    last_entry_us: int = 0
    """When the lane last got an entry, its own boundaries included: what the boundary interval counts from."""
    producers: Mapping[str, Producer] = field(default_factory=dict)

    def stamped(self, stamp_us: int) -> LaneState:
        """With a later stamp. It is said of every push, so it is spelled out: ``replace`` takes several times as
        long."""
        return LaneState(
            next_number=self.next_number,
            last_stamp_us=stamp_us,
            max_time_us=self.max_time_us,
            boundary_us=self.boundary_us,
            closed=self.closed,
            last_session=self.last_session,
            last_activity_us=self.last_activity_us,
            last_entry_us=self.last_entry_us,
            producers=self.producers,
        )

    def to_bytes(self) -> bytes:
        return _ENCODER.encode(
            {
                "boundary_us": self.boundary_us,
                "closed": self.closed,
                "format": FORMAT,
                "last_activity_us": self.last_activity_us,
                "last_entry_us": self.last_entry_us,
                "last_session": self.last_session,
                "last_stamp_us": self.last_stamp_us,
                "max_time_us": self.max_time_us,
                "next_number": self.next_number,
                "producers": {name: (p.session, p.next_number, p.seen_us) for name, p in self.producers.items()},
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> LaneState:
        try:
            value = json.loads(data)
            found = value.pop("format")
            producers = {
                name: Producer(session=session, next_number=next_number, seen_us=seen_us)
                for name, (session, next_number, seen_us) in value.pop("producers").items()
            }
            state = cls(**value, producers=producers)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StateError(
                f"The stored state of a lane cannot be read: {error!r}.",
                remedy="The state directory is damaged; restore it from a backup, or start with an empty one.",
            ) from error
        if found != FORMAT:
            raise StateError(
                f"The stored state of a lane has format {found}, this version reads {FORMAT}.",
                remedy="Use the version of Anabranch that wrote the state directory.",
            )
        return state
