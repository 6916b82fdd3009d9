"""How long a client tries again: growing waits, bounded by a deadline counted from the first failure.

Used by producers and subscriptions, whose calls may be repeated without harm. Knows nothing of what is tried.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from anabranch.errors import AnabranchError

DEADLINE_S: Final = 60.0
"""How long a node may be away: a restart with its Spark takes some ten seconds."""

BACKOFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Waits between tries; the last one repeats."""


class Retry:
    """One thing that is tried until it works, the deadline has passed, or ``stopped`` is set."""

    def __init__(self, deadline_s: float, stopped: threading.Event | None = None) -> None:
        self._deadline_s: Final = deadline_s
        self._stopped: Final = stopped or threading.Event()
        self._since: float | None = None
        self._tries = 0

    def succeeded(self) -> None:
        self._since, self._tries = None, 0

    def wait_after(self, error: AnabranchError) -> None:
        """Wait before the next try, or raise ``error`` if there is no time left for one."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        wait_s = BACKOFF_S[min(self._tries, len(BACKOFF_S) - 1)]
        if now + wait_s > self._since + self._deadline_s:
            raise error
        self._tries += 1
        self._stopped.wait(wait_s)
