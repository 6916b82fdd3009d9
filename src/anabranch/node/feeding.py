"""The feeds of a node: one thread each, which takes rows when they are due and hands them to the entry point.

A feed is a named producer inside of the node. Registration answers which number comes next; from there on it sends
what it has, waits while the lane has no room, and closes the lane at the end. A row that is refused ends the feed: the
status says which row it was, and nothing is skipped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from anabranch import limits
from anabranch.connectors.feed import Over, RowFeed, Rows, Wait
from anabranch.connectors.file_feed import FileRows
from anabranch.connectors.generator import Generator
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    DiskFull,
    InvariantBroken,
    NodeUnreachable,
    Overloaded,
    PushRefused,
)
from anabranch.model.header import STIME
from anabranch.model.names import lane_origin
from anabranch.node.entry import EntryPoint
from anabranch.query.boxes import Source
from anabranch.query.connectors import FileFeed, GeneratorFeed
from anabranch.query.specs import kind_name
from anabranch.transport.ports import EntryKind, Push, Registration

_log: Final = logging.getLogger("anabranch.feed")

PRODUCER: Final = "feed"
"""Who a feed is in a lane that several may push to."""

RETRY_S: Final = 1.0
"""How long a feed waits before it offers rows again for which there was no room."""


class FeedRunner(Protocol):
    """What brings the rows of one source, whatever it is."""

    def start(self) -> None: ...

    def stop(self, deadline: float) -> None: ...

    def statistics(self) -> dict[str, Any]: ...


class Pushing:
    """A producer inside of the node: numbers its entries and waits for room, until the node stops."""

    def __init__(self, entry: EntryPoint, producer: str, stopping: threading.Event) -> None:
        self.entry: Final = entry
        self.producer: Final = producer
        self.rows = 0
        self.waits_for: AnabranchError | None = None
        self.registration: Registration = entry.register(producer)
        self.next = self.registration.next
        self._stamp_us = self.registration.stamp_us
        self._stopping = stopping

    def rows_in(self, batch: pa.RecordBatch) -> bool:
        """Whether the rows are durable; if not, the node is stopping."""
        count = batch.num_rows
        if self.registration.stamps:
            self._stamp_us = max(self._stamp_us, time.time_ns() // 1_000)
            stamp = pa.scalar(self._stamp_us, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
            batch = batch.add_column(0, pa.field(STIME, stamp.type), pa.repeat(stamp, count))
        accepted = self._send("rows", count, batch)
        self.rows += count if accepted else 0
        return accepted

    def void(self, count: int) -> bool:
        return self._send("void", count)

    def close_lane(self) -> bool:
        return self._send("close", 1)

    def is_closed(self) -> bool:
        origin = lane_origin(self.entry.source.name, self.registration.lane)
        return bool(self.entry.statistics()["lanes"][origin]["closed"])

    def _send(self, kind: EntryKind, count: int, rows: pa.RecordBatch | None = None) -> bool:
        push = Push(
            source=self.entry.source.name,
            producer=self.producer,
            session=self.registration.session,
            kind=kind,
            first=self.next,
            count=count,
            rows=rows,
        )
        while not self._stopping.is_set():
            try:
                self.entry.push(push)
            except (Overloaded, DiskFull) as error:
                self.waits_for = error
                self._stopping.wait(RETRY_S)
            except NodeUnreachable:  # it stops
                return False
            else:
                self.waits_for = None
                self.next += count
                return True
        return False


class RowFeedRunner:
    """A feed that is asked for rows, and the thread that asks it."""

    def __init__(self, entry: EntryPoint, feed: RowFeed, producer: str, stopping: threading.Event) -> None:
        self._entry = entry
        self._feed = feed
        self._producer = producer
        self._stopping = stopping
        self._pushing: Pushing | None = None
        self._finished = False
        self._error: AnabranchError | None = None
        self._began_us = time.time_ns() // 1_000
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"feed {entry.source.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, deadline: float) -> None:
        """The node's stop event is set already: the thread sees it at its next step."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def statistics(self) -> dict[str, Any]:
        pushing = self._pushing
        waits_for = pushing.waits_for if pushing is not None else None
        error = self._error or waits_for
        return {
            "kind": kind_name(self._entry.source.feed) if self._entry.source.feed else "",
            "state": self._state(waiting=waits_for is not None),
            "rows": pushing.rows if pushing is not None else 0,
            "position": self._feed.position(),
            "lag_us": 0 if self._finished or self._error else self._feed.lag_us(self._now_us()),
            "error": str(error) if error is not None else None,
        }

    def _state(self, *, waiting: bool) -> str:
        if self._error is not None:
            return "failed"
        if self._finished:
            return "finished"
        return "waiting" if waiting else "running" if self._thread.is_alive() else "stopped"

    def _now_us(self) -> int:
        """A clock that nobody sets: a pace does not jump with the time of day."""
        return self._began_us + round((time.monotonic() - self._began) * 1_000_000)

    def _run(self) -> None:
        try:
            self._feed_rows()
        except AnabranchError as error:
            self._fail(error)
        except Exception as error:
            self._fail(InvariantBroken(f"The feed of {self._entry.source.name!r} failed: {error!r}."))

    def _fail(self, error: AnabranchError) -> None:
        self._error = error
        if not self._stopping.is_set():
            _log.warning("The feed of source %r has ended: %s", self._entry.source.name, error)

    def _feed_rows(self) -> None:
        self._pushing = pushing = Pushing(self._entry, self._producer, self._stopping)
        if pushing.is_closed():
            self._finished = True
            return
        self._feed.begin(pushing.next, self._now_us())
        while not self._stopping.is_set():
            match self._feed.take(self._now_us()):
                case Rows(batch=batch, place=place):
                    self._push(pushing, batch, place)
                case Wait(seconds=seconds):
                    self._stopping.wait(seconds)
                case Over(close=close):
                    self._finished = pushing.close_lane() if close else True
                    return

    def _push(self, pushing: Pushing, batch: pa.RecordBatch, place: Callable[[int], str]) -> None:
        try:
            pushing.rows_in(batch)
        except PushRefused as error:
            where = f"{place(error.row)}: " if error.row is not None else ""
            raise PushRefused(f"{where}{error.message}", row=error.row, remedy=error.remedy) from error


class Feeding:
    """All feeds of a node."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._runners: dict[str, FeedRunner] = {}

    def open(self, entries: Mapping[str, EntryPoint], schemas: Callable[[str], pa.Schema]) -> None:
        """Finds out whether all that the feeds need is there; nothing is read yet."""
        for name, entry in entries.items():
            source = entry.source
            if isinstance(source.feed, GeneratorFeed | FileFeed):
                try:
                    feed = _row_feed(source, schemas(name))
                except ConfigError as error:
                    raise ConfigError(f"The feed of source {name!r}: {error.message}", remedy=error.remedy) from error
                self._runners[name] = RowFeedRunner(entry, feed, producer_of(source), self._stopping)

    def start(self) -> None:
        for runner in self._runners.values():
            runner.start()

    def stop(self) -> None:
        deadline = time.monotonic() + limits.STOP_WAIT_S
        for runner in self._runners.values():
            runner.stop(deadline)

    def statistics(self) -> dict[str, Any]:
        return {name: runner.statistics() for name, runner in self._runners.items()}


def producer_of(source: Source) -> str:
    """The producer that a feed is: the one that it names, or the only one, or one among other clients."""
    named = source.feed.producer if source.feed is not None else None
    return named or (source.producers[0] if source.producers else PRODUCER)


def _row_feed(source: Source, schema: pa.Schema) -> RowFeed:
    match source.feed:
        case GeneratorFeed() as feed:
            return Generator(feed, schema, source.time)
        case FileFeed() as feed:
            return FileRows(feed, schema, source.time)
        case _:
            raise InvariantBroken(f"Source {source.name!r} has no feed of rows.")
