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
    StoreAnswered,
    StoreAsked,
    TeachAsked,
    Tell,
    VoteAnswered,
    VoteAsked,
)
from anabranch.errors import InvariantBroken
from tests.amounts import tries


class Group:
    """Some entry points, and the messages between them, which are lost, late, or come twice."""

    def __init__(self, names: str = "abc", lane: type[SharedLane[str]] = SharedLane) -> None:
        self.lanes = {name: lane(name, tuple(other for other in names if other != name)) for name in names}
        self.copies: dict[str, LaneCopy[str]] = {name: LaneCopy() for name in names}
        self.disks = dict(self.copies)
        self.leading: dict[str, Leading | None] = dict.fromkeys(names)
        self.under_way: list[Tell[str]] = []
        self.agreed: dict[int, str] = {}
        self.lives = 0
        self.holes = 0

    def handle(self, name: str, event: Any) -> list[Any]:
        copy, leading, actions = self.lanes[name].handle(self.copies[name], self.leading[name], event)
        assert copy.released >= self.copies[name].released
        has_changed = copy != self.copies[name]
        if has_changed and self.lanes[name].must_store(event, actions):
            self.disks[name] = copy
        self.copies[name], self.leading[name] = copy, leading
        for action in actions:
            if isinstance(action, Tell):
                self.under_way.append(action)
            self.holes += isinstance(action, BeginAt)
        if has_changed:
            self.check(name)
        return [action for action in actions if not isinstance(action, Tell)]

    def check(self, name: str) -> None:
        """A copy that has changed. What all agreed on grows and never changes, so the others are as right as before."""
        copy = self.copies[name]
        assert copy.base is None or copy.base == self.agreed[copy.trimmed]
        for place, entry in enumerate(copy.between(copy.trimmed, copy.released), start=copy.trimmed + 1):
            if place not in self.agreed:
                self.agreed[place] = entry
                self.check_follows(place)
                self.check_follows(place + 1)
            agreed = self.agreed[place]
            assert entry == agreed, f"{name} shows {entry} at {place}, another {agreed}"

    def check_follows(self, place: int) -> None:
        """That an entry stands behind the one that it says it follows, as soon as both are known."""
        entry, before = self.agreed.get(place, ""), self.agreed.get(place - 1)
        follows, is_chained, _ = entry.partition("<")
        is_right = before is None or not is_chained or before.rpartition("<")[2] == follows
        assert is_right, f"{entry} follows {before} at {place}"

    def enter(self, name: str, what: str) -> None:
        """An entry that says which one it follows: what a lane makes of rows rests on all that came before."""
        copy = self.copies[name]
        last = copy.entries[-1] if copy.entries else copy.base or ""
        self.handle(name, Entered(contents=(f"{last.rpartition('<')[2]}<{what}",)))

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

    def elect_among(self, names: str, name: str) -> bool:
        for _ in range(2):  # the first may be a trial in a term that is over
            self.among(names, name, TAKE_OVER)
        return self.leader(name)

    def trim(self, name: str, through: int | None = None) -> None:
        """Forgets what every entry point has released, or all up to this place."""
        for copies in (self.copies, self.disks):
            copies[name] = copies[name].trim(self.copies[name].everywhere if through is None else through)
        self.check(name)

    def campaign(self, name: str) -> None:
        """It asks to lead, as if a trial had told it to; its questions are lost."""
        step = self.lanes[name]._campaign(self.copies[name], takes_over=True)
        self.copies[name], self.leading[name], _ = step
        self.disks[name] = self.copies[name]

    def crash(self, name: str) -> None:
        self.leading[name] = None
        self.copies[name] = self.disks[name]
        self.check(name)

    def lose_disk(self, name: str) -> None:
        self.lives += 1
        self.leading[name] = None
        self.copies[name] = self.disks[name] = LaneCopy.lost(name, self.lives)

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


def test_what_a_leader_took_is_stored_with_its_release() -> None:
    group = Group()
    group.among("abc", "a", TAKE_OVER)
    group.handle("a", Entered(contents=("x",)))
    assert (group.copies["a"].held, group.disks["a"].held) == (1, 0)
    while not group.copies["a"].released:
        group.deliver()
    assert (group.disks["a"].held, group.disks["a"].released) == (1, 1)
    group.settle()
    assert {disk.held for disk in group.disks.values()} == {1}


def test_a_leader_that_crashes_may_lose_what_it_took_and_a_peer_that_has_it_leads() -> None:
    group = Group()
    group.among("abc", "a", TAKE_OVER)
    group.handle("a", Entered(contents=("x",)))
    tell = next(tell for tell in group.under_way if tell.peer == "b")
    group.under_way.clear()
    group.handle("b", tell.message)  # b has it, and its answer is lost
    group.under_way.clear()
    group.crash("a")
    assert (group.copies["a"].held, group.copies["b"].held) == (0, 1)
    assert not group.elect_among("ab", "a")
    assert group.elect_among("ab", "b")
    assert group.agreed == {1: "x"}


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


TAKE_OVER = LeadWanted(takes_over=True)


def test_who_holds_less_unseats_nobody_and_takes_over_when_it_holds_as_much() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.handle("a", Entered(contents=("x",)))
    group.under_way = [tell for tell in group.under_way if tell.peer == "b"]
    group.settle()
    assert group.copies["a"].released == 1
    group.handle("c", TAKE_OVER)
    assert Lead(term=2) not in group.settle()
    assert group.leader("a")
    assert [group.copies[name].held for name in "abc"] == [1, 1, 1]  # who leads has given it what it lacked
    group.handle("c", TAKE_OVER)
    actions = group.settle()
    assert Lead(term=2) in actions
    assert StepDown(term=2) in actions
    assert not group.leader("a")


def test_a_leader_that_lives_is_not_unseated() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.handle("c", LeadWanted())
    assert group.settle() == []  # a said that it leads
    group.among("bc", "c", LeadWanted())
    assert group.copies["c"].term == 1  # b agrees, and it waits for the answer of a
    group.among("bc", "c", LeadWanted())
    assert group.leader("c")  # a did not answer for so long


def test_who_has_heard_of_a_leader_lately_votes_for_no_other() -> None:
    group = Group()
    group.among("ab", "a", LeadWanted())
    asked = VoteAsked(sender="c", term=5, last=(9, 9))
    for trial in (True, False):
        event = replace(asked, trial=trial)
        copy, _, (answer,) = group.lanes["b"].handle(group.copies["b"], None, event, led=True)
        assert copy == group.copies["b"]  # not even the later term counts
        assert isinstance(answer, Tell)
        assert isinstance(answer.message, VoteAnswered)
        assert not answer.message.agreed
    copy, _, _ = group.lanes["b"].handle(group.copies["b"], None, replace(asked, takes_over=True), led=True)
    assert copy.voted_for == "c"


def test_a_trial_changes_nothing() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    before = dict(group.copies)
    group.deliver()
    group.deliver()
    assert group.copies == before


def test_an_answer_to_an_earlier_trial_elects_nobody() -> None:
    group = Group()
    group.handle("a", VoteAsked(sender="b", term=3, last=(0, 0)))
    group.under_way.clear()
    group.handle("a", LeadWanted())
    group.under_way.clear()
    group.handle("a", VoteAnswered(sender="c", term=0, agreed=True, tried=1))
    group.handle("a", VoteAnswered(sender="c", term=3, agreed=True))
    assert group.copies["a"].term == 3
    group.handle("a", VoteAnswered(sender="c", term=0, agreed=True, tried=4))
    assert group.copies["a"].term == 4


def test_nothing_is_owed_where_all_have_released_everything() -> None:
    group = Group()
    group.among("ab", "a", LeadWanted())
    group.among("ab", "a", Entered(contents=("x",)))
    lane = group.lanes["a"]

    def owed() -> str:
        return "".join(peer for peer in "bc" if lane.owes(group.copies["a"], group.leading["a"], peer))

    assert owed() == "bc"  # b does not know yet that it is released
    for _ in range(2):
        for peer in "bc":
            group.handle("a", PeerReachable(peer=peer))
            group.settle()
    assert owed() == ""
    assert not lane.owes(group.copies["b"], group.leading["b"], "a")


def test_what_was_not_released_gives_way_to_what_was() -> None:
    group = Group()
    group.handle("a", LeadWanted())
    group.settle()
    group.handle("a", Entered(contents=("lost", "lost too")))
    group.under_way.clear()
    group.among("bc", "b", TAKE_OVER)
    group.handle("b", Entered(contents=("kept",)))
    group.settle()
    assert list(group.copies["a"].entries) == ["kept"]
    assert group.agreed == {1: "kept"}


CHANCES = ("deliver",) * 40 + ("enter",) * 5 + ("remind",) * 3 + ("lead", "lose", "lose", "twice", "crash", "cut")


def cut(message: Any, count: int) -> Any:
    """What a leader asks to be stored may not fit into one letter."""
    if not isinstance(message, StoreAsked) or len(message.entries) <= count:
        return message
    return replace(message, entries=message.entries[:count], counts=False)


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
                    group.enter(random.choice(leaders), f"e{step}")
            case "lead":
                group.handle(random.choice(names), LeadWanted(takes_over=random.random() < 0.5))
            case "cut" if group.under_way:
                index = random.randrange(len(group.under_way))
                tell = group.under_way[index]
                group.under_way[index] = replace(tell, message=cut(tell.message, random.randrange(1, 4)))
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
    released = sum(len(run(seed, names=names).agreed) for seed in range(tries(50, long=150)))
    assert released > 1_000


def test_in_the_end_all_hold_the_same() -> None:
    for seed in range(50):
        group = run(seed)
        group.under_way.clear()
        for name in sorted(group.copies, key=lambda name: group.copies[name].last, reverse=True):
            for _ in range(3):
                group.handle(name, TAKE_OVER)
                group.settle()
            if group.leader(name):
                break
        group.handle(name, Entered(contents=("last",)))
        group.settle()
        for peer in group.lanes[name].peers:
            group.handle(name, PeerReachable(peer=peer))
        group.settle()
        entries = {tuple(entry for entry in copy.entries) for copy in group.copies.values()}
        assert len(entries) == 1
        assert {copy.released for copy in group.copies.values()} == {group.copies[name].held}


class VotesForAnyone(SharedLane[str]):
    def handle(self, copy: Any, leading: Any, event: Any, *, led: bool = False) -> Any:
        if isinstance(event, VoteAsked):
            event = replace(event, last=(1 << 60, 0))
        return super().handle(copy, leading, event, led=led)


class VotesTwice(SharedLane[str]):
    def handle(self, copy: Any, leading: Any, event: Any, *, led: bool = False) -> Any:
        if isinstance(event, VoteAsked) and event.term == copy.term:
            copy = replace(copy, voted_for=None)
        return super().handle(copy, leading, event, led=led)


class ReleasesAlone(SharedLane[str]):
    @property
    def majority(self) -> int:
        return 1


class ReleasesUnstored(SharedLane[str]):
    """Counts on its own copy of what it took before that is durable."""

    def must_store(self, event: Any, actions: Any) -> bool:
        return not isinstance(event, StoreAnswered) and super().must_store(event, actions)


class StoresAnything(SharedLane[str]):
    """Takes entries without looking whether what it has before them is what the leader has."""

    def handle(self, copy: Any, leading: Any, event: Any, *, led: bool = False) -> Any:
        if isinstance(event, StoreAsked) and event.term == copy.term:
            copy = replace(copy, matched=copy.held)
        return super().handle(copy, leading, event, led=led)


class NeverWhole(SharedLane[str]):
    """Votes for who has more, though it is of an earlier leader."""

    def _taken(self, copy: Any, event: Any, stored: int) -> Any:
        return replace(super()._taken(copy, event, stored), whole=copy.whole)


class TakesPartsForWhole(SharedLane[str]):
    """Takes a part of what a leader began with for all of it."""

    def _taken(self, copy: Any, event: Any, stored: int) -> Any:
        return super()._taken(copy, replace(event, began_with=0), stored)


class DropsTheRest(SharedLane[str]):
    """Forgets what it has of an earlier leader when it has a part of what the next one holds."""

    def _taken(self, copy: Any, event: Any, stored: int) -> Any:
        taken = super()._taken(copy, event, stored)
        if taken.whole == event.term:
            return taken
        return replace(taken, entries=taken.between(taken.trimmed, max(taken.known, taken.released)))


@pytest.mark.parametrize(
    ("lane", "names"),
    [
        (VotesForAnyone, "abc"),
        (VotesTwice, "abc"),
        (ReleasesAlone, "abc"),
        (ReleasesUnstored, "abc"),
        (StoresAnything, "abc"),
        (NeverWhole, "abcde"),
    ],
)
def test_a_broken_rule_is_noticed(lane: type[SharedLane[str]], names: str) -> None:
    chances = (*CHANCES, *("lead",) * 2, *("cut",) * 6, *("lose",) * 4)

    def disagrees(seed: int) -> bool:
        try:
            run(seed, lane, names, chances)
        except (AssertionError, IndexError):
            return True
        return False

    assert any(disagrees(seed) for seed in range(400))


def take_over_by_a_part(lane: type[SharedLane[str]]) -> Group:
    """b leads after a, and c has got only a part of what it began with when b falls silent, too."""
    group = Group(lane=lane)
    group.among("ab", "a", TAKE_OVER)
    group.among("ab", "a", Entered(contents=("x", "y")))  # a has released both, and b has not heard of it
    group.handle("b", TAKE_OVER)
    while group.under_way:
        tell = group.under_way.pop(0)
        if tell.peer in "bc" and tell.message.sender in "bc":
            group.handle(tell.peer, cut(tell.message, 1))
    for name in "ccaa":
        if not group.leader("c"):
            group.among("ac", name, TAKE_OVER)
    group.among("ac", "c" if group.leader("c") else "a", Entered(contents=("z",)))
    return group


def test_a_part_of_what_a_leader_holds_is_no_reason_to_lead() -> None:
    assert take_over_by_a_part(SharedLane).agreed == {1: "x", 2: "y", 3: "z"}
    with pytest.raises(AssertionError, match="shows z at 2"):
        take_over_by_a_part(TakesPartsForWhole)


def lose_the_rest(lane: type[SharedLane[str]]) -> Group:
    """b has what a released, and gets a part of what a, in a later term, began with; c has got nothing."""
    group = Group(lane=lane)
    group.among("ab", "a", TAKE_OVER)
    group.among("ab", "a", Entered(contents=("x", "y")))
    group.copies["a"] = replace(group.copies["a"], released=0)  # it is as if it had crashed before it knew
    group.crash("a")
    group.handle("a", TAKE_OVER)
    while group.under_way:
        tell = group.under_way.pop(0)
        if {tell.peer, tell.message.sender} == {"a", "c"} and not isinstance(tell.message, StoreAsked):
            group.handle(tell.peer, tell.message)
    part = StoreAsked(sender="a", term=2, after=0, began_with=2, entries=("x",), released=0)
    group.handle("b", part)
    group.under_way.clear()
    for name in "bb":
        group.among("bc", name, TAKE_OVER)
    group.among("bc", "b", Entered(contents=("z",)))
    return group


def test_what_was_stored_stays_until_all_of_the_next_leader_is_there() -> None:
    assert lose_the_rest(SharedLane).agreed == {1: "x", 2: "y", 3: "z"}
    with pytest.raises(AssertionError, match="shows z at 2"):
        lose_the_rest(DropsTheRest)


class KeepsWhatDiffers(SharedLane[str]):
    """Keeps what stands behind a part of what a leader holds, though that part is another than it had."""

    def __init__(self, name: str, peers: tuple[str, ...]) -> None:
        super().__init__(name, peers, lambda mine, its: True)


def lead_with_a_part(lane: type[SharedLane[str]]) -> Group:
    """c has q and r of a, which nobody released, and gets a part of what d holds instead; then b and d are gone."""
    group = Group("abcde", lane)

    def elect(name: str, voters: str) -> None:
        group.handle(name, TAKE_OVER)
        while group.under_way:
            tell = group.under_way.pop(0)
            if {tell.peer, tell.message.sender} <= set(voters) and not isinstance(tell.message, StoreAsked):
                group.handle(tell.peer, tell.message)

    def store(leader: str, peer: str, count: int = 9) -> None:
        group.handle(leader, PeerReachable(peer=peer))
        group.handle(peer, cut(group.under_way.pop().message, count))
        group.under_way.clear()

    group.among("abcde", "a", TAKE_OVER)
    group.enter("a", "p")
    group.settle()
    for entry in "qr":
        group.enter("a", entry)
    store("a", "c")
    elect("b", "bde")
    for entry in "xyz":
        group.enter("b", entry)
    store("b", "d")
    elect("d", "cde")
    store("d", "c", 2)
    leader = next(name for name in "ca" if group.elect_among("ace", name))
    group.enter(leader, "s")
    group.settle()
    return group


def test_entries_of_two_leaders_do_not_mix() -> None:
    assert lead_with_a_part(SharedLane).agreed[4] == "r<s"  # of a, which holds more than is left of it at c
    with pytest.raises(AssertionError, match="q<r follows p<x at 3"):
        lead_with_a_part(KeepsWhatDiffers)


# --- what is forgotten ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["abc", "abcde", "ab"])
def test_nobody_misses_what_all_have_released(names: str) -> None:
    groups = [run(seed, names=names, chances=(*CHANCES, "trim", "trim")) for seed in range(tries(50, long=150))]
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
    groups = [run(seed, names=names, chances=chances) for seed in range(tries(50, long=150))]
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
    assert (copy.trimmed, copy.base, list(copy.entries)) == (2, "y", ["z"])
    group.handle("c", TAKE_OVER)
    assert Lead(term=2) in group.settle()
    group.handle("c", Entered(contents=("w",)))
    group.settle()
    assert group.agreed == {1: "x", 2: "y", 3: "z", 4: "w"}


# --- lost disks ----------------------------------------------------------------------------------------------------

WITH_LOST_DISKS = (*CHANCES, "lead", "lead", "remind", "remind", "teach", "teach", "disk")


@pytest.mark.parametrize("names", ["abc", "abcde", "abcd"])
def test_lost_disks_bring_no_disagreement(names: str) -> None:
    groups = [run(seed, names=names, chances=WITH_LOST_DISKS) for seed in range(tries(100, long=150))]
    assert sum(len(group.agreed) for group in groups) > 1_000
    assert sum(group.lives for group in groups) > 300


@pytest.mark.parametrize("names", ["abc", "abcde"])
def test_lost_disks_bring_no_disagreement_when_much_is_forgotten(names: str) -> None:
    chances = (*WITH_LOST_DISKS, "trim", "forget")
    groups = [run(seed, names=names, chances=chances) for seed in range(tries(50, long=150))]
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
    group.handle("b", TAKE_OVER)
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

    def handle(self, copy: Any, leading: Any, event: Any, *, led: bool = False) -> Any:
        return super().handle(replace(copy, learns=False), leading, event, led=led)


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
    group.among("acde", "c", LeadWanted())
    group.campaign("a")  # in term 2; nobody has heard it yet
    group.handle("a", PeerReachable(peer="b"))
    group.deliver()
    vote = group.under_way.pop()
    group.lose_disk("b")
    group.among("bc", "b", PeerReachable(peer="c"))
    for peer in informed:
        group.among("cde", "c", PeerReachable(peer=peer))
    group.among("bc", "c", PeerReachable(peer="b"))
    group.among("bcd", "d", TAKE_OVER)
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
