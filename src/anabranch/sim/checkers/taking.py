"""Taking: a lane takes what its producer says within a bound, while a majority of its entry points lives and talks,
whatever came before."""

from __future__ import annotations

from typing import Final

from anabranch.sim.observer import Broken, at
from anabranch.sim.world import SECOND

TAKEN_US: Final = 5 * SECOND
"""How long a row may wait: until a silent leader is missed, another one is elected, and the producer has found it."""


class Taking:
    """Is told, every now and then, who waits, and when something happened after which waiting counts anew."""

    def __init__(self) -> None:
        self.longest_us = 0
        self._disturbed_us = 0
        self._free_us: dict[str, int] = {}
        """Per producer, since when it could have been heard."""

    def disturbed(self, now_us: int) -> None:
        self._disturbed_us = now_us

    def look(self, now_us: int, producer: str, origin: str, waits_since_us: int | None) -> None:
        """``waits_since_us`` is None for who has nothing to say, or nobody who could take it."""
        if waits_since_us is None:
            self._free_us[producer] = now_us
            return
        began_us = max(waits_since_us, self._disturbed_us, self._free_us.get(producer, 0))
        self.longest_us = max(self.longest_us, now_us - began_us)
        if now_us - began_us > TAKEN_US:
            raise Broken(
                f"{at(now_us)} {producer} has waited since {began_us / SECOND:.1f} s for lane {origin}, though a "
                "majority of its entry points lives and talks."
            )
