"""Memory is bounded: logs by their limit, remembered identities by what lies between punctuations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from anabranch.core.identities import times_of
from anabranch.sim.checkers.base import Base
from anabranch.sim.observer import Broken
from anabranch.sim.truth import Truth

if TYPE_CHECKING:
    from anabranch.sim.node import Disk

SLACK: Final = 128
"""Identities that may be remembered too long: forgetting waits until it pays, and a batch comes before it."""


class Memory(Base):
    def __init__(self, truth: Truth, most: int, origins: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(truth)
        self._most = most
        """What a log may hold."""
        self._origins = origins
        self._largest: dict[tuple[str, str], int] = {}

    def stored(self, node: str, disk: Disk) -> None:
        for stream, tape in disk.tapes.items():
            if stream not in disk.inlets and tape.held > self._most:
                raise Broken(f"The log of {node} for {stream} holds {tape.held} tuples.")
        for stream, inlet in disk.inlets.items():
            wanted = inlet.remembered.at_or_above(times_of(inlet.punctuations, self._origins[stream]))
            largest = self._largest[node, stream] = max(wanted, self._largest.get((node, stream), 0))
            if len(inlet.remembered) > 2 * largest + SLACK:
                raise Broken(f"{node} remembers {len(inlet.remembered)} identities of {stream}; {wanted} still count.")
