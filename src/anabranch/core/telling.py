"""Copies that no node reads tell each other their digests: each adds up its own, and of two one asks the other.

The copies of an inner stream meet where they are read (``digests``). Those of an output meet at its clients only, who
come and go and may read one copy alone. So each node adds up what it writes, and asks the others for the intervals that
are complete.

Nothing of what others say is kept but how far the comparison has come with each. What is complete at both is compared
once; what one of them may not have all of is left out, as it is where copies are read.

``Telling.handle`` is the one door for what happens; ``to_ask`` and ``told`` say what to ask, and what to answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from anabranch.core.digests import NO_SUMS, CopyDigests, RaiseAlarm, Sums, TuplesDigested, differences, keys_of
from anabranch.core.identities import Longs
from anabranch.limits import DIGEST_INTERVAL_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Of stream time, for one origin: from ``begin_us`` up to, not including, ``end_us``. Whole intervals."""

    begin_us: int
    end_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a copy says of one origin: everything in a range. An interval that it does not name had no tuple."""

    range: Range
    starts_us: Sequence[int]
    rows: Sequence[int]
    totals: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TellingState:
    own: CopyDigests
    compared: Mapping[str, Longs] = field(default_factory=dict)
    """Per other copy, the first interval of each origin that has not been compared with ours."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DigestsHeard:
    """What another copy answered, by origin."""

    copy: str
    told: Mapping[str, Told]


Event = TuplesDigested | DigestsHeard
Step = tuple[TellingState, list[RaiseAlarm]]


@dataclass(frozen=True, slots=True)
class Telling:
    """Compares our ``own`` copy of a stream, by the name of its node, with others. Holds no state."""

    own: str
    origins: tuple[str, ...]
    """In the order of their codes."""

    def handle(self, state: TellingState, event: Event) -> Step:
        """``TuplesDigested`` is of our own copy."""
        match event:
            case TuplesDigested():
                return replace(state, own=state.own.after(event.header, event.numbers, event.promises).latest()), []
            case DigestsHeard():
                return self._heard(state, event)

    def to_ask(self, state: TellingState, copy: str) -> dict[str, Range]:
        """By origin, what is complete here and was not compared with this copy."""
        low = np.maximum(state.own.begins, state.compared.get(copy, 0))
        return {
            origin: Range(begin_us=int(low[code]) * DIGEST_INTERVAL_US, end_us=int(end) * DIGEST_INTERVAL_US)
            for code, (origin, end) in enumerate(zip(self.origins, state.own.done, strict=True))
            if low[code] < end
        }

    def told(self, state: TellingState, asked: Mapping[str, Range]) -> dict[str, Told]:
        """What we can say of these ranges: less where our copy may lack some, or is not complete."""
        low, high = self._bounds(asked)
        low, high = np.maximum(low, state.own.begins), np.minimum(high, state.own.done)
        sums = state.own.sums.between(low, high)
        codes, intervals = sums.parts()
        places = np.searchsorted(codes, np.arange(len(self.origins) + 1))
        said: dict[str, Told] = {}
        for code, origin in enumerate(self.origins):
            if low[code] < high[code]:
                here = slice(places[code], places[code + 1])
                said[origin] = Told(
                    range=Range(
                        begin_us=int(low[code]) * DIGEST_INTERVAL_US, end_us=int(high[code]) * DIGEST_INTERVAL_US
                    ),
                    starts_us=(intervals[here] * DIGEST_INTERVAL_US).tolist(),
                    rows=sums.counts[here].tolist(),
                    totals=sums.totals[here].tolist(),
                )
        return said

    def _heard(self, state: TellingState, event: DigestsHeard) -> Step:
        begins, done = self._bounds({origin: each.range for origin, each in event.told.items()})
        told = [(code, event.told[origin]) for code, origin in enumerate(self.origins) if origin in event.told]
        other = CopyDigests(begins=begins, done=done, sums=_sums_of(told))
        compared = state.compared.get(event.copy, np.zeros(len(self.origins), np.int64))
        alarms = differences(self.origins, {self.own: state.own, event.copy: other}, compared)
        compared = np.maximum(compared, np.minimum(state.own.done, done))
        return replace(state, compared={**state.compared, event.copy: compared}), alarms

    def _bounds(self, ranges: Mapping[str, Range]) -> tuple[Longs, Longs]:
        """First intervals, and those after the last; nothing of an origin that is not named."""
        nothing = Range(begin_us=0, end_us=0)
        found = [ranges.get(origin, nothing) for origin in self.origins]
        low = np.array([-(-each.begin_us // DIGEST_INTERVAL_US) for each in found], np.int64)
        high = np.array([each.end_us // DIGEST_INTERVAL_US for each in found], np.int64)
        return low, high


def _sums_of(told: Sequence[tuple[int, Told]]) -> Sums:
    """By code."""
    if not told:
        return NO_SUMS
    starts = [np.array(each.starts_us, np.int64) // DIGEST_INTERVAL_US for _, each in told]
    return Sums(
        np.concatenate([keys_of(code, each) for (code, _), each in zip(told, starts, strict=True)]),
        np.concatenate([np.array(each.rows, np.int64) for _, each in told]),
        np.concatenate([np.array(each.totals, np.uint64) for _, each in told]),
    )
