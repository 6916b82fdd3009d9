"""The outside world of a chaos run: producers and a subscriber that live on while the node dies.

A producer sends its entries in order and may be held: ``allow`` says how many it may send. It survives a lost node in
one of two ways, both of which must lose and repeat nothing: its client sends again until it is answered; or the program
"restarts", asks the node for its next number, and goes on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anabranch as ab
from anabranch.model.times import CLOSED_US
from tests.chaos.checkers import Entry as StreamEntry
from tests.chaos.checkers import entries_of, last_punctuations, rows_of
from tests.chaos.recording import Entry, Lane

AWAY_S = 600.0
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
    """Sends the entries of one lane, then CLOSE."""

    def __init__(self, address: Address, lane: Lane, *, restarts: bool) -> None:
        super().__init__(f"pusher of {lane.origin}")
        self.lane = lane
        self.sent = 0
        self.repeated = 0
        """Rows that the node had already when they were sent again, or when the program asked after its restart."""
        self.restarts = 0
        self._address = address
        self._restarts = restarts
        self.allowed = 0
        self._pace_s = 0.0
        self._changed = threading.Condition()

    def allow(self, entries: int, pace_s: float) -> None:
        """Go on up to this entry, with this pause between two; one more than there are closes the lane."""
        with self._changed:
            self.allowed, self._pace_s = entries, pace_s
            self._changed.notify_all()

    def stop(self) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def run(self) -> None:
        starts = _first_numbers(self.lane)
        with ab.connect(self._address) as connection:
            producer = self._register(connection)
            while self._wait_allowed():
                try:
                    self._send(producer)
                    self.sent += 1
                except ab.NodeUnreachable:
                    if not self._restarts:
                        raise
                    self.restarts += 1
                    producer = self._register(connection)
                    known = starts.index(producer.next)
                    self.repeated += sum(len(entry.rows) for entry in self.lane.entries[self.sent : known])
                    self.sent = known

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

    def _wait_allowed(self) -> bool:
        """Whether there is something left to send; when it may be sent."""
        if self.sent > len(self.lane.entries):
            return False
        if self._pace_s and self.sent < self.allowed:
            self._stopping.wait(self._pace_s)
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or self.sent < self.allowed)
        return not self._stopping.is_set()

    def _send(self, producer: ab.Producer) -> None:
        if self.sent == len(self.lane.entries):
            producer.close_lane()
            return
        entry = self.lane.entries[self.sent]
        if entry.rows:
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

    def wait_rows(self, rows: int, timeout_s: float) -> bool:
        """Until it has seen so many."""
        deadline = time.monotonic() + timeout_s
        while len(rows_of(self.entries)) < rows:
            self.check()
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

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


def _first_numbers(lane: Lane) -> list[int]:
    """The number of each entry's first row, of CLOSE, and of what would come after it."""
    numbers = [1]
    for entry in (*lane.entries, Entry()):
        numbers.append(numbers[-1] + entry.numbers)
    return numbers
