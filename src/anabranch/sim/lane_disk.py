"""A shared lane on a simulated disk, with the log of its source: the port of a ``LaneReplica``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anabranch.core.roll_call import Roll
from anabranch.core.shared_lane import LaneCopy
from anabranch.sim import messages as say
from anabranch.sim.process import Process

Copy = LaneCopy[say.Pushed]


class SimulatedLane:
    """``on_hole`` is told of a log that goes on without something that its readers may lack, when that is durable;
    with ``tells_of_holes`` False, nobody hears of it."""

    def __init__(
        self, process: Process, origin: str, source: str, *, on_hole: Callable[[str], None], tells_of_holes: bool
    ) -> None:
        self._process = process
        self._origin = origin
        self._source = source
        self._on_hole = on_hole
        self._tells_of_holes = tells_of_holes

    def load(self) -> Copy:
        return self._process.memory.lanes[self._origin]

    def store(self, before: Copy, after: Copy, *, hole: bool) -> None:
        disk = self._process.memory.with_lane(self._origin, after)
        tape = disk.tapes[self._source]
        if hole and after.base is not None:
            tape = tape.append((), {self._origin: after.base.promise_us})
        for entry in after.between(before.released, after.released):
            tape = tape.append(entry.tuples, {self._origin: entry.promise_us} if entry.promise_us else {})
        self._process.transact(disk.with_tape(tape), _nothing)

    def leave_out(self, base: say.Pushed) -> bool:
        process, source = self._process, self._source
        process.observer.leaves_out()
        if self._tells_of_holes:
            incarnation = f"{process.memory.life}+{process.world.now_us}"
            tape = process.memory.tapes[source].with_hole(incarnation, {self._origin: base.top_us + 1})
            process.transact(process.memory.with_tape(tape), lambda: self._on_hole(source))
        return True

    def log_ends(self) -> tuple[int, ...]:
        return (self._process.memory.tapes[self._source].last_id,)

    def is_forgotten(self, ends: tuple[int, ...]) -> bool:
        return ends[0] <= self._process.memory.tapes[self._source].readers.trimmed_id

    def entry(self, body: say.Pushed) -> say.Pushed:
        return body

    def base(self, entry: say.Pushed) -> say.Pushed:
        return entry.without_rows()


class SimulatedRoll:
    """What a simulated entry point has written down of those of a source: the port of a ``Membership``."""

    def __init__(self, process: Process, source: str, origins: Sequence[str]) -> None:
        self._process = process
        self._source = source
        self._origins = origins

    def roll(self) -> Roll:
        return self._process.memory.rolls.get(self._source, {})

    def has_begun(self) -> bool:
        return self._source in self._process.memory.begun

    def write_roll(self, roll: Roll) -> None:
        disk = self._process.memory
        self._process.transact(disk._replace(rolls={**disk.rolls, self._source: roll}), _nothing)

    def begin(self, life: int, copy: Copy) -> None:
        disk = self._process.memory
        lanes = {**disk.lanes, **dict.fromkeys(self._origins, copy)}
        self._process.transact(disk._replace(lanes=lanes, begun=disk.begun | {self._source}), _nothing)


def is_same(mine: say.Pushed, its: say.Pushed) -> bool:
    """A base has lost its rows."""
    return mine == its or mine.without_rows() == its


def _nothing() -> None:
    """What rests on a transaction is said when it is durable."""
