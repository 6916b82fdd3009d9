"""A simulated entry point: producers push to lanes that it shares with its peers, and what is released is its log."""

from __future__ import annotations

from typing import Final

from anabranch.core import horizon as horizons
from anabranch.core import shared_lane as lanes
from anabranch.core.shared_lane import LaneCopy, Leading
from anabranch.sim import messages as say
from anabranch.sim.process import Process
from anabranch.sim.role import Protocol, Role
from anabranch.sim.world import MS

SILENT_US: Final = 2_000 * MS
"""How long a leader may be silent, at least, before somebody asks to lead in its place."""


class Entering:
    def __init__(self, process: Process, role: Role, protocol: Protocol) -> None:
        self._process = process
        self._role = role
        self._shared = {origin: protocol.lane(process.name, role.peers) for origin in role.lanes}
        self._horizons = {
            source: protocol.horizon(role.horizon_us, (role.readers[source],))
            for source in set(role.lanes.values())
            if role.horizon_us is not None
        }
        self.forget()

    def forget(self) -> None:
        """It leads nothing, and nobody pushes here."""
        self._leading: dict[str, Leading | None] = dict.fromkeys(self._role.lanes)
        self._producers: dict[str, str] = {}
        """Who pushes to a lane here."""
        self._heard_us = dict.fromkeys(self._role.lanes, self._process.world.now_us)
        """When a leader was last heard of, or one who may become it."""
        self._asked_us: dict[str, int] = {}
        """When a peer last asked to be taught."""
        self._told = dict.fromkeys(self._horizons, horizons.Told())
        self._held_back: set[str] = set()
        """The lanes whose next entry is beyond the horizon."""

    def heard(self, origin: str, message: lanes.Event[say.Pushed]) -> None:
        """From a peer."""
        if isinstance(message, lanes.StoreAsked):
            self._heard_us[origin] = self._process.world.now_us
        elif isinstance(message, lanes.TeachAsked):
            self._asked_us[origin] = self._process.world.now_us
        self._about_lane(origin, message)
        if isinstance(message, lanes.VoteAsked) and self._process.memory.lanes[origin].voted_for == message.sender:
            self._heard_us[origin] = self._process.world.now_us  # whom it voted for has its time to lead

    def registered(self, producer: str, origin: str) -> None:
        if self._process.memory.lanes[origin].learns:
            self._process.send(producer, say.Refused(origin=origin))
            return
        self._producers[origin] = producer
        leading = self._leading[origin]
        if leading is not None and leading.elected:
            self._welcome(origin)
        else:
            self._about_lane(origin, lanes.LeadWanted())

    def _welcome(self, origin: str) -> None:
        producer = self._producers.get(origin)
        if producer is not None:
            copy = self._process.disk.lanes[origin]
            self._process.send(producer, say.Accepted(origin=origin, through=copy.released))
            self._process.send(producer, say.Registered(origin=origin, following=copy.held + 1))

    def pushed(self, producer: str, push: say.Push) -> None:
        leading, copy = self._leading[push.origin], self._process.memory.lanes[push.origin]
        leads = leading is not None and leading.elected and self._producers.get(push.origin) == producer
        if leads and self._waits_for_others(push, copy):
            self._process.send(producer, say.Held(origin=push.origin, following=copy.held + 1))
        elif not leads or push.place > copy.held + 1:
            self._process.send(producer, say.Refused(origin=push.origin))
        elif push.place == copy.held + 1 and not self._role.is_full(
            self._process.memory.tapes[self._role.lanes[push.origin]]
        ):
            self._about_lane(push.origin, lanes.Entered(contents=(push.entry,)))
        elif push.place <= copy.released:
            self._process.send(producer, say.Accepted(origin=push.origin, through=copy.released))

    def told(self, reader: str, said: say.Acknowledgement) -> None:
        """How far the slowest origin is for this reader."""
        if said.stream in self._horizons:
            event = horizons.SlowestTold(reader=reader, time_us=said.slowest_us)
            self._told[said.stream] = self._horizons[said.stream].handle(self._told[said.stream], event)

    def _waits_for_others(self, push: say.Push, copy: LaneCopy[say.Pushed]) -> bool:
        """Whether the entry, or one before it, is beyond the horizon."""
        source = self._role.lanes[push.origin]
        if source not in self._horizons or push.place <= copy.held:
            return False
        if push.place == copy.held + 1:
            promised_us = copy.entries[-1].content.promise_us if copy.entries else 0
            latest_us = max((each.stime for each in push.entry.tuples), default=0)
            if self._horizons[source].may_enter(self._told[source], promised_us, latest_us):
                self._held_back.discard(push.origin)
            elif push.origin not in self._held_back:
                self._held_back.add(push.origin)
                self._process.tell(f"holds {push.origin} back")
                self._process.observer.holds_back()
        return push.origin in self._held_back

    def _about_lane(self, origin: str, event: lanes.Event[say.Pushed]) -> None:
        """One transaction: the copy of the lane, and the log with what is released of it."""
        before = self._process.memory.lanes[origin]
        after, self._leading[origin], actions = self._shared[origin].handle(before, self._leading[origin], event)
        if after is before and not actions:
            return
        disk = self._process.memory.with_lane(origin, after)
        source = self._role.lanes[origin]
        for entry in after.between(before.released, after.released):
            pushed = entry.content
            raised = {origin: pushed.promise_us}
            disk = disk.with_tape(disk.tapes[source].append(pushed.tuples, raised))

        def carry_out() -> None:
            for action in actions:
                match action:
                    case lanes.Tell():
                        self._process.send(action.peer, say.BetweenEntryPoints(origin=origin, message=action.message))
                    case lanes.Lead():
                        self._process.tell(f"leads {origin} in term {action.term}")
                        self._welcome(origin)
                    case lanes.StepDown():
                        producer = self._producers.pop(origin, None)
                        if producer is not None:
                            self._process.send(producer, say.Refused(origin=origin))
                    case lanes.Release():
                        producer = self._producers.get(origin)
                        if producer is not None:
                            self._process.send(producer, say.Accepted(origin=origin, through=action.through))
                    case lanes.CountAgain():
                        self._process.tell(f"counts again for {origin} in term {action.term}")
                        self._process.observer.counts_again()

        self._process.transact(disk, carry_out)

    def look_after(self) -> None:
        """A leader reminds its peers, and who learns asks them to teach it; who holds something of a leader that is
        silent, or was asked to teach, asks to lead in its place."""
        for origin, leading in self._leading.items():
            copy = self._process.memory.lanes[origin]
            silent_us = self._process.world.now_us - self._heard_us.get(origin, 0)
            if leading is not None or copy.learns:
                for peer in self._role.peers:
                    self._about_lane(origin, lanes.PeerReachable(peer=peer))
            elif self._wants_a_leader(origin, copy) and silent_us > SILENT_US + self._process.world.random.randrange(
                SILENT_US
            ):
                self._heard_us[origin] = self._process.world.now_us
                self._about_lane(origin, lanes.LeadWanted())

    def _wants_a_leader(self, origin: str, copy: LaneCopy[say.Pushed]) -> bool:
        asked_us = self._asked_us.get(origin)
        asked_lately = asked_us is not None and self._process.world.now_us - asked_us < SILENT_US
        return copy.held > copy.released or asked_lately
