"""A copy that only repeats what others brought is read in bursts; one that brings something is read at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anabranch import limits
from anabranch.node.following import CopyFollower
from anabranch.node.inlet import NEAR_PIECES


class Others:
    """An inlet that hears of the copy under test, and of another one that is faster."""

    def __init__(self) -> None:
        self.stream = "s"
        self.is_repeated = True
        self.pieces = 0

    def repeats(self, copy: str) -> bool:
        return self.is_repeated

    def brought(self) -> int:
        return self.pieces


@pytest.fixture
def inlet() -> Others:
    return Others()


@pytest.fixture
def follower(inlet: Others) -> Any:
    unused: Any = SimpleNamespace()
    return CopyFollower(
        inlet,  # type: ignore[arg-type]
        unused,
        unused,
        copy="m",
        reader="n",
        life="l",
        rebuild=lambda reason: None,
    )


def waits_of(follower: Any, inlet: Others, pieces: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waits after each of so many pieces, while the other copy brings four in each wait."""
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits[-1] = seconds
        inlet.pieces += 4
        return False

    monkeypatch.setattr(follower._stopping, "wait", wait)
    for _ in range(pieces):
        waits.append(0.0)
        follower._let_come()
    return waits


def test_as_many_pieces_are_read_in_one_go_as_another_copy_brought_meanwhile(
    follower: Any, inlet: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_s = limits.REPEATED_WAIT_S
    assert waits_of(follower, inlet, 9, monkeypatch) == [wait_s, 0, 0, 0, wait_s, 0, 0, 0, wait_s]


def test_a_copy_that_brings_something_is_read_at_once(
    follower: Any, inlet: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    inlet.is_repeated = False
    assert waits_of(follower, inlet, 3, monkeypatch) == [0, 0, 0]
    inlet.is_repeated = True
    assert waits_of(follower, inlet, 2, monkeypatch) == [limits.REPEATED_WAIT_S, 0]


def test_when_the_faster_copy_falls_silent_the_others_catch_up(
    follower: Any, inlet: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(follower._stopping, "wait", waits.append)
    for _ in range(NEAR_PIECES):
        follower._let_come()
    assert waits == [limits.REPEATED_WAIT_S], "all that there can be to repeat is read after one wait"
