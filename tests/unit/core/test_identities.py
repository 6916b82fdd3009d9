"""Identities over columns: exactly what a set of triples would say, for any batches."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.core import identities
from anabranch.core.identities import NO_TUPLES, Header, Identities

Triple = tuple[int, int, int]
LONG = st.sampled_from([0, 1, 2, 3, -1, (1 << 63) - 1, -(1 << 63)])
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 2), LONG, LONG), max_size=12), max_size=8)


def header(triples: list[Triple]) -> Header:
    origins, stimes, tids = zip(*triples, strict=True) if triples else ((), (), ())
    return Header(np.array(origins, np.int32), np.array(stimes, np.int64), np.array(tids, np.int64))


def admitted(batches: list[list[Triple]]) -> list[list[bool]]:
    remembered, found = Identities(), []
    for batch in batches:
        fresh, remembered = remembered.admit(header(batch))
        found.append([bool(each) for each in fresh])
    return found


def by_set(batches: list[list[Triple]]) -> list[list[bool]]:
    seen: set[Triple] = set()
    found = []
    for batch in batches:
        found.append([])
        for triple in batch:
            found[-1].append(triple not in seen)
            seen.add(triple)
    return found


@given(BATCHES)
def test_a_tuple_is_new_exactly_once(batches: list[list[Triple]]) -> None:
    assert admitted(batches) == by_set(batches)


@given(BATCHES)
def test_identities_with_the_same_key_are_told_apart(batches: list[list[Triple]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identities, "_mixed", lambda header: (header.tids & 1).astype(np.uint64))
        assert admitted(batches) == by_set(batches)


def test_what_lies_below_is_forgotten_and_the_rest_is_not() -> None:
    random = Random(7)
    remembered = Identities()
    now: list[Triple] = []
    for step in range(300):
        now = [(random.randrange(2), step * 10 + random.randrange(20), random.randrange(1000)) for _ in range(50)]
        _, remembered = remembered.admit(header(now))
        times = np.array([step * 10, step * 10 - 50], np.int64)
        remembered = remembered.forget_below(times)
    assert len(remembered) < 3_000  # of 15,000; some 450 are at or above
    again, _ = remembered.admit(header([each for each in now if each[1] >= times[each[0]]]))
    assert not again.any()


def test_no_tuples_are_no_tuples() -> None:
    fresh, remembered = Identities().admit(NO_TUPLES)
    assert (len(fresh), len(remembered)) == (0, 0)
