"""What the actors of ``runtime`` reach the world through: a clock, a disk and letters to others.

An actor has no thread, no clock, no file and no socket. It is given these ports: by a node, over a monotonic clock,
SQLite and Flight; by the simulator, over a simulated world. One event at a time: whoever calls an actor sees to that.

What an actor says after it has stored something rests on that. A node's disk returns when a transaction is durable. The
simulated one returns at once and is durable a little later; then nothing that was said after it leaves before that.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from anabranch.core.roll_call import Roll
from anabranch.core.shared_lane import LaneCopy

Sent = TypeVar("Sent")
"""An entry as it is sent to a peer."""
Sent_contra = TypeVar("Sent_contra", contravariant=True)
Sent_co = TypeVar("Sent_co", covariant=True)


class Clock(Protocol):
    """Time and chance. ``now_us`` is never set, and need not mean anything to others."""

    def now_us(self) -> int: ...

    def chance(self) -> float:
        """Any number from 0 to 1, another one each time."""
        ...

    def look_within(self, seconds: float) -> None:
        """The actor is to be looked after within this time, or sooner if that was said before."""
        ...


class LaneEntry(Protocol[Sent_co]):
    """One entry of a shared lane, as an entry point holds it."""

    @property
    def size(self) -> int:
        """What it takes, in bytes or what stands for them."""
        ...

    def body(self) -> Sent_co:
        """As it is sent to a peer."""
        ...

    def leave_memory(self) -> None:
        """It is on disk, and will hardly be needed."""
        ...


Entry = TypeVar("Entry", bound=LaneEntry[object])


class LaneDisk(Protocol[Entry, Sent_contra]):
    """What is stored of one shared lane, and the logs of its source."""

    def load(self) -> LaneCopy[Entry]:
        """As it was stored last."""
        ...

    def store(self, before: LaneCopy[Entry], after: LaneCopy[Entry], *, hole: bool) -> None:
        """One transaction: the copy, which was ``before``, and the logs with what is released since. With ``hole``,
        the logs go on from the base of the copy."""
        ...

    def leave_out(self, base: Entry) -> bool:
        """The readers of the logs hear that what came before ``base`` and is not there will never come. Returns False
        if one of them cannot do without: then nothing is stored of it."""
        ...

    def log_ends(self) -> tuple[int, ...]:
        """The last row of each log."""
        ...

    def is_forgotten(self, ends: tuple[int, ...]) -> bool:
        """Whether the logs have no row any more of those that they had when they ended there."""
        ...

    def entry(self, body: Sent_contra) -> Entry:
        """What a peer sent, as an entry."""
        ...

    def base(self, entry: Entry) -> Entry:
        """What is left of an entry when nobody needs its rows any more."""
        ...


class RollDisk(Protocol[Entry]):
    """What an entry point has written down of the entry points of one source, itself included."""

    def roll(self) -> Roll:
        """As it was written last."""
        ...

    def has_begun(self) -> bool:
        """Whether it has ever taken part, from this disk."""
        ...

    def write_roll(self, roll: Roll) -> None:
        """One transaction."""
        ...

    def begin(self, life: int, copy: LaneCopy[Entry]) -> None:
        """One transaction: that it takes part from now on, in this life, and that it has this of each lane."""
        ...
