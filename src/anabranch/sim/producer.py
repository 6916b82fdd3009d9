"""A producer outside of everything: it numbers its entries, keeps what was not answered, and sends it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anabranch.sim.node import Node
from anabranch.sim.truth import Entry
from anabranch.sim.world import MS, World

PATIENCE_US: Final = 400 * MS


class Producer:
    """The entries of one lane, pushed one after the other, none before its time."""

    def __init__(self, world: World, node: Node, entries: Sequence[Entry]) -> None:
        self._world = world
        self._node = node
        self._entries = list(entries)
        self._answered = 0
        self._attempt = 0

    @property
    def done(self) -> bool:
        return self._answered == len(self._entries)

    def go_on(self) -> None:
        if self.done:
            return
        entry = self._entries[self._answered]
        if self._world.now_us < entry.at_us:
            self._world.after(entry.at_us - self._world.now_us, self.go_on)
            return
        self._attempt += 1
        attempt = self._attempt

        def answered() -> None:
            if attempt == self._attempt:
                self._answered += 1
                self.go_on()

        def patience_ends() -> None:
            if attempt == self._attempt and not self.done:
                self.go_on()

        if self._node.healthy:
            self._node.push(entry.source, list(entry.tuples), {entry.origin: entry.promise_us}, answered)
        self._world.after(PATIENCE_US, patience_ends)
