"""How long a client tries again: growing waits, bounded by a deadline counted from the first failure.

Used by producers and subscriptions, whose calls may be repeated without harm. Knows nothing of what is tried.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from anabranch.core.backoff import RECONNECT
from anabranch.errors import AnabranchError

DEADLINE_S: Final = 60.0
"""How long a node may be away: a restart with its Spark takes some ten seconds."""


class Retry:
    """One thing that is tried until it works, the deadline has passed, or ``stopped`` is set."""

    def __init__(self, deadline_s: float, stopped: threading.Event | None = None) -> None:
        self._deadline_s: Final = deadline_s
        self._stopped: Final = stopped or threading.Event()
        self._since: float | None = None
        self._backoff = RECONNECT

    def succeeded(self) -> None:
        self._since, self._backoff = None, RECONNECT

    def wait_after(self, error: AnabranchError) -> None:
        """Wait before the next try, or raise ``error`` if there is no time left for one."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        backoff = self._backoff.failed()
        if now + backoff.wait_s > self._since + self._deadline_s:
            raise error
        self._backoff = backoff
        self._stopped.wait(backoff.wait_s)
