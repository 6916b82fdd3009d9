"""Nobody begins twice: an entry point that has ever taken part and has lost its disk since knows that it has forgotten
something. It learns, in a life that nobody has heard of, until it counts again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape

if TYPE_CHECKING:
    from anabranch.sim.role import Disk


class Beginnings:
    """``sources`` has the source of each lane."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._seen: set[tuple[str, str]] = set()
        """By directory and source, what has begun."""
        self._lives: dict[tuple[str, str], int] = {}
        """Per entry point and lane, the life that it began last."""

    def stored(self, node: str, disk: Disk) -> None:
        for source in disk.begun:
            if (disk.life, source) not in self._seen:
                self._seen.add((disk.life, source))
                self._look_at(node, source, disk)

    def _look_at(self, node: str, source: str, disk: Disk) -> None:
        for lane, copy in disk.lanes.items():
            if self._sources[lane] != source:
                continue
            earlier, life = self._lives.get((node, lane), 0), copy.lives[node]
            if earlier and not copy.learns:
                raise Broken(f"{node} begins {lane} as if it were new, and it had begun before.")
            if life <= earlier:
                raise Broken(f"{node} begins {lane} in life {life}, after life {earlier}.")
            self._lives[node, lane] = life

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """Nothing to see: what was stored is looked at."""
