"""The line between two simulated entry points: letters that are answered, or not in time."""

from __future__ import annotations

from collections.abc import Callable

from anabranch import limits
from anabranch.core.roll_call import Roll
from anabranch.runtime.ingest.peer_line import PeerLine
from anabranch.sim import messages as say
from anabranch.sim.chore import NEVER, Chore
from anabranch.sim.process import Process
from anabranch.sim.world import SECOND


class Line:
    """Writes to one peer, as ``line`` says; ``greeted`` is called with what the peer has written down of a source."""

    def __init__(self, process: Process, line: PeerLine[say.Pushed], greeted: Callable[[str, Roll], None]) -> None:
        self._process = process
        self._line = line
        self._greeted = greeted
        self._chore = Chore(process, self._write)
        self._number = 0
        self._under_way = False
        self._woken = False
        """Whether there are news since the letter that is under way."""
        self._chore.within(0.0)

    def wake(self, within_s: float) -> None:
        if not self._line.is_away:
            self._chore.within(within_s)

    def try_again(self) -> None:
        """The peer has been heard: it need not be waited for any longer."""
        if self._line.is_away:
            self._chore.within(0.0)

    def _write(self) -> float:
        if self._under_way:
            self._woken = True
            return NEVER
        greetings = self._line.greetings()
        letter = self._line.write(self._now_s())
        if not letter and not greetings:
            return self._line.answered((), self._now_s())
        self._number += 1
        number, self._under_way = self._number, True
        said = say.Letter(number, tuple(letter), tuple(greetings.items()))
        self._process.when_durable(lambda: self._process.send(self._line.peer, said))
        self._process.later(round(limits.LETTER_S * SECOND), lambda: self._failed(number))
        return NEVER

    def answered(self, answer: say.LetterAnswered) -> None:
        if self._under_way and answer.number == self._number:
            for source, roll in answer.rolls:
                self._greeted(source, roll)
            self._next(self._line.answered(answer.about, self._now_s()))

    def broken(self) -> None:
        """The connection is gone, and with it the answer."""
        self._failed(self._number)

    def _failed(self, number: int) -> None:
        if self._under_way and number == self._number:
            self._next(self._line.failed())

    def _next(self, again_s: float) -> None:
        woken, self._under_way, self._woken = self._woken, False, False
        self._chore.within(0.0 if woken else again_s)

    def _now_s(self) -> float:
        return self._process.world.now_us / SECOND
