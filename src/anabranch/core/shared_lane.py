"""A lane that several entry points share: none of them shows an entry before a majority holds it, and no two disagree.

One entry point at a time *leads* a lane, in a *term*: it takes the entries of the producer (or of plain clients), gives
them to its peers, and releases them when a majority has them durably, itself included. Only what is released may be
answered to the producer or seen by a replica. A producer that loses its entry point goes to another one, which asks to
lead the next term; a peer agrees if the asker holds at least what it holds itself, so the new leader has every entry
that was ever released. What it holds beyond that it proposes again under its own term. What a peer holds beyond the
leader, or under an older term, was never released, and gives way.

This is Raft's log (elections by log, one leader per term, majority before release) with two differences. A leader does
not wait for an entry of its own term before it releases older ones: it gives them its own term first, which is the
same as proposing them. And there are no elections for their own sake: who has something to say to the lane asks to
lead it, and so does, after a while, who holds something of a leader that has fallen silent.

``SharedLane.handle`` is the one door. The state it returns is stored before its actions are carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from anabranch.errors import check

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Entry(Generic[Content]):
    """What stands at one place of the lane, and the term whose leader last proposed it."""

    term: int
    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCopy(Generic[Content]):
    """What one entry point has of a lane. ``entries`` begin after place ``trimmed``; ``released`` never goes back."""

    term: int = 0
    leader: str | None = None
    voted_for: str | None = None
    """In this term."""
    entries: tuple[Entry[Content], ...] = ()
    trimmed: int = 0
    trimmed_term: int = 0
    released: int = 0

    @property
    def held(self) -> int:
        return self.trimmed + len(self.entries)

    def term_at(self, place: int) -> int:
        return self.trimmed_term if place <= self.trimmed else self.entries[place - self.trimmed - 1].term

    def between(self, after: int, to: int) -> tuple[Entry[Content], ...]:
        return self.entries[max(0, after - self.trimmed) : to - self.trimmed]

    @property
    def last(self) -> tuple[int, int]:
        """How much it holds, as votes compare it: the later term counts more than the greater length."""
        return self.term_at(self.held), self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """What a leader, or one who asks to lead, keeps in memory: a new start forgets it."""

    votes: frozenset[str] = frozenset()
    elected: bool = False
    stored: Mapping[str, int] = field(default_factory=dict)
    """Per peer, up to where it is known to hold what the leader holds."""


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadWanted:
    """A producer has come here, or the lane's owner has been silent for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered(Generic[Content]):
    """The leader's lane took these."""

    contents: tuple[Content, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAsked:
    sender: str
    term: int
    last: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswered:
    sender: str
    term: int
    agreed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAsked(Generic[Content]):
    """The leader of ``term`` has these entries after place ``after``, where the entry before has ``after_term``."""

    sender: str
    term: int
    after: int
    after_term: int
    entries: tuple[Entry[Content], ...]
    released: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAnswered:
    """``stored`` is up to where the peer holds what the leader holds; with ``agreed`` False, where to try from."""

    sender: str
    term: int
    agreed: bool
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerReachable:
    """A peer is there (again), or an answer of it was lost: the leader tells it what it may lack."""

    peer: str


Event = LeadWanted | Entered[Content] | VoteAsked | VoteAnswered | StoreAsked[Content] | StoreAnswered | PeerReachable


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Generic[Content]):
    """Send this to a peer, when the state is durable."""

    peer: str
    message: VoteAsked | VoteAnswered | StoreAsked[Content] | StoreAnswered


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Everything up to this place may be answered, and shown to replicas."""

    through: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """This entry point leads the lane from now on."""

    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDown:
    """Another one leads, or asks to: what was not released here is not known to hold."""

    term: int


Action = Tell[Content] | Release | Lead | StepDown
Step = tuple[LaneCopy[Content], Leading | None, list[Action[Content]]]


@dataclass(frozen=True, slots=True)
class SharedLane(Generic[Content]):
    """The rules of one lane at the entry point ``name``, whose peers are the source's other entry points."""

    name: str
    peers: tuple[str, ...]

    @property
    def majority(self) -> int:
        return (len(self.peers) + 1) // 2 + 1

    def handle(self, copy: LaneCopy[Content], leading: Leading | None, event: Event[Content]) -> Step[Content]:
        match event:
            case LeadWanted():
                return self._ask_to_lead(copy)
            case Entered():
                return self._entered(copy, leading, event)
            case VoteAsked():
                return self._vote(*self._newer(copy, leading, event.term), event)
            case VoteAnswered():
                return self._voted(*self._newer(copy, leading, event.term), event)
            case StoreAsked():
                return self._store(*self._newer(copy, leading, event.term), event)
            case StoreAnswered():
                return self._stored(*self._newer(copy, leading, event.term), event)
            case PeerReachable():
                return copy, leading, self._told(copy, leading, event.peer)

    def _newer(
        self, copy: LaneCopy[Content], leading: Leading | None, term: int
    ) -> tuple[LaneCopy[Content], Leading | None, list[Action[Content]]]:
        """Whoever hears of a later term is in it, and leads no longer."""
        if term <= copy.term:
            return copy, leading, []
        down: list[Action[Content]] = [StepDown(term=term)] if leading is not None else []
        return replace(copy, term=term, leader=None, voted_for=None), None, down

    # --- who leads -------------------------------------------------------------------------------------------------

    def _ask_to_lead(self, copy: LaneCopy[Content]) -> Step[Content]:
        copy = replace(copy, term=copy.term + 1, leader=None, voted_for=self.name)
        leading = Leading(votes=frozenset({self.name}))
        if self.majority == 1:
            return self._elected(copy)
        asked = VoteAsked(sender=self.name, term=copy.term, last=copy.last)
        return copy, leading, [Tell(peer=peer, message=asked) for peer in self.peers]

    def _vote(
        self, copy: LaneCopy[Content], leading: Leading | None, before: list[Action[Content]], event: VoteAsked
    ) -> Step[Content]:
        agreed = event.term == copy.term and copy.voted_for in (None, event.sender) and event.last >= copy.last
        if agreed:
            copy = replace(copy, voted_for=event.sender)
        answer = VoteAnswered(sender=self.name, term=copy.term, agreed=agreed)
        return copy, leading, [*before, Tell(peer=event.sender, message=answer)]

    def _voted(
        self, copy: LaneCopy[Content], leading: Leading | None, before: list[Action[Content]], event: VoteAnswered
    ) -> Step[Content]:
        if leading is None or leading.elected or event.term != copy.term or not event.agreed:
            return copy, leading, before
        leading = replace(leading, votes=leading.votes | {event.sender})
        if len(leading.votes) < self.majority:
            return copy, leading, before
        return self._elected(copy)

    def _elected(self, copy: LaneCopy[Content]) -> Step[Content]:
        """Proposes again, as its own, what it does not know to be released."""
        kept = copy.between(copy.trimmed, copy.released)
        again = tuple(replace(entry, term=copy.term) for entry in copy.between(copy.released, copy.held))
        copy = replace(copy, leader=self.name, entries=(*kept, *again))
        leading = Leading(elected=True, stored=dict.fromkeys(self.peers, copy.released))
        copy, leading, released = self._release(copy, leading)
        asks = [self._ask_to_store(copy, leading, peer) for peer in self.peers]
        return copy, leading, [Lead(term=copy.term), *released, *asks]

    # --- entries ---------------------------------------------------------------------------------------------------

    def _entered(self, copy: LaneCopy[Content], leading: Leading | None, event: Entered[Content]) -> Step[Content]:
        check(leading is not None and leading.elected, f"{self.name} took an entry for a lane that it does not lead.")
        assert leading is not None
        entries = (*copy.entries, *(Entry(copy.term, content) for content in event.contents))
        copy, leading, released = self._release(replace(copy, entries=entries), leading)
        return copy, leading, [*released, *(self._ask_to_store(copy, leading, peer) for peer in self.peers)]

    def _ask_to_store(self, copy: LaneCopy[Content], leading: Leading, peer: str) -> Tell[Content]:
        """What the peer is not known to hold. It need not be the last time that it is told."""
        after = max(leading.stored[peer], copy.trimmed)
        return Tell(
            peer=peer,
            message=StoreAsked(
                sender=self.name,
                term=copy.term,
                after=after,
                after_term=copy.term_at(after),
                entries=copy.between(after, copy.held),
                released=copy.released,
            ),
        )

    def _store(
        self,
        copy: LaneCopy[Content],
        leading: Leading | None,
        before: list[Action[Content]],
        event: StoreAsked[Content],
    ) -> Step[Content]:
        if event.term < copy.term:
            answer = StoreAnswered(sender=self.name, term=copy.term, agreed=False, stored=copy.released)
            return copy, leading, [*before, Tell(peer=event.sender, message=answer)]
        copy = replace(copy, leader=event.sender)
        fits = event.after <= copy.released or (
            event.after <= copy.held and copy.term_at(event.after) == event.after_term
        )
        if not fits:
            answer = StoreAnswered(sender=self.name, term=copy.term, agreed=False, stored=copy.released)
            return copy, None, [*before, Tell(peer=event.sender, message=answer)]
        skip = max(0, copy.released - event.after)  # what is released here is what the leader has there
        begin = event.after + min(skip, len(event.entries))
        entries = (*copy.between(copy.trimmed, begin), *event.entries[skip:])
        if begin + len(event.entries[skip:]) < copy.held and self._continues(copy, begin, event.entries[skip:]):
            entries = copy.entries  # an older request, late: what came after it stands
        stored = event.after + len(event.entries)
        released = max(copy.released, min(event.released, stored))
        actions: list[Action[Content]] = [Release(through=released)] if released > copy.released else []
        copy = replace(copy, entries=entries, released=released)
        answer = StoreAnswered(sender=self.name, term=copy.term, agreed=True, stored=stored)
        return copy, None, [*before, *actions, Tell(peer=event.sender, message=answer)]

    def _continues(self, copy: LaneCopy[Content], after: int, entries: tuple[Entry[Content], ...]) -> bool:
        """Whether these entries are here already, as they are."""
        held = copy.between(after, after + len(entries))
        return [entry.term for entry in held] == [entry.term for entry in entries]

    def _stored(
        self, copy: LaneCopy[Content], leading: Leading | None, before: list[Action[Content]], event: StoreAnswered
    ) -> Step[Content]:
        if leading is None or not leading.elected or event.term != copy.term:
            return copy, leading, before
        known = leading.stored[event.sender]
        stored = max(known, event.stored) if event.agreed else min(known, event.stored)
        leading = replace(leading, stored={**leading.stored, event.sender: stored})
        if not event.agreed:
            return copy, leading, [*before, self._ask_to_store(copy, leading, event.sender)]
        copy, leading, released = self._release(copy, leading)
        return copy, leading, [*before, *released]

    def _release(
        self, copy: LaneCopy[Content], leading: Leading
    ) -> tuple[LaneCopy[Content], Leading, list[Action[Content]]]:
        """What a majority holds is released; peers hear of it with the next entries, or when they are asked again."""
        places = sorted([copy.held, *leading.stored.values()], reverse=True)
        released = places[self.majority - 1]
        if released <= copy.released:
            return copy, leading, []
        return replace(copy, released=released), leading, [Release(through=released)]

    def _told(self, copy: LaneCopy[Content], leading: Leading | None, peer: str) -> list[Action[Content]]:
        if leading is None:
            return []
        if not leading.elected:
            return [Tell(peer=peer, message=VoteAsked(sender=self.name, term=copy.term, last=copy.last))]
        return [self._ask_to_store(copy, leading, peer)]
