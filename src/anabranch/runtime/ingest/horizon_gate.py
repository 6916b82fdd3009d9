"""The gate of a source: rows of a lane that is too far ahead of the slowest origin wait before it (``core.horizon``).

It remembers which lanes wait, and for which rows. While a lane waits, its silence is not its producer's: it must not be
closed for it, nor follow the clock, or the rows that wait would be late when they enter. A producer that is refused
tries again; one that does not for a while has given up, and what it does after that is its own affair.

No thread, no clock: one event at a time, with the time of the entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from anabranch import limits
from anabranch.core.horizon import Slowest
from anabranch.core.lane_messages import Action, AppendRows

MayEnter = Callable[[int, int], bool]
"""Whether rows up to the second time may enter a lane that has promised the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRows:
    """A lane that waits with rows up to ``latest_us``; it tried to push them last at ``tried_us``."""

    latest_us: int
    tried_us: int


class HorizonGate:
    """``slowest`` says which origin is the slowest, and how far it is."""

    def __init__(self, may_enter: MayEnter, slowest: Callable[[], Slowest]) -> None:
        self.slowest: Final = slowest
        self._may_enter = may_enter
        self._held: dict[str, HeldRows] = {}

    def lets_in(self, lane: str, promised_us: int, latest_us: int, now_us: int) -> bool:
        """Whether rows up to ``latest_us`` may enter a lane that has promised this much. If not, it waits with them."""
        if self._may_enter(promised_us, latest_us):
            self._held.pop(lane, None)
            return True
        self._held[lane] = HeldRows(latest_us=latest_us, tried_us=now_us)
        return False

    def waits(self, lane: str) -> bool:
        """Whether the rows that came last had to wait."""
        return lane in self._held

    def held(self, lane: str, promised_us: int, now_us: int) -> HeldRows | None:
        """What a lane waits with, if its rows could not enter now, either."""
        held = self._held.get(lane)
        if held is None:
            return None
        has_given_up = not 0 <= now_us - held.tried_us <= limits.HELD_US
        if has_given_up or self._may_enter(promised_us, held.latest_us):
            del self._held[lane]
            return None
        return held

    def forget(self, lane: str) -> None:
        """Another entry point leads the lane."""
        self._held.pop(lane, None)


def latest_us(actions: Iterable[Action]) -> int | None:
    """The latest time of the rows that a lane appends in time; None if there are none."""
    latest = [
        int(action.stamps[~action.late].max())
        for action in actions
        if isinstance(action, AppendRows) and not action.late.all()
    ]
    return max(latest, default=None)
