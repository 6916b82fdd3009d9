"""One contract for what is stored of a shared lane, kept by the simulated disk and by the one on SQLite.

The same lane runs on both: with the same events, both store, show and forget the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.core.elections import Elections
from anabranch.core.lane_state import LaneState
from anabranch.core.readers import ReaderAcknowledged, ReaderSubscribed, TrimDue
from anabranch.core.shared_lane import LaneCopy, LeadWanted, SharedLane, StoreAnswered, StoreAsked, VoteAnswered
from anabranch.model.names import late_stream
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations
from anabranch.node.decided import Decided
from anabranch.node.kept_lane import Held, KeptLane, save
from anabranch.reference.tuples import Tuple
from anabranch.runtime.ingest.lane_replica import Keeping, LaneReplica
from anabranch.runtime.ports import LaneDisk
from anabranch.sim.checkers.steady import Steady
from anabranch.sim.checkers.undisturbed import Undisturbed
from anabranch.sim.lane_disk import SimulatedLane, is_same
from anabranch.sim.messages import Pushed
from anabranch.sim.network import Network
from anabranch.sim.observer import Observer
from anabranch.sim.process import Process
from anabranch.sim.role import Disk
from anabranch.sim.tape import Tape
from anabranch.sim.world import SECOND, World
from anabranch.storage import codec
from anabranch.storage.state import LogSpec
from anabranch.storage.store import Store

SOURCE, ORIGIN = "events", "events/p"
SCHEMA = pa.schema([("x", pa.int64())])
KEEPING = Keeping(entries=6, trim_entries=2, trim_bytes=1 << 40, small_bytes=1 << 40)


class Stored(ABC):
    """Lane p of a source with one reader, ``m``; ``lane`` is its disk."""

    lane: LaneDisk[Any, Any]

    @abstractmethod
    def entry(self, number: int) -> Any:
        """One row of this number, and the promise of its time."""

    @abstractmethod
    def same(self, mine: Any, its: Any) -> bool: ...

    @abstractmethod
    def shown(self) -> tuple[list[int], Punctuations]:
        """The numbers of the rows in the log, and what it promises."""

    @abstractmethod
    def floor(self) -> int:
        """Of one who begins to read: what may be missing lies below."""

    @abstractmethod
    def read_all(self) -> None:
        """The reader has everything, and the log is trimmed."""

    @abstractmethod
    def restart(self) -> None: ...


class Simulated(Stored):
    def __init__(self) -> None:
        self._world = World(0)
        observer = Observer(self._world, [], Steady(), Undisturbed())
        disk = Disk(
            life="a.1",
            inlets={},
            tapes={SOURCE: Tape.new(SOURCE, "a.1", ["m"])},
            checkpoints={},
            lanes={ORIGIN: LaneCopy()},
        )
        self._process = Process("a", self._world, Network(self._world), observer, disk)
        self._process.begin()
        self.lane = SimulatedLane(self._process, ORIGIN, SOURCE, on_hole=lambda source: None, tells_of_holes=True)

    def entry(self, number: int) -> Pushed:
        row = Tuple(origin=ORIGIN, stime=number, tid=number, values={"x": number})
        return Pushed(tuples=(row,), promise_us=number, top_us=number)

    def same(self, mine: Pushed, its: Pushed) -> bool:
        return is_same(mine, its)

    def shown(self) -> tuple[list[int], Punctuations]:
        tape = self._process.memory.tapes[SOURCE]
        return [each.tid for segment in tape.segments for each in segment.tuples], tape.promises

    def floor(self) -> int:
        return self._process.memory.tapes[SOURCE].readers.trimmed.get(ORIGIN, 0)

    def read_all(self) -> None:
        tape = self._process.memory.tapes[SOURCE]
        position = Position(tape.readers.incarnation, tape.last_id)
        for event in (
            ReaderSubscribed(reader="m", life="1"),
            ReaderAcknowledged(reader="m", life="1", position=position),
            TrimDue(full=False),
        ):
            tape, _ = tape.handle(event)
        self._process.transact(self._process.memory.with_tape(tape), lambda: None)

    def restart(self) -> None:
        self._world.run_until(self._world.now_us + SECOND)
        self._process.begin()


class Real(Stored):
    def __init__(self, directory: Path) -> None:
        self._path = directory / "s.db"
        self._store = Store.open(self._path)
        for name in (SOURCE, late_stream(SOURCE)):
            self._store.create_log(
                LogSpec(
                    name=name, schema=SCHEMA, origins=(ORIGIN,), kind="source", retention_us=10**12, limit_bytes=10**9
                )
            )
        with self._store.transaction() as transaction:
            save(transaction, "p", LaneCopy(), LaneCopy())
        self.lane = self._opened()

    def _opened(self) -> KeptLane:
        return KeptLane(
            SOURCE,
            "p",
            self._store,
            clock=lambda: 1,
            released=lambda decided: None,
            renew=self._renew,
            kept=lambda stream: frozenset(),
            rebuild=lambda reason: None,
        )

    def _renew(self, stream: str, floors: Punctuations) -> None:
        with self._store.transaction() as transaction:
            transaction.begin_incarnation(stream, floors)

    def entry(self, number: int) -> Held:
        numbers = np.array([number], np.int64)
        rows = codec.with_header(
            pa.record_batch([pa.array([number], pa.int64())], schema=SCHEMA),
            codec.stored_schema(SCHEMA),
            numbers=numbers,
            stamps=numbers,
            code=0,
        )
        decided = Decided(state=LaneState(max_time_us=number), rows=codec.encoded(rows, ORIGIN), promise_us=number)
        assert isinstance(self.lane, KeptLane)
        return Held(self.lane, decided.to_bytes(), decided=decided)

    def same(self, mine: Held, its: Held) -> bool:
        assert isinstance(self.lane, KeptLane)
        return self.lane.is_same(mine, its)

    def shown(self) -> tuple[list[int], Punctuations]:
        log = self._store.log(SOURCE)
        segments = log.read(log.first_seq() - 1, log.end_seq())
        rows = [each for segment in segments if segment.rows is not None for each in segment.rows["_tid"].to_pylist()]
        return rows, log.punctuations()

    def floor(self) -> int:
        return self._store.log(SOURCE).floors().get(ORIGIN, 0)

    def read_all(self) -> None:
        log = self._store.log(SOURCE)
        if log.end_seq() >= log.first_seq():
            with self._store.transaction() as transaction:
                transaction.trim_through(SOURCE, log.end_seq())

    def restart(self) -> None:
        self._store.close()
        self._store = Store.open(self._path)
        self.lane = self._opened()

    def close(self) -> None:
        self._store.close()


class _Clock:
    def now_us(self) -> int:
        return 1

    def chance(self) -> float:
        return 0.5

    def look_within(self, seconds: float) -> None:
        """Nobody looks."""


class Lane:
    """The lane at entry point a, whose peer b says what the test wants."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self.start()

    def start(self) -> None:
        self.replica: LaneReplica[Any, Any] = LaneReplica(
            "p",
            SharedLane("a", ("b", "c"), self._stored.same),
            Elections(),
            self._stored.lane,
            _Clock(),
            tell=lambda peer, within_s: None,
            all_kept_bytes=lambda: 0,
            keeping=KEEPING,
        )

    def restart(self) -> None:
        self._stored.restart()
        self.start()

    def lead(self) -> None:
        self.replica.handle(LeadWanted())
        term = self.replica.copy.term
        self._hear(VoteAnswered(sender="b", term=term, agreed=True, tried=term + 1))
        self._hear(VoteAnswered(sender="b", term=term + 1, agreed=True))
        assert self.replica.leads

    def enter(self, number: int) -> None:
        self.replica.enter(self._stored.entry(number))

    def confirm(self, *, released: int = 0) -> None:
        """b holds everything, and both peers have released up to there."""
        copy = self.replica.copy
        for peer in "cb":
            stored = copy.held if peer == "b" else released
            self._hear(StoreAnswered(sender=peer, term=copy.term, agreed=True, stored=stored, released=released))

    def told(self, *numbers: int, after: int, released: int, base: int | None = None) -> None:
        """By a leader b, in a later term."""
        bodies = tuple(self._stored.entry(number).body() for number in numbers)
        left = None if base is None else self._stored.lane.base(self._stored.entry(base)).body()
        self._hear(
            StoreAsked(
                sender="b",
                term=max(1, self.replica.copy.term + self.replica.leads),
                after=after,
                began_with=after,
                entries=bodies,
                released=released,
                base=left,
            )
        )

    def _hear(self, message: Any) -> None:
        self.replica.heard(message, has_room=lambda: True)

    def facts(self) -> Any:
        """All but the entries."""
        copy = self.replica.copy
        return replace(copy, entries=(), base=None), len(copy.entries), copy.base is None


@pytest.fixture(params=["simulated", "real"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    if request.param == "simulated":
        yield Simulated()
        return
    real = Real(tmp_path)
    yield real
    real.close()


def test_what_is_released_is_shown_and_nothing_else(stored: Stored) -> None:
    lane = Lane(stored)
    lane.lead()
    lane.enter(1)
    lane.enter(2)
    assert stored.shown() == ([], {})
    lane.confirm()
    lane.enter(3)
    assert stored.shown() == ([1, 2], {ORIGIN: 2})


def test_what_a_leader_took_is_forgotten_with_it_unless_it_was_released(stored: Stored) -> None:
    lane = Lane(stored)
    lane.lead()
    lane.enter(1)
    lane.confirm()
    lane.enter(2)
    lane.restart()
    assert (lane.replica.copy.held, lane.replica.copy.released) == (1, 1)
    assert stored.shown() == ([1], {ORIGIN: 1})


def test_entries_go_when_all_have_released_them_and_the_log_has_forgotten_them(stored: Stored) -> None:
    lane = Lane(stored)
    lane.lead()
    for number in range(1, 5):
        lane.enter(number)
        lane.confirm(released=number - 1)
    assert len(lane.replica.copy.entries) == 4
    stored.read_all()
    lane.enter(5)
    lane.confirm(released=4)
    lane.confirm(released=5)
    assert lane.replica.copy.trimmed == 3  # two together at least, so one of them waits for another
    lane.restart()
    assert (lane.replica.copy.trimmed, lane.replica.copy.held) == (3, 5)
    assert stored.same(stored.lane.entry(lane.replica.copy.entries[-1].body()), stored.entry(5))


def test_behind_a_hole_the_log_goes_on_and_readers_are_not_vouched_for_below(stored: Stored) -> None:
    lane = Lane(stored)
    lane.told(1, after=0, released=1)
    lane.told(9, after=8, released=9, base=8)
    assert stored.shown() == ([1, 9], {ORIGIN: 9})
    assert stored.floor() == 9  # 8 is the last that may be missing
    lane.restart()
    assert (lane.replica.copy.trimmed, lane.replica.copy.released) == (8, 9)


@pytest.mark.parametrize("seed", range(5))
def test_both_keep_and_show_the_same(seed: int, tmp_path: Path) -> None:
    real = Real(tmp_path)
    both = [Simulated(), real]
    lanes = [Lane(each) for each in both]
    chance = Random(seed)
    for number in range(1, 60):
        what = chance.choice(("lead", "enter", "enter", "confirm", "confirm", "read", "restart", "follow"))
        drawn = chance.random()
        for stored, lane in zip(both, lanes, strict=True):
            copy = lane.replica.copy
            match what:
                case "lead" if not lane.replica.leads:
                    lane.lead()
                case "enter" if lane.replica.leads:
                    lane.enter(number)
                case "confirm" if lane.replica.leads:
                    lane.confirm(released=round(copy.released * drawn))
                case "follow":
                    lane.told(number, after=copy.released, released=copy.released + (drawn > 0.5))
                case "read":
                    stored.read_all()
                case "restart":
                    lane.restart()
        assert lanes[0].facts() == lanes[1].facts(), f"seed {seed}, step {number}: {what}"
        assert both[0].shown() == both[1].shown(), f"seed {seed}, step {number}: {what}"
    real.close()
