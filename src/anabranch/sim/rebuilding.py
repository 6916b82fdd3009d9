"""A simulated replica that is rebuilt from a peer, and one that helps its peer."""

from __future__ import annotations

from typing import Final

from anabranch.core import rebuild
from anabranch.sim import messages as say
from anabranch.sim.observer import Broken
from anabranch.sim.process import Apply, Process
from anabranch.sim.role import Disk, Protocol, Role
from anabranch.sim.world import MS

PATIENCE_US: Final = 1_500 * MS
"""How long a rebuild waits for an answer."""


class Rebuilding:
    """``on_begin`` and ``on_end`` are what the rest of the node does when it is rebuilt, and when it has its state."""

    def __init__(self, process: Process, role: Role, protocol: Protocol, *, on_begin: Apply, on_end: Apply) -> None:
        self._process = process
        self._role = role
        self._protocol = protocol
        self._on_begin = on_begin
        self._on_end = on_end
        self.births = 1
        """Lives so far; the first began with the empty disk."""
        self.forget()

    def forget(self) -> None:
        self._state: rebuild.RebuildState | None = None
        self._step = 0

    @property
    def under_way(self) -> bool:
        return self._state is not None

    def new_life(self) -> str:
        self.births += 1
        keeps_its_life = self._role.stages and not self._protocol.reserves
        return f"{self._process.name}.{1 if keeps_its_life else self.births}"

    def begin(self, reason: str) -> None:
        if not self._role.stages or self._state is not None:
            return
        if not self._role.peers:
            raise Broken(f"{self._process.name} cannot go on, and nobody has what it had: {reason}.")
        self._process.tell(f"is rebuilt: {reason}")
        self._on_begin()
        self._state, actions = rebuild.begin(self.new_life(), self._role.peers)
        self._do(actions)

    def handle(self, event: rebuild.Event, snapshot: say.Snapshot | None = None) -> None:
        if self._state is None:
            return
        self._state, actions = rebuild.handle(self._state, event)
        self._do(actions, snapshot)

    def _do(self, actions: list[rebuild.Action], snapshot: say.Snapshot | None = None) -> None:
        for action in actions:
            match action:
                case rebuild.AskPeer():
                    self._process.send(action.peer, say.AskPlaces())
                case rebuild.ReservePlace():
                    stream, copy = action.input
                    if self._protocol.reserves:
                        self._process.send(
                            copy,
                            say.Reserve(
                                stream=stream,
                                life=action.life,
                                like=action.like,
                                like_life=action.like_life,
                                position=action.position,
                            ),
                        )
                case rebuild.AskSnapshot():
                    self._process.send(action.peer, say.AskSnapshot())
                case rebuild.InstallSnapshot():
                    assert snapshot is not None
                    self._install(snapshot, action.life)
                    return
        if actions:
            self._step += 1
            step = self._step
            self._process.later(PATIENCE_US, lambda: self._be_patient(step))

    def _be_patient(self, step: int) -> None:
        if self._step == step:
            self.handle(rebuild.NobodyAnswered())

    def _install(self, snapshot: say.Snapshot, life: str) -> None:
        theirs: Disk = snapshot.disk
        tapes = {name: tape.begun_anew(f"{self._process.name}.{self.births}") for name, tape in theirs.tapes.items()}
        disk = theirs._replace(life=life, tapes=tapes)

        def installed() -> None:
            self._process.tell(f"has the state of {snapshot.life}, as {life}")
            self._process.observer.rebuilt(self._process.name, snapshot.passed)
            self._on_end()

        self._process.observer.installs(self._process.name)
        self._process.transact(disk, installed)

    def tell_places(self, reader: str) -> None:
        places = {
            (stream, copy): (known.position if (known := self._process.disk.inlets[stream].copies.get(copy)) else None)
            for stream, copies in self._role.upstream.items()
            for copy in copies
        }
        self._process.send(reader, say.TellPlaces(life=self._process.disk.life, places=places))

    def give_snapshot(self, reader: str) -> None:
        passed = self._process.observer.passed_by(self._process.name)
        self._process.send(reader, say.Snapshot(life=self._process.disk.life, disk=self._process.disk, passed=passed))
