"""Who reads a log, how far, and what it may forget: acknowledgements, floors, and the cutting off of a slow reader.

A log is trimmed below the smallest acknowledgement of its named readers. At its limit the slowest is cut off. What is
trimmed before a reader had it leaves a *floor* for that reader, per origin, 1 us above the largest stream time that
went: below the floor this copy cannot say that the reader has everything.

A reader that was cut off may read on, but it does not count: it neither holds the log back, nor may another be cut off
for its sake. It counts again when its punctuations have reached its floors: then it has what it missed from elsewhere.
The last reader that counts is never cut off; its lag pushes back on whoever writes the log. Nor is the last one of its
*fragment*, as fast as others may read: a fragment of which every replica was cut off could be rebuilt from nobody.

What a log knows of a reader is about one *life* of it. A reader that lost its disk and was rebuilt from a peer begins a
new life, and may have less than it had acknowledged: a log that did not hear of the new life in time (it reserves a
position for it) takes the reader for one that nobody knows.

``Readers.handle`` is the one door: a state and an event in, the next state and actions out. Trimming and floors change
in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.errors import check
from anabranch.model.position import Position
from anabranch.model.punctuation import Punctuations


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    life: str | None = None
    """None until it is heard of for the first time."""
    acknowledged: int = 0
    floors: Punctuations = field(default_factory=dict)
    cut_off: bool = False
    """It lacks something that is gone, and does not count until it has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A segment of the log: its last tuple, and the largest stream time of each origin in it."""

    last_id: int
    tops: Punctuations = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadersState:
    incarnation: str
    trimmed_id: int = 0
    """The last tuple that went."""
    marks: tuple[Mark, ...] = ()
    readers: Mapping[str, Reader] = field(default_factory=dict)
    trimmed: Punctuations = field(default_factory=dict)
    """The floors of a reader that nobody knows yet."""

    @property
    def last_id(self) -> int:
        return self.marks[-1].last_id if self.marks else self.trimmed_id


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentAppended:
    last_id: int
    tops: Punctuations


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAcknowledged:
    reader: str
    life: str
    position: Position
    punctuations: Punctuations = field(default_factory=dict)
    """What the reader itself promises, durably."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSubscribed:
    """``position`` is None for a reader without one; one of another incarnation is as good as none."""

    reader: str
    life: str
    position: Position | None = None
    punctuations: Punctuations = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReserved:
    """``reader`` begins a new life, and is about to be rebuilt from its peer ``like``, which has read up to
    ``position``."""

    reader: str
    life: str
    like: str
    like_life: str
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderForgotten:
    """It was taken out of the deployment."""

    reader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimDue:
    """``full`` says that the log is at its limit. Readers in ``keep`` are never cut off: the node's own.
    ``fragment_of`` has what a replica runs: those that run the same can be rebuilt from each other."""

    full: bool = False
    keep: frozenset[str] = frozenset()
    fragment_of: Mapping[str, str] = field(default_factory=dict)


Event = SegmentAppended | ReaderAcknowledged | ReaderSubscribed | PositionReserved | ReaderForgotten | TrimDue


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSubscription:
    """Send from ``first_id`` on, rows and punctuations in the order of the log. ``earlier_life`` says that the log has
    heard of the reader in another life, and not of this one."""

    reader: str
    incarnation: str
    first_id: int
    floors: Punctuations
    earlier_life: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimThrough:
    last_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    reader: str


Action = AnswerSubscription | TrimThrough | CutOff
Step = tuple[ReadersState, list[Action]]


@dataclass(frozen=True, slots=True)
class Readers:
    """The rules for one log. Holds no state."""

    log: str

    def handle(self, state: ReadersState, event: Event) -> Step:
        match event:
            case SegmentAppended():
                check(event.last_id >= state.last_id, f"Log {self.log} goes back from {state.last_id}.")
                mark = Mark(last_id=event.last_id, tops=event.tops)
                return replace(state, marks=(*state.marks, mark)), []
            case ReaderAcknowledged():
                return self._acknowledged(state, event), []
            case ReaderSubscribed():
                return self._subscribed(state, event)
            case PositionReserved():
                return self._reserved(state, event), []
            case ReaderForgotten():
                return replace(state, readers={n: r for n, r in state.readers.items() if n != event.reader}), []
            case TrimDue():
                return self._trim(state, event)

    def _acknowledged(self, state: ReadersState, event: ReaderAcknowledged) -> ReadersState:
        known = state.readers.get(event.reader)
        if known is None or known.life != event.life or event.position.incarnation != state.incarnation:
            return state  # late news from another life, of the reader or of the log
        if event.position.id > state.last_id:
            check(False, f"{event.reader} acknowledged {event.position} of log {self.log}.")
        acknowledged = max(known.acknowledged, event.position.id)
        cut_off = known.cut_off and _lacks(event.punctuations, known.floors)
        if acknowledged == known.acknowledged and cut_off == known.cut_off:
            return state  # it says again what it said before
        reader = Reader(life=known.life, acknowledged=acknowledged, floors=known.floors, cut_off=cut_off)
        return _with_reader(state, event.reader, reader)

    def _subscribed(self, state: ReadersState, event: ReaderSubscribed) -> Step:
        known = state.readers.get(event.reader, Reader(floors=state.trimmed))
        earlier_life = known.life not in (None, event.life)
        floors = state.trimmed if earlier_life else known.floors
        after = 0
        if event.position is not None and event.position.incarnation == state.incarnation:
            check(event.position.id <= state.last_id, f"{event.reader} asks after {event.position} of log {self.log}.")
            after = event.position.id
        reader = Reader(
            life=event.life,
            acknowledged=max(after, state.trimmed_id),
            floors=floors,
            cut_off=_lacks(event.punctuations, floors),
        )
        answer = AnswerSubscription(
            reader=event.reader,
            incarnation=state.incarnation,
            first_id=reader.acknowledged + 1,
            floors=floors,
            earlier_life=earlier_life,
        )
        return _with_reader(state, event.reader, reader), [answer]

    def _reserved(self, state: ReadersState, event: PositionReserved) -> ReadersState:
        """Nothing that the peer has not read goes before the rebuilt reader has it; its floors are the peer's."""
        peer = state.readers.get(event.like, Reader(floors=state.trimmed))
        floors = peer.floors if peer.life in (None, event.like_life) else state.trimmed
        read = event.position.id if event.position and event.position.incarnation == state.incarnation else 0
        reader = Reader(life=event.life, acknowledged=max(read, state.trimmed_id), floors=floors)
        return _with_reader(state, event.reader, reader)

    def _trim(self, state: ReadersState, event: TrimDue) -> Step:
        actions: list[Action] = []
        if event.full:
            for name in _slowest(state, event):
                state = _with_reader(state, name, replace(state.readers[name], cut_off=True))
                actions.append(CutOff(reader=name))
        holding = [reader.acknowledged for reader in state.readers.values() if not reader.cut_off]
        held = min(holding, default=0)
        if not holding or not state.marks or state.marks[0].last_id > held:
            return state, actions
        doomed = [mark for mark in state.marks if mark.last_id <= held]
        last_id = doomed[-1].last_id
        readers = {
            name: replace(reader, floors=_raised(reader.floors, [m for m in doomed if m.last_id > reader.acknowledged]))
            for name, reader in state.readers.items()
        }
        state = replace(
            state,
            trimmed_id=last_id,
            marks=state.marks[len(doomed) :],
            readers=readers,
            trimmed=_raised(state.trimmed, doomed),
        )
        return state, [*actions, TrimThrough(last_id=last_id)]


def _lacks(punctuations: Punctuations, floors: Punctuations) -> bool:
    """Whether a reader that promises this may lack something below its floors."""
    return any(punctuations.get(origin, 0) < floor for origin, floor in floors.items())


def _slowest(state: ReadersState, event: TrimDue) -> list[str]:
    """The readers to cut off: the slowest, if there are others who are faster, and none of them must be kept."""
    holding = {name: reader.acknowledged for name, reader in state.readers.items() if not reader.cut_off}
    least = min(holding.values(), default=0)
    slowest = sorted(name for name, acknowledged in holding.items() if acknowledged == least)
    faster = {event.fragment_of.get(name) for name in holding if name not in slowest}
    must_stay = any(
        name in event.keep or (name in event.fragment_of and event.fragment_of[name] not in faster) for name in slowest
    )
    return [] if must_stay or not faster else slowest


def _raised(floors: Punctuations, trimmed: list[Mark]) -> Punctuations:
    raised = dict(floors)
    for mark in trimmed:
        for origin, top in mark.tops.items():
            raised[origin] = max(raised.get(origin, 0), top + 1)
    return raised


def _with_reader(state: ReadersState, name: str, reader: Reader) -> ReadersState:
    return replace(state, readers={**state.readers, name: reader})
