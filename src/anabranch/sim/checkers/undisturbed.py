"""A rebuild is the affair of one replica: nothing else of its host is begun anew, and its batch numbers go on.

A process begins anew when a fault has ended it, or when it has the state of a peer. A disk begins another life when it
was lost, or with such a state. Whatever else begins anew was disturbed by another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.sim.observer import Broken

if TYPE_CHECKING:
    from anabranch.sim.role import Disk
    from anabranch.sim.tape import Tape


class Undisturbed:
    def __init__(self) -> None:
        self._may_begin: set[str] = set()
        self._may_live_anew: set[str] = set()
        self._begun: set[str] = set()
        self._lives: dict[str, str] = {}
        self._batches: dict[tuple[str, str], int] = {}

    def ended(self, node: str, *, lost: bool) -> None:
        """A fault has ended it, and may have taken its disk."""
        self._may_begin.add(node)
        if lost:
            self._may_live_anew.add(node)

    def rebuilt(self, node: str) -> None:
        """It has the state of a peer."""
        self._may_begin.add(node)
        self._may_live_anew.add(node)

    def began(self, node: str) -> None:
        if node in self._begun and node not in self._may_begin:
            raise Broken(f"{node} was begun anew, and nothing had happened to it.")
        self._begun.add(node)
        self._may_begin.discard(node)

    def stored(self, node: str, disk: Disk) -> None:
        if self._lives.setdefault(node, disk.life) != disk.life:
            if node not in self._may_live_anew:
                raise Broken(f"{node} is {disk.life} now, and was {self._lives[node]}: it lost what it had.")
            self._may_live_anew.discard(node)
            self._lives[node] = disk.life
            self._batches = {key: batch for key, batch in self._batches.items() if key[0] != node}
        for stage, checkpoint in disk.checkpoints.items():
            batch = len(checkpoint.done)
            if batch < self._batches.get((node, stage), 0):
                raise Broken(f"{node} runs batch {batch} of {stage} again.")
            self._batches[node, stage] = batch

    def trimmed(self, node: str, stream: str, tape: Tape, last_id: int) -> None:
        """That is the affair of another checker."""
