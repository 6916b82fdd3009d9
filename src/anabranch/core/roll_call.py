"""How an entry point without state finds out whether it is new, or has lost its disk: its peers remember for it.

Entry points that share lanes count on each other's memory (``shared_lane``). One whose state directory is empty may
have voted and stored before, and must then begin a new life and learn; but in a new deployment all are empty, and
somebody must begin. So each directory has a token, made with it, and before an entry point takes part at all, it tells
enough of its peers the life that it begins, and the token. A peer writes that down before it answers. It answers with a
later life if it has written down another token under that name: then a disk was lost.

*Enough* is a majority of the others, so that any two such groups have a member in common. Of two or three entry points
that is all others: the first start of a deployment waits until all of them are there, and so does one that has lost
its disk. Whoever has begun never asks again. ``docs/design/0010-entry-points-that-share-a-lane.md`` has the reasoning.

Pure: what is returned is stored before it is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

FIRST_LIFE: Final = 1


@dataclass(frozen=True, slots=True)
class Met:
    """What is known of an entry point: the life it has begun, and the token of the directory that it began with."""

    life: int
    token: str


Roll = Mapping[str, Met]
"""By the name of the entry point."""


def greet(roll: Roll, name: str, said: Met) -> Roll:
    """What a peer knows after ``name`` has told what it begins; the answer is what stands there under that name."""
    known = roll.get(name)
    if known is None or said.life > known.life:
        met = said
    elif known.token == said.token:
        met = known
    else:
        met = Met(known.life + 1, said.token)
    return {**roll, name: met}


def merged(roll: Roll, told: Roll) -> Roll:
    """What is known with what a peer knows: of each entry point the latest life."""
    return {**roll, **{name: met for name, met in told.items() if name not in roll or met.life > roll[name].life}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """An entry point that has not begun: which life it would begin, and which peers have written that down."""

    name: str
    token: str
    peers: tuple[str, ...]
    life: int = FIRST_LIFE
    agreed: frozenset[str] = field(default_factory=frozenset)

    @property
    def says(self) -> Met:
        return Met(self.life, self.token)

    @property
    def needed(self) -> int:
        """A majority of the others: two such groups of them have a member in common."""
        return len(self.peers) // 2 + 1

    @property
    def may_begin(self) -> bool:
        return len(self.agreed) >= self.needed

    @property
    def lost_its_disk(self) -> bool:
        return self.life > FIRST_LIFE

    def answered(self, peer: str, met: Met) -> Beginning:
        """A peer has written this down. If it is a later life, all must hear of that one."""
        if met.life < self.life:
            return self
        agreed = self.agreed | {peer} if met.life == self.life else frozenset({peer})
        return Beginning(name=self.name, token=self.token, peers=self.peers, life=met.life, agreed=agreed)
