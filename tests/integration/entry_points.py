"""Entry points of one source in this process, over real Flight: they stop, start again, and lose their disks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anabranch as ab
from anabranch.bench.processes import free_ports
from anabranch.core.readers import ReaderAcknowledged, ReaderSubscribed
from anabranch.errors import StreamNotFound
from anabranch.model.position import Position
from anabranch.node.node import Node
from anabranch.node.settings import NodeSettings
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.runtime.status import SharedLaneStatus
from tests.assigning import assigned
from tests.waiting import wait_for

Identity = tuple[str, int, int, int]
"""Origin, stream time and number of a row, and its value."""


def diagram(*, producers: tuple[str, ...] = ("p",), feed: Any = None) -> Diagram:
    query = ab.Query("sharing")
    events = query.source("events", "x bigint", producers=list(producers), feed=feed)
    query.output("all", events.filter("x >= 0"))
    return query.checked()


class EntryPoints:
    """By name. ``start`` goes on with what is on the disk; ``lose_disk`` removes it."""

    def __init__(self, directory: Path, names: str, query: Diagram, readers: tuple[str, ...] = ("reader",)) -> None:
        self._directory = directory
        self.names = tuple(names)
        self.query = query
        self._readers = readers
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.nodes: dict[str, Node] = {}

    def address(self, name: str) -> str:
        return f"127.0.0.1:{self._ports[name]}"

    def addresses(self, first: str | None = None) -> list[str]:
        names = sorted(self.names, key=lambda name: name != first)
        return [self.address(name) for name in names]

    def start(self, *names: str) -> None:
        for name in names or self.names:
            settings = NodeSettings(port=self._ports[name], disk_reserve_bytes=1 << 20)
            addresses = {each: self.address(each) for each in self.names}
            part = entry_part(self.query, name, addresses, readers=self._readers)
            node = self.nodes[name] = Node(self.query, self._directory / name, settings, part=part)
            node.start()
        if len(self.nodes) == len(self.names):
            wait_for(lambda: not any(self._is_beginning(name) for name in self.nodes))

    def stop(self, *names: str) -> None:
        for name in names:
            self.nodes.pop(name).stop()

    def lose_disk(self, name: str) -> None:
        assert name not in self.nodes
        shutil.rmtree(self._directory / name)

    def rows(self, name: str, stream: str = "events") -> list[Identity]:
        """What the log of this entry point shows, in canonical order. A trim is in its file a moment before the log
        says so: then we look again."""
        found: list[list[Identity]] = []

        def read() -> bool:
            with suppress(StreamNotFound):
                found.append(self._rows(name, stream))
            return bool(found)

        wait_for(read)
        return found[0]

    def _rows(self, name: str, stream: str) -> list[Identity]:
        log = self.nodes[name].hosted.streams.logs[stream][1]
        found: list[Identity] = []
        for segment in log.read(log.first_seq() - 1, log.end_seq()):
            if segment.rows is not None:
                columns = segment.rows.to_pydict()
                for tid, stime, code, x in zip(
                    columns["_tid"], columns["_stime"], columns["_origin"], columns["x"], strict=True
                ):
                    found.append((log.spec.origins[code], round(stime.timestamp() * 1_000_000), tid, x))
        return sorted(found)

    def values(self, name: str) -> list[int]:
        return [x for _, _, _, x in self.rows(name)]

    def punctuations(self, name: str) -> dict[str, int]:
        return self.nodes[name].hosted.streams.logs["events"][1].punctuations()

    def incarnation(self, name: str) -> str:
        return self.nodes[name].hosted.streams.logs["events"][1].incarnation

    def floors(self, name: str) -> Mapping[str, int]:
        return self.nodes[name].hosted.streams._served["events"].readers["replica:reader"].floors

    def read_all(self) -> None:
        """The reader of their logs acknowledges everything, and they are trimmed."""
        for node in self.nodes.values():
            log = node.hosted.streams.logs["events"][1]
            served = node.hosted.streams._served["events"]
            served.subscribed(ReaderSubscribed(reader="replica:reader", life="1"))
            end = Position(log.incarnation, log.last_id())
            served.acknowledged(ReaderAcknowledged(reader="replica:reader", life="1", position=end))
            served.trim(full=False)

    def lane(self, name: str, origin: str = "events/p") -> SharedLaneStatus:
        lanes = self.nodes[name].statistics().sources["events"].lanes
        shared = lanes[origin].shared
        assert shared is not None
        return shared

    def leaders(self, origin: str = "events/p") -> list[str]:
        return [name for name in self.nodes if self.lane(name, origin).state == "leads"]

    def leader(self, origin: str = "events/p") -> str:
        """The one that all know. Where processes get little time they may be about to choose another."""
        wait_for(lambda: self.follow_one(origin), lambda: {name: self.lane(name, origin) for name in self.nodes})
        return self.leaders(origin)[0]

    def follow_one(self, origin: str = "events/p") -> bool:
        """Whether all that run know the same leader."""
        leaders = self.leaders(origin)
        return len(leaders) == 1 and all(self.lane(name, origin).leader == leaders[0] for name in self.nodes)

    def _is_beginning(self, name: str) -> bool:
        lanes = self.nodes[name].statistics().sources["events"].lanes.values()
        return any(lane.shared is not None and lane.shared.state == "beginning" for lane in lanes)

    def agree(self) -> bool:
        """Whether all that run show the same."""
        shown = [(self.rows(name), self.punctuations(name)) for name in self.nodes]
        return all(each == shown[0] for each in shown)


def entry_part(
    query: Diagram,
    name: str,
    addresses: Mapping[str, str],
    fed: tuple[str, ...] = (),
    readers: tuple[str, ...] = ("reader",),
) -> AssignedQuery:
    """What one of several entry points does, which runs nothing else. A feed runs at the first of them, or at one of
    those that are named."""
    return assigned(
        query,
        name,
        entries=["events"],
        feeds=["events"] if name in (fed or min(addresses)) else [],
        feed_hosts=fed,
        readers={"events": readers},
        peers={"events": {peer: address for peer, address in addresses.items() if peer != name}},
    )


@contextmanager
def entry_points(
    directory: Path, names: str = "abc", query: Diagram | None = None, readers: tuple[str, ...] = ("reader",)
) -> Iterator[EntryPoints]:
    made = EntryPoints(directory, names, query or diagram(), readers)
    try:
        yield made
    finally:
        for node in made.nodes.values():
            with suppress(Exception):
                node.stop()
