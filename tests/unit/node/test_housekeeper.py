"""The housekeeper calls each chore when it is due, sleeps in between, and hears of what is due sooner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from anabranch.node.housekeeper import NEVER, Housekeeper
from tests.waiting import wait_for


@contextmanager
def running(housekeeper: Housekeeper) -> Iterator[None]:
    thread = threading.Thread(target=housekeeper.run)
    thread.start()
    try:
        yield
    finally:
        housekeeper.stop()
        thread.join()


class Counted:
    """A chore that counts how often it was done, and is due again after ``again_s``."""

    def __init__(self, again_s: float) -> None:
        self.again_s = again_s
        self.done = 0

    def __call__(self) -> float:
        self.done += 1
        return self.again_s


def test_each_chore_has_its_own_pace() -> None:
    housekeeper, often, once = Housekeeper(), Counted(0.001), Counted(NEVER)
    housekeeper.add(often)
    housekeeper.add(once)
    with running(housekeeper):
        wait_for(lambda: often.done > 20)
    assert once.done == 1


def test_a_chore_that_waits_for_ever_is_done_when_somebody_says_so() -> None:
    housekeeper, chore = Housekeeper(), Counted(NEVER)
    with running(housekeeper):
        due = housekeeper.add(chore)
        wait_for(lambda: chore.done == 1)
        due.now()
        wait_for(lambda: chore.done == 2)
        due.within(1_000.0)
        due.within(0.001)  # the sooner one counts
        wait_for(lambda: chore.done == 3)


def test_what_is_due_while_the_chore_runs_is_not_forgotten() -> None:
    housekeeper = Housekeeper()
    done: list[int] = []

    def chore() -> float:
        done.append(len(done))
        if len(done) == 1:
            due.now()
        return NEVER

    due = housekeeper.add(chore)
    with running(housekeeper):
        wait_for(lambda: len(done) == 2)


def test_a_chore_that_fails_ends_it() -> None:
    housekeeper = Housekeeper()

    def chore() -> float:
        raise ValueError("broken")

    housekeeper.add(chore)
    with pytest.raises(ValueError, match="broken"):
        housekeeper.run()
