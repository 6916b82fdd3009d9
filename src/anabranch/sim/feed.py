"""One feed on several entry points: of its copies one speaks, and the others wait (``core.feed_lease``).

A copy lives inside of its host: it does and hears nothing while the host is down or asleep, and forgets everything when
it is started again. Its rows are the same on every host, so a copy that takes over goes on with the number that is next
in the lane. All copies speak under the name of the feed, each with a session of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from anabranch.core import feed_lease
from anabranch.core.feed_lease import CopyAsked, FeedLease, Looked, Replaced, RowsCame
from anabranch.sim import messages as say
from anabranch.sim.checkers.turns import Turns
from anabranch.sim.network import Network
from anabranch.sim.observer import Observer
from anabranch.sim.plain_client import PlainClient
from anabranch.sim.process import Process
from anabranch.sim.producer import LOOK_US
from anabranch.sim.world import MS, World

TAKEOVER_US: Final = 1_500 * MS
HEARD_US: Final = TAKEOVER_US // 2
"""How long it may take until the others know that a copy has registered: a question and an answer."""


class FeedCopy(PlainClient):
    """The copy on one host. It goes to the others of ``entry_points`` where its own does not lead."""

    def __init__(
        self,
        feed: Feed,
        process: Process,
        lease: FeedLease,
        network: Network,
        observer: Observer,
        entry_points: Sequence[str],
        rows: Sequence[tuple[int, say.Row]],
    ) -> None:
        super().__init__(
            copy_name(feed.name, lease.host), feed.origin, feed.world, network, observer, entry_points, rows
        )
        self.process: Final = process
        self._feed = feed
        self._lease = lease
        self._begin()

    @property
    def speaks(self) -> bool:
        """Whether it brings rows, and could be heard to."""
        return self._turn.speaks and self._registered and self.is_awake

    @property
    def is_awake(self) -> bool:
        return self.process.awake and not self.process.starved and not self._asleep

    @property
    def is_heard(self) -> bool:
        """Whether it has brought rows for so long that whoever asks knows it."""
        return self.speaks and self._world.now_us - self._welcomed_us > HEARD_US

    def start(self) -> None:
        self._look()

    def restart(self) -> None:
        """Its thread ends and begins again, without its host."""
        self._begin()

    def _begin(self) -> None:
        self._turn = self._lease.begin(self._world.now_us)
        self._run = self.process.run
        self._asked_us: int | None = None
        self._answered: set[str] = set()
        self._came = 0
        self._welcomed_us = 0
        self._session = self._welcomed_by = None
        self._registered = False

    def _look(self) -> None:
        self._world.after(LOOK_US, self._look)
        if self._feed.done or not self.process.awake or self._asleep:
            return
        if self._run != self.process.run:
            self._begin()
        if self._turn.speaks:
            self._speak()
        else:
            self._wait()

    # --- whose turn it is ------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        now_us = self._world.now_us
        if self._asked_us is not None and now_us - self._asked_us < self._lease.ask_every_us:
            return
        if self._asked_us is not None:
            for host in self._lease.others:
                if host not in self._answered:
                    self._happened(CopyAsked(now_us, host, speaks=None))
            before, self._came = self._came, self._numbered()
            if self._came > before:
                self._happened(RowsCame(now_us))
            self._happened(Looked(now_us))
        if self._turn.speaks:
            return
        self._asked_us, self._answered = now_us, set()
        for host in self._lease.others:
            self._tell(host, say.AskFeed())

    def _numbered(self) -> int:
        """How many rows of the feed its own host knows of."""
        copy = self.process.memory.lanes[self.origin]
        last = copy.entries[-1] if copy.entries else copy.base
        said = None if last is None or last.state is None else last.state.producers.get(self._producer())
        return 0 if said is None else said.next_number

    def _happened(self, event: feed_lease.Event) -> None:
        self._turn, begins = self._lease.handle(self._turn, event)
        if begins:
            self._feed.begins(self)
            self._register()

    def _tell(self, host: str, message: Any) -> None:
        if self._network.talk(self._lease.host, host):
            self._network.send(self.name, copy_name(self._feed.name, host), message)

    # --- messages --------------------------------------------------------------------------------------------------

    def _receive(self, sender: str, message: Any) -> None:
        self.process.hear(lambda: self._heard_in(self.process.run, sender, message))

    def _heard_in(self, run: int, sender: str, message: Any) -> None:
        if self._asleep or run != self._run:
            return
        match message:
            case say.AskFeed():
                speaks = (True if self._registered else None) if self._turn.speaks else False
                self._tell(_host(sender), say.TellFeed(speaks=speaks))
            case say.TellFeed():
                self._answered.add(_host(sender))
                self._happened(CopyAsked(self._world.now_us, _host(sender), message.speaks))
            case say.Expired() if message.session == self._session:
                self._world.tell(self.name, "waits: another copy speaks")
                self._session, self._registered = None, False
                self._happened(Replaced(self._world.now_us))
            case _ if self._turn.speaks:
                super()._receive(sender, message)

    def _welcomed(self, welcome: say.Welcome) -> None:
        is_new, was_registered = self._session is None, self._registered
        super()._welcomed(welcome)
        if not was_registered:  # until then it says that it cannot get rows in
            self._welcomed_us = self._world.now_us
        if is_new:
            self.accepted, self._next = welcome.following - 1, welcome.following

    def _send(self, message: Any) -> None:
        if self.entry_point == self._lease.host or self._network.talk(self._lease.host, self.entry_point):
            super()._send(message)

    def _producer(self) -> str:
        return self._feed.name


class Feed:
    """All copies of a feed, as one who has something to say."""

    def __init__(self, name: str, origin: str, world: World, network: Network, turns: Turns) -> None:
        self.name: Final = name
        self.origin: Final = origin
        self.world: Final = world
        self.dead = False
        self.copies: list[FeedCopy] = []
        self._turns = turns
        network.attach(name, lambda _sender, _message: None, lambda _: None)  # for faults of links; copies talk

    def start(self) -> None:
        for copy in self.copies:
            copy.start()

    def begins(self, copy: FeedCopy) -> None:
        others = [other.name for other in self.copies if other is not copy and other.is_heard]
        self.world.tell(copy.name, "takes the feed over" if self.accepted else "begins")
        self._turns.begins(self.world.now_us, copy.process.name, others)

    # --- what befalls it -------------------------------------------------------------------------------------------

    def die(self) -> None:
        self.dead = True
        for copy in self.copies:
            copy.die()

    def restart(self) -> None:
        for copy in self._speaking():
            copy.restart()

    def sleep(self) -> None:
        """The thread of whoever speaks hangs; its host lives."""
        for copy in self._speaking():
            copy.sleep()

    def wake(self) -> None:
        for copy in self.copies:
            copy.wake()

    def _speaking(self) -> list[FeedCopy]:
        return [copy for copy in self.copies if copy.speaks][:1]

    # --- how it is -------------------------------------------------------------------------------------------------

    @property
    def said(self) -> list[list[say.Row]]:
        return self.copies[0].said

    @property
    def accepted(self) -> int:
        return max(copy.accepted for copy in self.copies)

    @property
    def done(self) -> bool:
        return self.dead or self.accepted >= len(self.said)

    @property
    def entry_point(self) -> str:
        """Its home."""
        return self.copies[0].process.name

    @property
    def needs(self) -> tuple[str, ...]:
        return ()

    @property
    def waits_since_us(self) -> int | None:
        """As for anyone who pushes; where a copy must take over, that time is allowed, too."""
        furthest = max(self.copies, key=lambda copy: copy.accepted)
        since_us = furthest.waits_since_us
        if self.done or since_us is None:
            return None
        return max([since_us, *(copy.progress_us for copy in self.copies)]) + TAKEOVER_US

    def is_there(self, hosts: Sequence[str]) -> bool:
        """Whether one of these hosts has a copy that could speak."""
        return any(copy.is_awake and copy.process.name in hosts for copy in self.copies)


def copy_name(feed: str, host: str) -> str:
    return f"{feed} on {host}"


def feed_of(name: str) -> str:
    """The feed of which this is a copy."""
    return name.partition(" on ")[0]


def _host(name: str) -> str:
    return name.rpartition(" on ")[2]
