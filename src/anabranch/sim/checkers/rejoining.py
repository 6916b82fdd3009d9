"""Rejoining: an entry point that lost its disk counts again within a bound, while all entry points of its source live
and talk to each other. Until then no other one may lose its disk, so it must not take for ever."""

from __future__ import annotations

from typing import Final

from anabranch.sim.observer import Broken, at
from anabranch.sim.world import SECOND

REJOINED_US: Final = 12 * SECOND
"""How long it may take: a letter may be waited for in vain, a leader missed, and another one elected."""


class Rejoining:
    """Is told, every now and then, who learns, and whether all whom it needs are there."""

    def __init__(self) -> None:
        self._since_us: dict[tuple[str, str], int] = {}

    def look(self, now_us: int, node: str, source: str, *, waits: bool) -> None:
        if not waits:
            self._since_us.pop((node, source), None)
            return
        since_us = self._since_us.setdefault((node, source), now_us)
        if now_us - since_us > REJOINED_US:
            raise Broken(
                f"{at(now_us)} {node} still learns what enters at {source}, though all whom it needs are there since "
                f"{since_us / SECOND:.1f} s."
            )
