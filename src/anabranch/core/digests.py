"""Are the copies of a stream the same? A digest of what each brought, per origin and interval of stream time, compared.

A digest is the number of tuples and the sum, modulo 2^64, of a number for each, made of its identity and its exact
columns: the order in which a copy brings them does not matter, nor does it how often the reader had to ask. An interval
is complete at a copy when the copy's own promise has passed its end. It is compared with every other copy at which it
is complete, too; a copy that brought nothing of it has an empty digest.

An interval of which a reader may not have been sent everything is not compared: one that began before the copy's floor,
or before the reader itself started and what it had added up was lost. Only the latest digests are kept; a copy that is
further behind is not compared with those in front.

``Comparison.handle`` is the one door for whoever reads several copies. Copies that nobody reads together tell each
other their digests (``telling``). Nothing depends on what is found: it raises alarms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from anabranch.core.identities import Header, Keys, Longs, Mask
from anabranch.limits import DIGEST_INTERVAL_US, DIGESTS

_INTERVAL_BITS = 36
"""Of a key: the year 9999 is interval 2.5 * 10^10, below 2^35. The bits above are the code of the origin."""


_FEW = 8
"""Sums for which it is quicker to look at all numbers for each."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Digests by key, in the order of their keys."""

    keys: Longs
    counts: Longs
    totals: Keys

    @classmethod
    def of(cls, header: Header, numbers: Keys) -> Sums:
        intervals = header.stimes // DIGEST_INTERVAL_US
        first, last = int(intervals.min()), int(intervals.max())
        span = last - first + 1
        if span * (int(header.origins.max()) + 1) <= len(header):  # as in any busy stream: no need to sort
            places = header.origins * np.int64(span) + (intervals - first)
            counts = np.bincount(places)
            used = np.flatnonzero(counts)
            keys = keys_of(used // span, used % span + first)
        else:
            keys, places = np.unique(keys_of(header.origins.astype(np.int64), intervals), return_inverse=True)
            counts = np.bincount(places)
            used = np.arange(len(keys))
        return cls(keys, counts[used], _added_up(numbers, places, used))

    def plus(self, other: Sums) -> Sums:
        keys, place = np.unique(np.concatenate((self.keys, other.keys)), return_inverse=True)
        counts, totals = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.uint64)
        np.add.at(counts, place, np.concatenate((self.counts, other.counts)))
        np.add.at(totals, place, np.concatenate((self.totals, other.totals)))
        return Sums(keys, counts, totals)

    def where(self, wanted: Mask) -> Sums:
        return Sums(self.keys[wanted], self.counts[wanted], self.totals[wanted])

    def between(self, low: Longs, high: Longs) -> Sums:
        """Those whose interval lies in ``[low, high)`` of its origin."""
        codes, intervals = self.parts()
        return self.where((intervals >= low[codes]) & (intervals < high[codes]))

    def parts(self) -> tuple[Longs, Longs]:
        """Codes of origins, and intervals."""
        return _parts(self.keys)

    def at(self, keys: Longs) -> tuple[Longs, Keys]:
        """The counts and totals of these keys, which are sorted and contain all of ours; 0 for those we have not."""
        counts, totals = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.uint64)
        places = np.searchsorted(keys, self.keys)
        counts[places], totals[places] = self.counts, self.totals
        return counts, totals


def _added_up(numbers: Keys, places: Longs, used: Longs) -> Keys:
    """The sum of the numbers at each place that is used, modulo 2^64."""
    if len(used) <= _FEW:
        return np.array([numbers.sum(where=places == place) for place in used], np.uint64)
    # By counting, in two halves: a float adds 2^20 numbers of 32 bits without rounding.
    low = np.bincount(places, (numbers & np.uint64(0xFFFF_FFFF)).astype(np.float64))
    high = np.bincount(places, (numbers >> np.uint64(32)).astype(np.float64))
    totals: Keys = low.astype(np.uint64) + (high.astype(np.uint64) << np.uint64(32))
    return totals[used]


NO_SUMS = Sums(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopyDigests:
    """What one copy brought: per origin it is complete from interval ``begins`` up to, not including, ``done``."""

    begins: Longs
    done: Longs
    sums: Sums = NO_SUMS

    @classmethod
    def began(cls, floors: Longs) -> CopyDigests:
        """Nothing has come yet; all that is at or above the floors will."""
        first = -(-floors // DIGEST_INTERVAL_US)  # the first interval that lies wholly above
        return cls(begins=first, done=np.zeros(len(floors), np.int64))

    def after(self, header: Header, numbers: Keys, promises: Longs) -> CopyDigests:
        """With these tuples, and what is promised after them."""
        sums = self.sums.plus(Sums.of(header, numbers)) if len(header) else self.sums
        return replace(self, sums=sums, done=np.maximum(self.done, promises // DIGEST_INTERVAL_US))

    def latest(self) -> CopyDigests:
        """Without the oldest digests, if there are too many. What lies below them is not compared any more."""
        surplus = len(self.sums.keys) - DIGESTS
        if surplus <= 0:
            return self
        codes, intervals = self.sums.parts()
        oldest = np.argsort(intervals, kind="stable")[:surplus]
        begins = self.begins.copy()
        np.maximum.at(begins, codes[oldest], intervals[oldest] + 1)
        kept = np.ones(len(self.sums.keys), np.bool_)
        kept[oldest] = False
        return replace(self, begins=begins, sums=self.sums.where(kept))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonState:
    copies: Mapping[str, CopyDigests] = field(default_factory=dict)


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopyBegan:
    """From now on everything of a copy comes, each tuple once, that is at or above ``floors``, one for each code."""

    copy: str
    floors: Longs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TuplesDigested:
    """Tuples of a copy that follow on what it has brought, a number for each, and what it has promised after them."""

    copy: str
    header: Header
    numbers: Keys
    promises: Longs


Event = CopyBegan | TuplesDigested


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    rows: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseAlarm:
    """Two copies are complete up to ``end_us``, and differ in what lies between these times."""

    origin: str
    start_us: int
    end_us: int
    digests: Mapping[str, Digest]


Step = tuple[ComparisonState, list[RaiseAlarm]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares the copies of a stream with these origins, in the order of their codes. Holds no state."""

    origins: tuple[str, ...]

    def handle(self, state: ComparisonState, event: Event) -> Step:
        match event:
            case CopyBegan():
                began = CopyDigests.began(event.floors)
                return replace(state, copies={**state.copies, event.copy: began}), []
            case TuplesDigested():
                return self._digested(state, event)

    def _digested(self, state: ComparisonState, event: TuplesDigested) -> Step:
        before = state.copies[event.copy]
        now = before.after(event.header, event.numbers, event.promises)
        alarms: list[RaiseAlarm] = []
        if (now.done > before.done).any():
            for name, other in state.copies.items():
                if name != event.copy:
                    compared = np.minimum(before.done, other.done)
                    alarms += differences(self.origins, {event.copy: now, name: other}, compared)
        return replace(state, copies={**state.copies, event.copy: now.latest()}), alarms


def differences(origins: tuple[str, ...], pair: Mapping[str, CopyDigests], compared: Longs) -> list[RaiseAlarm]:
    """Where two copies differ, in intervals that are complete at both and were not ``compared`` before."""
    one, other = pair.values()
    low = np.maximum(compared, np.maximum(one.begins, other.begins))
    high = np.minimum(one.done, other.done)
    ready = {name: copy.sums.between(low, high) for name, copy in pair.items()}
    keys = np.unique(np.concatenate([sums.keys for sums in ready.values()]))
    found = {name: sums.at(keys) for name, sums in ready.items()}
    (counts, totals), (other_counts, other_totals) = found.values()
    alarms: list[RaiseAlarm] = []
    for place in np.flatnonzero((counts != other_counts) | (totals != other_totals)):
        code, interval = (int(part) for part in _parts(keys[place]))
        digests = {
            name: Digest(rows=int(counts[place]), total=int(totals[place])) for name, (counts, totals) in found.items()
        }
        start_us = interval * DIGEST_INTERVAL_US
        end_us = start_us + DIGEST_INTERVAL_US
        alarms.append(RaiseAlarm(origin=origins[code], start_us=start_us, end_us=end_us, digests=digests))
    return alarms


def keys_of(codes: Longs | int, intervals: Longs) -> Longs:
    return (codes << _INTERVAL_BITS) | intervals


def _parts(keys: Longs) -> tuple[Longs, Longs]:
    """Codes of origins, and intervals."""
    return keys >> _INTERVAL_BITS, keys & ((1 << _INTERVAL_BITS) - 1)
