"""Trimming is safe: a log forgets a tuple only if every reader that it counts on holds it durably."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.sim.checkers.base import Base
from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape
from anabranch.sim.truth import Truth

if TYPE_CHECKING:
    from anabranch.sim.node import Disk


class Trimming(Base):
    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self._disks: dict[str, Disk] = {}

    def stored(self, node: str, disk: Disk) -> None:
        self._disks[node] = disk

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        for name, reader in tape.readers.readers.items():
            disk = self._disks.get(name)
            if reader.cut_off or disk is None or disk.life != reader.life:
                continue  # it has floors, is a stage of the node, or does not live in that life (yet)
            copy = disk.inlets[stream].copies.get(node)
            position = copy.position if copy else None
            if position is None or position.incarnation != tape.readers.incarnation:
                continue
            if position.id < last_id:
                raise Broken(f"{node} trims {stream} through {last_id}, and {name} has {position.id} durably.")
