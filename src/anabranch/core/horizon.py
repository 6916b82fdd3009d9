"""The horizon: no origin runs further ahead of the slowest than this much stream time (DESIGN's bounds).

What a Join or a window holds until the slowest origin has caught up would otherwise grow as long as one origin is slow
and the others are not; no inlet may stop reading to prevent it, because behind a Union that would deadlock. So the
entry points hold rows back. They learn from their readers how far the slowest origin is: a reader tells, with its
acknowledgements and from time to time, the smallest punctuation over all origins of all its inlets, and what the
fragments that read it have told, if that is smaller. So a deep layer that falls behind holds the lanes back too.

What a reader tells is a fact that holds for ever: all origins have promised that much. So of the replicas of a fragment
the one that is furthest counts, and one that is dead, cut off or rebuilt holds nobody up; between fragments the
smallest counts, because each waits for other origins. A closed origin has promised a large time, and is waited for by
nobody.

A row may enter if it is within the horizon, or if its own lane is the slowest: otherwise two lanes that jump ahead
together would wait for each other. That is compared in whole milliseconds: the promise of a window has no more of
what was promised to it, because Spark's watermark has not. Boundaries and CLOSE always may, they keep nothing waiting.
Pure; holds no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from anabranch.model.punctuation import Punctuations

WATERMARK_US: Final = 1_000
"""The resolution of Spark's watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The furthest that each reader has told, in any of its lives. Need not be durable: they tell it again."""

    by: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestTold:
    """A reader's slowest origin has promised this time."""

    reader: str
    time_us: int


@dataclass(frozen=True, slots=True)
class Horizon:
    """``fragments`` are those that read the source, each with its replicas."""

    horizon_us: int
    fragments: tuple[tuple[str, ...], ...]

    def handle(self, told: Told, event: SlowestTold) -> Told:
        return replace(told, by={**told.by, event.reader: max(event.time_us, told.by.get(event.reader, 0))})

    def slowest_us(self, told: Told) -> int:
        """What all origins have promised, as far as it is known here."""
        return min(max(told.by.get(replica, 0) for replica in replicas) for replicas in self.fragments)

    def may_enter(self, told: Told, promised_us: int, latest_us: int) -> bool:
        """Whether rows up to ``latest_us`` may enter a lane that has promised ``promised_us`` so far."""
        slowest_us = self.slowest_us(told)
        return is_slowest(promised_us, slowest_us) or latest_us <= slowest_us + self.horizon_us


def is_slowest(promised_us: int, slowest_us: int) -> bool:
    """Whether a lane that has promised this much is the one that all wait for, as far as a watermark can tell."""
    return promised_us // WATERMARK_US * WATERMARK_US <= slowest_us


def slowest_of(inlets: Iterable[tuple[Iterable[str], Punctuations]], told: Iterable[int] = ()) -> int:
    """What a node tells: the smallest punctuation over the origins of its inlets, 0 for one that promised nothing, and
    of what the fragments that read it have ``told``."""
    own = (punctuations.get(origin, 0) for origins, punctuations in inlets for origin in origins)
    return min((*own, *told))
