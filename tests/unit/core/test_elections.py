"""When an entry point asks to lead: for whom, how long after it heard of a leader, and how often again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.core.elections import (
    AGAIN_US,
    CLIENT_US,
    SILENT_US,
    SOON_US,
    Campaigned,
    ClientCame,
    Elections,
    Event,
    LeaderHeard,
    Looked,
    PeerBehind,
    PeerLearns,
    Standing,
    VoteGiven,
    Watch,
    said_by,
)
from anabranch.core.shared_lane import LaneCopy, StoreAsked, TeachAsked, VoteAnswered, VoteAsked
from tests.simulation.broken import Accommodating

SECOND = 1_000_000
FOLLOWS = Standing(leads=False, learns=False, settled=True, begun=True)
UNSETTLED = replace(FOLLOWS, settled=False)
LEADS = replace(FOLLOWS, leads=True)


class Story:
    """One entry point, looked at ten times a second: ``asked`` has when it asked to lead."""

    def __init__(
        self, standing: Standing = FOLLOWS, *, speaks_every_us: int | None = None, chance: float = 0.5
    ) -> None:
        self.rules = Elections(speaks_every_us)
        self.standing = standing
        self.chance = chance
        self.now_us = 100 * SECOND
        self.watch: Watch = self.rules.begin(self.now_us, chance=chance)
        self.asked: list[int] = []

    def tell(self, event: type[Event], **facts: bool) -> None:
        happened = event(self.now_us, **facts)
        self.watch, asks = self.rules.handle(self.watch, self.standing, happened, chance=self.chance)
        if asks:
            self.asked.append(self.now_us)

    def run(self, time_us: int) -> None:
        end_us = self.now_us + time_us
        while self.now_us < end_us:
            self.now_us += SECOND // 10
            self.tell(Looked)

    def sleep(self, time_us: int) -> None:
        self.now_us += time_us

    @property
    def waits_us(self) -> list[int]:
        return [after - before for before, after in zip(self.asked, self.asked[1:], strict=False)]


def test_nobody_asks_for_its_own_sake() -> None:
    story = Story()
    story.run(3_600 * SECOND)
    assert story.asked == []


@pytest.mark.parametrize("takes_over", [False, True])
def test_for_its_own_client_it_asks_at_once_and_again_with_growing_waits(takes_over: bool) -> None:
    story = Story()
    story.tell(ClientCame, takes_over=takes_over)
    assert story.asked == [story.now_us]
    assert story.rules.takes_over(story.watch, story.now_us) == takes_over
    story.run(CLIENT_US)
    assert 3 < len(story.asked) < 10
    assert story.waits_us == sorted(story.waits_us)
    assert AGAIN_US < story.waits_us[0] < story.waits_us[-1] < 2 * SECOND
    asked = len(story.asked)
    story.run(3_600 * SECOND)
    assert len(story.asked) == asked  # the client has gone


def test_waits_differ_by_chance() -> None:
    waits = set()
    for chance in (0.0, 0.5, 0.9):
        story = Story(chance=chance)
        story.tell(ClientCame, takes_over=True)
        waits.add(story.rules.due_us(story.watch, story.standing))
    assert len(waits) == 3


def test_a_client_that_can_be_served_elsewhere_is_served_by_a_leader_that_lives() -> None:
    story = Story()
    story.tell(ClientCame, takes_over=False)
    story.tell(LeaderHeard)
    story.run(60 * SECOND)
    assert len(story.asked) == 1


def test_who_takes_its_lane_along_asks_again_when_it_has_heard_of_the_leader() -> None:
    """It may have been refused because it lacked something, which the leader has given it now."""
    story = Story()
    story.tell(ClientCame, takes_over=True)
    story.run(SECOND // 10)
    story.tell(LeaderHeard)
    story.run(SECOND // 2)
    assert len(story.asked) == 2


def test_who_holds_more_than_one_that_asked_asks_itself_soon() -> None:
    story = Story()
    story.sleep(SECOND)
    story.tell(PeerBehind)
    assert story.asked == []
    story.run(SOON_US)
    assert len(story.asked) == 1


def test_who_holds_more_leaves_a_leader_that_lives_its_time() -> None:
    story = Story()
    story.tell(LeaderHeard)
    story.tell(PeerBehind)
    story.run(SILENT_US - SECOND // 10)
    assert story.asked == []
    story.run(SOON_US)
    assert len(story.asked) == 1
    alive = Story()
    alive.tell(PeerBehind)
    alive.tell(LeaderHeard)
    alive.run(60 * SECOND)
    assert alive.asked == []  # it brings the other one up to date


def test_who_was_asked_to_teach_leads_if_nobody_else_does() -> None:
    story = Story()
    for _ in range(40):
        story.tell(PeerLearns)
        story.run(SECOND // 2)
    assert story.asked
    assert story.asked[0] - 100 * SECOND > SILENT_US
    taught = Story()
    for _ in range(40):
        taught.tell(PeerLearns)
        taught.tell(LeaderHeard)
        taught.run(SECOND // 2)
    assert taught.asked == []


def test_what_was_begun_is_finished() -> None:
    story = Story(UNSETTLED)
    story.run(SILENT_US)
    assert story.asked == []
    story.run(10 * SECOND)
    assert len(story.asked) > 3


def test_a_lane_that_speaks_for_itself_misses_its_leader() -> None:
    story = Story(speaks_every_us=SECOND)
    for _ in range(20):
        story.tell(LeaderHeard)
        story.run(SECOND)
    assert story.asked == []
    story.run(SILENT_US + 2 * SECOND)
    assert story.asked
    closed = Story(replace(FOLLOWS, closed=True), speaks_every_us=SECOND)
    closed.run(60 * SECOND)
    assert closed.asked == []


def test_where_nobody_ever_led_nobody_is_waited_for() -> None:
    story = Story(replace(FOLLOWS, begun=False), speaks_every_us=10 * SECOND)
    story.run(SECOND)
    assert len(story.asked) == 1


def test_who_slept_does_not_take_its_silence_for_that_of_others() -> None:
    story = Story(UNSETTLED)
    story.tell(LeaderHeard)
    story.sleep(9 * SECOND)
    story.tell(Looked)
    story.run(SILENT_US)
    assert story.asked == []
    story.run(2 * SECOND)
    assert story.asked


def test_a_leader_lives_for_a_while_after_it_was_heard_and_not_because_one_slept() -> None:
    story = Story()
    assert not story.rules.leader_lives(story.watch, story.now_us)
    for event in (LeaderHeard, VoteGiven):
        story.tell(event)
        story.run(SILENT_US - SECOND // 10)
        assert story.rules.leader_lives(story.watch, story.now_us)
        story.sleep(9 * SECOND)
        story.tell(Looked)
        assert not story.rules.leader_lives(story.watch, story.now_us)


def test_who_asks_for_votes_agrees_to_no_other_until_they_may_have_come() -> None:
    story = Story()
    story.tell(Campaigned)
    assert story.rules.leader_lives(story.watch, story.now_us + AGAIN_US - 1)
    assert not story.rules.leader_lives(story.watch, story.now_us + AGAIN_US)


def test_a_candidate_that_agrees_to_another_is_noticed() -> None:
    """Two must ask within a round trip for a run of the simulator to show it: one seed of a thousand."""
    story = Story()
    story.rules = Accommodating()
    story.tell(Campaigned)
    assert not story.rules.leader_lives(story.watch, story.now_us)


def test_whom_it_voted_for_has_the_time_to_lead() -> None:
    story = Story(UNSETTLED)
    story.run(SILENT_US)
    story.tell(VoteGiven)
    story.run(SILENT_US)
    assert story.asked == []


def test_who_gave_its_lead_away_does_not_ask_for_what_was_needed_before() -> None:
    for sign in (PeerBehind, PeerLearns):
        story = Story(LEADS)
        story.tell(sign)
        story.run(SECOND)
        story.standing = replace(LEADS, leads=False)
        story.tell(VoteGiven)
        story.run(SILENT_US - SECOND // 10)
        assert story.asked == []


def test_who_leads_or_learns_asks_nothing() -> None:
    for standing in (LEADS, replace(UNSETTLED, learns=True)):
        story = Story(standing, speaks_every_us=SECOND)
        story.tell(ClientCame, takes_over=True)
        story.run(60 * SECOND)
        assert story.asked == []


def test_who_lost_the_lead_is_patient() -> None:
    story = Story(LEADS)
    story.run(60 * SECOND)
    story.standing = UNSETTLED
    story.run(SILENT_US)
    assert story.asked == []


def test_what_messages_say_about_who_leads() -> None:
    copy: LaneCopy[str] = LaneCopy(term=4, whole=4, entries=("x",), voted_for="b")
    store: StoreAsked[str] = StoreAsked(sender="b", term=4, after=0, began_with=0, entries=(), released=0)
    vote = VoteAsked(sender="b", term=4, last=(4, 1))
    assert said_by(store, copy, 7) == LeaderHeard(7)
    assert said_by(replace(store, term=3), copy, 7) == Looked(7)  # it leads no longer
    assert said_by(vote, copy, 7) == VoteGiven(7)
    assert said_by(replace(vote, trial=True), copy, 7) == Looked(7)
    assert said_by(replace(vote, sender="c"), copy, 7) == Looked(7)
    assert said_by(replace(vote, sender="c", last=(3, 9)), copy, 7) == PeerBehind(7)
    assert said_by(replace(vote, sender="c", last=(3, 9)), replace(copy, learns=True), 7) == Looked(7)
    assert said_by(TeachAsked(sender="b", term=4), copy, 7) == PeerLearns(7)
    answer = VoteAnswered(sender="b", term=4, agreed=True)
    assert said_by(answer, copy, 7) == Looked(7)
    assert said_by(replace(answer, tried=4), copy, 7) == Campaigned(7)
    assert said_by(replace(answer, tried=5), copy, 7) == Looked(7)  # the trial is not won
