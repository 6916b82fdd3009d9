"""A simulated entry point: producers push to lanes that it shares with its peers, and what is released is its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from anabranch.core import elections
from anabranch.core import shared_lane as lanes
from anabranch.core.asking import Asking
from anabranch.core.elections import Standing
from anabranch.core.shared_lane import LaneCopy, Leading
from anabranch.sim import messages as say
from anabranch.sim.owning import Owning, Said
from anabranch.sim.process import Process
from anabranch.sim.role import Protocol, Role
from anabranch.sim.slowest import Slowest
from anabranch.sim.tape import Tape
from anabranch.sim.world import MS

Copy = LaneCopy[say.Pushed]

LOOK_US: Final = 500 * MS
"""How often an entry point looks after its lanes, whatever happens."""

UNRELEASED: Final = 8
"""Entries of plain clients at most that wait for a majority; who says more is not answered."""


class Entering:
    """``slowest`` knows how far the slowest origin is; ``on_hole`` is told of a log that goes on without something that
    its readers may lack."""

    def __init__(
        self, process: Process, role: Role, protocol: Protocol, slowest: Slowest, *, on_hole: Callable[[str], None]
    ) -> None:
        self._process = process
        self._on_hole = on_hole
        self._role = role
        self._protocol = protocol
        self._shared = {origin: protocol.lane(process.name, role.peers) for origin in role.lanes}
        self._slowest = slowest
        self._owning = Owning(
            process,
            role,
            protocol,
            lead=lambda origin: self._client_came(origin, takes_over=False),
            enter=self._enter,
        )
        self.forget()

    def forget(self) -> None:
        """It leads nothing, and nobody pushes here."""
        self._owning.forget()
        self._leading: dict[str, Leading | None] = dict.fromkeys(self._role.lanes)
        self._asking = dict.fromkeys(self._role.lanes, Asking())
        self._entered_us: dict[str, int] = {}
        """Since when an entry of the lane waits for its release."""
        self._producers: dict[str, str] = {}
        """Who pushes to a lane here."""
        self._elections = self._protocol.elections()
        self._watches = {
            origin: self._elections.begin(self._process.world.now_us, chance=self._process.world.random.random())
            for origin in self._role.lanes
        }
        self._held_back: set[str] = set()
        """The lanes whose next entry is beyond the horizon."""

    def heard(self, origin: str, message: lanes.Message[say.Pushed]) -> None:
        """From a peer."""
        self._about_lane(origin, message)
        copy = self._process.memory.lanes[origin]
        self._notice(origin, elections.said_by(message, copy, self._process.world.now_us))

    def registered(self, producer: str, origin: str) -> None:
        if self._process.memory.lanes[origin].learns:
            self._process.send(producer, say.Refused(origin=origin))
            return
        self._producers[origin] = producer
        leading = self._leading[origin]
        if leading is not None and leading.elected:
            self._welcome(origin)
        else:
            self._client_came(origin, takes_over=True)

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
            self._enter(push.origin, push.entry)
        elif push.place <= copy.released:
            self._process.send(producer, say.Accepted(origin=push.origin, through=copy.released))

    def _enter(self, origin: str, entry: say.Pushed) -> None:
        last = _last(self._process.memory.lanes[origin])
        self._about_lane(origin, lanes.Entered(contents=(_after(last, entry),)))

    def spoke(self, client: str, said: Said) -> None:
        """From a plain client, or from an operator."""
        origin, copy = said.origin, self._process.memory.lanes[said.origin]
        if self._owning.leads(origin):
            if isinstance(said, say.Say) and self._holds_back(origin, said):
                self._process.send(client, say.Held(origin=origin, following=said.first))
            elif copy.held - copy.released < UNRELEASED and not self._role.is_full(
                self._process.memory.tapes[self._role.lanes[origin]]
            ):
                self._owning.heard(client, said)
        elif not copy.learns and not isinstance(said, say.Say) and not self._leader_lives(origin):
            self._owning.ask_to_lead(client, said)
        else:
            self._process.send(client, say.Refused(origin=origin))

    def _holds_back(self, origin: str, said: say.Say) -> bool:
        if self._role.horizon_us is None:
            return False
        latest_us = max(row.time_us for row in said.rows)
        return not self._may_enter(origin, self._owning.promised_us(origin), latest_us)

    def _may_enter(self, origin: str, promised_us: int, latest_us: int) -> bool:
        if self._slowest.may_enter(self._role.lanes[origin], promised_us, latest_us):
            self._held_back.discard(origin)
        elif origin not in self._held_back:
            self._held_back.add(origin)
            self._process.tell(f"holds {origin} back")
            self._process.observer.holds_back()
        return origin not in self._held_back

    def _waits_for_others(self, push: say.Push, copy: Copy) -> bool:
        """Whether the entry, or one before it, is beyond the horizon."""
        if self._role.horizon_us is None or push.place <= copy.held:
            return False
        if push.place == copy.held + 1:
            last = _last(copy)
            promised_us = last.promise_us if last is not None else 0
            latest_us = max((each.stime for each in push.entry.tuples), default=0)
            self._may_enter(push.origin, promised_us, latest_us)
        return push.origin in self._held_back

    def _about_lane(self, origin: str, event: lanes.Event[say.Pushed]) -> None:
        """One transaction: the copy of the lane, and the log with what is released of it."""
        before = self._process.memory.lanes[origin]
        after, self._leading[origin], actions = self._shared[origin].handle(
            before, self._leading[origin], event, led=self._leader_lives(origin)
        )
        after = self._forgetting(before, after)
        if after is before and not actions:
            return
        actions = self._asked(origin, event, after, actions)
        disk = self._process.memory.with_lane(origin, after)
        if not actions and _same_but_for_what_is_kept(before, after):
            self._process.memory = disk  # durable with the next transaction
            return
        source = self._role.lanes[origin]
        if any(isinstance(action, lanes.BeginAt) for action in actions):
            disk = disk.with_tape(self._left_out(disk.tapes[source], origin, after))
        for entry in after.between(before.released, after.released):
            raised = {origin: entry.promise_us} if entry.promise_us else {}
            disk = disk.with_tape(disk.tapes[source].append(entry.tuples, raised))

        def carry_out() -> None:
            for action in actions:
                match action:
                    case lanes.Tell():
                        if isinstance(action.message, lanes.VoteAsked) and not action.message.trial:
                            takes_over = action.message.takes_over
                            self._process.observer.campaigned(origin, action.message.term, takes_over=takes_over)
                        self._process.send(action.peer, say.BetweenEntryPoints(origin=origin, message=action.message))
                    case lanes.Lead():
                        self._process.tell(f"leads {origin} in term {action.term}")
                        self._welcome(origin)
                    case lanes.StepDown():
                        self._process.observer.stepped_down(self._process.name, origin, action.term)
                        producer = self._producers.pop(origin, None)
                        if producer is not None:
                            self._process.send(producer, say.Refused(origin=origin))
                    case lanes.Release() if self._owning.owns(origin):
                        self._owning.released(origin)
                    case lanes.Release():
                        producer = self._producers.get(origin)
                        if producer is not None:
                            self._process.send(producer, say.Accepted(origin=origin, through=action.through))
                    case lanes.BeginAt():
                        self._process.tell(f"goes on with {origin} after {action.place}: its peers have forgotten more")
                        self._process.observer.leaves_out()
                        self._on_hole(source)
                    case lanes.CountAgain():
                        self._process.tell(f"counts again for {origin} in term {action.term}")
                        self._process.observer.counts_again()

        if self._shared[origin].must_store(event, actions):
            self._process.transact(disk, carry_out)
        else:
            self._process.memory = disk  # durable with the next transaction
            self._process.when_durable(carry_out)
        if self._owning.owns(origin):
            self._follow_lead(origin, after, actions)

    # --- whom it asks first ----------------------------------------------------------------------------------------

    def _asked(
        self, origin: str, event: lanes.Event[say.Pushed], copy: Copy, actions: list[lanes.Action[say.Pushed]]
    ) -> list[lanes.Action[say.Pushed]]:
        """Without what need not be said to everybody at once. Who is not told now is reminded later."""
        asking, leading = self._asking[origin], self._leading[origin]
        if any(isinstance(action, lanes.Lead | lanes.StepDown) for action in actions):
            self._asking[origin] = Asking()
            self._entered_us.pop(origin, None)
            return actions
        if leading is None or not leading.elected:
            return actions
        now_us = self._process.world.now_us
        if any(isinstance(action, lanes.Release) for action in actions) and origin in self._entered_us:
            took_us, needed = now_us - self._entered_us.pop(origin), self._shared[origin].majority - 1
            asking = self._asking[origin] = asking.released(copy.released, leading.stored, took_us, needed)
        if not isinstance(event, lanes.Entered):
            return actions
        asking = self._asking[origin] = asking.entered()
        self._entered_us.setdefault(origin, now_us)
        self._process.later(asking.patience_us, lambda: self._ask_all(origin, copy.held))

        def waits(action: lanes.Action[say.Pushed]) -> bool:
            if not isinstance(action, lanes.Tell) or asking.asks(action.peer):
                return False
            return not asking.is_far_behind(copy.held - leading.stored[action.peer])

        return [action for action in actions if not waits(action)]

    def _ask_all(self, origin: str, place: int) -> None:
        """If the entry at this place was not released in time."""
        leading = self._leading[origin]
        if leading is None or not leading.elected or self._process.memory.lanes[origin].released >= place:
            return
        self._asking[origin] = self._asking[origin].overdue()
        for peer in self._role.peers:
            self._about_lane(origin, lanes.PeerReachable(peer=peer))

    def _follow_lead(self, origin: str, copy: Copy, actions: list[lanes.Action[say.Pushed]]) -> None:
        """The numbering of an owned lane goes with the lead."""
        if any(isinstance(action, lanes.Lead) for action in actions):
            self._owning.begins(origin, copy)
        elif self._leading[origin] is None:
            self._owning.ends(origin)

    def _forgetting(self, before: Copy, after: Copy) -> Copy:
        """Without the entries that every entry point has released, and the oldest if there are too many. What is
        released now is still to be read."""
        if not self._protocol.forgets_entries:
            return after
        through = max(after.everywhere, after.held - self._role.lane_limit)
        return after.trim(min(through, before.released))

    def _left_out(self, tape: Tape, origin: str, copy: Copy) -> Tape:
        """The log goes on behind a hole, of which all readers hear: what was in it they have from another copy."""
        assert copy.base is not None
        if not self._protocol.tells_of_holes:
            return tape
        incarnation = f"{self._process.memory.life}+{self._process.world.now_us}"
        return tape.with_hole(incarnation, {origin: copy.base.top_us + 1}).append((), {origin: copy.base.promise_us})

    # --- who leads -------------------------------------------------------------------------------------------------

    def look_after(self) -> None:
        """Peers are reminded of what they are owed, and a leader that is missed is replaced."""
        for origin in self._role.lanes:
            self._look(origin)
            copy, leading = self._process.memory.lanes[origin], self._leading[origin]
            for peer in self._role.peers:
                if self._shared[origin].owes(copy, leading, peer):
                    self._about_lane(origin, lanes.PeerReachable(peer=peer))

    def _look(self, origin: str) -> None:
        self._notice(origin, elections.Looked(self._process.world.now_us))

    def _client_came(self, origin: str, *, takes_over: bool) -> None:
        self._notice(origin, elections.ClientCame(self._process.world.now_us, takes_over))

    def _notice(self, origin: str, event: elections.Event) -> None:
        world = self._process.world
        watch, asks = self._elections.handle(
            self._watches[origin], self._standing(origin), event, chance=world.random.random()
        )
        self._watches[origin] = watch
        if asks:
            self._about_lane(origin, lanes.LeadWanted(takes_over=self._elections.takes_over(watch, world.now_us)))
        due_us = self._elections.due_us(watch, self._standing(origin))
        if due_us is not None and due_us - world.now_us < LOOK_US:
            self._process.later(due_us - world.now_us, lambda: self._look(origin))

    def _standing(self, origin: str) -> Standing:
        return Standing.of(self._process.memory.lanes[origin], self._leading[origin])

    def _leader_lives(self, origin: str) -> bool:
        return self._elections.leader_lives(self._watches[origin], self._process.world.now_us)


def _last(copy: Copy) -> say.Pushed | None:
    """What stands at the last place of a lane."""
    return copy.entries[-1] if copy.entries else copy.base


def _after(last: say.Pushed | None, entry: say.Pushed) -> say.Pushed:
    """The entry, with the largest stream time up to it."""
    before_us = last.top_us if last is not None else 0
    return replace(entry, top_us=max([before_us, *(each.stime for each in entry.tuples)]))


def _same_but_for_what_is_kept(before: Copy, after: Copy) -> bool:
    """Whether nothing is lost if this is forgotten: how far all have released is heard again."""
    one, other = (
        (copy.term, copy.leader, copy.voted_for, copy.held, copy.released, copy.whole, copy.learns, copy.lives)
        for copy in (before, after)
    )
    return one == other
