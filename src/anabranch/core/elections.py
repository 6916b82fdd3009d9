"""When an entry point asks to lead a lane: for whom, how long after it last heard of a leader, and how often again.

A lane is led for the sake of those who want something of it, and there are four signs that somebody does: a client has
come to this entry point; a peer asked for a vote and could not have it, because this one holds more, so that no other
can lead before this one does; a peer that lost its disk wants to be taught; or the lane itself owes something, entries
that wait for a majority or a boundary that nobody sends. For its own client an entry point asks at once. For anything
else it first gives the leader it knows of the time to be heard, and itself a random while, so that two do not ask
together. Nobody asks while a leader lives, or one that it voted for may, but for a client that takes the lane along. If
it is not elected, it asks again, after random waits that grow, for as long as the sign stands.

A leader that was heard of lately lives, and no vote is given against it, unless a producer takes its lane along on
purpose. Nobody hears anything while he sleeps: an entry point that notices that it slept does not take the silence for
that of the others, nor the leader for one that lives.

``Elections.handle`` is the one door. All times are those of one clock of this entry point that is never set; ``chance``
is any number from 0 to 1, drawn anew for each event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from anabranch import limits
from anabranch.core.shared_lane import LaneCopy, Leading, Message, StoreAsked, TeachAsked, VoteAnswered, VoteAsked

SILENT_US: Final = round(limits.SILENT_S * 1_000_000)

SLEPT_US: Final = SILENT_US
"""Who did not look at its lanes for so long was asleep: they are looked at once a second."""

SOON_US: Final = 250_000
"""How long, at most, one that holds more than who asked to lead waits before it asks itself."""

AGAIN_US: Final = 150_000
"""How long, at least, one that was not elected waits before it asks again; twice and four times that after the first
try and the second, and up to twice as long by chance. A vote across half the earth takes 300 ms."""

CLIENT_US: Final = round(2 * limits.LEAD_WAIT_S * 1_000_000)
"""How long a client that came is taken to be there: one that was told to wait comes again before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What an entry point has noticed of a lane. A new start forgets it."""

    looked_us: int
    """When it last looked at the lane at all."""
    heard_us: int
    """Since when it has listened for a leader in vain: it heard of one, led, gave its vote, began or woke up then."""
    led_until_us: int = 0
    """Until then a leader that it heard of is taken to live."""
    client_us: int = 0
    """When a client last came."""
    client_until_us: int = 0
    takes_over: bool = False
    """Whether that client takes the lane along, whoever leads it."""
    needed_us: int = 0
    """From then on it asks to lead for a peer."""
    needed_until_us: int = 0
    asked_us: int | None = None
    """When it last asked to lead, if it heard of no leader since."""
    tries: int = 0
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How an entry point stands to a lane."""

    leads: bool
    learns: bool
    settled: bool
    """Whether nothing waits for a majority, as far as it knows."""
    begun: bool
    """Whether the lane ever had a leader."""
    closed: bool = False
    """Whether the lane has nothing more to say by itself."""

    @classmethod
    def of(cls, copy: LaneCopy[Any], leading: Leading | None, *, closed: bool = False) -> Standing:
        elected = leading is not None and leading.elected
        return cls(elected, copy.learns, copy.held == copy.released, copy.term > 0, closed)


# --- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Looked:
    """Nothing happened; to be told at least once a second."""

    now_us: int


@dataclass(frozen=True, slots=True)
class LeaderHeard:
    """A leader of the present term said something."""

    now_us: int


@dataclass(frozen=True, slots=True)
class VoteGiven:
    """This entry point gave its vote, and leaves the elected one the time to be heard."""

    now_us: int


@dataclass(frozen=True, slots=True)
class Campaigned:
    """A trial was won, and this entry point asks for real votes: it may lead before others have heard of it."""

    now_us: int


@dataclass(frozen=True, slots=True)
class ClientCame:
    """A client wants the lane to be led here; with ``takes_over``, even if another one leads it."""

    now_us: int
    takes_over: bool


@dataclass(frozen=True, slots=True)
class PeerBehind:
    """A peer asked for a vote, and holds less than this entry point."""

    now_us: int


@dataclass(frozen=True, slots=True)
class PeerLearns:
    """A peer that lost its disk asked to be taught."""

    now_us: int


Event = Looked | LeaderHeard | VoteGiven | Campaigned | ClientCame | PeerBehind | PeerLearns


def said_by(message: Message[Any], copy: LaneCopy[Any], now_us: int) -> Event:
    """What a peer's message says about who leads; ``copy`` is the lane after it."""
    match message:
        case StoreAsked() if message.term == copy.term:
            return LeaderHeard(now_us)
        case VoteAsked() if not message.trial and copy.term == message.term and copy.voted_for == message.sender:
            return VoteGiven(now_us)
        case VoteAnswered() if message.tried == copy.term:
            return Campaigned(now_us)
        case VoteAsked() if not copy.learns and message.last < copy.last:
            return PeerBehind(now_us)
        case TeachAsked():
            return PeerLearns(now_us)
        case _:
            return Looked(now_us)


@dataclass(frozen=True, slots=True)
class Elections:
    """The rules for one lane. ``speaks_every_us`` is how long it is silent at most while it is led, if its leader
    speaks for it; None if nothing is heard of it unless somebody says something."""

    speaks_every_us: int | None = None

    def begin(self, now_us: int, *, chance: float) -> Watch:
        return Watch(looked_us=now_us, heard_us=now_us, chance=chance)

    def handle(self, watch: Watch, standing: Standing, event: Event, *, chance: float) -> tuple[Watch, bool]:
        """What is known after the event, and whether to ask to lead now."""
        if isinstance(event, LeaderHeard) and not standing.leads:
            watch = self._heard(watch, event.now_us, chance)
        else:
            watch = self._noticed(self._looked(watch, standing, event.now_us), event, chance)
        due_us = self.due_us(watch, standing)
        if due_us is None or due_us > event.now_us:
            return watch, False
        return replace(watch, asked_us=event.now_us, tries=watch.tries + 1, chance=chance), True

    def leader_lives(self, watch: Watch, now_us: int) -> bool:
        """Whether a leader was heard of so lately that no vote is given against it."""
        return now_us < watch.led_until_us

    def due_us(self, watch: Watch, standing: Standing) -> int | None:
        """When it asks to lead, if nothing happens until then."""
        if standing.leads or standing.learns:
            return None
        soonest_us = self._again_us(watch)
        signs = [(max(begin_us, soonest_us), end_us) for begin_us, end_us in self._signs(watch, standing)]
        return min((begin_us for begin_us, end_us in signs if end_us is None or begin_us < end_us), default=None)

    def takes_over(self, watch: Watch, now_us: int) -> bool:
        """Whether who asks to lead now does it for a client that takes the lane along."""
        return watch.takes_over and now_us < watch.client_until_us

    # --- what is noticed -------------------------------------------------------------------------------------------

    def _looked(self, watch: Watch, standing: Standing, now_us: int) -> Watch:
        if standing.leads:
            return replace(watch, looked_us=now_us, heard_us=now_us, client_until_us=0, asked_us=None, tries=0)
        slept = now_us - watch.looked_us > SLEPT_US
        return replace(watch, looked_us=now_us, heard_us=now_us if slept else watch.heard_us)

    def _noticed(self, watch: Watch, event: Event, chance: float) -> Watch:
        now_us = event.now_us
        match event:
            case Looked():
                return watch
            case LeaderHeard():
                return self._heard(watch, now_us, chance)
            case VoteGiven():
                return replace(watch, heard_us=now_us, led_until_us=now_us + SILENT_US, chance=chance)
            case Campaigned():  # no longer than a vote takes: one that was not elected must not stand in the way
                return replace(watch, led_until_us=max(watch.led_until_us, now_us + AGAIN_US))
            case ClientCame():
                return replace(watch, client_us=now_us, client_until_us=now_us + CLIENT_US, takes_over=event.takes_over)
            case PeerBehind():
                return self._needed(watch, now_us, max(now_us + round(SOON_US * chance), watch.led_until_us))
            case PeerLearns():
                return self._needed(watch, now_us, now_us + self._patience_us(watch))

    def _heard(self, watch: Watch, now_us: int, chance: float) -> Watch:
        """A leader that lives serves everybody, but for a client that wants to be served here."""
        stays = watch.takes_over and watch.client_until_us > now_us
        return Watch(
            looked_us=now_us,
            heard_us=now_us,
            led_until_us=now_us + SILENT_US,
            client_us=watch.client_us,
            client_until_us=watch.client_until_us if stays else 0,
            takes_over=watch.takes_over,
            needed_us=watch.needed_us,
            needed_until_us=0,
            asked_us=now_us if stays and watch.asked_us is not None else None,
            tries=0,
            chance=chance,
        )

    def _needed(self, watch: Watch, now_us: int, from_us: int) -> Watch:
        stands = watch.needed_until_us > now_us
        return replace(
            watch,
            needed_us=min(watch.needed_us, from_us) if stands else from_us,
            needed_until_us=max(from_us, now_us) + 2 * SILENT_US,
        )

    # --- when it asks ----------------------------------------------------------------------------------------------

    def _signs(self, watch: Watch, standing: Standing) -> list[tuple[int, int | None]]:
        """From when on, and until when, there is a reason to lead; None where it does not pass by itself."""
        silent_us = watch.heard_us + self._patience_us(watch)
        client_us = watch.client_us if watch.takes_over else max(watch.client_us, watch.led_until_us)
        signs: list[tuple[int, int | None]] = [
            (client_us, watch.client_until_us),
            (max(watch.needed_us, watch.led_until_us), watch.needed_until_us),
        ]
        if not standing.settled:
            signs.append((silent_us, None))
        if self.speaks_every_us is not None and not standing.closed:
            first_us = watch.heard_us + self._first_us(watch)
            signs.append((silent_us + self.speaks_every_us if standing.begun else first_us, None))
        return signs

    def _patience_us(self, watch: Watch) -> int:
        return round(SILENT_US * (1 + watch.chance / 2))

    def _first_us(self, watch: Watch) -> int:
        """Where nobody ever led, it waits only until another one would have said so."""
        return round(limits.HEARTBEAT_S * 1_000_000 * (1 + watch.chance))

    def _again_us(self, watch: Watch) -> int:
        if watch.asked_us is None:
            return 0
        return watch.asked_us + round(AGAIN_US * (1, 2, 4)[min(watch.tries, 2)] * (1 + watch.chance))
