"""The streams that a node reads from others: an inlet with its journal for each, and someone who follows each copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.node.following import CopyFollower
from anabranch.node.inlet import JournalInlet
from anabranch.node.part import Part, Route, replica_reader
from anabranch.storage.log import Log
from anabranch.storage.store import Store
from anabranch.transport.client import Client


class Inlets:
    """``rebuild`` is told why no copy can serve this node. One connection to each node that has copies."""

    def __init__(
        self,
        part: Part,
        life: str,
        *,
        clock: Callable[[], int],
        route: Route,
        rebuild: Callable[[str], None],
    ) -> None:
        self._part = part
        self._route = route
        self._life = life
        self._clock = clock
        self._rebuild = rebuild
        self._inlets: dict[str, JournalInlet] = {}
        self._followers: dict[str, list[CopyFollower]] = {}
        self._clients: dict[str, Client] = {}

    def open(self, store: Store, journal: Log) -> None:
        """Begins to follow the copies of a stream into its journal."""
        stream = journal.name
        inlet = self._inlets[stream] = JournalInlet(
            store, journal, clock=self._clock, compares=len(self._part.upstream[stream]) > 1
        )
        followers = self._followers[stream] = []
        for copy, address in self._part.upstream[stream].items():
            if copy not in self._clients:
                self._clients[copy] = Client(self._route(copy, address))
            follower = CopyFollower(
                inlet,
                self._clients[copy],
                copy=copy,
                reader=replica_reader(self._part.node),
                life=self._life,
                rebuild=self._rebuild,
            )
            followers.append(follower)
            follower.start()

    def stop(self) -> None:
        followers = [each for all_ in self._followers.values() for each in all_]
        for follower in followers:
            follower.close()
        for follower in followers:
            follower.join()
        for client in self._clients.values():
            client.close()

    def alarms(self) -> dict[str, Any]:
        """Per stream of which copies differed: how often, and the latest."""
        told = {stream: inlet.alarms() for stream, inlet in list(self._inlets.items())}
        return {stream: each for stream, each in told.items() if each is not None and each["count"]}

    def statistics(self) -> dict[str, Any]:
        """Per stream and copy: whether it is read, how far, and how many tuples it was the first to bring."""
        return {
            stream: {
                follower.copy: follower.statistics() | {"first": inlet.first_from(follower.copy)}
                for follower in self._followers[stream]
            }
            for stream, inlet in list(self._inlets.items())
        }
