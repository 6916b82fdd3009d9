"""The housekeeper of a node: one thread that does what is due from time to time, and sleeps until the next thing is.

A *chore* does what there is to do, and says in how many seconds it is due again. Whoever learns that it is due sooner
says so; a chore that only others can know about says ``NEVER``. So a node that has nothing to do does nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from operator import attrgetter
from typing import Final

NEVER: Final = math.inf

Chore = Callable[[], float]
"""Does what is due; returns the seconds after which it is due again."""


class Due:
    """When one chore is due."""

    def __init__(self, chore: Chore, lock: threading.Lock, changed: threading.Condition) -> None:
        self.chore: Final = chore
        self.at_s = -math.inf
        self._lock = lock
        self._changed = changed

    def within(self, seconds: float) -> None:
        """It is due after so many seconds, or sooner if it was due sooner. Whatever makes it due stands already: a
        chore that begins meanwhile sees it."""
        at_s = time.monotonic() + seconds
        if at_s >= self.at_s:
            return
        with self._lock:
            if at_s < self.at_s:
                self.at_s = at_s
                self._changed.notify()

    def now(self) -> None:
        self.within(0.0)


_at_s: Final = attrgetter("at_s")


class Housekeeper:
    """``run`` belongs to one thread; any other may add chores, say that one is due, and stop it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._all: list[Due] = []
        self._stopped = False

    def add(self, chore: Chore) -> Due:
        """Its first time is now."""
        due = Due(chore, self._lock, self._changed)
        with self._lock:
            self._all.append(due)
            self._changed.notify()
        return due

    def stop(self) -> None:
        """The chore under way is the last."""
        with self._lock:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Until it is stopped, or a chore fails."""
        while (due := self._wait_next()) is not None:
            again_s = due.chore()
            due.within(again_s)

    def _wait_next(self) -> Due | None:
        """The chore that has been due for longest. Whoever says from now on that it is due is heard."""
        with self._lock:
            while not self._stopped:
                first = min(self._all, key=_at_s, default=None)
                wait_s = NEVER if first is None else first.at_s - time.monotonic()
                if first is not None and wait_s <= 0:
                    first.at_s = NEVER
                    return first
                self._changed.wait(None if wait_s == NEVER else wait_s)
            return None
