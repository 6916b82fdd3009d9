"""A simulated process with its disk: transactions that sync late, timers, messages, and what can befall it.

What a process does is decided by its memory; what it says to others follows from its disk: a message about a
transaction leaves when the transaction is durable. A crash returns memory to the disk; a lost disk to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from anabranch.sim.network import Network
from anabranch.sim.observer import Observer
from anabranch.sim.role import Disk
from anabranch.sim.world import MS, World

Apply = Callable[[], None]

STARVED_US: Final = (100 * MS, 3_000 * MS)
"""How long a process that starves waits for its next bit of time."""


class Process:
    """``on_commit`` happens after every transaction, when it is durable."""

    def __init__(self, name: str, world: World, network: Network, observer: Observer, disk: Disk) -> None:
        self.name: Final = name
        self.world: Final = world
        self.observer: Final = observer
        self.up = False
        self.disk = self.memory = disk
        self.on_commit: Apply = lambda: None
        self._network = network
        self._runs = 0
        self._paused: list[Apply] | None = None
        self._starved = False
        self._slow = 1
        self._durable_at = 0

    def begin(self) -> None:
        """A new run of it: what an earlier one had planned does not happen any more."""
        self._runs += 1
        self.up = True
        self.memory = self.disk
        self._durable_at = self.world.now_us

    @property
    def run(self) -> int:
        """Changes with each start and crash."""
        return self._runs

    @property
    def awake(self) -> bool:
        return self.up and self._paused is None

    @property
    def slow(self) -> bool:
        return self._slow > 1

    @property
    def starved(self) -> bool:
        return self._starved

    # --- what it does ----------------------------------------------------------------------------------------------

    def transact(self, disk: Disk, then: Apply) -> None:
        """Memory has it at once; it is durable a little later, and only then ``then`` happens."""
        self.memory = disk
        delay_us = self.world.random.randrange(1, 20) * MS * self._slow
        self._durable_at = max(self._durable_at, self.world.now_us + delay_us)

        def commit() -> None:
            news = disk is not self.disk
            if news:
                self.observer.committed(self.name, self.disk, disk)
                self.disk = disk
            then()
            if news:
                self.on_commit()

        self.later(self._durable_at - self.world.now_us, commit)

    def when_durable(self, then: Apply) -> None:
        """``then`` happens when all earlier transactions are durable."""
        self.later(max(0, self._durable_at - self.world.now_us), then)

    def some_work_us(self) -> int:
        """How long the next step of a batch takes."""
        return self.world.random.randrange(1, 40) * MS * self._slow

    def later(self, delay_us: int, apply: Apply) -> None:
        run = self._runs
        self.world.after(delay_us, lambda: self._when_awake(run, apply))

    def every(self, interval_us: int, apply: Apply) -> None:
        def again() -> None:
            apply()
            if self.up:
                self.every(interval_us, apply)

        self.later(interval_us, again)

    def hear(self, handle: Apply) -> None:
        """A message has come: it is handled at once, or when the process is awake."""
        if self.up:
            self._when_awake(self._runs, handle)

    def send(self, to: str, message: Any) -> None:
        self._network.send(self.name, to, message)

    def tell(self, what: str) -> None:
        self.world.tell(self.name, what)

    def _when_awake(self, run: int, apply: Apply) -> None:
        """Now or later, but only in the run in which it was planned."""
        if self._paused is not None:
            self._paused.append(lambda: self._when_awake(run, apply))
        elif self.up and self._runs == run:
            apply()

    # --- what befalls it -------------------------------------------------------------------------------------------

    def crash(self) -> None:
        self.up = False
        self._runs += 1
        self._paused = None
        self._starved = False
        self._network.leave(self.name)

    def pause(self) -> None:
        if self.awake:
            self.tell("pauses")
            self._paused = []

    def resume(self) -> None:
        waiting, self._paused = self._paused, None
        if waiting is not None:
            self.tell("goes on")
            for apply in waiting:
                apply()

    def starve(self) -> None:
        """It gets little time: what there is to do waits, for up to seconds, and is then done all at once."""
        if self.awake:
            self.tell("starves")
            self._starved = True
            self._wait_for_time(self._runs)

    def feed(self) -> None:
        """It gets all the time that it needs again."""
        if self._starved:
            self._starved = False
            self.resume()

    def _wait_for_time(self, run: int) -> None:
        if not self._starved or self._runs != run:
            return
        waiting, self._paused = self._paused or [], None
        for apply in waiting:
            apply()
        if self._runs == run:  # what it did just now did not end it
            self._paused = []
            self.world.after(self.world.random.randrange(*STARVED_US), lambda: self._wait_for_time(run))

    def slow_down(self, factor: int) -> None:
        self._slow = factor
