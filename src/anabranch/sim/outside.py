"""What all have in common who push from outside: since when one waits, and that it may sleep."""

from __future__ import annotations

from anabranch.sim.world import World


class Outside:
    """Somebody with something to say. One that sleeps does and hears nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._asleep = False
        self._progress_us = world.now_us

    def sleep(self) -> None:
        self._asleep = True

    def wake(self) -> None:
        self._asleep = False
        self._goes_on()

    @property
    def waits_since_us(self) -> int | None:
        """Since when it has had something to say that nobody took; None if it has nothing to say."""
        due_us = None if self._asleep else self._due_us()
        return None if due_us is None or due_us > self._world.now_us else max(due_us, self._progress_us)

    @property
    def needs(self) -> tuple[str, ...]:
        """The entry points without which it cannot be heard: a feed asks only its own."""
        return ()

    @property
    def progress_us(self) -> int:
        """When it last went on."""
        return self._progress_us

    def _due_us(self) -> int | None:
        """When the next thing was to be said that is not accepted yet."""
        raise NotImplementedError

    def _goes_on(self) -> None:
        """Something was taken, or it is clear why not: waiting counts from here."""
        self._progress_us = self._world.now_us
