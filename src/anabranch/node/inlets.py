"""The streams that a part of a query reads: an inlet with its journal for each, and someone who follows each copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from anabranch import limits
from anabranch.core.horizon import UNKNOWN, Slowest
from anabranch.model.names import replica_reader
from anabranch.node.acknowledger import Acknowledger
from anabranch.node.dialer import Dialer
from anabranch.node.following import CopyFollower
from anabranch.node.inlet import JournalInlet
from anabranch.node.turns import Hold, at_once
from anabranch.query.assigned import AssignedQuery
from anabranch.runtime.status import AlarmStatus, CopyStatus
from anabranch.storage.log import Log
from anabranch.storage.store import Store


class Inlets:
    """``rebuild`` is told why no copy can serve this node. ``holds`` has, per stream, what may keep its pieces
    waiting. ``slowest`` says how far the slowest origin of the part is."""

    def __init__(
        self,
        part: AssignedQuery,
        life: str,
        *,
        clock: Callable[[], int],
        dialer: Dialer,
        rebuild: Callable[[str], None],
        holds: Mapping[str, Hold],
        slowest: Callable[[], Slowest] = lambda: UNKNOWN,
    ) -> None:
        self._part = part
        self._dialer = dialer
        self._life = life
        self._clock = clock
        self._rebuild = rebuild
        self._holds = holds
        self._slowest = slowest
        self._told = UNKNOWN
        self._inlets: dict[str, JournalInlet] = {}
        self._followers: dict[str, list[CopyFollower]] = {}
        self._acknowledgers: dict[str, Acknowledger] = {}
        self._orphaned_since: float | None = None

    def __contains__(self, stream: str) -> bool:
        return stream in self._inlets

    def __getitem__(self, stream: str) -> JournalInlet:
        return self._inlets[stream]

    def open(self, store: Store, journal: Log) -> None:
        """Begins to follow the copies of a stream into its journal."""
        stream = journal.name
        inlet = self._inlets[stream] = JournalInlet(
            store, journal, clock=self._clock, compares=len(self._part.upstream[stream]) > 1
        )
        followers = self._followers[stream] = []
        for copy, address in self._part.upstream[stream].items():
            follower = CopyFollower(
                inlet,
                self._dialer.client(copy, address),
                self._acknowledger(copy, address),
                copy=copy,
                reader=replica_reader(self._part.reader),
                life=self._life,
                rebuild=self._rebuild,
                hold=self._holds.get(stream, at_once),
                slowest=self._slowest,
            )
            followers.append(follower)
            follower.start()

    def _acknowledger(self, copy: str, address: str) -> Acknowledger:
        """Who tells this node what is held of all its copies."""
        if copy not in self._acknowledgers:
            made = self._acknowledgers[copy] = Acknowledger(copy, self._dialer.client(copy, address))
            made.start()
        return self._acknowledgers[copy]

    def watch(self) -> None:
        """Called every now and then: a replica that no live copy can serve waits a little, and is then rebuilt. And
        all copies are told how far the slowest origin is, also those of which nothing comes: their lanes may wait for
        it."""
        self._tell_slowest()
        orphaned = [
            f"{stream} of {', '.join(origins)}"
            for stream, inlet in list(self._inlets.items())
            if (origins := inlet.orphaned([each.copy for each in self._followers[stream] if each.is_live]))
        ]
        now = time.monotonic()
        if not orphaned:
            self._orphaned_since = None
        elif self._orphaned_since is None:
            self._orphaned_since = now
        elif now - self._orphaned_since >= limits.ORPHANED_S:
            self._orphaned_since = None
            self._rebuild(f"It lacks tuples that no reachable copy still has: {'; '.join(orphaned)}.")

    def _tell_slowest(self) -> None:
        slowest = self._slowest()
        if slowest != self._told:
            self._told = slowest
            for follower in [each for followers in list(self._followers.values()) for each in followers]:
                follower.tell_again()

    def stop(self) -> None:
        running: list[CopyFollower | Acknowledger] = [each for all_ in self._followers.values() for each in all_]
        running += self._acknowledgers.values()
        for each in running:
            each.close()
        for each in running:
            each.join()

    def alarms(self) -> dict[str, AlarmStatus]:
        """Per stream of which copies differed: how often, and the latest."""
        told = {stream: inlet.alarms() for stream, inlet in list(self._inlets.items())}
        return {stream: each for stream, each in told.items() if each is not None and each.count}

    def statistics(self) -> dict[str, dict[str, CopyStatus]]:
        """Per stream and copy: whether it is read, how far, and how many tuples it was the first to bring."""
        return {
            stream: {follower.copy: follower.statistics() for follower in self._followers[stream]}
            for stream in list(self._inlets)
        }
