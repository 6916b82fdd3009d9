"""The outside world of a chaos run: producers and a subscriber that live on while the node dies.

A producer sends its entries in order and may be held: ``allow`` says how many it may send, and ``finish`` that they
have been enough. It survives a lost node in one of two ways, both of which must lose and repeat nothing: its client
sends again until it is answered; or the program "restarts", asks the node for its next number, and goes on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf

import anabranch as ab
from anabranch.model.times import CLOSED_US
from tests.chaos.checkers import Entry as StreamEntry
from tests.chaos.checkers import entries_of, last_punctuations, rows_of
from tests.chaos.processes import HarnessError
from tests.chaos.recording import CLOSE, Entry, Lane, Recording
from tests.waiting import HANG_S, wait_for

AWAY_S = HANG_S
"""How long a client waits for a node to come back."""

Address = str | list[str]
"""Of a node, or of all that have a copy of a stream or are entry points of a source."""


class _Client:
    """A thread whose failure is kept for whoever asks."""

    def __init__(self, name: str) -> None:
        self.failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        if self._thread.ident is not None:  # otherwise it was not even started
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            if not self._stopping.is_set():
                self.failure = error


@contextmanager
def running(clients: Sequence[_Client]) -> Iterator[None]:
    """All of them are started, and stopped in the end; one that hangs is left to the end of the process."""
    try:
        for client in clients:
            client.start()
        yield
    finally:
        for client in clients:
            client.stop()
        for client in clients:
            client.join(10)


class Pusher(_Client):
    """Sends the entries of one lane, then CLOSE: at their end, or when it is told to finish."""

    def __init__(self, address: Address, lane: Lane, *, restarts: bool) -> None:
        super().__init__(f"pusher of {lane.origin}")
        self.lane = lane
        self.pushed: list[Entry] = []
        """What the node has, without CLOSE."""
        self.repeated = 0
        """Rows that the node had already when they were sent again, or when the program asked after its restart."""
        self.restarts = 0
        self._address = address
        self._restarts = restarts
        self._allowed = 0.0
        self._pace_s = 0.0
        self._is_finishing = False
        self._changed = threading.Condition()

    @property
    def recorded(self) -> Lane:
        """The lane with what was pushed."""
        return replace(self.lane, entries=tuple(self.pushed))

    def allow(self, entries: float = inf, *, pace_s: float = 0.0) -> None:
        """Go on up to this entry, with this pause between two."""
        with self._changed:
            self._allowed, self._pace_s = entries, pace_s
            self._changed.notify_all()

    def finish(self) -> None:
        """Of a lane without end: nothing more but CLOSE."""
        with self._changed:
            self._is_finishing = True
            self._changed.notify_all()

    def stop(self) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def run(self) -> None:
        with ab.connect(self._address) as connection:
            producer = self._register(connection)
            for entry in self._allowed_entries():
                producer = self._sent(connection, producer, entry)
                if entry is not CLOSE:
                    self.pushed.append(entry)

    def _allowed_entries(self) -> Iterator[Entry]:
        """Each when it may be sent."""
        entries = iter(self.lane.entries)
        entry = None
        while entry is not CLOSE and self._wait_allowed():
            entry = CLOSE if self._is_finishing else next(entries, CLOSE)
            yield entry

    def _wait_allowed(self) -> bool:
        """Whether it goes on."""
        if self._pace_s and not self._is_finishing:
            self._stopping.wait(self._pace_s)
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or self._is_finishing or self._may_go_on)
        return not self._stopping.is_set()

    @property
    def _may_go_on(self) -> bool:
        return len(self.pushed) < self._allowed

    def _sent(self, connection: ab.Connection | ab.Connections, producer: ab.Producer, entry: Entry) -> ab.Producer:
        """Returns when the node has the entry; the producer that goes on, which is another after a restart."""
        first = producer.next
        while producer.next == first:
            try:
                self._send(producer, entry)
            except ab.NodeUnreachable:
                if not self._restarts:
                    raise
                self.restarts += 1
                producer = self._register(connection)
                self.repeated += len(entry.rows) if producer.next > first else 0
        if producer.next != first + entry.numbers:
            raise HarnessError(f"{self.lane.origin}: {producer.next} is next after {entry} at {first}")
        return producer

    def _register(self, connection: ab.Connection | ab.Connections) -> ab.Producer:
        """A program that restarts never sends anything twice by itself: its client must not, either."""
        deadline = time.monotonic() + AWAY_S
        while True:
            try:
                return connection.producer(
                    self.lane.source, self.lane.producer, deadline_s=0.0 if self._restarts else AWAY_S
                )
            except ab.NodeUnreachable:
                if time.monotonic() > deadline:
                    raise
                self._stopping.wait(0.2)

    def _send(self, producer: ab.Producer, entry: Entry) -> None:
        if entry is CLOSE:
            producer.close_lane()
        elif entry.rows:
            self.repeated += producer.push(self.lane.table(entry)).repeated
        elif entry.voids:
            producer.void(entry.voids)
        else:
            assert entry.boundary_us is not None
            producer.boundary(entry.boundary_us)


class Follower(_Client):
    """Reads one stream from its start, through every crash."""

    def __init__(self, address: Address, stream: str) -> None:
        super().__init__(f"follower of {stream}")
        self.stream = stream
        self.entries: list[StreamEntry] = []
        self._address = address
        self._subscription: ab.Subscription | ab.RacingSubscription | None = None

    def run(self) -> None:
        with ab.connect(self._address) as connection:
            self._subscription = connection.subscribe(self.stream, start="start", deadline_s=AWAY_S)
            for batch in self._subscription:
                self.entries += entries_of([batch])

    def wait_rows(self, rows: int) -> None:
        """Until it has seen so many."""

        def seen() -> bool:
            self.check()
            return len(rows_of(self.entries)) >= rows

        wait_for(seen, lambda: f"of {rows} rows of {self.stream} {len(rows_of(self.entries))} came")

    def stop(self) -> None:
        self._stopping.set()
        if self._subscription is not None:
            self._subscription.close()


def is_closed(entries: Sequence[StreamEntry]) -> bool:
    promised = last_punctuations(entries)
    return bool(promised) and all(time_us == CLOSED_US for time_us in promised.values())


def read_stream(address: Address, stream: str) -> list[StreamEntry]:
    """All that a stream holds now."""
    with ab.connect(address) as connection, connection.subscribe(stream, start="start", follow=False) as subscription:
        return entries_of(subscription)


def recorded(recording: Recording, pushers: Sequence[Pusher]) -> Recording:
    """What they have pushed of it."""
    return replace(recording, lanes=tuple(pusher.recorded for pusher in pushers))
