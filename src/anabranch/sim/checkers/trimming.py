"""Trimming is safe: a log forgets a tuple only if every reader that it counts on holds it durably."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.sim.observer import Broken
from anabranch.sim.tape import Tape

if TYPE_CHECKING:
    from anabranch.sim.role import Disk


class Trimming:
    def __init__(self) -> None:
        self._disks: dict[str, Disk] = {}
        self._forgotten: dict[tuple[str, str, str], int] = {}
        """Of each log in each incarnation, the last tuple that went."""

    def stored(self, node: str, disk: Disk) -> None:
        self._disks[node] = disk

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        log = node, stream, tape.readers.incarnation
        if last_id <= self._forgotten.get(log, 0):
            return  # boundaries behind the last tuple that went: who counts again since has that from another copy
        self._forgotten[log] = last_id
        for name, reader in tape.readers.readers.items():
            disk = self._disks.get(name)
            if reader.cut_off or disk is None or disk.life != reader.life:
                continue  # it has floors, is a stage of the node, or does not live in that life (yet)
            copy = disk.inlets[stream].copies.get(node)
            if copy is None or copy.position.incarnation != tape.readers.incarnation:
                continue
            if copy.position.id < last_id:
                raise Broken(f"{node} trims {stream} through {last_id}, and {name} has {copy.position.id} durably.")
