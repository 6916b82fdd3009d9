"""Whether an entry point of a source takes part: what its peers have written down of it, and it of them.

``core.roll_call`` has the rules. Whoever has begun has begun for ever: that is stored with its first copy of the lanes.
What is said rests on what was written down before, so it may leave when that is durable.
"""

from __future__ import annotations

from typing import Final, Generic

from anabranch.core import roll_call
from anabranch.core.roll_call import Beginning, Met, Roll
from anabranch.core.shared_lane import LaneCopy
from anabranch.runtime.ports import Entry, RollDisk


class Membership(Generic[Entry]):
    """The roll of one source's entry points, as the one ``name`` keeps it. For one thread at a time."""

    def __init__(self, disk: RollDisk[Entry], *, name: str, token: str, peers: tuple[str, ...]) -> None:
        self._name: Final = name
        self._disk: Final = disk
        self._roll = disk.roll()
        self._beginning: Beginning | None = None
        if not disk.has_begun():
            self._beginning = self.new(name, token, peers)

    def new(self, name: str, token: str, peers: tuple[str, ...]) -> Beginning:
        return Beginning(name=name, token=token, peers=peers)

    @property
    def has_begun(self) -> bool:
        return self._beginning is None

    @property
    def waits_for(self) -> list[str]:
        """The peers that have not been heard yet."""
        return sorted(set(self._beginning.peers) - self._beginning.agreed) if self._beginning is not None else []

    def says(self, peer: str) -> Met | None:
        """What is to be told to a peer; None where there is nothing to tell."""
        if self._beginning is None or peer in self._beginning.agreed:
            return None
        return self._beginning.says

    def greeted(self, name: str, said: Met) -> Roll:
        """Another one told what it begins. It is written down before it is answered."""
        self._write(roll_call.greet(self._roll, name, said))
        return self._roll

    def answered(self, peer: str, roll: Roll) -> bool:
        """A peer has written down what this one begins. Returns whether that was enough, and it has begun."""
        if self._beginning is None:
            return False
        self._write(roll_call.merged(self._roll, roll))
        beginning = self._beginning = self._beginning.answered(peer, roll[self._name])
        if not beginning.may_begin:
            return False
        self._disk.begin(beginning.life, self._first_copy(beginning))
        self._beginning = None
        return True

    def _first_copy(self, beginning: Beginning) -> LaneCopy[Entry]:
        """Of each lane. Who lost its disk learns what the others have before it counts."""
        if beginning.lost_its_disk:
            return LaneCopy.lost(self._name, beginning.life)
        return LaneCopy(lives={self._name: beginning.life})

    def _write(self, roll: Roll) -> None:
        if roll != self._roll:
            self._disk.write_roll(roll)
            self._roll = roll
