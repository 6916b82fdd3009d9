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

The time 0 is no time, but says that something is unknown: a fragment has told nothing yet, because it or this entry
point has just started, or an origin has promised nothing yet, because nobody has pushed to it. How far ahead of that
a row is cannot be said, so *what is unknown holds nobody up*. Else every lane would wait for replicas that are
starting, and for a lane that has not begun as if its rows were of 1970.

A row may enter if it is within the horizon, or if its own lane is the slowest: otherwise two lanes that jump ahead
together would wait for each other. That is compared in whole milliseconds: the promise of a window has no more of
what was promised to it, because Spark's watermark has not. And it is compared with allowance for what boxes hold back:
behind a Resample nobody ever hears all that the lanes have promised, and no lane would be the slowest. Boundaries and
CLOSE always may enter, they keep nothing waiting. Pure; holds no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from anabranch.model.punctuation import Punctuations

WATERMARK_US: Final = 1_000
"""The resolution of Spark's watermark."""


class Slowest(NamedTuple):
    """All origins have promised this time, and this one no more. The time 0 says that it is not known."""

    time_us: int
    origin: str = ""


UNKNOWN: Final = Slowest(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The furthest that each reader has told, in any of its lives. Need not be durable: they tell it again."""

    by: Mapping[str, Slowest] = field(default_factory=dict)

    def heard(self, reader: str, slowest: Slowest) -> Told:
        """With what a reader tells now."""
        return replace(self, by={**self.by, reader: max(slowest, self.by.get(reader, UNKNOWN))})


@dataclass(frozen=True, slots=True)
class Horizon:
    """``fragments`` are those that read the source, each with its replicas. ``held_back_us`` is how far the promises of
    boxes may be behind those of the lanes when everything has been worked off."""

    horizon_us: int
    fragments: tuple[tuple[str, ...], ...]
    held_back_us: int = 0

    def slowest(self, told: Told) -> Slowest:
        """What all origins have promised, as far as it is known here. Unknown while one fragment has not told it, and
        where nobody reads."""
        furthest = (max(told.by.get(replica, UNKNOWN) for replica in replicas) for replicas in self.fragments)
        return min(furthest, default=UNKNOWN)

    def may_enter(self, told: Told, promised_us: int, latest_us: int) -> bool:
        """Whether rows up to ``latest_us`` may enter a lane that has promised ``promised_us`` so far."""
        slowest_us = self.slowest(told).time_us
        if slowest_us == UNKNOWN.time_us:
            return True
        return is_slowest(promised_us - self.held_back_us, slowest_us) or latest_us <= slowest_us + self.horizon_us


def is_slowest(promised_us: int, slowest_us: int) -> bool:
    """Whether a lane that has promised this much is the one that all wait for, as far as a watermark can tell."""
    return _in_watermarks(promised_us) <= slowest_us


def slowest_of(inlets: Iterable[tuple[Iterable[str], Punctuations]], told: Iterable[Slowest] = ()) -> Slowest:
    """What a node tells: the smallest punctuation over the origins of its inlets, 0 for one that promised nothing, and
    of what the fragments that read it have ``told``. Where these are no further behind than a watermark can tell, an
    origin of its own is named: it is closer to what is waited for than a box that has been told of it."""
    own = min(
        (Slowest(punctuations.get(origin, 0), origin) for origins, punctuations in inlets for origin in origins),
        default=UNKNOWN,
    )
    slowest = min((own, *told))
    return slowest if slowest.time_us < _in_watermarks(own.time_us) else Slowest(slowest.time_us, own.origin)


def _in_watermarks(time_us: int) -> int:
    return time_us // WATERMARK_US * WATERMARK_US
