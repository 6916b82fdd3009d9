"""The identities that an inlet must remember, over whole columns: which tuples of a batch are new?

An identity is (origin, stream time, number or hash within it). They are kept in a few sorted runs, each at least twice
as long as the next: a batch is looked up in all of them by binary search, and becomes a run itself. What is searched
for is a mix of the three columns; a hit counts only if the columns themselves are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """The identities of some tuples, in their order. ``origins`` are codes of the stream's table of origins."""

    origins: Codes
    stimes: Longs
    tids: Longs

    def __len__(self) -> int:
        return len(self.stimes)

    def take(self, which: Longs | Mask | slice) -> Header:
        return Header(self.origins[which], self.stimes[which], self.tids[which])

    def and_then(self, other: Header) -> Header:
        return Header(
            np.concatenate((self.origins, other.origins)),
            np.concatenate((self.stimes, other.stimes)),
            np.concatenate((self.tids, other.tids)),
        )

    def at_or_above(self, times: Longs) -> Mask:
        """Which of them are not below the time of their origin; ``times`` has one for each code."""
        return self.stimes >= times[self.origins]


NO_TUPLES = Header(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Identities sorted by their keys."""

    keys: Keys
    header: Header

    @classmethod
    def of(cls, keys: Keys, header: Header) -> _Run:
        order = keys.argsort(kind="stable")
        return cls(keys[order], header.take(order))

    def __len__(self) -> int:
        return len(self.keys)

    def with_run(self, other: _Run) -> _Run:
        return _Run.of(np.concatenate((self.keys, other.keys)), self.header.and_then(other.header))

    def at_or_above(self, times: Longs) -> _Run:
        kept = self.header.at_or_above(times)
        return _Run(self.keys[kept], self.header.take(kept))

    def has(self, keys: Keys, header: Header) -> Mask:
        """Which of these are among them."""
        found = np.zeros(len(keys), dtype=np.bool_)
        places = self.keys.searchsorted(keys)
        last = len(self) - 1
        asked = (self.keys[np.minimum(places, last)] == keys).nonzero()[0]
        places = places[asked]
        while len(asked):  # once, unless two identities have the same key
            same = _equal(self.header.take(places), header.take(asked))
            found[asked[same]] = True
            asked, places = asked[~same], places[~same] + 1
            hit = (places <= last) & (self.keys[np.minimum(places, last)] == keys[asked])
            asked, places = asked[hit], places[hit]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Identities:
    """Some identities. A value: ``admit`` returns another."""

    _runs: tuple[_Run, ...] = ()
    _pruned_at: int = field(default=0)

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def admit(self, header: Header) -> tuple[Mask, Identities]:
        """Which of these tuples come for the first time, and all identities with theirs."""
        if not len(header):
            return np.empty(0, dtype=np.bool_), self
        keys = _mixed(header)
        order = keys.argsort(kind="stable")
        ordered = keys[order]
        fresh = _first_of_equals(ordered, header)
        for known in self._runs:
            fresh &= ~known.has(keys, header)
        count = np.count_nonzero(fresh)
        if not count:
            return fresh, self
        all_new = count == len(fresh)
        run = _Run(ordered, header.take(order)) if all_new else _Run.of(keys[fresh], header.take(fresh))
        runs = [*self._runs, run]
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            runs[-2:] = [runs[-2].with_run(runs[-1])]
        return fresh, Identities(tuple(runs), self._pruned_at)

    def at_or_above(self, times: Longs) -> int:
        """How many of them are not below the time of their origin."""
        return sum(int(np.count_nonzero(run.header.at_or_above(times))) for run in self._runs)

    def forget_below(self, times: Longs) -> Identities:
        """Without those below the time of their origin, or most of them: it waits until it pays."""
        if len(self) <= 2 * self._pruned_at + 64:
            return self
        runs = tuple(kept for run in self._runs if len(kept := run.at_or_above(times)))
        return Identities(runs, sum(len(run) for run in runs))


def times_of(punctuations: Mapping[str, int], origins: tuple[str, ...]) -> Longs:
    """A time for each code of a table of origins."""
    return np.array([punctuations.get(origin, 0) for origin in origins], dtype=np.int64)


def _first_of_equals(ordered: Keys, header: Header) -> Mask:
    """False for a tuple that stands in the same batch before itself; ``ordered`` are the keys of the batch, sorted."""
    first = np.ones(len(ordered), dtype=np.bool_)
    if not np.count_nonzero(ordered[1:] == ordered[:-1]):
        return first
    seen: set[tuple[int, int, int]] = set()  # a batch with such a pair is rare: no replica sends one
    for index, identity in enumerate(zip(header.origins, header.stimes, header.tids, strict=True)):
        first[index] = identity not in seen
        seen.add(identity)
    return first


def _equal(one: Header, other: Header) -> Mask:
    equal: Mask = (one.tids == other.tids) & (one.stimes == other.stimes) & (one.origins == other.origins)
    return equal


def _mixed(header: Header) -> Keys:
    """One number for each identity, spread over all 64 bits."""
    keys = header.stimes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys ^= header.origins.astype(np.uint64) << np.uint64(32)
    keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    keys ^= header.tids.astype(np.uint64)
    keys = (keys ^ (keys >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
