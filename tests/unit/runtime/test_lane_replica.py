"""A shared lane at three entry points, over ports in memory: what is stored together, said, postponed and forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pytest

from anabranch import limits
from anabranch.core import shared_lane as lanes
from anabranch.core.elections import Elections
from anabranch.core.shared_lane import LaneCopy, SharedLane
from anabranch.runtime.ingest.lane_letters import LaneLetters
from anabranch.runtime.ingest.lane_replica import Keeping, LaneReplica

NAMES = "abc"


@dataclass(frozen=True, slots=True)
class Word:
    text: str

    @property
    def size(self) -> int:
        return len(self.text)

    def body(self) -> str:
        return self.text

    def leave_memory(self) -> None:
        """There is nowhere else to be."""


@dataclass(slots=True)
class Disk:
    """Counts its transactions. ``read`` is up to where the readers of its log have read."""

    copy: LaneCopy[Word] = field(default_factory=LaneCopy)
    log: list[str] = field(default_factory=list)
    transactions: int = 0
    read: int = 0
    may_leave_out: bool = True
    fails: bool = False

    def load(self) -> LaneCopy[Word]:
        return self.copy

    def store(self, before: LaneCopy[Word], after: LaneCopy[Word], *, hole: bool) -> None:
        if self.fails:
            raise OSError("no space left")
        assert before is self.copy
        self.transactions += 1
        self.copy = after
        self.log += ["..."] if hole else []
        self.log += [entry.text for entry in after.between(before.released, after.released)]

    def leave_out(self, base: Word) -> bool:
        return self.may_leave_out

    def log_ends(self) -> tuple[int, ...]:
        return (len(self.log),)

    def is_forgotten(self, ends: tuple[int, ...]) -> bool:
        return ends[0] <= self.read

    def entry(self, body: str) -> Word:
        return Word(body)

    def base(self, entry: Word) -> Word:
        return Word(f"({entry.text})")


@dataclass(slots=True)
class Clock:
    time_us: int = 0
    looks: list[float] = field(default_factory=list)

    def now_us(self) -> int:
        return self.time_us

    def chance(self) -> float:
        return 0.5

    def look_within(self, seconds: float) -> None:
        self.looks.append(seconds)


class Lanes:
    """One lane at each of three entry points. ``deliver`` writes a letter; ``told`` is who is to be told, and when."""

    def __init__(self, keeping: Keeping | None = None, *, room: int = 1_000) -> None:
        self.clock = Clock()
        self.disks = {name: Disk() for name in NAMES}
        self.told: dict[str, dict[str, float]] = {name: {} for name in NAMES}
        self.letters: dict[str, LaneLetters[Word, str]] = {}
        self.replicas: dict[str, LaneReplica[Word, str]] = {}
        self._keeping = keeping or Keeping()
        self._room = room
        for name in NAMES:
            self.start(name)

    def start(self, name: str) -> None:
        peers = tuple(peer for peer in NAMES if peer != name)

        def wake(peer: str, within_s: float) -> None:
            self.told[name][peer] = min(within_s, self.told[name].get(peer, within_s))

        letters = self.letters[name] = LaneLetters(peers, wake=wake, room=self._room)
        letters.replicas["p"] = self.replicas[name] = LaneReplica(
            "p",
            SharedLane(name, peers),
            Elections(),
            self.disks[name],
            self.clock,
            tell=partial(letters.tell, "p"),
            all_kept_bytes=lambda: 0,
            keeping=self._keeping,
        )

    def deliver(self, sender: str, receiver: str, *, reminder: bool = False) -> int:
        """Returns the number of entries in the letter."""
        self.told[sender].pop(receiver, None)
        letter, _ = self.letters[sender].letter(receiver, reminder=reminder)
        sent = 0
        for _, message in letter:
            sent += len(message.entries) if isinstance(message, lanes.StoreAsked) else 0
            for answer in self.replicas[receiver].heard(message, has_room=lambda: True).answers:
                self.replicas[sender].heard(answer, has_room=lambda: True)
        return sent

    def lead(self, name: str) -> None:
        self.replicas[name].client_came(takes_over=True)
        while not self.replicas[name].leads:
            for peer in list(self.told[name]):
                self.deliver(name, peer)
        for peer in list(self.told[name]):
            self.deliver(name, peer)

    def enter(self, text: str) -> None:
        self.replicas["a"].enter(Word(text))

    def release(self, *texts: str) -> None:
        """Entries of a, one after the other, which b confirms."""
        for text in texts:
            self.enter(text)
            self.deliver("a", "b")

    def show_all(self) -> None:
        for peer in "bc":
            self.deliver("a", peer, reminder=True)
            self.replicas[peer].show_news()
            self.deliver("a", peer, reminder=True)


def test_an_entry_costs_one_transaction_at_who_leads_and_is_stored_with_its_release() -> None:
    lane = Lanes()
    lane.lead("a")
    before = lane.disks["a"].transactions
    lane.enter("x")
    assert lane.disks["a"].transactions == before  # nobody counts on it yet
    assert lane.disks["a"].log == []
    lane.deliver("a", "b")
    assert lane.disks["a"].transactions == before + 1
    assert lane.disks["a"].log == ["x"]
    assert lane.disks["b"].log == []


def test_a_transaction_that_fails_leaves_the_lane_as_it_was() -> None:
    lane = Lanes()
    lane.lead("a")
    lane.enter("x")
    lane.disks["a"].fails = True
    with pytest.raises(OSError, match="no space"):
        lane.deliver("a", "b")
    assert lane.replicas["a"].copy.released == 0
    lane.disks["a"].fails = False
    lane.deliver("a", "b", reminder=True)
    assert lane.disks["a"].log == ["x"]


def test_a_peer_shows_what_is_released_later_and_together() -> None:
    lane = Lanes()
    lane.lead("a")
    lane.release("x", "y", "z")
    before = lane.disks["b"].transactions
    assert lane.disks["b"].log == []
    assert limits.LATER_S in lane.clock.looks
    lane.replicas["b"].show_news()
    assert lane.disks["b"].log == ["x", "y"]
    assert lane.disks["b"].transactions == before + 1


def test_what_is_too_much_to_wait_is_shown_soon() -> None:
    lane = Lanes(Keeping(small_bytes=3))
    lane.lead("a")
    lane.release("long", "y")
    assert lane.clock.looks[-1] == 0.0


def test_who_was_quickest_is_asked_first_and_the_other_is_told_later() -> None:
    lane = Lanes()
    lane.lead("a")
    lane.release("x")
    lane.told["a"].clear()
    lane.enter("y")
    assert lane.told["a"] == {"b": 0.0, "c": limits.LATER_S}
    lane.replicas["a"].ask_all()
    assert lane.told["a"] == {"b": 0.0, "c": 0.0}


def test_news_of_a_release_go_with_the_next_entry_if_one_comes_soon() -> None:
    lane = Lanes()
    lane.lead("a")
    lane.release("x")
    assert lane.told["a"]["b"] == limits.RELEASE_NEWS_S


def test_a_letter_that_is_full_is_followed_by_another() -> None:
    lane = Lanes(room=2)
    lane.lead("a")
    lane.release("x", "y", "z")
    assert lane.deliver("a", "c", reminder=True) == 2
    assert lane.told["a"]["c"] == 0.0
    assert lane.deliver("a", "c") == 1
    assert lane.disks["c"].copy.held == 3


def test_without_room_a_peer_stores_nothing_and_answers_nothing() -> None:
    lane = Lanes()
    lane.lead("a")
    lane.enter("x")
    ((_, message),) = lane.letters["a"].letter("b", reminder=True)[0]
    assert lane.replicas["b"].heard(message, has_room=lambda: False).answers == ()
    assert lane.disks["b"].copy.held == 0
    assert lane.replicas["b"].leader_lives()


def test_entries_are_kept_until_all_have_released_them_and_their_readers_have_them() -> None:
    lane = Lanes(Keeping(trim_entries=1))
    lane.lead("a")
    lane.release("x", "y")
    lane.show_all()
    lane.release("z")
    assert len(lane.replicas["a"].copy.entries) == 3
    lane.disks["a"].read = 2
    lane.release("last")
    assert [entry.text for entry in lane.replicas["a"].copy.entries] == ["z", "last"]
    assert lane.replicas["a"].copy.base == Word("(y)")


@pytest.mark.parametrize("may_leave_out", [True, False])
def test_a_hole_is_left_only_where_all_readers_can_do_without(may_leave_out: bool) -> None:
    lane = Lanes(Keeping(entries=1, trim_entries=1))
    lane.disks["c"].may_leave_out = may_leave_out
    lane.lead("a")
    lane.release("v", "w", "x", "y", "z")
    lane.deliver("a", "c", reminder=True)
    lane.deliver("a", "c", reminder=True)
    assert lane.disks["c"].log[:1] == (["..."] if may_leave_out else [])
    assert (lane.replicas["c"].copy.released > 0) == may_leave_out


def test_who_leads_hears_that_another_one_does() -> None:
    lane = Lanes()
    lane.lead("a")
    lane.enter("x")
    lane.lead("b")
    lane.deliver("b", "a", reminder=True)
    assert not lane.replicas["a"].leads


def test_a_new_start_goes_on_from_what_is_stored() -> None:
    lane = Lanes()
    lane.lead("a")
    lane.release("x")
    lane.enter("lost")
    lane.start("a")
    assert not lane.replicas["a"].leads
    assert [entry.text for entry in lane.replicas["a"].copy.entries] == ["x"]
