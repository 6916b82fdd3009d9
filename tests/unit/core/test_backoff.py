"""Waits grow from failure to failure, end somewhere, and begin anew with progress."""

from __future__ import annotations

from itertools import accumulate, pairwise, repeat

import pytest

from anabranch import limits
from anabranch.core.backoff import Backoff


def after(failures: int) -> Backoff:
    return list(accumulate(repeat(None, failures), lambda backoff, _: backoff.failed(), initial=Backoff()))[-1]


def test_without_a_failure_nothing_waits() -> None:
    assert (Backoff().wait_s, Backoff().is_exhausted) == (0.0, False)


def test_every_failure_waits_longer_up_to_the_longest_wait() -> None:
    waits = [after(failures).wait_s for failures in range(1, 20)]
    assert tuple(waits[: len(limits.RESTART_BACKOFF_S)]) == limits.RESTART_BACKOFF_S
    assert all(first <= second for first, second in pairwise(waits))
    assert max(waits) == limits.RESTART_BACKOFF_S[-1]


def test_it_is_exhausted_when_it_fails_after_the_longest_wait() -> None:
    tries = len(limits.RESTART_BACKOFF_S)
    assert [after(failures).is_exhausted for failures in (tries, tries + 1, tries + 2)] == [False, True, True]


def test_the_waits_are_those_of_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESTART_BACKOFF_S", (0.1,))
    assert (after(1).wait_s, after(1).is_exhausted, after(2).is_exhausted) == (0.1, False, True)
