"""The reading side of a simulated node: subscriptions to all copies, and the inlets that merge them into journals."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

import numpy as np

from anabranch.core import inlet as inlets
from anabranch.core.horizon import UNKNOWN, Slowest
from anabranch.core.identities import NO_TUPLES, Header
from anabranch.reference.tuples import Tuple
from anabranch.runtime.part_reports import PartReports
from anabranch.sim import messages as say
from anabranch.sim.process import Process
from anabranch.sim.role import Disk, Protocol, Role
from anabranch.sim.world import MS

ORPHANED_US: Final = 4_000 * MS
"""How long a replica waits for a copy that can serve it before it is rebuilt."""


class Reading:
    """``news`` is told of a journal that has grown, ``rebuild`` of a reason why the node must be rebuilt."""

    def __init__(
        self,
        process: Process,
        role: Role,
        protocol: Protocol,
        reports: PartReports,
        *,
        news: Callable[[str], None],
        rebuild: Callable[[str], None],
    ) -> None:
        self._process = process
        self._role = role
        self._protocol = protocol
        self._reports = reports
        self._news = news
        self._rebuild = rebuild
        self._inlets = {stream: protocol.inlet(stream, role.origins[stream]) for stream in role.upstream}
        self._codes = {
            stream: {origin: code for code, origin in enumerate(role.origins[stream])} for stream in role.upstream
        }
        self._reading: dict[tuple[str, str], bool] = {}
        self._unstored: dict[str, inlets.InletState] = {}
        """Inlets that know more than what is stored of them."""
        self._owed: dict[str, dict[str, inlets.Acknowledge]] = {stream: {} for stream in role.upstream}
        """Per stream and copy, what is to be acknowledged when it is stored."""
        self._orphaned_since: int | None = None

    def forget(self) -> None:
        """Nothing is read any more."""
        self._reading.clear()
        self._unstored.clear()
        self._owed = {stream: {} for stream in self._role.upstream}
        self._orphaned_since = None

    def lost(self, copy: str, stream: str | None = None) -> None:
        """The copy sends no more of this stream, or of any."""
        for each, name in self._reading:
            if name == copy and stream in (None, each):
                self._reading[each, name] = False

    def reads(self, stream: str, copy: str) -> bool:
        return bool(self._reading.get((stream, copy)))

    def whole_without(self, lost: Set[str]) -> bool:
        """Whether it gets all that it needs from copies other than these."""
        return all(
            (live := [copy for copy in self.live(stream) if copy not in lost])
            and not self._inlets[stream].orphaned(self._process.disk.inlets[stream], live)
            for stream in self._role.upstream
        )

    def subscribe(self) -> None:
        """Asks the copies that are not read, and stores what has waited for a transaction."""
        for stream, inlet in list(self._unstored.items()):
            self._store(stream, self._process.memory.with_inlet(stream, inlet))
        for stream, copies in self._role.upstream.items():
            for copy in copies:
                if not self._reading.get((stream, copy)):
                    self._ask(stream, copy)
                elif self._role.horizon_us is not None:
                    self._acknowledge_again(stream, copy)
        self._look_for_orphans()

    def _acknowledge_again(self, stream: str, copy: str) -> None:
        """What is slowest may be on another stream, and its entry points are not those of this one."""
        inlet = self._process.disk.inlets[stream]
        known = inlet.copies.get(copy)
        if known is not None:
            self._process.send(
                copy,
                say.Acknowledgement(
                    stream=stream,
                    life=self._process.disk.life,
                    position=known.position,
                    punctuations=inlet.punctuations,
                    slowest=self._slowest(),
                ),
            )

    def _slowest(self) -> Slowest:
        return UNKNOWN if self._role.horizon_us is None else self._reports.slowest()

    def _ask(self, stream: str, copy: str) -> None:
        inlet = self._process.disk.inlets[stream]
        known = inlet.copies.get(copy)
        self._process.send(
            copy,
            say.Subscribe(
                stream=stream,
                life=self._process.disk.life,
                position=known.position if known else None,
                punctuations=inlet.punctuations,
            ),
        )

    def answered(self, copy: str, answer: say.Answer) -> None:
        self._reading[answer.stream, copy] = True
        event = inlets.CopyAnswered(
            copy=copy,
            incarnation=answer.incarnation,
            first_id=answer.first_id,
            floors=answer.floors,
            earlier_life=answer.earlier_life,
        )
        self._into_inlet(answer.stream, event, ())

    def arrived(self, copy: str, arrived: say.Tuples) -> None:
        codes = self._codes[arrived.stream]
        event = inlets.TuplesArrived(
            copy=copy,
            incarnation=arrived.incarnation,
            first_id=arrived.first_id,
            header=Header(
                np.array([codes[each.origin] for each in arrived.tuples], np.int32),
                np.array([each.stime for each in arrived.tuples], np.int64),
                np.array([each.tid for each in arrived.tuples], np.int64),
            )
            if arrived.tuples
            else NO_TUPLES,
            promises=arrived.promises,
        )
        self._into_inlet(arrived.stream, event, arrived.tuples)

    def _into_inlet(self, stream: str, event: inlets.Event, tuples: tuple[Tuple, ...]) -> None:
        """One transaction: the inlet's state and what it lets through. If that is nothing, the state waits for the
        next."""
        rules = self._inlets[stream]
        before = self._unstored.get(stream, self._process.memory.inlets[stream])
        after, actions = rules.handle(before, event)
        disk = self._process.memory.with_inlet(stream, after)
        for action in actions:
            match action:
                case inlets.AppendToJournal():
                    passed = [tuples[index] for index in action.take]
                    disk = disk.with_tape(disk.tapes[stream].append(passed, action.punctuations))
                case inlets.Acknowledge():
                    self._owed[stream][action.copy] = action
                case inlets.SubscribeAgain():
                    self._ask(stream, action.copy)
                case inlets.RebuildFromPeer():
                    self._rebuild(action.reason)
                    return
        if after is before and not actions:
            return
        if rules.must_store(event, actions):
            self._store(stream, disk)
        else:
            self._unstored[stream] = after
        self._news(stream)

    def _store(self, stream: str, disk: Disk) -> None:
        """With the inlet of the stream as it is now; what it holds is acknowledged when that is durable."""
        self._unstored.pop(stream, None)
        owed, self._owed[stream] = self._owed[stream], {}

        def acknowledge() -> None:
            for each in owed.values():
                self._process.send(
                    each.copy,
                    say.Acknowledgement(
                        stream=stream,
                        life=disk.life,
                        position=each.position,
                        punctuations=disk.inlets[stream].punctuations,
                        slowest=self._slowest(),
                    ),
                )

        if not self._protocol.acknowledges_after_commit:
            acknowledge()
        self._process.transact(disk, acknowledge if self._protocol.acknowledges_after_commit else lambda: None)

    def _look_for_orphans(self) -> None:
        """A replica that no live copy can serve any more waits a little, and is then built again."""
        orphaned = any(
            self._inlets[stream].orphaned(self._process.memory.inlets[stream], self.live(stream))
            for stream in self._role.upstream
        )
        if not orphaned:
            self._orphaned_since = None
        elif self._orphaned_since is None:
            self._orphaned_since = self._process.world.now_us
        elif self._process.world.now_us - self._orphaned_since >= ORPHANED_US:
            self._orphaned_since = None
            self._rebuild("no live copy can vouch")

    def live(self, stream: str) -> list[str]:
        """The copies that are read now."""
        return [copy for copy in self._role.upstream[stream] if self._reading.get((stream, copy))]
