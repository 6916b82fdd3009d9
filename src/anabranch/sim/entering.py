"""A simulated entry point: producers push to lanes that it shares with its peers, and what is released is its log.

What becomes of a lane is decided by the code that nodes run (``runtime/ingest``), over ports of a simulated process.
What is said to a client, to a peer or to the checkers leaves when all that it rests on is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from anabranch import limits
from anabranch.core import shared_lane as lanes
from anabranch.core.roll_call import Met, Roll
from anabranch.runtime.ingest.horizon_gate import HorizonGate
from anabranch.runtime.ingest.lane_letters import LaneLetters
from anabranch.runtime.ingest.lane_replica import Handled, Keeping, LaneReplica
from anabranch.runtime.ingest.membership import Membership
from anabranch.runtime.part_reports import PartReports
from anabranch.sim import messages as say
from anabranch.sim.chore import Chore
from anabranch.sim.lane_disk import Copy, SimulatedLane, SimulatedRoll, is_same
from anabranch.sim.line import Line
from anabranch.sim.owning import Owning, Said
from anabranch.sim.process import Process
from anabranch.sim.role import Protocol, Role
from anabranch.sim.world import SECOND

Replica = LaneReplica[say.Pushed, say.Pushed]

UNRELEASED: Final = 8
"""Entries of plain clients at most that wait for a majority; who says more is not answered."""

ROOM: Final = 8
"""Of a letter, in the size of entries: some letters are full."""

UNLIMITED: Final = 1 << 60


class _Clock:
    """Time and chance of a simulated lane."""

    def __init__(self, process: Process, look_within: Callable[[float], None]) -> None:
        self._world = process.world
        self.look_within = look_within
        self.chance = process.world.random.random

    def now_us(self) -> int:
        return self._world.now_us


class _Source:
    """What a peer is told about the lanes of one source, and says."""

    def __init__(
        self,
        letters: LaneLetters[say.Pushed, say.Pushed],
        membership: Membership[say.Pushed] | None,
        entering: Entering,
    ) -> None:
        self.letter = letters.letter
        self._membership = membership
        self._letters = letters
        self._entering = entering

    def greets(self, peer: str) -> Met | None:
        return None if self._membership is None else self._membership.says(peer)

    def answered_by(self, peer: str, answers: Sequence[tuple[str, lanes.Message[say.Pushed]]]) -> bool:
        for origin, message in answers:
            self._entering.heard(origin, message)
        return self._letters.owes(peer)


class Entering:
    """``reports`` has how far the slowest origin is; ``on_hole`` is told of a log that goes on without something that
    its readers may lack."""

    def __init__(
        self,
        process: Process,
        role: Role,
        protocol: Protocol,
        reports: PartReports,
        *,
        on_hole: Callable[[str], None],
    ) -> None:
        self._process = process
        self._on_hole = on_hole
        self._role = role
        self._protocol = protocol
        self._reports = reports
        self._owning = Owning(
            process,
            role,
            protocol,
            copy=lambda origin: self._replicas[origin].copy,
            lead=lambda origin: self._replicas[origin].client_came(takes_over=False),
            enter=self._enter,
        )
        self._replicas: dict[str, Replica] = {}
        self._lines: dict[str, Line] = {}

    def begin(self) -> None:
        """From what is on its disk: it leads nothing, and nobody pushes here."""
        self._owning.forget()
        self._producers: dict[str, str] = {}
        """Who pushes to a lane here."""
        self._look = Chore(self._process, self._look_after)
        self._lines = {}
        sources = sorted(set(self._role.lanes.values()))
        self._gates = {
            source: HorizonGate(partial(self._reports.may_enter, source), partial(self._reports.waits_for, source))
            for source in sources
        }
        self._letters = {
            source: self._protocol.letters(self._role.entry_peers[source], wake=self._wake, room=ROOM)
            for source in sources
        }
        self._memberships = {source: self._member(source) for source in sources if self._role.greets}
        self._replicas = {}
        for source in sources:
            if self._has_begun(source):
                self._open_lanes(source)
        correspondents = {
            source: _Source(self._letters[source], self._memberships.get(source), self) for source in sources
        }
        peers = dict.fromkeys(peer for source in sources for peer in self._role.entry_peers[source])
        for peer in peers:
            shared = {source: correspondents[source] for source in sources if peer in self._role.entry_peers[source]}
            line = self._protocol.line(peer, shared)
            self._lines[peer] = Line(self._process, line, partial(self._greeted_by, peer))
        for origin, source in self._role.lanes.items():
            if not self._role.entry_peers[source]:
                self._lead_alone(origin)
        if sources:
            self._look.within(0.0)

    # --- beginning -------------------------------------------------------------------------------------------------

    def _member(self, source: str) -> Membership[say.Pushed]:
        origins = [origin for origin, entered in self._role.lanes.items() if entered == source]
        return self._protocol.membership(
            SimulatedRoll(self._process, source, origins),
            name=self._process.name,
            token=self._process.disk.life,
            peers=self._role.entry_peers[source],
        )

    def _has_begun(self, source: str) -> bool:
        alone = not self._role.entry_peers[source]
        return alone or not self._role.greets or self._memberships[source].has_begun

    def _open_lanes(self, source: str) -> None:
        letters = self._letters[source]
        mine = [origin for origin, entered in self._role.lanes.items() if entered == source]
        letters.begin({origin: self._open(origin, source, letters) for origin in mine})
        self._replicas |= letters.replicas

    def _greeted_by(self, peer: str, source: str, roll: Roll) -> None:
        """A peer has written down what this entry point begins."""
        if self._memberships[source].answered(peer, roll):
            self._open_lanes(source)
            self._process.when_durable(lambda: self._process.tell(f"takes part in {source}"))
            self._look.within(0.0)

    def _lead_alone(self, origin: str) -> None:
        """Without peers there is nobody to ask: it leads from its start, and what it stores is released."""
        self._replicas[origin].client_came(takes_over=True)
        if self._owning.owns(origin):
            self._owning.begins(origin, self._replicas[origin].copy)

    def _open(self, origin: str, source: str, letters: LaneLetters[say.Pushed, say.Pushed]) -> Replica:
        role, protocol, name = self._role, self._protocol, self._process.name
        rules = role.owned.get(origin)
        keeping = Keeping(
            entries=role.lane_limit,
            all_bytes=UNLIMITED,
            trim_entries=1 if protocol.forgets_entries else UNLIMITED,
            trim_bytes=UNLIMITED,
            small_bytes=ROOM,
        )
        return LaneReplica(
            origin,
            protocol.lane(name, role.entry_peers[source], is_same),
            protocol.elections(None if rules is None else rules.speaks_every_us),
            SimulatedLane(self._process, origin, source, on_hole=self._on_hole, tells_of_holes=protocol.tells_of_holes),
            _Clock(self._process, self._look.within),
            tell=partial(letters.tell, origin),
            all_kept_bytes=lambda: 0,
            keeping=keeping,
            observe=partial(self._observe, origin),
        )

    # --- peers -----------------------------------------------------------------------------------------------------

    def _wake(self, peer: str, within_s: float) -> None:
        if peer in self._lines:
            self._lines[peer].wake(within_s)

    def read(self, sender: str, letter: say.Letter) -> None:
        """From a peer, which waits for the answer."""
        self._lines[sender].try_again()
        rolls = tuple((source, self._memberships[source].greeted(sender, met)) for source, met in letter.greetings)
        answers = [
            (source, origin, answer)
            for source, origin, message in letter.about
            if self._has_begun(source)  # it is told again
            for answer in self.heard(origin, message)
        ]
        answered = say.LetterAnswered(letter.number, tuple(answers), rolls)
        self._process.when_durable(lambda: self._process.send(sender, answered))

    def answered(self, sender: str, answer: say.LetterAnswered) -> None:
        self._lines[sender].answered(answer)

    def lost(self, peer: str) -> None:
        if peer in self._lines:
            self._lines[peer].broken()

    def heard(self, origin: str, message: lanes.Message[say.Pushed]) -> Sequence[lanes.Message[say.Pushed]]:
        handled = self._replicas[origin].heard(message, has_room=lambda: not self._is_full(origin))
        self._follow_up(origin, handled)
        return handled.answers

    def _look_after(self) -> float:
        again_s = limits.LOOK_S
        for origin, replica in self._replicas.items():
            self._follow_up(origin, replica.show_news())
            due_s = replica.look_after()
            again_s = again_s if due_s is None else min(again_s, due_s)
        return max(again_s, limits.SOONEST_S)

    def _is_full(self, origin: str) -> bool:
        return self._role.is_full(self._process.memory.tapes[self._role.lanes[origin]])

    # --- what came of it -------------------------------------------------------------------------------------------

    def _follow_up(self, origin: str, handled: Handled[say.Pushed]) -> None:
        if not self._owning.owns(origin):
            self._answer_producer(origin, handled)
        elif handled.won:
            self._owning.begins(origin, self._replicas[origin].copy)
        elif handled.lost or not self._replicas[origin].is_asking:
            self._owning.ends(origin)
        elif handled.released:
            self._owning.released(origin)

    def _observe(self, origin: str, actions: Sequence[lanes.Action[say.Pushed]]) -> None:
        noted = [action for action in actions if not isinstance(action, lanes.Tell) or _asks_for_vote(action)]
        if noted:
            self._process.when_durable(lambda: self._note(origin, noted))

    def _note(self, origin: str, actions: Sequence[lanes.Action[say.Pushed]]) -> None:
        """For those who watch."""
        process = self._process
        for action in actions:
            match action:
                case lanes.Tell(message=lanes.VoteAsked(term=term, takes_over=takes_over)):
                    process.observer.campaigned(origin, term, takes_over=takes_over)
                case lanes.Lead():
                    process.tell(f"leads {origin} in term {action.term}")
                case lanes.StepDown():
                    process.observer.stepped_down(process.name, origin, action.term)
                case lanes.BeginAt():
                    process.tell(f"goes on with {origin} after {action.place}: its peers have forgotten more")
                case lanes.CountAgain():
                    process.tell(f"counts again for {origin} in term {action.term}")
                    process.observer.counts_again()

    def _answer_producer(self, origin: str, handled: Handled[say.Pushed]) -> None:
        if handled.won:
            self._welcome(origin)
        elif handled.lost:
            producer = self._producers.pop(origin, None)
            if producer is not None:
                self._say(producer, say.Refused(origin=origin))
        elif handled.released and origin in self._producers:
            through = self._replicas[origin].copy.released
            self._say(self._producers[origin], say.Accepted(origin=origin, through=through))

    def _say(self, client: str, message: say.Accepted | say.Registered | say.Refused) -> None:
        self._process.when_durable(lambda: self._process.send(client, message))

    # --- what clients ask for --------------------------------------------------------------------------------------

    def registered(self, producer: str, origin: str) -> None:
        replica = self._replicas.get(origin)
        if replica is None or replica.copy.learns:
            self._process.send(producer, say.Refused(origin=origin))
            return
        self._producers[origin] = producer
        if replica.leads:
            self._welcome(origin)
        else:
            replica.client_came(takes_over=True)

    def _welcome(self, origin: str) -> None:
        producer = self._producers.get(origin)
        if producer is not None:
            copy = self._replicas[origin].copy
            self._say(producer, say.Accepted(origin=origin, through=copy.released))
            self._say(producer, say.Registered(origin=origin, following=copy.held + 1))

    def pushed(self, producer: str, push: say.Push) -> None:
        replica = self._replicas.get(push.origin)
        if replica is None:
            self._process.send(producer, say.Refused(origin=push.origin))
            return
        copy, leads = replica.copy, replica.leads and self._producers.get(push.origin) == producer
        if leads and self._waits_for_others(push, copy):
            self._process.send(producer, say.Held(origin=push.origin, following=copy.held + 1))
        elif not leads or push.place > copy.held + 1:
            self._process.send(producer, say.Refused(origin=push.origin))
        elif push.place == copy.held + 1 and not self._is_full(push.origin):
            self._enter(push.origin, push.entry)
        elif push.place <= copy.released:
            self._say(producer, say.Accepted(origin=push.origin, through=copy.released))

    def _enter(self, origin: str, entry: say.Pushed) -> None:
        replica = self._replicas[origin]
        entry = _after(_last(replica.copy), entry)
        handled = replica.enter(entry)
        place = replica.copy.held
        self._process.observer.entered(self._process.name, origin, entry)
        self._process.later(round(replica.patience_s * SECOND), lambda: self._ask_all(replica, place))
        if handled.released:
            self._follow_up(origin, handled)

    def _ask_all(self, replica: Replica, place: int) -> None:
        """If the entry at this place was not released in time."""
        if replica.leads and replica.copy.released < place:
            replica.ask_all()

    def spoke(self, client: str, said: Said) -> None:
        """From a plain client, or from an operator."""
        origin, replica = said.origin, self._replicas.get(said.origin)
        if replica is None:
            self._process.send(client, say.Refused(origin=origin))
            return
        copy = replica.copy
        if self._owning.leads(origin):
            if isinstance(said, say.Say) and self._holds_back(origin, said):
                self._process.send(client, say.Held(origin=origin, following=said.first))
            elif copy.held - copy.released + self._owning.waiting(origin) < UNRELEASED and not self._is_full(origin):
                self._owning.heard(client, said)
        elif not copy.learns and not isinstance(said, say.Say) and not replica.leader_lives():
            self._owning.ask_to_lead(client, said)
        else:
            self._process.send(client, say.Refused(origin=origin))

    def _holds_back(self, origin: str, said: say.Say) -> bool:
        if self._role.horizon_us is None:
            return False
        latest_us = max(row.time_us for row in said.rows)
        return not self._may_enter(origin, self._owning.promised_us(origin), latest_us)

    def _may_enter(self, origin: str, promised_us: int, latest_us: int) -> bool:
        source = self._role.lanes[origin]
        gate = self._gates[source]
        waited = gate.waits(origin)
        if source in self._role.read_at_home:
            self._process.observer.told(self._process.name, self._process.name, self._reports.slowest())
        enters = gate.lets_in(origin, promised_us, latest_us, self._process.world.now_us)
        if not enters and not waited:
            self._process.tell(f"holds {origin} back")
            self._process.observer.holds_back(self._process.name, origin)
        return enters

    def _waits_for_others(self, push: say.Push, copy: Copy) -> bool:
        """Whether the entry, or one before it, is beyond the horizon."""
        if self._role.horizon_us is None or push.place <= copy.held:
            return False
        if push.place == copy.held + 1:
            last = _last(copy)
            promised_us = last.promise_us if last is not None else 0
            latest_us = max((each.stime for each in push.entry.tuples), default=0)
            self._may_enter(push.origin, promised_us, latest_us)
        return self._gates[self._role.lanes[push.origin]].waits(push.origin)


def _asks_for_vote(action: lanes.Tell[say.Pushed]) -> bool:
    """In earnest, not as a trial."""
    return isinstance(action.message, lanes.VoteAsked) and not action.message.trial


def _last(copy: Copy) -> say.Pushed | None:
    """What stands at the last place of a lane."""
    return copy.entries[-1] if copy.entries else copy.base


def _after(last: say.Pushed | None, entry: say.Pushed) -> say.Pushed:
    """The entry, with the largest stream time up to it."""
    before_us = last.top_us if last is not None else 0
    return replace(entry, top_us=max([before_us, *(each.stime for each in entry.tuples)]))
