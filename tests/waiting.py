"""Waiting for something to happen, with one idea of when it counts as never: long after the slowest machine.

A test goes by what has happened, never by the clock: so many entries in, so many rows out. A slow machine makes it
slower, not red.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

HANG_S: Final = 600.0
"""Ends a test whose condition never comes true. It is no bound on speed: those are measured by the benchmarks."""


def wait_for(
    condition: Callable[[], object],
    shows: Callable[[], object] = lambda: "it did not happen",
    *,
    seconds: float = HANG_S,
) -> None:
    """``shows`` says what is the case instead; ``seconds`` is given where the time itself is what is tested."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, shows()
        time.sleep(0.02)
