"""Protocols that are broken on purpose, one rule each: the checkers must notice every one of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.core.horizon import Horizon, Told
from anabranch.core.identities import Identities
from anabranch.core.inlet import CopyState, Event, Inlet, InletState, Step
from anabranch.core.shared_lane import Event as LaneEvent
from anabranch.core.shared_lane import LaneCopy, Leading, SharedLane
from anabranch.core.shared_lane import Step as LaneStep
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


class Hasty(SharedLane[Pushed]):
    """Shows an entry to replicas before a peer has it."""

    @property
    def majority(self) -> int:
        return 1


class Trusting(SharedLane[Pushed]):
    """Votes and counts as if it had forgotten nothing."""

    def handle(self, copy: LaneCopy[Pushed], leading: Leading | None, event: LaneEvent[Pushed]) -> LaneStep[Pushed]:
        return super().handle(replace(copy, learns=False), leading, event)


class Boundless(Horizon):
    """Lets every row enter, however far its lane is ahead."""

    def may_enter(self, told: Told, promised_us: int, latest_us: int) -> bool:
        return True


class Considerate(Horizon):
    """Waits for the slowest replica, dead or not."""

    def slowest_us(self, told: Told) -> int:
        return min(told.by.get(replica, 0) for replicas in self.fragments for replica in replicas)


BROKEN = {
    "vouching without floors": Protocol(inlet=Gullible),
    "identities forgotten too early": Protocol(inlet=Forgetful),
    "inlet state not durable": Protocol(keeps_inlets=False),
    "acknowledging before the commit": Protocol(acknowledges_after_commit=False),
    "rebuild without reserving the position": Protocol(reserves=False),
    "present punctuation in the subscription reply": Protocol(promises_in_order=False),
    "entries shown before a peer has them": Protocol(lane=Hasty),
    "a vote without memory": Protocol(lane=Trusting),
    "clients forgotten by a new leader": Protocol(keeps_clients=False),
    "entries of a lane kept for ever": Protocol(forgets_entries=False),
    "a hole that readers do not hear of": Protocol(tells_of_holes=False),
    "a deep layer that nobody waits for": Protocol(passes_slowest=False),
    "no horizon": Protocol(horizon=Boundless),
    "a horizon that waits for the dead": Protocol(horizon=Considerate),
}
