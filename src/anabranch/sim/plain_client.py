"""A plain client of a lane that its entry point numbers: it has a name, a session and a counter of its own.

It keeps what was not accepted, and when its entry point falls silent it goes on at a peer under the same session: it
says again what it has no answer for, and the lane knows again what it has. An operator closes such a lane by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from anabranch.sim import messages as say
from anabranch.sim.network import Network
from anabranch.sim.observer import Observer
from anabranch.sim.outside import Outside
from anabranch.sim.producer import LOOK_US, PATIENCE_US
from anabranch.sim.world import World

AHEAD: Final = 6
"""Rows that are sent before the first of them is answered."""
BATCH: Final = 4
RENEWED: Final = 1_000
"""More than any value of a column: rows after a restart have others."""


class PlainClient(Outside):
    """The rows of one client, each with the time before which it is not sent; the first has number 1."""

    def __init__(
        self,
        name: str,
        origin: str,
        world: World,
        network: Network,
        observer: Observer,
        entry_points: Sequence[str],
        rows: Sequence[tuple[int, say.Row]],
    ) -> None:
        super().__init__(world)
        self.name = name
        self.origin = origin
        self.dead = False
        self.said: Final[list[list[say.Row]]] = [[row] for _, row in rows]
        """Per number, what was ever said under it: after a restart it is something else."""
        self._network = network
        self._observer = observer
        self._entry_points = list(entry_points)
        self._times = [at_us for at_us, _ in rows]
        self._session: int | None = None
        self._welcomed_by: str | None = None
        self._registered = False
        self._rows_are_new = False
        self._next = 1
        self.accepted = 0
        """The last number that was answered."""
        self._heard_us = 0
        self._restarts = 0
        network.attach(name, self._receive, lambda _: None)

    def start(self) -> None:
        self._register()
        self._look()

    def _due_us(self) -> int | None:
        return None if self.done else self._times[self.accepted]

    def die(self) -> None:
        self.dead = True
        self._network.leave(self.name)

    def restart(self) -> None:
        """Its process is started again, with other rows than those that were not accepted, at another entry point."""
        if self.done:
            return
        self._network.leave(self.name)
        self._restarts += 1
        self._rows_are_new = True
        self._goes_on()
        self._session = self._welcomed_by = None
        self._go_elsewhere()

    @property
    def entry_point(self) -> str:
        return self._entry_points[0]

    @property
    def done(self) -> bool:
        return self.dead or self.accepted >= len(self.said)

    def _go_elsewhere(self) -> None:
        self._entry_points.append(self._entry_points.pop(0))
        self._register()

    def _register(self) -> None:
        self._registered = False
        self._heard_us = self._world.now_us
        self._send(say.Hello(origin=self.origin, session=self._session, producer=self._producer()))

    def _look(self) -> None:
        if self.done:
            return
        if self._asleep:
            self._world.after(LOOK_US, self._look)
            return
        self._speak()
        self._world.after(LOOK_US, self._look)

    def _speak(self) -> None:
        waits = not self._registered or self._next > self.accepted + 1
        if waits and self._world.now_us - self._heard_us > PATIENCE_US:
            self._go_elsewhere()
        elif self._registered:
            self._push()

    def _push(self) -> None:
        """The rows whose time has come, as many as may be on their way."""
        while self._next <= min(len(self.said), self.accepted + AHEAD):
            first = self._next
            last = min(len(self.said), self.accepted + AHEAD, first + BATCH - 1)
            rows = tuple(
                self.said[number - 1][-1]
                for number in range(first, last + 1)
                if self._times[number - 1] <= self._world.now_us
            )
            if not rows:
                return
            if first == self.accepted + 1:
                self._heard_us = self._world.now_us
            assert self._session is not None
            said = say.Say(origin=self.origin, session=self._session, first=first, rows=rows, producer=self._producer())
            self._send(said)
            self._next = first + len(rows)

    def _receive(self, sender: str, message: Any) -> None:
        if self.dead or self._asleep or sender != self.entry_point:
            return
        self._heard_us = self._world.now_us
        match message:
            case say.Welcome():
                self._welcomed(message)
            case say.Accepted():
                if message.through > self.accepted:
                    self.accepted = message.through
                    self._goes_on()
                self._next = max(self._next, self.accepted + 1)
            case say.Held():
                self._next = min(self._next, message.following)
                self._goes_on()
                return
            case say.Refused():
                self._registered = False
                self._heard_us = self._world.now_us - PATIENCE_US // 2
            case say.Expired() if message.session == self._session:
                self._session = None
                self._register()
        if self._registered:
            self._push()

    def _welcomed(self, welcome: say.Welcome) -> None:
        if self._session is not None and self._welcomed_by not in (None, self.entry_point):
            self._observer.moves_on()
        self._registered, self._session, self._welcomed_by = True, welcome.session, self.entry_point
        if self._rows_are_new:  # what it could not say before its restart is lost
            self._rows_are_new = False
            self.accepted = welcome.following - 1
            for versions in self.said[welcome.following - 1 :]:
                versions.append(self._renewed(versions[-1]))
        self._next = min(self.accepted + 1, welcome.following)

    def _renewed(self, row: say.Row) -> say.Row:
        value = row.values["y"]
        assert isinstance(value, int)
        return replace(row, values={**row.values, "y": value % RENEWED + RENEWED * self._restarts})

    def _producer(self) -> str | None:
        """The name under which it counts; None for its own."""
        return None

    def _send(self, message: Any) -> None:
        self._network.send(self.name, self.entry_point, message)


class Closer:
    """An operator who closes a lane of plain clients, at whichever entry point takes it."""

    def __init__(self, name: str, origin: str, world: World, network: Network, entry_points: Sequence[str]) -> None:
        self.name = name
        self.origin = origin
        self.dead = False
        self.done = False
        self._world = world
        self._network = network
        self._entry_points = list(entry_points)
        network.attach(name, self._receive, lambda _: None)

    def start(self) -> None:
        if not self.done:
            self._network.send(self.name, self._entry_points[0], say.CloseLane(origin=self.origin))
            self._entry_points.append(self._entry_points.pop(0))
            self._world.after(PATIENCE_US, self.start)

    def _receive(self, sender: str, message: Any) -> None:
        self.done = self.done or isinstance(message, say.Accepted)
