"""A simulated part of a host: it reads, works, serves and enters as its role says, under the core's rules.

Alone on its host it is a node. With others it shares what can befall a host, and nothing else (``query.parts``): each
has its disk, its life and its place at those that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final

from anabranch.core import inlet as inlets
from anabranch.core import rebuild
from anabranch.core.shared_lane import LaneCopy
from anabranch.model.punctuation import Punctuations
from anabranch.sim import messages as say
from anabranch.sim.engine import Checkpoint
from anabranch.sim.entering import Entering
from anabranch.sim.network import Network
from anabranch.sim.observer import Observer
from anabranch.sim.process import Process
from anabranch.sim.reading import Reading
from anabranch.sim.rebuilding import Rebuilding
from anabranch.sim.role import Disk, Protocol, Role
from anabranch.sim.serving import Serving
from anabranch.sim.tape import Tape
from anabranch.sim.working import Working
from anabranch.sim.world import MS, World

RETRY_US: Final = 500 * MS
TRIM_US: Final = 300 * MS


class Node:
    def __init__(
        self, name: str, role: Role, world: World, network: Network, observer: Observer, protocol: Protocol
    ) -> None:
        self.name: Final = name
        self.role: Final = role
        self.process: Final = Process(name, world, network, observer, empty_disk(f"{name}.1", role))
        self.neighbours: Sequence[Node] = ()
        """What else runs on its host."""
        self._protocol = protocol
        self._reports = role.reports(name, protocol, self._promised)
        self._reading = Reading(self.process, role, protocol, self._reports, news=self._wake, rebuild=self._rebuild)
        self._serving = Serving(self.process, role, protocol)
        self._entering = Entering(self.process, role, protocol, self._reports, on_hole=self._serving.end)
        self._working = Working(self.process, role, protocol)
        self._rebuilding = Rebuilding(self.process, role, protocol, on_begin=self._close, on_end=self._open)
        self.process.on_commit = self._serving.feed
        network.attach(name, self._receive, self._lost, lambda: self.process.up)

    def start(self) -> None:
        if not self._protocol.keeps_inlets:
            inlet_states = dict.fromkeys(self.role.upstream, inlets.NEW_READER)
            self.process.disk = self.process.disk._replace(inlets=inlet_states)
        self.process.observer.began(self.name)
        self.process.begin()
        for part in (self._reading, self._serving, self._reports, self._rebuilding):
            part.forget()
        self._entering.begin()
        self._working.begin()
        self.process.tell("starts")
        if self.role.upstream:
            self.process.every(RETRY_US, self._subscribe)
        self.process.every(TRIM_US, self._trim)
        self._subscribe()
        self._work()

    def crash(self, *, lose_disk: bool = False) -> None:
        if not self.process.up:
            return
        self.process.tell("crashes and loses its disk" if lose_disk else "crashes")
        self.process.observer.ended(self.name, lost=lose_disk)
        self._end(lose_disk=lose_disk)

    def disturb(self) -> None:
        """What the rebuild of a neighbour must not do: this one begins anew, or with nothing, as if after a crash."""
        if self.process.up:
            if not self._protocol.keeps_neighbours:
                self.process.observer.ended(self.name, lost=False)
            self._end(lose_disk=not self._protocol.keeps_neighbours)
            self.start()

    def _end(self, *, lose_disk: bool) -> None:
        self.process.crash()
        if lose_disk:
            life = self._rebuilding.new_life()
            lost: LaneCopy[say.Pushed] = LaneCopy.lost(self.name, self._rebuilding.births)
            self.process.disk = empty_disk(life, self.role)
            if not self.role.greets:
                self.process.disk = self.process.disk._replace(lanes=dict.fromkeys(self.role.lanes, lost))

    # --- how it is -------------------------------------------------------------------------------------------------

    @property
    def healthy(self) -> bool:
        return self.process.awake and not self._rebuilding.under_way

    def reads(self, stream: str, copy: str) -> bool:
        return self.healthy and self._reading.reads(stream, copy)

    def whole_without(self, lost: Set[str]) -> bool:
        """Whether it has all that it needs to go on when the disks of these nodes are lost."""
        return self.healthy and self._reading.whole_without(lost)

    @property
    def learns(self) -> bool:
        """Whether it is an entry point that lost its disk, and does not count for each of its lanes yet."""
        waits = self._rebuilding.births > 1 and not self.has_begun
        return waits or any(copy.learns for copy in self.process.disk.lanes.values())

    @property
    def has_begun(self) -> bool:
        """Whether it takes part in the lanes of all sources that enter here."""
        return all(map(self.takes_part, self.role.entry_peers))

    def counts(self, source: str) -> bool:
        """Whether it takes part in all lanes of the source, and has forgotten nothing of them."""
        lanes = [copy for origin, copy in self.process.disk.lanes.items() if self.role.lanes[origin] == source]
        return self.takes_part(source) and not any(copy.learns for copy in lanes)

    def takes_part(self, source: str) -> bool:
        alone = not self.role.entry_peers[source]
        return alone or not self.role.greets or source in self.process.disk.begun

    # --- what its parts do to each other ---------------------------------------------------------------------------

    def _subscribe(self) -> None:
        if not self._rebuilding.under_way:
            self._reading.subscribe()

    def _work(self) -> None:
        if not self._rebuilding.under_way:
            self._working.work()

    def _wake(self, stream: str) -> None:
        if not self._rebuilding.under_way:
            self._working.wake(stream)

    def _trim(self) -> None:
        self._serving.trim()
        self._work()  # stages may have waited for room

    def _rebuild(self, reason: str) -> None:
        if self.role.stages and not self._rebuilding.under_way:
            self._rebuilding.begin(reason)

    def _close(self) -> None:
        self._reading.forget()
        self._serving.end()
        self._working.end()

    def _open(self) -> None:
        """With the state of a peer. Who asked before the rebuild may have been answered since, and is told again."""
        self._serving.end()
        self.start()
        if not (self._protocol.rebuilds_alone and self._protocol.keeps_neighbours):
            for neighbour in self.neighbours:
                neighbour.disturb()

    # --- messages --------------------------------------------------------------------------------------------------

    def _receive(self, sender: str, message: Any) -> None:
        self.process.hear(lambda: self._handle(sender, message))

    def _lost(self, peer: str) -> None:
        if self.process.up:
            self._reading.lost(peer)
            self._serving.lost(peer)
            self._entering.lost(peer)

    def _promised(self, stream: str) -> Punctuations:
        disk = self.process.disk
        inlet = disk.inlets.get(stream)
        return disk.tapes[stream].promises if inlet is None else inlet.punctuations

    def _told(self, reader: str, said: say.Acknowledgement) -> None:
        self._reports.told(reader, said.slowest)
        self.process.observer.told(self.name, reader, said.slowest)

    def _handle(self, sender: str, message: Any) -> None:
        match message:
            case say.Reserved():
                self._rebuilding.handle(rebuild.PlaceReserved(life=message.life, input=(message.stream, sender)))
            case say.TellPlaces():
                event = rebuild.PeerTold(peer=sender, life=message.life, places=message.places)
                self._rebuilding.handle(event)
            case say.Snapshot():
                self._rebuilding.handle(rebuild.SnapshotArrived(peer=sender, life=message.life), message)
            case _ if self._rebuilding.under_way:
                pass  # who asks a node that is rebuilt asks again
            case say.Tuples():  # what comes most often is asked for first
                self._reading.arrived(sender, message)
            case say.Acknowledgement():
                self._serving.acknowledged(sender, message)
                self._told(sender, message)
            case say.Letter():
                self._entering.read(sender, message)
            case say.LetterAnswered():
                self._entering.answered(sender, message)
            case say.Register():
                self._entering.registered(sender, message.origin)
            case say.Push():
                self._entering.pushed(sender, message)
            case say.Hello() | say.Say() | say.CloseLane():
                self._entering.spoke(sender, message)
            case say.Subscribe():
                self._serving.subscribed(sender, message)
            case say.Reserve():
                self._serving.reserved(sender, message)
            case say.Answer():
                self._reading.answered(sender, message)
            case say.End():
                self._reading.lost(sender, message.stream)
            case say.AskPlaces():
                self._rebuilding.tell_places(sender)
            case say.AskSnapshot():
                self._rebuilding.give_snapshot(sender)


def empty_disk(life: str, role: Role) -> Disk:
    """What a node stores that has never run."""
    made = [target.stream for stage in role.stages for target in stage.targets]
    readers = {stream: role.stages_reading(stream) for stream in role.upstream}
    for stream in (*sorted(set(role.lanes.values())), *made):
        readers[stream] = [*role.readers.get(stream, ()), *role.stages_reading(stream)]
    return Disk(
        life=life,
        inlets=dict.fromkeys(role.upstream, inlets.NEW_READER),
        tapes={stream: Tape.new(stream, life, names) for stream, names in readers.items()},
        checkpoints={stage.name: Checkpoint(lineage=life) for stage in role.stages},
        lanes=dict.fromkeys(role.lanes, LaneCopy()),
    )
