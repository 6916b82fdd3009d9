"""Ends what takes too long on calls that stay open: Flight only knows a deadline for a whole call.

One thread for all calls of a process. While anything is asked it looks twice a second, so an answer may be that much
overdue before its call ends; when nothing was asked for a while it sleeps until somebody asks again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.5


class Overdue:
    """Any thread may use it."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._changed: Final = threading.Condition(self._lock)
        self._asked: Final[dict[object, tuple[float, Callable[[], None]]]] = {}
        """What is under way: until when, and what ends it."""
        self._news = False
        """Whether anything was asked since the last look."""
        self._asleep = False
        self._thread: threading.Thread | None = None

    def watch(self, within_s: float, end: Callable[[], None]) -> object:
        """``end`` is called if this lasts longer than until ``over`` is called with what is returned. It must return
        at once."""
        key = object()
        with self._lock:
            self._asked[key] = time.monotonic() + within_s, end
            self._news = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="overdue answers", daemon=True)
                self._thread.start()
            elif self._asleep:
                self._changed.notify()
        return key

    def over(self, key: object) -> None:
        with self._lock:
            self._asked.pop(key, None)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._asleep = not self._asked and not self._news
                self._changed.wait(None if self._asleep else LOOK_S)
                self._asleep = self._news = False
                now_s = time.monotonic()
                late = [key for key, (until_s, _) in self._asked.items() if until_s <= now_s]
                ends = [self._asked.pop(key)[1] for key in late]
            for end in ends:
                end()


OVERDUE: Final = Overdue()
"""That of this process."""
