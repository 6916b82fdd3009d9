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


LOOK_S: Final = (0.02, 0.2)
"""Between two looks, at first and when it takes long: a look may be a question to a node, which costs both a moment."""


def wait_for(
    condition: Callable[[], object],
    shows: Callable[[], object] = lambda: "it did not happen",
    *,
    seconds: float = HANG_S,
) -> None:
    """``shows`` says what is the case instead; ``seconds`` is given where the time itself is what is tested."""
    began = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began
        assert waited_s < seconds, shows()
        time.sleep(pause_s(waited_s, LOOK_S))


def pause_s(waited_s: float, between_s: tuple[float, float]) -> float:
    """How long to wait before the next look: the longer it has taken, the less often, within these bounds."""
    shortest_s, longest_s = between_s
    return min(max(shortest_s, waited_s / 20), longest_s)
