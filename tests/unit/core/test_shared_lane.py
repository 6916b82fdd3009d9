"""Entry points that share a lane never disagree about an entry that was released, whatever happens between them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from anabranch.core.shared_lane import (
    BeginAt,
    CountAgain,
    Entered,
    LaneCopy,
    Lead,
    Leading,
    LeadWanted,
    PeerReachable,
    Release,
    SharedLane,
    StepDown,
    StoreAsked,
    TeachAsked,
    Tell,
    VoteAnswered,
    VoteAsked,
)
from anabranch.errors import InvariantBroken


class Group:
    """Some entry points, and the messages between them, which are lost, late, or come twice."""

    def __init__(self, names: str = "abc", lane: type[SharedLane[str]] = SharedLane) -> None:
        self.lanes = {name: lane(name, tuple(other for other in names if other != name)) for name in names}
        self.copies: dict[str, LaneCopy[str]] = {name: LaneCopy() for name in names}
        self.leading: dict[str, Leading | None] = dict.fromkeys(names)
        self.under_way: list[Tell[str]] = []
        self.agreed: dict[int, str] = {}
        self.lives = 0
        self.holes = 0

    def handle(self, name: str, event: Any) -> list[Any]:
        copy, leading, actions = self.lanes[name].handle(self.copies[name], self.leading[name], event)
        assert copy.released >= self.copies[name].released
        self.copies[name], self.leading[name] = copy, leading
        for action in actions:
            if isinstance(action, Tell):
                self.under_way.append(action)
            self.holes += isinstance(action, BeginAt)
        self.check()
        return [action for action in actions if not isinstance(action, Tell)]

    def check(self) -> None:
        for name, copy in self.copies.items():
            assert copy.base is None or copy.base == self.agreed[copy.trimmed]
            for place, entry in enumerate(copy.between(copy.trimmed, copy.released), start=copy.trimmed + 1):
                agreed = self.agreed.setdefault(place, entry.content)
                assert entry.content == agreed, f"{name} shows {entry.content} at {place}, another {agreed}"

    def deliver(self, index: int = 0) -> list[Any]:
        tell = self.under_way.pop(index)
        return self.handle(tell.peer, tell.message)

    def settle(self) -> list[Any]:
        done: list[Any] = []
        while self.under_way:
            done += self.deliver()
        return done

    def among(self, names: str, name: str, event: Any) -> None:
        """What happens while only these hear of each other."""
        self.handle(name, event)
        while self.under_way:
            tell = self.under_way[0]
            if tell.peer in names and tell.message.sender in names:
                self.deliver()
            else:
                self.under_way.pop(0)

    def trim(self, name: str, through: int | None = None) -> None:
        """Forgets what every entry point has released, or all up to this place."""
        copy = self.copies[name]
        self.copies[name] = copy.trim(copy.everywhere if through is None else through)

    def crash(self, name: str) -> None:
        self.leading[name] = None

    def lose_disk(self, name: str) -> None:
        self.lives += 1
        self.leading[name] = None
        self.copies[name] = LaneCopy.lost(name, self.lives)

    @property
    def may_lose_a_disk(self) -> bool:
        """Whether a majority is left that has forgotten nothing."""
        learning = [name for name, copy in self.copies.items() if copy.learns]
        return len(self.copies) - len(learning) - 1 >= next(iter(self.lanes.values())).majority

    def leader(self, name: str) -> bool:
        leading = self.leading[name]
        return leading is not None and leading.elected


def test_a_leader_releases_what_a_majority_holds() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    assert Lead(term=1) in group.settle()
    assert group.handle("a", Entered(contents=("x", "y"))) == []  # nobody else has them yet
    assert group.deliver() == []
    assert group.deliver(index=1) == [Release(through=2)]
    group.settle()
    group.handle("a", PeerReachable(peer="b"))
    group.settle()
    assert [group.copies[name].released for name in "ab"] == [2, 2]


def test_one_alone_needs_nobody() -> None:
    group = Group("a")
    assert group.handle("a", LeadWanted()) == [Lead(term=1)]
    assert group.handle("a", Entered(contents=("x",))) == [Release(through=1)]


def test_one_of_three_alone_releases_nothing() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.handle("a", Entered(contents=("x",)))
    group.under_way.clear()
    assert group.copies["a"].released == 0
    with pytest.raises(InvariantBroken, match="does not lead"):
        group.handle("b", Entered(contents=("y",)))


def test_who_holds_less_does_not_lead_and_the_old_leader_gives_way() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.handle("a", Entered(contents=("x",)))
    group.under_way = [tell for tell in group.under_way if tell.peer == "b"]
    group.settle()
    assert group.copies["a"].released == 1
    group.handle("c", LeadWanted())
    actions = group.settle()
    assert StepDown(term=2) in actions  # a hears of a later term
    assert not group.leader("c")
    group.handle("b", LeadWanted())
    assert Lead(term=3) in group.settle()
    assert [group.copies[name].held for name in "abc"] == [1, 1, 1]


def test_what_was_not_released_gives_way_to_what_was() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.handle("a", Entered(contents=("lost", "lost too")))
    group.under_way.clear()
    group.handle("b", LeadWanted())
    group.under_way = [tell for tell in group.under_way if tell.peer == "c"]
    group.settle()
    group.under_way.clear()
    group.handle("b", Entered(contents=("kept",)))
    group.settle()
    assert [entry.content for entry in group.copies["a"].entries] == ["kept"]
    assert group.agreed == {1: "kept"}


CHANCES = ("deliver",) * 40 + ("enter",) * 5 + ("remind",) * 3 + ("lead", "lose", "lose", "twice", "crash")


def run(
    seed: int, lane: type[SharedLane[str]] = SharedLane, names: str = "abc", chances: tuple[str, ...] = CHANCES
) -> Group:
    random = Random(seed)
    group = Group(names, lane)
    for step in range(800):
        match random.choice(chances):
            case "deliver" if group.under_way:
                group.deliver(random.randrange(min(len(group.under_way), 6)))
            case "enter":
                leaders = [name for name in names if group.leader(name)]
                if leaders:
                    group.handle(random.choice(leaders), Entered(contents=(f"e{step}",)))
            case "lead":
                group.handle(random.choice(names), LeadWanted())
            case "lose" if group.under_way:
                group.under_way.pop(random.randrange(len(group.under_way)))
            case "twice" if group.under_way:
                group.under_way.append(random.choice(group.under_way))
            case "crash":
                group.crash(random.choice(names))
            case "trim":
                group.trim(random.choice(names))
            case "forget":
                name = random.choice(names)
                group.trim(name, group.copies[name].released)
            case "disk" if group.may_lose_a_disk:
                group.lose_disk(random.choice(names))
            case "teach":
                learning = [name for name in names if group.copies[name].learns]
                for name in learning:
                    group.handle(name, PeerReachable(peer=random.choice(group.lanes[name].peers)))
            case "remind":
                leaders = [name for name in names if group.leader(name)]
                if leaders:
                    leader = random.choice(leaders)
                    group.handle(leader, PeerReachable(peer=random.choice(group.lanes[leader].peers)))
    return group


@pytest.mark.parametrize("names", ["abc", "abcde", "ab"])
def test_no_two_ever_disagree(names: str) -> None:
    released = sum(len(run(seed, names=names).agreed) for seed in range(150))
    assert released > 1_000


def test_in_the_end_all_hold_the_same() -> None:
    for seed in range(50):
        group = run(seed)
        group.under_way.clear()
        for name in sorted(group.copies, key=lambda name: group.copies[name].last, reverse=True):
            group.handle(name, LeadWanted())
            group.settle()
            if group.leader(name):
                break
        group.handle(name, Entered(contents=("last",)))
        group.settle()
        for peer in group.lanes[name].peers:
            group.handle(name, PeerReachable(peer=peer))
        group.settle()
        entries = {tuple(entry.content for entry in copy.entries) for copy in group.copies.values()}
        assert len(entries) == 1
        assert {copy.released for copy in group.copies.values()} == {group.copies[name].held}


class VotesForAnyone(SharedLane[str]):
    def handle(self, copy: Any, leading: Any, event: Any) -> Any:
        if isinstance(event, VoteAsked):
            event = VoteAsked(sender=event.sender, term=event.term, last=(1 << 60, 0))
        return super().handle(copy, leading, event)


class VotesTwice(SharedLane[str]):
    def handle(self, copy: Any, leading: Any, event: Any) -> Any:
        if isinstance(event, VoteAsked) and event.term == copy.term:
            copy = LaneCopy(term=copy.term, entries=copy.entries, released=copy.released)
        return super().handle(copy, leading, event)


class ReleasesAlone(SharedLane[str]):
    @property
    def majority(self) -> int:
        return 1


class StoresAnything(SharedLane[str]):
    """Takes entries without looking whether what it has before them is what the leader has."""

    def handle(self, copy: Any, leading: Any, event: Any) -> Any:
        if isinstance(event, StoreAsked) and event.after <= copy.held and event.term >= copy.term:
            event = StoreAsked(
                sender=event.sender,
                term=event.term,
                after=event.after,
                after_term=copy.term_at(event.after),
                entries=event.entries,
                released=event.released,
            )
        return super().handle(copy, leading, event)


class KeepsOldTerms(SharedLane[str]):
    """Releases what it took over without proposing it under its own term."""

    def _elected(self, copy: Any) -> Any:
        held = copy.entries
        copy, leading, actions = super()._elected(copy)
        copy = LaneCopy(term=copy.term, leader=self.name, voted_for=self.name, entries=held, released=copy.released)
        told = [self._ask_to_store(copy, leading, peer) for peer in self.peers]
        return copy, leading, [*(action for action in actions if not isinstance(action, Tell)), *told]


@pytest.mark.parametrize(
    ("lane", "names"),
    [(VotesForAnyone, "abc"), (VotesTwice, "abcde"), (ReleasesAlone, "abc"), (StoresAnything, "abc")],
)
def test_a_broken_rule_is_noticed(lane: type[SharedLane[str]], names: str) -> None:
    def disagrees(seed: int) -> bool:
        try:
            run(seed, lane, names)
        except (AssertionError, IndexError):
            return True
        return False

    assert any(disagrees(seed) for seed in range(400))


def take_over_twice(lane: type[SharedLane[str]]) -> Group:
    """Raft's figure 8: an entry of an older term is on a majority, and one of a later term is on another server."""
    group = Group("abcde", lane)

    among = group.among
    among("abc", "a", LeadWanted())
    among("ab", "a", Entered(contents=("x",)))
    among("cde", "e", LeadWanted())  # in the term in which c has voted already
    among("cde", "e", LeadWanted())
    among("e", "e", Entered(contents=("y",)))
    among("abc", "a", LeadWanted())  # hears of the later term
    among("abc", "a", LeadWanted())
    for peer in "bc":
        among("abc", "a", PeerReachable(peer=peer))
    assert group.agreed == {1: "x"}
    for _ in range(3):
        among("bcde", "e", LeadWanted())
    for peer in "bcd":
        among("bcde", "e", PeerReachable(peer=peer))
    return group


def test_what_was_taken_over_is_safe_when_it_is_released() -> None:
    group = take_over_twice(SharedLane)
    assert not group.leader("e")
    with pytest.raises(AssertionError, match="shows y"):
        take_over_twice(KeepsOldTerms)


# --- what is forgotten ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["abc", "abcde", "ab"])
def test_nobody_misses_what_all_have_released(names: str) -> None:
    groups = [run(seed, names=names, chances=(*CHANCES, "trim", "trim")) for seed in range(100)]
    assert sum(copy.trimmed for group in groups for copy in group.copies.values()) > 1_000
    assert not any(group.holes for group in groups)


class KnowsTooMuch(SharedLane[str]):
    """Takes what a peer has stored for what it has released: a later leader may give it another term."""

    def _answer(self, copy: Any, leader: str, *, agreed: bool, stored: int) -> Any:
        tell = super()._answer(copy, leader, agreed=agreed, stored=stored)
        return Tell(peer=tell.peer, message=replace(tell.message, released=stored))


def test_what_is_stored_everywhere_is_not_forgotten_yet() -> None:
    chances = (*CHANCES, "lead", "trim", "trim")
    assert any(run(seed, KnowsTooMuch, "abcde", chances).holes for seed in range(400))


@pytest.mark.parametrize("names", ["abc", "abcde"])
def test_who_lacks_what_was_forgotten_goes_on_behind_a_hole_and_agrees(names: str) -> None:
    chances = (*CHANCES, "forget", "forget", "lose", "lose")
    groups = [run(seed, names=names, chances=chances) for seed in range(100)]
    assert sum(len(group.agreed) for group in groups) > 500
    assert sum(group.holes for group in groups) > 20


def test_a_hole_is_told_and_what_follows_is_whole() -> None:
    group = Group()
    group.among("ab", "a", LeadWanted())
    group.among("ab", "a", Entered(contents=("x", "y", "z")))
    group.trim("a", 2)
    group.handle("a", PeerReachable(peer="c"))
    assert BeginAt(place=2) in group.settle()
    copy = group.copies["c"]
    assert (copy.trimmed, copy.base, [entry.content for entry in copy.entries]) == (2, "y", ["z"])
    group.handle("c", LeadWanted())
    assert Lead(term=2) in group.settle()
    group.handle("c", Entered(contents=("w",)))
    group.settle()
    assert group.agreed == {1: "x", 2: "y", 3: "z", 4: "w"}


# --- lost disks ----------------------------------------------------------------------------------------------------

WITH_LOST_DISKS = (*CHANCES, "lead", "lead", "remind", "remind", "teach", "teach", "disk")


@pytest.mark.parametrize("names", ["abc", "abcde", "abcd"])
def test_lost_disks_bring_no_disagreement(names: str) -> None:
    groups = [run(seed, names=names, chances=WITH_LOST_DISKS) for seed in range(150)]
    assert sum(len(group.agreed) for group in groups) > 1_000
    assert sum(group.lives for group in groups) > 300


@pytest.mark.parametrize("names", ["abc", "abcde"])
def test_lost_disks_bring_no_disagreement_when_much_is_forgotten(names: str) -> None:
    groups = [run(seed, names=names, chances=(*WITH_LOST_DISKS, "trim", "forget")) for seed in range(100)]
    assert sum(len(group.agreed) for group in groups) > 500
    assert sum(group.holes for group in groups) > 50


def test_who_lost_its_disk_counts_again_when_it_has_learned_everything() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.handle("a", Entered(contents=("x", "y")))
    group.settle()
    group.lose_disk("b")
    assert group.handle("b", LeadWanted()) == []  # it does not lead
    group.handle("b", PeerReachable(peer="a"))
    assert CountAgain(term=1) not in group.settle()  # it holds all, and c does not know of it
    assert group.copies["b"].learns
    assert group.copies["b"].released == 2
    group.handle("a", PeerReachable(peer="c"))
    group.settle()
    group.handle("a", PeerReachable(peer="b"))
    assert CountAgain(term=1) in group.settle()
    group.handle("b", LeadWanted())
    assert Lead(term=2) in group.settle()


def test_who_learns_neither_votes_nor_counts() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.lose_disk("b")
    group.handle("a", Entered(contents=("x",)))
    group.under_way = [tell for tell in group.under_way if tell.peer == "b"]
    while any(tell.peer in "ab" for tell in group.under_way):
        group.deliver()
    assert group.copies["b"].held == 1
    assert group.copies["a"].released == 0
    group.handle("c", LeadWanted())
    group.under_way = [tell for tell in group.under_way if tell.peer == "b"]
    group.settle()
    assert not group.leader("c")


def test_a_vote_of_a_life_that_is_over_elects_nobody() -> None:
    group = Group("abcde")
    group.handle("a", LeadWanted())
    group.handle("b", group.under_way[0].message)
    vote = group.under_way.pop()
    assert isinstance(vote.message, VoteAnswered)
    group.under_way = [tell for tell in group.under_way if tell.peer == "c"]
    group.lose_disk("b")
    group.handle("c", TeachAsked(sender="b", term=0, lives=group.copies["b"].lives))
    group.deliver()  # c votes, and says that b lives anew
    group.deliver()
    group.handle("a", vote.message)
    assert not group.leader("a")


class VotesAtOnce(SharedLane[str]):
    """Takes part as if it had forgotten nothing."""

    def handle(self, copy: Any, leading: Any, event: Any) -> Any:
        return super().handle(replace(copy, learns=False), leading, event)


class KnowsNoLives(SharedLane[str]):
    """Does not tell one life from another."""

    def _is_over(self, copy: Any, event: Any) -> bool:
        return False


class TellsNobody(SharedLane[str]):
    """Lets a peer count again that nobody else knows of."""

    def _may_count(self, copy: Any, leading: Any, peer: str) -> bool:
        return peer in leading.learning


def test_a_vote_without_memory_is_noticed() -> None:
    def disagrees(seed: int) -> bool:
        try:
            run(seed, VotesAtOnce, "abc", WITH_LOST_DISKS)
        except (AssertionError, IndexError):
            return True
        return False

    assert any(disagrees(seed) for seed in range(400))


def vote_in_two_lives(lane: type[SharedLane[str]], informed: str) -> Group:
    """b votes for a, loses its disk while its vote is on the way, and is asked for the same term by d."""
    group = Group("abcde", lane)
    group.among("cde", "c", LeadWanted())
    for _ in range(2):
        group.among("a", "a", LeadWanted())
    group.handle("a", PeerReachable(peer="b"))
    group.deliver()
    vote = group.under_way.pop()
    group.lose_disk("b")
    group.among("bc", "b", PeerReachable(peer="c"))
    for peer in informed:
        group.among("cde", "c", PeerReachable(peer=peer))
    group.among("bc", "c", PeerReachable(peer="b"))
    group.among("bcd", "d", LeadWanted())
    group.among("ae", "a", PeerReachable(peer="e"))
    group.handle("a", vote.message)
    for name, others in (("a", "abe"), ("d", "bcd")):
        if group.leader(name):
            group.under_way.clear()
            group.among(others, name, Entered(contents=(f"of {name}",)))
    return group


def test_nobody_votes_in_two_lives_for_two_leaders_of_a_term() -> None:
    group = vote_in_two_lives(SharedLane, informed="de")
    assert group.agreed == {1: "of d"}
    assert not group.leader("a")
    assert vote_in_two_lives(SharedLane, informed="").copies["b"].learns
    with pytest.raises(AssertionError, match="another of a"):
        vote_in_two_lives(KnowsNoLives, informed="de")
    with pytest.raises(AssertionError, match="another of a"):
        vote_in_two_lives(TellsNobody, informed="")
