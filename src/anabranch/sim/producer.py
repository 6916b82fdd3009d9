"""Who pushes: a producer with its entries, or an operator who closes a lane. Both are outside of everything.

What was not accepted is kept, and carried from entry point to entry point until one of them takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from anabranch.reference.tuples import Tuple
from anabranch.sim import messages as say
from anabranch.sim.network import Network
from anabranch.sim.world import MS, World

PATIENCE_US: Final = 1_200 * MS
"""How long it waits for an answer before it goes to the next entry point."""
AHEAD: Final = 3
"""Entries that are sent before the first of them is answered."""
RENEWED: Final = 1_000
"""More than the numbers of one lane: rows after a restart have others."""
LOOK_US: Final = 100 * MS


class Producer:
    """The entries of one lane, each with the time before which it is not sent.

    ``first`` is the place of the first of them; None for whoever has no place of its own, and takes the next one.
    """

    def __init__(
        self,
        name: str,
        origin: str,
        world: World,
        network: Network,
        entry_points: Sequence[str],
        entries: Sequence[tuple[int, say.Pushed]],
        *,
        first: int | None = 1,
    ) -> None:
        self.name = name
        self.origin = origin
        self.dead = False
        self._world = world
        self._network = network
        self._entry_points = list(entry_points)
        self._entries = list(entries)
        self._first = first
        self._next = first or 0
        self._accepted = 0
        self._registered = False
        self._heard_us = 0
        self._progress_us = 0
        self._restarts = 0
        self._rows_are_new = False
        self._asleep = False
        network.attach(name, self._receive, lambda _: None)

    def start(self) -> None:
        self._register()
        self._look()

    @property
    def waits_since_us(self) -> int | None:
        """Since when it has had something to say that nobody took."""
        if self.done or self._first is None or self._asleep:
            return None
        due_us = self._entries[max(self._accepted, self._first - 1) + 1 - self._first][0]
        return max(due_us, self._progress_us) if due_us <= self._world.now_us else None

    def sleep(self) -> None:
        """It does nothing, and hears nothing, until it wakes up."""
        self._asleep = True

    def wake(self) -> None:
        self._asleep = False
        self._progress_us = self._world.now_us

    def die(self) -> None:
        """It says no more; what was not accepted may be kept or not."""
        self.dead = True
        self._network.leave(self.name)

    def restart(self) -> None:
        """Its process is started again, with other rows than those that were not accepted, at another entry point."""
        if self.done:
            return
        self._network.leave(self.name)
        self._restarts += 1
        self._rows_are_new = True
        self._progress_us = self._world.now_us
        self._entry_points.append(self._entry_points.pop(0))
        self._register()

    @property
    def entry_point(self) -> str:
        return self._entry_points[0]

    @property
    def needs(self) -> tuple[str, ...]:
        """The entry points without which it cannot be heard: a feed asks only its own."""
        return tuple(self._entry_points) if len(self._entry_points) == 1 else ()

    @property
    def done(self) -> bool:
        return self.dead or (self._first is not None and self._accepted >= self._last)

    @property
    def _last(self) -> int:
        assert self._first is not None
        return self._first + len(self._entries) - 1

    def _register(self) -> None:
        self._registered = False
        self._heard_us = self._world.now_us
        self._send(say.Register(origin=self.origin))

    def _look(self) -> None:
        if self.done:
            return
        if self._asleep:
            self._world.after(LOOK_US, self._look)
            return
        waits = not self._registered or self._next > self._accepted + 1
        if waits and self._world.now_us - self._heard_us > PATIENCE_US:
            self._entry_points.append(self._entry_points.pop(0))
            self._register()
        elif self._registered:
            self._push()
        self._world.after(LOOK_US, self._look)

    def _push(self) -> None:
        assert self._first is not None
        while self._next <= min(self._last, self._accepted + AHEAD):
            at_us, entry = self._entries[self._next - self._first]
            if at_us > self._world.now_us:
                return
            if self._next == self._accepted + 1:
                self._heard_us = self._world.now_us
            self._send(say.Push(origin=self.origin, place=self._next, entry=entry))
            self._next += 1

    def _receive(self, sender: str, message: Any) -> None:
        if self.dead or self._asleep or sender != self.entry_point:
            return
        self._heard_us = self._world.now_us
        match message:
            case say.Registered():
                self._registered = True
                self._first = self._first or message.following
                self._next = message.following
                if self._rows_are_new:
                    self._make_new_rows(message.following - self._first)
                self._push()
            case say.Accepted():
                if message.through > self._accepted:
                    self._accepted, self._progress_us = message.through, self._world.now_us
                if self._registered:
                    self._push()
            case say.Held():
                self._next = min(self._next, message.following)
                self._progress_us = self._world.now_us
            case say.Refused():
                self._registered = False
                self._heard_us = self._world.now_us - PATIENCE_US // 2

    def _make_new_rows(self, begin: int) -> None:
        """What it could not say before its restart is lost; it numbers what it says now from the next place on."""
        self._rows_are_new = False
        self._entries[begin:] = [
            (at_us, replace(entry, tuples=tuple(self._renewed(each) for each in entry.tuples)))
            for at_us, entry in self._entries[begin:]
        ]

    def _renewed(self, row: Tuple) -> Tuple:
        return replace(row, tid=row.tid % RENEWED + RENEWED * self._restarts)

    def _send(self, message: Any) -> None:
        self._network.send(self.name, self.entry_point, message)
