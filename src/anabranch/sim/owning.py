"""The lanes that an entry point numbers itself, for plain clients: ``core.Lane`` decides what enters while it leads.

What it decides becomes an entry of the shared lane, with the state of the lane in it, so that whoever leads next goes
on from the last entry: it knows every session that was answered, and how far each client has counted. What is decided
while a group waits for a majority is the next group, as at a node (``runtime/ingest/push_groups.py``), and a client is
answered with its group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from anabranch.core.lane import Lane
from anabranch.core.lane_messages import (
    SESSION_EXPIRED,
    Action,
    Answer,
    AnswerRegistration,
    AppendClose,
    AppendRows,
    CloseArrived,
    EntryPointStarted,
    Event,
    ProducerRegistered,
    Refuse,
    RowsArrived,
)
from anabranch.core.lane_state import LaneState
from anabranch.core.shared_lane import LaneCopy
from anabranch.reference.tuples import Tuple
from anabranch.sim import messages as say
from anabranch.sim.process import Process
from anabranch.sim.role import Protocol, Role
from anabranch.sim.world import SECOND

CLOCK_US = 1_700_000_000 * SECOND
"""What the clocks of entry points say when a run begins."""

Said = say.Hello | say.Say | say.CloseLane
Reply = say.Welcome | say.Accepted

GROUP: Final = 4
"""Decisions of a group at most: some groups are full."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What becomes of something that a client said: its entry, if there is anything to store, and then the reply."""

    client: str
    reply: Reply
    entry: say.Pushed | None


class Owning:
    """``copy`` is what is held of a lane; ``lead`` asks for its lead, ``enter`` gives it its next entry."""

    def __init__(
        self,
        process: Process,
        role: Role,
        protocol: Protocol,
        *,
        copy: Callable[[str], LaneCopy[say.Pushed]],
        lead: Callable[[str], None],
        enter: Callable[[str, say.Pushed], None],
    ) -> None:
        self._process = process
        self._protocol = protocol
        self._copy = copy
        self._lead = lead
        self._enter = enter
        self._lanes = {origin: Lane(origin, rules) for origin, rules in role.owned.items()}
        self.forget()

    def forget(self) -> None:
        self._states: dict[str, LaneState] = {}
        """Of the lanes that are led here, with all that is held."""
        self._asked: dict[str, dict[str, Said]] = {}
        """Per lane, who waits for its lead, with what was said last."""
        self._groups = {origin: self._protocol.groups(GROUP) for origin in self._lanes}

    def owns(self, origin: str) -> bool:
        return origin in self._lanes

    def waiting(self, origin: str) -> int:
        """How many wait for a group to begin."""
        return len(self._groups[origin].gathered)

    def promised_us(self, origin: str) -> int:
        """What a lane that is led here promises, with all that is held."""
        return self._lanes[origin].punctuation(self._states[origin])

    # --- who leads -------------------------------------------------------------------------------------------------

    def begins(self, origin: str, copy: LaneCopy[say.Pushed]) -> None:
        """This entry point leads now, from the last entry that it holds."""
        last = copy.entries[-1] if copy.entries else copy.base
        state = last.state if last is not None and last.state is not None else LaneState()
        state = state if self._protocol.keeps_clients else replace(state, producers={})
        started = EntryPointStarted(now_us=self._now_us())
        self._states[origin], _ = self._lanes[origin].handle(state, started)
        for client, said in self._asked.pop(origin, {}).items():
            self.heard(client, said)

    def ends(self, origin: str) -> None:
        """Another one leads, or asks to: whoever waits here goes there."""
        self._states.pop(origin, None)
        waiting = [decided.client for decided in self._groups[origin].fail()]
        for client in dict.fromkeys((*waiting, *self._asked.pop(origin, {}))):
            self._process.send(client, say.Refused(origin=origin))

    def leads(self, origin: str) -> bool:
        return origin in self._states

    def ask_to_lead(self, client: str, said: Said) -> None:
        """For a client that has come here, because nobody leads who could be heard of."""
        self._asked.setdefault(said.origin, {})[client] = said
        self._lead(said.origin)

    # --- what clients say ------------------------------------------------------------------------------------------

    def heard(self, client: str, said: Said) -> None:
        """From a client of a lane that is led here."""
        origin = said.origin
        state, actions = self._lanes[origin].handle(self._states[origin], self._event(client, said))
        refused = next((action for action in actions if isinstance(action, Refuse)), None)
        if refused is not None:
            self._refuse(client, said, refused)
            return
        append = next((action for action in actions if isinstance(action, AppendRows | AppendClose)), None)
        self._states[origin] = state
        stores = append is not None or (isinstance(said, say.Hello) and said.session is None)
        entry = self._entry(client, said, state, append) if stores else None
        self._count_repeated(said, append)
        reply = next(_reply(origin, action) for action in actions if _is_answer(action))
        self._groups[origin].join(Decided(client, reply, entry), 1)
        self._begin(origin)

    def _event(self, client: str, said: Said) -> Event:
        now_us = self._now_us()
        match said:
            case say.Hello():
                producer = said.producer or client
                return ProducerRegistered(producer=producer, session=said.session, now_us=now_us)
            case say.CloseLane():
                return CloseArrived(now_us=now_us)
            case say.Say():
                times = np.array([row.time_us for row in said.rows], np.int64)
                return RowsArrived(
                    count=len(said.rows),
                    now_us=now_us,
                    producer=said.producer or client,
                    session=said.session,
                    first=said.first,
                    times=times,
                )

    def _entry(self, client: str, said: Said, state: LaneState, append: AppendRows | AppendClose | None) -> say.Pushed:
        promise_us = self._lanes[said.origin].punctuation(state)
        if not isinstance(append, AppendRows):
            return say.Pushed(tuples=(), promise_us=promise_us, state=state)
        assert isinstance(said, say.Say)
        rows = [
            Tuple(origin=said.origin, stime=int(stamp), tid=int(number), values=row.values)
            for stamp, number, row in zip(append.stamps, append.numbers, said.rows[append.skip :], strict=True)
        ]
        return say.Pushed(
            tuples=tuple(row for row, late in zip(rows, append.late, strict=True) if not late),
            late=tuple(row for row, late in zip(rows, append.late, strict=True) if late),
            promise_us=promise_us,
            state=state,
            sent=(said.producer or client, said.first + append.skip),
        )

    def _count_repeated(self, said: Said, append: AppendRows | AppendClose | None) -> None:
        if isinstance(said, say.Say) and (append is None or (isinstance(append, AppendRows) and append.skip)):
            self._process.observer.knows_again()

    def _refuse(self, client: str, said: Said, refused: Refuse) -> None:
        if refused.code == SESSION_EXPIRED:
            assert not isinstance(said, say.CloseLane)
            self._process.send(client, say.Expired(origin=said.origin, session=said.session))
        elif refused.expected is not None:
            self._process.send(client, say.Held(origin=said.origin, following=refused.expected))
        else:
            raise AssertionError(f"{client} was refused: {refused.message}")

    # --- answers ---------------------------------------------------------------------------------------------------

    def _begin(self, origin: str) -> None:
        """The next group, if none is under way: its entries come one after the other."""
        group = list(self._groups[origin].begin())
        if not group:
            return
        for decided in group:
            if decided.entry is not None:
                self._enter(origin, decided.entry)
        self._groups[origin].stands_at(self._copy(origin).held)
        self.released(origin)

    def released(self, origin: str) -> None:
        """Replies to everything that rests on what is released, when that is durable."""
        answered = self._groups[origin].released(self._copy(origin).released)
        for decided in answered:
            self._process.when_durable(partial(self._process.send, decided.client, decided.reply))
        if answered:
            self._begin(origin)

    def _now_us(self) -> int:
        return CLOCK_US + self._process.world.now_us


def _is_answer(action: Action) -> bool:
    return isinstance(action, Answer | AnswerRegistration)


def _reply(origin: str, answer: Action) -> Reply:
    if isinstance(answer, AnswerRegistration):
        return say.Welcome(origin=origin, session=answer.session, following=answer.next_number)
    assert isinstance(answer, Answer)
    return say.Accepted(origin=origin, through=answer.accepted_through)
