"""Protocols that are broken on purpose, one rule each: the checkers must notice every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.core import elections, feed_lease
from anabranch.core.elections import Elections, Standing, Watch
from anabranch.core.feed_lease import FeedLease, Turn
from anabranch.core.horizon import UNKNOWN, Horizon, Slowest, Told, is_slowest
from anabranch.core.identities import Identities
from anabranch.core.inlet import (
    Action,
    AppendToJournal,
    CopyState,
    Event,
    Inlet,
    InletState,
    Step,
    TuplesArrived,
)
from anabranch.core.passing import Passing
from anabranch.core.roll_call import Beginning, Met, Roll
from anabranch.core.shared_lane import Action as LaneAction
from anabranch.core.shared_lane import Event as LaneEvent
from anabranch.core.shared_lane import LaneCopy, Leading, SharedLane, StoreAnswered, VoteAsked
from anabranch.core.shared_lane import Step as LaneStep
from anabranch.query.boxes import Diagram
from anabranch.query.graph import Stage
from anabranch.reference.stage import StageReference
from anabranch.reference.steps import UnionBox
from anabranch.runtime.ingest.lane_letters import LaneLetters
from anabranch.runtime.ingest.lane_replica import LaneReplica
from anabranch.runtime.ingest.membership import Membership
from anabranch.runtime.ingest.peer_line import NEVER, PeerLine
from anabranch.runtime.ingest.push_groups import PushGroups
from anabranch.sim.messages import Pushed
from anabranch.sim.role import Protocol


class Gullible(Inlet):
    """Takes the largest promise of any copy, whatever that copy has trimmed."""

    def vouched(self, origin: str, punctuation: int, copies: Iterable[CopyState]) -> int:
        return max([punctuation, *(copy.promises.get(origin, 0) for copy in copies)])


class Forgetful(Inlet):
    """Forgets identities before their time."""

    def handle(self, state: InletState, event: Event) -> Step:
        state, actions = super().handle(state, event)
        forgotten = replace(state, remembered=Identities()) if len(state.remembered) > 20 else state
        return forgotten, actions


class Negligent(Inlet):
    """Stores nothing of a piece in which something is known already."""

    def must_store(self, event: Event, actions: Sequence[Action]) -> bool:
        if isinstance(event, TuplesArrived) and len(event.header):
            return any(isinstance(each, AppendToJournal) and len(each.take) == len(event.header) for each in actions)
        return super().must_store(event, actions)


class Hasty(SharedLane[Pushed]):
    """Shows an entry to replicas before a peer has it."""

    @property
    def majority(self) -> int:
        return 1


class Unwritten(SharedLane[Pushed]):
    """Releases what it took before it has stored it."""

    def must_store(self, event: LaneEvent[Pushed], actions: Sequence[LaneAction[Pushed]]) -> bool:
        return not isinstance(event, StoreAnswered) and super().must_store(event, actions)


class Trusting(SharedLane[Pushed]):
    """Votes and counts as if it had forgotten nothing."""

    def handle(
        self, copy: LaneCopy[Pushed], leading: Leading | None, event: LaneEvent[Pushed], *, led: bool = False
    ) -> LaneStep[Pushed]:
        return super().handle(replace(copy, learns=False), leading, event, led=led)


class Reckless(SharedLane[Pushed]):
    """Asks for votes without a trial."""

    def _ask_to_lead(self, copy: LaneCopy[Pushed], leading: Leading | None, *, takes_over: bool) -> LaneStep[Pushed]:
        return super()._campaign(copy, takes_over=takes_over)


class Yielding(SharedLane[Pushed]):
    """Gives way to anyone, also where a leader lives."""

    def _is_served(self, leading: Leading | None, event: VoteAsked, *, led: bool) -> bool:
        return False


class Modest(Elections):
    """Does not ask to lead for a peer that could not have its vote."""

    def handle(self, watch: Watch, standing: Standing, event: elections.Event, *, chance: float) -> tuple[Watch, bool]:
        seen = elections.Looked(event.now_us) if isinstance(event, elections.PeerBehind) else event
        return super().handle(watch, standing, seen, chance=chance)


class Accommodating(Elections):
    """Agrees that another one may lead while it asks for votes itself."""

    def handle(self, watch: Watch, standing: Standing, event: elections.Event, *, chance: float) -> tuple[Watch, bool]:
        seen = elections.Looked(event.now_us) if isinstance(event, elections.Campaigned) else event
        return super().handle(watch, standing, seen, chance=chance)


class Restless(Elections):
    """Asks to lead though a leader lives, or one that it voted for may."""

    def _signs(self, watch: Watch, standing: Standing) -> list[tuple[int, int | None]]:
        return super()._signs(replace(watch, led_until_us=0), standing)


class Resigned(Elections):
    """Asks to lead once."""

    def _again_us(self, watch: Watch) -> int:
        return 0 if watch.asked_us is None else watch.asked_us + 3_600 * 1_000_000


class Stubborn(Elections):
    """Does not take the lead over from one that lives."""

    def takes_over(self, watch: Watch, now_us: int) -> bool:
        return False


class Discouraged(PeerLine[Pushed]):
    """Does not look again for a peer that did not answer."""

    def failed(self) -> float:
        super().failed()
        return NEVER


class Eager(PushGroups[Any]):
    """Answers a group when it begins."""

    def released(self, through: int) -> list[Any]:
        return self.end()


class Oblivious(Membership[Pushed]):
    """Agrees to what another one begins, and does not write it down."""

    def greeted(self, name: str, said: Met) -> Roll:
        return {name: said}


class Tacit(LaneLetters[Pushed, Pushed]):
    """Has nothing to say to a peer that answered before it began."""

    def begin(self, replicas: Mapping[str, LaneReplica[Pushed, Pushed]]) -> None:
        self.replicas.update(replicas)


class Rushed(Beginning):
    @property
    def needed(self) -> int:
        return 1

    def answered(self, peer: str, met: Met) -> Rushed:
        after = super().answered(peer, met)
        return Rushed(name=after.name, token=after.token, peers=after.peers, life=after.life, agreed=after.agreed)


class Hurried(Membership[Pushed]):
    """Begins when one peer has written it down, which may be one that knew nothing of it."""

    def new(self, name: str, token: str, peers: tuple[str, ...]) -> Beginning:
        return Rushed(name=name, token=token, peers=peers)


class Faithful(FeedLease):
    """Waits for ever for the home of the feed."""

    def may_begin(self, turn: Turn) -> bool:
        return self.host == self.hosts[0] and super().may_begin(turn)


class Selfish(FeedLease):
    """Goes on though another copy has registered since."""

    def handle(self, turn: Turn, event: feed_lease.Event) -> tuple[Turn, bool]:
        if isinstance(event, feed_lease.Replaced):
            return turn, True
        return super().handle(turn, event)


class Drowsy(FeedLease):
    """Takes the time that it slept for silence of the others, and one question for all."""

    def handle(self, turn: Turn, event: feed_lease.Event) -> tuple[Turn, bool]:
        slept_us = max(0, event.now_us - turn.looked_us - 2 * self.ask_every_us)
        turn, begins = super().handle(replace(turn, silence_us=turn.silence_us + slept_us), event)
        if begins or turn.speaks or not isinstance(event, feed_lease.CopyAsked) or not self.may_begin(turn):
            return turn, begins
        return replace(turn, speaks=True), True


class Restive(FeedLease):
    """Takes the feed back from a copy that it does not hear, as soon as from one that is gone."""

    def handle(self, turn: Turn, event: feed_lease.Event) -> tuple[Turn, bool]:
        if isinstance(event, feed_lease.RowsCame):
            return turn, False
        turn, begins = super().handle(turn, event)
        return replace(turn, patience=1), begins


class Boundless(Horizon):
    """Lets every row enter, however far its lane is ahead."""

    def may_enter(self, told: Told, promised_us: int, latest_us: int) -> bool:
        return True


class Considerate(Horizon):
    """Waits for the slowest replica, dead or not."""

    def slowest(self, told: Told) -> Slowest:
        return min(told.by.get(replica, UNKNOWN) for replicas in self.fragments for replica in replicas)


class Historical(Horizon):
    """Takes what is unknown for the beginning of time, and waits for it."""

    def may_enter(self, told: Told, promised_us: int, latest_us: int) -> bool:
        slowest_us = self.slowest(told).time_us
        return is_slowest(promised_us, slowest_us) or latest_us <= slowest_us + self.horizon_us


class Literal(Horizon):
    """Waits for a promise that a box holds back."""

    def may_enter(self, told: Told, promised_us: int, latest_us: int) -> bool:
        return replace(self, held_back_us=0).exactly(told, promised_us, latest_us)

    def exactly(self, told: Told, promised_us: int, latest_us: int) -> bool:
        return super().may_enter(told, promised_us, latest_us)


class Impatient(Horizon):
    """Of the fragments that read a source waits for the one that is furthest."""

    def slowest(self, told: Told) -> Slowest:
        return Horizon(self.horizon_us, (tuple(name for names in self.fragments for name in names),)).slowest(told)


class Merging(StageReference):
    """Lets a tuple that comes by two ways to a Union keep its identity."""

    def __init__(self, diagram: Diagram, stage: Stage) -> None:
        super().__init__(diagram, stage)
        for box in self._boxes.values():
            if isinstance(box, UnionBox):
                box._hashes = False


class Rash(Passing):
    """Passes boundaries on whose rows no batch has logged."""

    def all_logged(self, rows: int) -> bool:
        return True


class Hoarding(Passing):
    """Takes every box with state for one that shows nothing of a row before a boundary comes."""

    def keeps(self, rows: Mapping[str, int], said_us: Mapping[str, int], top_us: Callable[[str], int]) -> bool:
        return self._waits


class Distracted(Passing):
    """Forgets what a Join has read of the other side."""

    def keeps(self, rows: Mapping[str, int], said_us: Mapping[str, int], top_us: Callable[[str], int]) -> bool:
        return super().keeps(rows, said_us, lambda stream: top_us(stream) if rows.get(stream) else 0)


class Blind(Passing):
    """Passes boundaries on that would show results."""

    def shows(self, before_us: int, now_us: int) -> bool:
        return False


BROKEN = {
    "vouching without floors": Protocol(inlet=Gullible),
    "identities forgotten too early": Protocol(inlet=Forgetful),
    "a piece with a duplicate not stored": Protocol(inlet=Negligent),
    "a fragment that is cut off as a whole": Protocol(spares_fragments=False),
    "inlet state not durable": Protocol(keeps_inlets=False),
    "acknowledging before the commit": Protocol(acknowledges_after_commit=False),
    "rebuild without reserving the position": Protocol(reserves=False),
    "a rebuild that begins all of its host anew": Protocol(rebuilds_alone=False),
    "a rebuild that replaces all that its host has": Protocol(keeps_neighbours=False),
    "present punctuation in the subscription reply": Protocol(promises_in_order=False),
    "entries shown before a peer has them": Protocol(lane=Hasty),
    "entries shown before their leader has stored them": Protocol(lane=Unwritten),
    "a vote without memory": Protocol(lane=Trusting),
    "votes asked for without a trial": Protocol(lane=Reckless),
    "a leader that gives way to anyone": Protocol(lane=Yielding),
    "one that holds more and does not lead": Protocol(elections=Modest),
    "a voter that asks to lead at once": Protocol(elections=Restless),
    "a candidate that gives up": Protocol(elections=Resigned),
    "a producer that cannot take its lane along": Protocol(elections=Stubborn),
    "a peer that is not looked for again": Protocol(line=Discouraged),
    "a push answered before its group is durable": Protocol(groups=Eager),
    "clients forgotten by a new leader": Protocol(keeps_clients=False),
    "entries of a lane kept for ever": Protocol(forgets_entries=False),
    "a hole that readers do not hear of": Protocol(tells_of_holes=False),
    "a deep layer that nobody waits for": Protocol(passes_slowest=False),
    "a horizon that waits for the fastest fragment": Protocol(horizon=Impatient),
    "a Union that keeps identities": Protocol(reference=Merging),
    "boundaries passed on before their rows are logged": Protocol(passing=Rash),
    "boundaries passed on before rows that are shown": Protocol(passing=Hoarding),
    "boundaries passed on before rows that find a partner": Protocol(passing=Distracted),
    "boundaries passed on that show results": Protocol(passing=Blind),
    "an entry point that nobody has written down": Protocol(membership=Oblivious),
    "a new life that the first peer does not hear of": Protocol(letters=Tacit),
    "an entry point that begins when one peer has heard of it": Protocol(membership=Hurried),
    "a feed that nobody takes over": Protocol(lease=Faithful),
    "a feed that two hosts fight for": Protocol(lease=Selfish),
    "a feed that is taken by one that slept": Protocol(lease=Drowsy),
    "a feed that moves while two hosts cannot talk": Protocol(lease=Restive),
    "no horizon": Protocol(horizon=Boundless),
    "a horizon that waits for the dead": Protocol(horizon=Considerate),
    "a horizon that waits for what is unknown": Protocol(horizon=Historical),
    "a horizon that waits for what a box holds back": Protocol(horizon=Literal),
}
