"""A lane that several entry points share: none of them shows an entry before a majority holds it, and no two disagree.

One entry point at a time *leads* a lane, in a *term*: it takes the entries of the producer (or of plain clients), gives
them to its peers, and releases them when a majority has them durably, itself included. Only what is released may be
answered to the producer or seen by a replica. A producer that loses its entry point goes to another one, which asks to
lead the next term; a peer agrees if the asker holds at least what it holds itself, so the new leader has every entry
that was ever released. What it holds is the lane from then on; what a peer holds otherwise was never released, and
gives way.

A copy of the lane is *whole* in a term when it holds all that the leader of that term began with. To hold more means to
be whole in a later term, or in the same and longer: votes compare it so, and a leader counts only on copies that are
whole in its term. One that has got a part of what a new leader holds keeps what it had behind it until it has the rest,
because that may have been released. This is the log of Viewstamped Replication (Liskov and Cowling 2012, where a term
is a view) with Raft's elections. And there are no elections for their own sake: who has something to say to the lane
asks to lead it, and so does, after a while, who is needed for that (``core/elections.py`` says when).

Before it asks for votes, an entry point makes a *trial*: it asks whether it would be elected. A trial changes nothing,
so one that is behind, or was asleep, unseats nobody. Nobody agrees who holds more, leads, or has heard of a leader that
lives; only a producer that takes its lane along on purpose *takes over* from such a leader. Without that purpose, who
knows of a leader waits for its answer, too, before it counts on the others: a lane on which nothing happens is silent.

An entry point that lost its disk has forgotten its votes and the entries that it stored, and others may have counted on
both. So it begins a new *life*, in which it only *learns*: it stores what a leader gives it, but neither votes nor
leads nor counts, until a leader lets it count again: with a message that gives it all that the leader holds, when a
majority without it has heard of the new life. All messages carry the lives that their sender knows of. What
comes from a life that is over, or answers one, is dropped, and what was counted of it is counted no longer; a vote or
an answer that is still on the way therefore never meets what its sender says in the next life. That is why a majority
must know: any other majority has a member in it who tells.

Entries that every entry point has released are needed by nobody, and may be forgotten; so may others, when there are
too many. A peer that lacks one of those cannot be given it any more. It is told where the leader's entries begin, and
what the lane was at that place (the *base*), and goes on from there with a hole behind it, of which its readers must
hear.

``SharedLane.handle`` is the one door. The state it returns is stored before its actions are carried out, with one
exception: what a leader takes it gives to its peers first, and stores it itself with the release (``must_store``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from typing import Generic, TypeVar

from anabranch.errors import check

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCopy(Generic[Content]):
    """What one entry point has of a lane. ``entries`` begin after place ``trimmed``; ``released`` never goes back."""

    term: int = 0
    leader: str | None = None
    voted_for: str | None = None
    """In this term."""
    entries: tuple[Content, ...] = ()
    trimmed: int = 0
    base: Content | None = None
    """What was at place ``trimmed``."""
    released: int = 0
    everywhere: int = 0
    """Up to here every entry point has released, as far as this one has heard."""
    whole: int = 0
    """The last term in which it held all that the leader of that term began with."""
    matched: int = 0
    """Up to here it was given what the leader of the present term holds. A new start forgets it."""
    learns: bool = False
    """Whether it lost what it had, and does not count yet."""
    lives: Mapping[str, int] = field(default_factory=dict)
    """The latest life of each entry point that it has heard of, its own included; 0 where nothing stands."""
    held: int = field(init=False)
    """The place of the last entry. It is asked for some twenty times for each that comes, so it is computed once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", self.trimmed + len(self.entries))

    @classmethod
    def lost(cls, name: str, life: int) -> LaneCopy[Content]:
        """What the entry point ``name`` begins with when its disk was lost: ``life`` was never used before."""
        return cls(learns=True, lives={name: life})

    @property
    def known(self) -> int:
        """Up to here it holds what the leader of the present term holds."""
        return self.held if self.whole == self.term else max(self.released, self.matched)

    def at(
        self, *, entries: tuple[Content, ...] | None = None, released: int | None = None, everywhere: int | None = None
    ) -> LaneCopy[Content]:
        """With other entries, or further. It is said of every entry, so it is spelled out: ``replace`` takes several
        times as long."""
        return LaneCopy(
            term=self.term,
            leader=self.leader,
            voted_for=self.voted_for,
            entries=self.entries if entries is None else entries,
            trimmed=self.trimmed,
            base=self.base,
            released=self.released if released is None else released,
            everywhere=self.everywhere if everywhere is None else everywhere,
            whole=self.whole,
            matched=self.matched,
            learns=self.learns,
            lives=self.lives,
        )

    def between(self, after: int, to: int) -> tuple[Content, ...]:
        first, end = after - self.trimmed, to - self.trimmed
        return self.entries[max(0, first) : max(0, end)]

    def trim(self, through: int) -> LaneCopy[Content]:
        """Without the entries up to this place, as far as they are released."""
        through = min(through, self.released)
        if through <= self.trimmed:
            return self
        last = self.entries[through - self.trimmed - 1]
        left = self.entries[through - self.trimmed :]
        return replace(self, entries=left, trimmed=through, base=last)

    @property
    def last(self) -> tuple[int, int]:
        """How much it holds, as votes compare it: the later term counts more than the greater length."""
        return self.whole, self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """What a leader, or one who asks to lead, keeps in memory: a new start forgets it."""

    votes: frozenset[str] = frozenset()
    elected: bool = False
    began_with: int = 0
    """What the leader held when it was elected. A peer counts when it holds that: before, it may hold other entries
    at places beyond."""
    trial: bool = False
    """Whether it only asks who would vote for it."""
    takes_over: bool = False
    stored: Mapping[str, int] = field(default_factory=dict)
    """Per peer, up to where it is known to hold what the leader holds."""
    learning: frozenset[str] = frozenset()
    """The peers that do not count."""
    heard: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Per peer, the lives that it knew of when it last answered this leader."""
    released: Mapping[str, int] = field(default_factory=dict)
    """Per peer, up to where it has said to have released."""

    def answered(self, event: StoreAnswered) -> Leading:
        """What it knows after a peer has answered what it was asked to store."""
        peer, known = event.sender, self.stored[event.sender]
        learning, heard = self.learning, self.heard
        if event.lives or event.learns:
            if event.learns != (peer in learning):
                learning = learning | {peer} if event.learns else learning - {peer}
            if heard.get(peer) != event.lives:
                heard = {**heard, peer: event.lives}
        return Leading(
            votes=self.votes,
            elected=self.elected,
            began_with=self.began_with,
            trial=self.trial,
            takes_over=self.takes_over,
            stored={**self.stored, peer: max(known, event.stored) if event.agreed else min(known, event.stored)},
            learning=learning,
            heard=heard,
            released={**self.released, peer: event.released},
        )

    def without(self, begun: Collection[str]) -> Leading:
        """What is left of it when these peers have begun a new life."""
        return Leading(
            votes=self.votes.difference(begun),
            elected=self.elected,
            began_with=self.began_with,
            trial=self.trial,
            takes_over=self.takes_over,
            stored={**self.stored, **dict.fromkeys(begun, 0)} if self.elected else {},
            learning=self.learning.union(begun),
            heard={peer: lives for peer, lives in self.heard.items() if peer not in begun},
            released={peer: place for peer, place in self.released.items() if peer not in begun},
        )


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadWanted:
    """A client has come here, or a leader is missed. With ``takes_over`` a producer takes its lane along on purpose."""

    takes_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered(Generic[Content]):
    """The leader's lane took these."""

    contents: tuple[Content, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAsked:
    """In a trial, ``term`` is the one that the sender would ask for."""

    sender: str
    term: int
    last: tuple[int, int]
    trial: bool = False
    takes_over: bool = False
    lives: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswered:
    """``tried`` is the term that a trial was about."""

    sender: str
    term: int
    agreed: bool
    tried: int | None = None
    lives: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAsked(Generic[Content]):
    """The leader of ``term`` has these entries after place ``after``; with ``began_with`` entries it was elected.
    ``counts`` tells a peer that has learned enough that it counts from now on. ``base`` is what was at place ``after``,
    for a peer that lacks entries before it which the leader has no more."""

    sender: str
    term: int
    after: int
    began_with: int
    entries: tuple[Content, ...]
    released: int
    counts: bool = False
    everywhere: int = 0
    base: Content | None = None
    lives: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAnswered:
    """``stored`` is up to where the peer holds what the leader holds; with ``agreed`` False, where to try from."""

    sender: str
    term: int
    agreed: bool
    stored: int
    released: int = 0
    learns: bool = False
    lives: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeachAsked:
    """The sender learns. It waits for a leader, so somebody must lead, even if nobody has anything to say."""

    sender: str
    term: int
    lives: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerReachable:
    """A peer is there (again), or an answer of it was lost: the leader tells it what it may lack, and who learns asks
    to be taught."""

    peer: str


Message = VoteAsked | VoteAnswered | StoreAsked[Content] | StoreAnswered | TeachAsked
Event = LeadWanted | Entered[Content] | Message[Content] | PeerReachable


# --- actions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell(Generic[Content]):
    """Send this to a peer, when the state is durable."""

    peer: str
    message: Message[Content]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginAt:
    """What was released between the last place here and this one will never come: there is a hole. Everything after
    ``place`` follows as ever."""

    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAgain:
    """This entry point has learned all that it had forgotten, and votes and counts from now on."""

    term: int


Action = Tell[Content] | Release | Lead | StepDown | BeginAt | CountAgain
Step = tuple[LaneCopy[Content], Leading | None, list[Action[Content]]]


@dataclass(frozen=True, slots=True)
class SharedLane(Generic[Content]):
    """The rules of one lane at the entry point ``name``, whose peers are the source's other entry points.

    ``same`` says whether an entry that is held here is one that a leader sent, or the base that is left of it."""

    name: str
    peers: tuple[str, ...]
    same: Callable[[Content, Content], bool] = eq

    @property
    def majority(self) -> int:
        return (len(self.peers) + 1) // 2 + 1

    def handle(
        self, copy: LaneCopy[Content], leading: Leading | None, event: Event[Content], *, led: bool = False
    ) -> Step[Content]:
        """``led`` says that a leader was heard of so lately that it lives."""
        if not isinstance(event, LeadWanted | Entered | PeerReachable) and (event.lives or copy.lives):
            if self._is_over(copy, event):
                return copy, leading, []
            copy, leading = self._heard_of(copy, leading, event.lives)
        match event:
            case LeadWanted():
                return self._ask_to_lead(copy, leading, takes_over=event.takes_over)
            case Entered():
                return self._entered(copy, leading, event)
            case VoteAsked() if event.trial or self._is_served(leading, event, led=led):
                return copy, leading, self._try(copy, leading, event, led=led)
            case VoteAsked():
                return self._vote(*self._newer(copy, leading, event.term), event)
            case VoteAnswered():
                return self._voted(*self._newer(copy, leading, event.term), event)
            case StoreAsked():
                return self._store(*self._newer(copy, leading, event.term), event)
            case StoreAnswered():
                return self._stored(*self._newer(copy, leading, event.term), event)
            case TeachAsked():
                copy, leading, before = self._newer(copy, leading, event.term)
                leads = leading is not None and leading.elected
                return copy, leading, [*before, *(self._told(copy, leading, event.sender) if leads else ())]
            case PeerReachable():
                return copy, leading, self._told(copy, leading, event.peer)

    def must_store(self, event: Event[Content], actions: Sequence[Action[Content]]) -> bool:
        """Whether the next state must be durable before its actions are carried out. If not, it is with the next that
        must.

        An entry that a leader took is released by an answer of a peer, in a step that is stored: before that nobody
        counts on the leader's own copy of it. A leader that crashes meanwhile has lost what was never released; it
        never leads this term again, so nothing else comes to the same place in it.
        """
        return not isinstance(event, Entered) or any(isinstance(action, Release) for action in actions)

    def _newer(
        self, copy: LaneCopy[Content], leading: Leading | None, term: int
    ) -> tuple[LaneCopy[Content], Leading | None, list[Action[Content]]]:
        """Whoever hears of a later term is in it, and leads no longer."""
        if term <= copy.term:
            return copy, leading, []
        led = leading is not None and leading.elected
        down: list[Action[Content]] = [StepDown(term=term)] if led else []
        return replace(copy, term=term, leader=None, voted_for=None, matched=0), None, down

    # --- lives -----------------------------------------------------------------------------------------------------

    def _is_over(self, copy: LaneCopy[Content], event: Message[Content]) -> bool:
        """Whether this comes from a life that is over, or answers what was asked in one."""
        if event.lives.get(event.sender, 0) < copy.lives.get(event.sender, 0):
            return True
        answers = isinstance(event, VoteAnswered | StoreAnswered)
        return answers and event.lives.get(self.name, 0) != copy.lives.get(self.name, 0)

    def _heard_of(
        self, copy: LaneCopy[Content], leading: Leading | None, lives: Mapping[str, int]
    ) -> tuple[LaneCopy[Content], Leading | None]:
        if lives == copy.lives:
            return copy, leading
        begun = {name: life for name, life in lives.items() if life > copy.lives.get(name, 0)}
        if not begun:
            return copy, leading
        copy = replace(copy, lives={**copy.lives, **begun})
        return copy, leading.without(begun) if leading is not None else None

    def _may_count(self, copy: LaneCopy[Content], leading: Leading, peer: str) -> bool:
        """Whether a peer that learns may count when it has what it is told now, which is all that the leader holds:
        a majority without it knows of its life."""
        if peer not in leading.learning:
            return False
        others = [name for name in self.peers if name not in leading.learning]
        life = copy.lives.get(peer, 0)
        know = [name for name in others if leading.heard.get(name, {}).get(peer, 0) >= life]
        return 1 + len(know) >= self.majority

    # --- who leads -------------------------------------------------------------------------------------------------

    def _ask_to_lead(self, copy: LaneCopy[Content], leading: Leading | None, *, takes_over: bool) -> Step[Content]:
        """First as a trial. Who asks again, and would have been elected, has waited long enough for the old leader."""
        if copy.learns:
            return copy, None, []
        if leading is not None and leading.elected:
            return copy, leading, []
        would_win = leading is not None and leading.trial and len(leading.votes) >= self.majority
        if self.majority == 1 or would_win:
            return self._campaign(copy, takes_over=takes_over)
        leading = Leading(trial=True, votes=frozenset({self.name}), takes_over=takes_over)
        return copy, leading, [self._ask_for_vote(copy, leading, peer) for peer in self.peers]

    def _campaign(self, copy: LaneCopy[Content], *, takes_over: bool) -> Step[Content]:
        copy = replace(copy, term=copy.term + 1, leader=None, voted_for=self.name)
        leading = Leading(votes=frozenset({self.name}), takes_over=takes_over)
        if self.majority == 1:
            return self._elected(copy)
        return copy, leading, [self._ask_for_vote(copy, leading, peer) for peer in self.peers]

    def _ask_for_vote(self, copy: LaneCopy[Content], leading: Leading, peer: str) -> Tell[Content]:
        return Tell(
            peer=peer,
            message=VoteAsked(
                sender=self.name,
                term=copy.term + leading.trial,
                last=copy.last,
                trial=leading.trial,
                takes_over=leading.takes_over,
                lives=copy.lives,
            ),
        )

    def _is_served(self, leading: Leading | None, event: VoteAsked, *, led: bool) -> bool:
        """Whether there is a leader already, with which the sender can do."""
        return not event.takes_over and (led or (leading is not None and leading.elected))

    def _try(
        self, copy: LaneCopy[Content], leading: Leading | None, event: VoteAsked, *, led: bool
    ) -> list[Action[Content]]:
        """Whether it would vote for the sender. Who leads shows it, and gives the sender what it lacks."""
        free = event.term > copy.term or (event.term == copy.term and copy.voted_for in (None, event.sender))
        served = self._is_served(leading, event, led=led)
        agreed = free and not copy.learns and not served and event.last >= copy.last
        answer = VoteAnswered(
            sender=self.name, term=copy.term, agreed=agreed, tried=event.term if event.trial else None, lives=copy.lives
        )
        actions: list[Action[Content]] = [Tell(peer=event.sender, message=answer)]
        if leading is not None and leading.elected and not agreed:
            actions.append(self._ask_to_store(copy, leading, event.sender))
        return actions

    def _vote(
        self, copy: LaneCopy[Content], leading: Leading | None, before: list[Action[Content]], event: VoteAsked
    ) -> Step[Content]:
        free = not copy.learns and copy.voted_for in (None, event.sender)
        agreed = event.term == copy.term and free and event.last >= copy.last
        if agreed:
            copy = replace(copy, voted_for=event.sender)
        answer = VoteAnswered(sender=self.name, term=copy.term, agreed=agreed, lives=copy.lives)
        return copy, leading, [*before, Tell(peer=event.sender, message=answer)]

    def _voted(
        self, copy: LaneCopy[Content], leading: Leading | None, before: list[Action[Content]], event: VoteAnswered
    ) -> Step[Content]:
        if leading is None or leading.elected or not event.agreed:
            return copy, leading, before
        if (event.tried or event.term) != copy.term + leading.trial or (event.tried is not None) != leading.trial:
            return copy, leading, before  # it answers what was asked earlier
        leading = replace(leading, votes=leading.votes | {event.sender})
        if len(leading.votes) < self.majority:
            return copy, leading, before
        if not leading.trial:
            return self._elected(copy)
        if leading.takes_over or copy.leader in (None, self.name, *leading.votes):
            return self._campaign(copy, takes_over=leading.takes_over)
        return copy, leading, before

    def _elected(self, copy: LaneCopy[Content]) -> Step[Content]:
        """What it holds now is the lane, whatever others hold."""
        copy = replace(copy, leader=self.name, whole=copy.term)
        leading = Leading(elected=True, began_with=copy.held, stored=dict.fromkeys(self.peers, copy.released))
        copy, released = self._release(copy, leading)
        asks = [self._ask_to_store(copy, leading, peer) for peer in self.peers]
        return copy, leading, [Lead(term=copy.term), *released, *asks]

    # --- entries ---------------------------------------------------------------------------------------------------

    def _entered(self, copy: LaneCopy[Content], leading: Leading | None, event: Entered[Content]) -> Step[Content]:
        check(leading is not None and leading.elected, f"{self.name} took an entry for a lane that it does not lead.")
        assert leading is not None
        copy = copy.at(entries=(*copy.entries, *event.contents))
        copy, released = self._release(copy, leading)
        return copy, leading, [*released, *[self._ask_to_store(copy, leading, peer) for peer in self.peers]]

    def _ask_to_store(self, copy: LaneCopy[Content], leading: Leading, peer: str) -> Tell[Content]:
        """What the peer is not known to hold. It need not be the last time that it is told."""
        after = max(leading.stored[peer], copy.trimmed)
        lacks = leading.stored[peer] < copy.trimmed
        return Tell(
            peer=peer,
            message=StoreAsked(
                sender=self.name,
                term=copy.term,
                after=after,
                began_with=leading.began_with,
                entries=copy.between(after, copy.held),
                released=copy.released,
                counts=bool(leading.learning) and self._may_count(copy, leading, peer),
                everywhere=copy.everywhere,
                base=copy.base if lacks else None,
                lives=copy.lives,
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
            return copy, leading, [*before, self._answer(copy, event.sender, agreed=False, stored=copy.released)]
        if copy.leader != event.sender:
            copy = replace(copy, leader=event.sender)
        fits = event.after <= copy.known
        if not fits and event.base is None:
            return copy, None, [*before, self._answer(copy, event.sender, agreed=False, stored=copy.released)]
        if not fits and event.base is not None:
            copy = self._behind_a_hole(copy, event.after, event.base)
            before = [*before, BeginAt(place=event.after)]
        stored = event.after + len(event.entries)
        copy = self._taken(copy, event, stored)
        released = max(copy.released, min(event.released, stored))
        actions: list[Action[Content]] = [Release(through=released)] if released > copy.released else []
        everywhere = max(copy.everywhere, min(event.everywhere, released))
        if released > copy.released or everywhere > copy.everywhere:
            copy = copy.at(released=released, everywhere=everywhere)
        if copy.learns and event.counts and event.lives.get(self.name) == copy.lives.get(self.name):
            copy = replace(copy, learns=False, voted_for=event.sender)  # whatever it voted before, not against this one
            actions.append(CountAgain(term=copy.term))
        return copy, None, [*before, *actions, self._answer(copy, event.sender, agreed=True, stored=stored)]

    def _answer(self, copy: LaneCopy[Content], leader: str, *, agreed: bool, stored: int) -> Tell[Content]:
        message = StoreAnswered(
            sender=self.name,
            term=copy.term,
            agreed=agreed,
            stored=stored,
            released=copy.released,
            learns=copy.learns,
            lives=copy.lives,
        )
        return Tell(peer=leader, message=message)

    def _behind_a_hole(self, copy: LaneCopy[Content], after: int, base: Content) -> LaneCopy[Content]:
        """What stands behind the hole stays if the entry before it is the leader's."""
        last = copy.between(after - 1, after)
        agrees = bool(last) and self.same(last[0], base)
        entries = copy.between(after, copy.held) if agrees else ()
        return replace(copy, entries=entries, trimmed=after, base=base, released=after)

    def _taken(self, copy: LaneCopy[Content], event: StoreAsked[Content], stored: int) -> LaneCopy[Content]:
        """With the leader's entries behind those that are known to be its own. What stands behind them, of an earlier
        leader, may have been released, and stays until all is here that this leader began with: then it was not. It
        was not, either, if the two differ before: an entry rests on those before it, and goes with them."""
        known = copy.known
        sent = event.entries[known - event.after :]
        entries = (*copy.between(copy.trimmed, known), *sent)
        if copy.whole == event.term:
            return copy.at(entries=entries) if stored > known else copy
        if stored >= event.began_with:
            return replace(copy, entries=entries, whole=event.term)
        matched = max(known, stored)
        agrees = all(self.same(mine, its) for mine, its in zip(copy.between(known, matched), sent, strict=False))
        rest = copy.between(matched, copy.held) if agrees else ()
        return replace(copy, entries=(*entries, *rest), matched=matched)

    def _stored(
        self, copy: LaneCopy[Content], leading: Leading | None, before: list[Action[Content]], event: StoreAnswered
    ) -> Step[Content]:
        if leading is None or not leading.elected or event.term != copy.term:
            return copy, leading, before
        leading = leading.answered(event)
        if not event.agreed or (leading.learning and self._may_count(copy, leading, event.sender)):
            return copy, leading, [*before, self._ask_to_store(copy, leading, event.sender)]
        released = max(copy.released, self._released(copy, leading))
        everywhere = min([released, *[leading.released.get(peer, 0) for peer in self.peers]])
        if released == copy.released and everywhere <= copy.everywhere:
            return copy, leading, before
        actions: list[Action[Content]] = [Release(through=released)] if released > copy.released else []
        copy = copy.at(released=released, everywhere=max(everywhere, copy.everywhere))
        return copy, leading, [*before, *actions]

    def _released(self, copy: LaneCopy[Content], leading: Leading) -> int:
        """What a majority holds is released; peers hear of it with the next entries, or when they are asked again."""
        places = [
            place
            for peer, place in leading.stored.items()
            if peer not in leading.learning and place >= leading.began_with
        ]
        places.append(copy.held)
        places.sort(reverse=True)
        return places[self.majority - 1] if len(places) >= self.majority else 0

    def _release(self, copy: LaneCopy[Content], leading: Leading) -> tuple[LaneCopy[Content], list[Action[Content]]]:
        released = self._released(copy, leading)
        if released <= copy.released:
            return copy, []
        return copy.at(released=released), [Release(through=released)]

    def _told(self, copy: LaneCopy[Content], leading: Leading | None, peer: str) -> list[Action[Content]]:
        if copy.learns:
            return [Tell(peer=peer, message=TeachAsked(sender=self.name, term=copy.term, lives=copy.lives))]
        if leading is None:
            return []
        if not leading.elected:
            return [self._ask_for_vote(copy, leading, peer)]
        return [self._ask_to_store(copy, leading, peer)]

    def owes(self, copy: LaneCopy[Content], leading: Leading | None, peer: str) -> bool:
        """Whether the peer is to be reminded of the lane: it lacks something that is here, or has something that is
        not. A lane of which everybody has released everything needs no word."""
        if copy.learns:
            return True
        if leading is None or not leading.elected:
            return False
        has_all = leading.stored[peer] >= copy.held and leading.released.get(peer, -1) >= copy.released
        return not has_all or peer in leading.learning
