"""No lane runs ahead: its rows are within the horizon of what all lanes have promised, or it was the slowest itself.

What waits at a Join or a window waits for the slowest lane, so this bounds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.sim.checkers.agreement import Agreement
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape

if TYPE_CHECKING:
    from anabranch.sim.role import Disk


class Ahead:
    """Looks at what was newly released by anyone, as ``agreement`` has it: it must be told first."""

    def __init__(self, agreement: Agreement, lanes: tuple[str, ...], horizon_us: int) -> None:
        self._agreement = agreement
        self._promised = dict.fromkeys(lanes, 0)
        self._seen = dict.fromkeys(lanes, 0)
        self._horizon_us = horizon_us

    def stored(self, node: str, disk: Disk) -> None:
        for lane in disk.lanes:
            released = self._agreement.released[lane]
            if len(released) == self._seen[lane]:
                continue
            for entry in released[self._seen[lane] :]:
                slowest_us = min(self._promised.values())
                latest_us = max((each.stime for each in entry.tuples), default=0)
                if self._promised[lane] > slowest_us and latest_us > slowest_us + self._horizon_us:
                    raise Broken(f"{lane} has a row at {latest_us}, and the slowest lane has promised {slowest_us}.")
                self._promised[lane] = entry.promise_us
            self._seen[lane] = len(released)

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """Nothing to see: what was stored is looked at."""
