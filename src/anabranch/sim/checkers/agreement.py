"""Entry points never disagree: what one of them has released at a place of a lane, no other has otherwise, ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.sim.messages import Pushed
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape

if TYPE_CHECKING:
    from anabranch.sim.role import Disk


class Agreement:
    """Also what the lanes hold in the end: ``released`` has everything that anyone ever released."""

    def __init__(self) -> None:
        self.released: dict[str, list[Pushed]] = {}
        self._seen: dict[tuple[str, str], int] = {}
        """Per life of an entry point and lane, up to where it was looked at: who lost its disk begins anew."""

    def stored(self, node: str, disk: Disk) -> None:
        for origin, copy in disk.lanes.items():
            agreed = self.released.setdefault(origin, [])
            seen = self._seen.get((disk.life, origin), 0)
            if copy.released == seen:
                continue
            if copy.released < seen:
                raise Broken(f"{node} had released {origin} through {seen}, and now {copy.released}.")
            begin = max(seen, copy.trimmed)
            for place, entry in enumerate(copy.between(begin, copy.released), start=begin):
                if place == len(agreed):
                    agreed.append(entry)
                elif agreed[place] != entry:
                    raise Broken(f"{node} has released {entry} at {place + 1} of {origin}, not {agreed[place]}.")
            self._seen[disk.life, origin] = copy.released

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """Nothing to see: what was stored is looked at."""
