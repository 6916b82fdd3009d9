"""An inlet: the copies of one stream, merged into one journal (racing paper, figure 5; over identities).

The first arrival of a tuple passes, from whichever copy and in any order; nothing waits for a slower copy. Per origin
the inlet's punctuation is the largest that any copy may vouch for: below it the inlet has everything, so an older tuple
is a duplicate, and only identities at or above it are remembered.

A copy *may vouch* once the inlet's punctuation has reached the copy's floor for this reader: what the copy trimmed
before this reader had it lies below the floor, and there the inlet has everything already.

``Inlet.handle`` is the one door. It returns the state to store in the transaction that appends to the journal, and what
to do; acknowledgements are sent after that transaction. If the transaction fails, the old state simply stays. Most of
what several copies bring is known already: ``must_store`` says what may wait for the next transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from anabranch.core.identities import NO_TUPLES, Header, Identities, times_of
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyState:
    """What the inlet knows of one copy: how far it has read it, what the copy had promised there, and its floors."""

    position: Position
    promises: Punctuations = field(default_factory=dict)
    floors: Punctuations = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InletState:
    copies: Mapping[str, CopyState] = field(default_factory=dict)
    punctuations: Punctuations = field(default_factory=dict)
    remembered: Identities = field(default_factory=Identities)


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAnswered:
    """A copy took the subscription: it will send from ``first_id`` on. ``earlier_life`` says that it has heard of this
    reader before, but not of its present life."""

    copy: str
    incarnation: str
    first_id: int
    floors: Punctuations
    earlier_life: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TuplesArrived:
    """Tuples of a copy, numbered from ``first_id``, and what the copy promised after them."""

    copy: str
    incarnation: str
    first_id: int
    header: Header = NO_TUPLES
    promises: Punctuations = field(default_factory=dict)


Event = CopyAnswered | TuplesArrived


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AppendToJournal:
    """These of the tuples that arrived, by index, and then what the inlet promises newly."""

    take: npt.NDArray[np.int64]
    punctuations: Punctuations


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Tell the copy, after the transaction, that all up to here is held durably."""

    copy: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeAgain:
    """Something of the copy is missing in between; ask it anew."""

    copy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildFromPeer:
    """This reader has lost what it had, or cannot get what it lacks from any copy."""

    reason: str


Action = AppendToJournal | Acknowledge | SubscribeAgain | RebuildFromPeer
Step = tuple[InletState, list[Action]]

NEW_READER = InletState()
_NONE: Final = np.empty(0, np.int64)


def beginning(floors: Iterable[Punctuations]) -> InletState:
    """Where a reader begins that may join late, given the floors of the copies that it begins with: where each of them
    holds everything, so that each may vouch at once and none is missed if it dies."""
    largest: Punctuations = {}
    for each in floors:
        largest = _largest(largest, each)
    return InletState(punctuations=_nonzero(largest))


@dataclass(frozen=True, slots=True)
class Inlet:
    """The inlet of a stream with these origins, in the order of their codes. Holds no state.

    ``joins_late`` is for readers that may begin in the middle of a stream, as a client may: at the punctuations of the
    state that ``beginning`` gives. A replica may not: what it computes would lack what came before.
    """

    stream: str
    origins: tuple[str, ...]
    joins_late: bool = False

    def handle(self, state: InletState, event: Event) -> Step:
        match event:
            case CopyAnswered():
                return self._answered(state, event)
            case TuplesArrived():
                return self._arrived(state, event)

    def orphaned(self, state: InletState, live: Collection[str]) -> list[str]:
        """The origins for which no live copy may vouch: for them the inlet would wait for ever."""
        copies = [copy for name, copy in state.copies.items() if name in live]
        if not copies:
            return []  # nobody is there; that is not for us to repair
        punctuations = state.punctuations
        return [
            origin
            for origin in self.origins
            if all(copy.floors.get(origin, 0) > punctuations.get(origin, 0) for copy in copies)
        ]

    def vouched(self, origin: str, punctuation: int, copies: Iterable[CopyState]) -> int:
        """The largest punctuation that a copy may vouch for. One copy's promise can lift the inlet to another's
        floor."""
        waiting = [(copy.floors.get(origin, 0), copy.promises.get(origin, 0)) for copy in copies]
        for floor, promise in sorted(waiting):
            if floor <= punctuation:
                punctuation = max(punctuation, promise)
        return punctuation

    def must_store(self, event: Event, actions: Sequence[Action]) -> bool:
        """Whether the next state must be stored now.

        How far a copy was read that brought nothing new, and what it promised, may be stored later, and acknowledged
        then: a reader that forgets it is sent the same again, and drops it.
        """
        return isinstance(event, CopyAnswered) or any(isinstance(action, AppendToJournal) for action in actions)

    # --- subscription ----------------------------------------------------------------------------------------------

    def _answered(self, state: InletState, event: CopyAnswered) -> Step:
        known = state.copies.get(event.copy)
        if not state.copies and not self.joins_late and (event.earlier_life or _nonzero(event.floors)):
            lost = "its state was lost" if event.earlier_life else "the copy has trimmed what it needs"
            return state, [
                RebuildFromPeer(reason=f"Copy {event.copy} cannot serve this reader from the start: {lost}.")
            ]
        before = Position(event.incarnation, event.first_id - 1)
        if known is None or known.position.incarnation != event.incarnation:
            copy = CopyState(position=before, floors=_nonzero(event.floors))
        else:
            copy = replace(known, position=max(known.position, before), floors=_nonzero(event.floors))
        return self._raised(replace(state, copies={**state.copies, event.copy: copy}))

    # --- tuples ----------------------------------------------------------------------------------------------------

    def _arrived(self, state: InletState, event: TuplesArrived) -> Step:
        copy = state.copies.get(event.copy)
        if copy is None or copy.position.incarnation != event.incarnation:
            return state, [SubscribeAgain(copy=event.copy)]
        seen = copy.position.id + 1 - event.first_id
        if seen < 0:
            return state, [SubscribeAgain(copy=event.copy)]
        last_id = event.first_id + len(event.header) - 1
        take, remembered = self._first_arrivals(state, event.header, seen)
        copy = CopyState(
            position=Position(event.incarnation, max(last_id, copy.position.id)),
            promises=_largest(copy.promises, event.promises),
            floors=copy.floors,
        )
        copies = {**state.copies, event.copy: copy}
        state = InletState(copies=copies, punctuations=state.punctuations, remembered=remembered)
        return self._raised(state, take, acknowledge=event.copy)

    def _first_arrivals(self, state: InletState, header: Header, seen: int) -> tuple[npt.NDArray[np.int64], Identities]:
        """The tuples that no copy has brought before, by index."""
        if seen >= len(header):
            return _NONE, state.remembered
        times = times_of(state.punctuations, self.origins)
        wanted = header.at_or_above(times)
        if seen > 0:
            wanted[:seen] = False
        candidates = wanted.nonzero()[0]
        fresh, remembered = state.remembered.admit(
            header if len(candidates) == len(header) else header.take(candidates)
        )
        return candidates[fresh], remembered

    def _raised(
        self,
        state: InletState,
        take: npt.NDArray[np.int64] | None = None,
        acknowledge: str | None = None,
    ) -> Step:
        """With the punctuations that the copies may vouch for now."""
        take = _NONE if take is None else take
        before = state.punctuations
        raised = {
            origin: time
            for origin in self.origins
            if (time := self.vouched(origin, before.get(origin, 0), state.copies.values())) > before.get(origin, 0)
        }
        if raised:
            punctuations = {**before, **raised}
            remembered = state.remembered.forget_below(times_of(punctuations, self.origins))
            state = replace(state, punctuations=punctuations, remembered=remembered)
        actions: list[Action] = [AppendToJournal(take=take, punctuations=raised)] if raised or len(take) else []
        if acknowledge is not None:
            actions.append(Acknowledge(copy=acknowledge, position=state.copies[acknowledge].position))
        return state, actions


def _largest(one: Punctuations, other: Punctuations) -> dict[str, int]:
    return {origin: max(one.get(origin, 0), other.get(origin, 0)) for origin in (*one, *other)}


def _nonzero(punctuations: Punctuations) -> dict[str, int]:
    return {origin: time for origin, time in punctuations.items() if time}
