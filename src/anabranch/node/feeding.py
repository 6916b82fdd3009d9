"""The feeds of a node: one thread each, which takes rows when they are due and hands them to the entry point.

A feed is a named producer inside of the node. Registration answers which number comes next; from there on it sends
what it has, waits while the lane has no room, and closes the lane at the end. A row that is refused ends the feed: the
status says which row it was, and nothing is skipped.

Where other hosts have the same feed, one of them brings rows and the others wait (``core.feed_lease``). A copy that
waits asks the others for their status.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from anabranch import limits
from anabranch.connectors.feed import Over, RowFeed, Rows, Wait
from anabranch.connectors.file_feed import FileRows
from anabranch.connectors.generator import Generator
from anabranch.connectors.nexmark import NexmarkRows
from anabranch.core import feed_lease
from anabranch.core.feed_lease import CopyAsked, FeedLease, Looked, Replaced, RowsCame, Stuck
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    DiskFull,
    InvariantBroken,
    NodeUnreachable,
    NotLeading,
    Overloaded,
    PushRefused,
    SessionExpired,
)
from anabranch.model.ids import QueryId, StreamId
from anabranch.model.names import lane_origin
from anabranch.node.dialer import Dialer
from anabranch.node.entry import EntryPoint
from anabranch.node.pushing import Pushing, producer_of
from anabranch.node.spark_host import SparkHost
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Source
from anabranch.query.connectors import FileFeed, GeneratorFeed, NexmarkFeed, SparkFeed
from anabranch.query.specs import feed_to_plain, kind_name
from anabranch.runtime.status import FeedState, FeedStatus

_log: Final = logging.getLogger("anabranch.feed")

_STUCK: Final = (NodeUnreachable, NotLeading, DiskFull)
"""Why a feed cannot get rows in here, where it could elsewhere."""

_UNREGISTERED: Final = (*_STUCK, Overloaded)
"""Why it cannot even register."""


class FeedRunner(Protocol):
    """What brings the rows of one source, whatever it is."""

    def start(self) -> None: ...

    def stop(self, deadline: float) -> None: ...

    def statistics(self) -> FeedStatus: ...


class RowFeedRunner:
    """A feed that is asked for rows, and the thread that asks it."""

    def __init__(
        self,
        entry: EntryPoint,
        feed: RowFeed,
        producer: str,
        stopping: threading.Event,
        *,
        lease: FeedLease,
        speaks_on: Callable[[str], bool | None],
    ) -> None:
        """``speaks_on`` asks another host whether its copy brings rows; None if that is not clear."""
        self._lease = lease
        self._turn = lease.begin(_monotonic_us())
        self._speaks_on = speaks_on
        self._entry = entry
        self._feed = feed
        self._producer = producer
        self._stopping = stopping
        self._pushing: Pushing | None = None
        self._brought = 0
        """Rows of earlier turns."""
        self._held_up: AnabranchError | None = None
        """Why it could not register when it was its turn."""
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

    def statistics(self) -> FeedStatus:
        pushing = self._pushing
        waits_for = pushing.waits_for if pushing is not None else None
        error = self._error or waits_for or self._held_up
        return FeedStatus(
            kind=kind_name(self._entry.source.feed) if self._entry.source.feed else "",
            state=self._state(waiting=waits_for is not None or self._held_up is not None),
            speaks=self._speaks(waits_for),
            rows=self._brought + (pushing.rows if pushing is not None else 0),
            position=self._feed.position(),
            lag_us=self._feed.lag_us(self._now_us()) if self._brings_rows else 0,
            error=str(error) if error is not None else None,
        )

    @property
    def _brings_rows(self) -> bool:
        """Whether it is this copy's turn, and there are rows left."""
        return self._turn.speaks and not self._finished and self._error is None

    def _speaks(self, waits_for: AnabranchError | None) -> bool:
        """Whether rows come from here. A copy that cannot register, or get rows in, is as good as gone."""
        has_session = self._turn.speaks and self._pushing is not None
        return has_session and self._error is None and not isinstance(waits_for, _STUCK)

    def _state(self, *, waiting: bool) -> FeedState:
        if self._error is not None:
            return "failed"
        if self._finished:
            return "finished"
        if not self._thread.is_alive():
            return "stopped"
        if not self._turn.speaks:
            return "standby"
        return "waiting" if waiting else "running"

    def _now_us(self) -> int:
        """A clock that nobody sets: a pace does not jump with the time of day."""
        return self._began_us + round((time.monotonic() - self._began) * 1_000_000)

    def _run(self) -> None:
        try:
            while self._wait_turn() and not self._feed_rows():
                pass
        except AnabranchError as error:
            self._fail(error)
        except Exception as error:
            self._fail(InvariantBroken(f"The feed of {self._entry.source.name!r} failed: {error!r}."))

    def _fail(self, error: AnabranchError) -> None:
        self._error = error
        if not self._stopping.is_set():
            _log.warning("The feed of source %r has stopped: %s", self._entry.source.name, error)

    # --- whose turn it is ------------------------------------------------------------------------------------------

    def _wait_turn(self) -> bool:
        """Until this copy is the one to bring rows; False if the node is stopping."""
        following = self._following()
        while not self._stopping.is_set():
            for host in self._lease.others:
                self._happened(CopyAsked(_monotonic_us(), host, self._speaks_on(host)))
            before, following = following, self._following()
            if following != before:
                self._happened(RowsCame(_monotonic_us()))
            if self._happened(Looked(_monotonic_us())):
                return True
            self._stopping.wait(self._lease.ask_every_us / 1_000_000)
        return False

    def _following(self) -> int:
        """The number that the next entry of the lane gets, as far as this host knows."""
        source = self._entry.source
        lane = self._producer if self._producer in source.producers else source.lanes[0]
        return self._entry.statistics().lanes[lane_origin(source.name, lane)].next_number

    def _happened(self, event: feed_lease.Event) -> bool:
        """Whether this copy begins to bring rows."""
        self._turn, begins = self._lease.handle(self._turn, event)
        if begins and self._lease.others:
            _log.info("The feed of source %r runs here now.", self._entry.source.name)
        return begins

    def _feed_rows(self) -> bool:
        """Brings rows until all are there, or the node is stopping; False if another copy goes on with them, or may
        have to."""
        try:
            self._feed_all()
        except SessionExpired as error:
            if not self._lease.others:
                raise
            self._give_back(Replaced(_monotonic_us()), error)
            return False
        except _UNREGISTERED as error:
            if not self._lease.others or self._stopping.is_set():
                raise
            self._held_up = error
            self._give_back(Stuck(_monotonic_us()), error)
            return False
        return True

    def _give_back(self, event: feed_lease.Event, error: AnabranchError) -> None:
        _log.info("The feed of source %r waits: %s", self._entry.source.name, error.message)
        pushing, self._pushing = self._pushing, None
        self._brought += pushing.rows if pushing is not None else 0
        self._happened(event)

    def _feed_all(self) -> None:
        patience_s = self._lease.takeover_us / 1_000_000 if self._lease.others else None
        self._pushing = pushing = Pushing(self._entry, self._producer, self._stopping, patience_s=patience_s)
        self._held_up = None
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
    """All feeds that a host has of one query."""

    def __init__(self, part: AssignedQuery, dialer: Dialer, stopping: threading.Event) -> None:
        self._part = part
        self._dialer = dialer
        self._stopping = stopping
        self._entries: Mapping[str, EntryPoint] = {}
        self._runners: dict[str, FeedRunner] = {}

    def open(self, entries: Mapping[str, EntryPoint]) -> None:
        """Finds out whether all that the feeds need is there; nothing is read yet."""
        self._entries = entries
        for name, entry in entries.items():
            source = entry.source
            if isinstance(source.feed, GeneratorFeed | FileFeed | NexmarkFeed):
                try:
                    feed = _row_feed(source, entry.log.spec.schema)
                except ConfigError as error:
                    raise _told(name, error) from error
                self._runners[name] = RowFeedRunner(
                    entry,
                    feed,
                    producer_of(source),
                    self._stopping,
                    lease=self._lease(name),
                    speaks_on=lambda host, name=name: self._speaks_on(host, name),  # type: ignore[misc]
                )

    def _lease(self, source: str) -> FeedLease:
        (entry,) = (each for each in self._part.assignment.entries if each.source == source)
        return FeedLease(self._part.host, entry.feed_hosts or (self._part.host,), entry.takeover_us)

    def _speaks_on(self, host: str, source: str) -> bool | None:
        """Whether the copy of a feed on another host brings its rows. None if that is not clear: it does not answer in
        time, or it is its turn and it gets no rows in."""
        client = self._dialer.client(host, self._part.fed_elsewhere[source][host])
        try:
            query = client.status(self._lease(source).ask_every_us / 1_000_000).queries.get(self._part.query)
        except AnabranchError:
            return None
        feed = None if query is None else query.feeds.get(source)
        if feed is None or feed.speaks:
            return feed is not None
        return None if feed.state in ("running", "waiting") else False

    def start(self, spark: SparkHost | None, checkpoints: Path, query: QueryId) -> None:
        for name, entry in self._entries.items():
            feed = entry.source.feed
            if isinstance(feed, SparkFeed):
                from anabranch.engine.feed import SparkFeedRun
                from anabranch.node.spark_feeding import SparkFeedRunner, feed_checkpoint

                digest = hashlib.sha256(json.dumps(feed_to_plain(feed), sort_keys=True).encode()).hexdigest()[:12]
                checkpoint = feed_checkpoint(checkpoints, name, digest)
                assert spark is not None  # a node with such a feed needs one
                run = SparkFeedRun(
                    spark.session, feed, entry.log.spec.schema, checkpoint, pool=f"feed:{StreamId(query, name)}"
                )
                self._runners[name] = SparkFeedRunner(entry, feed, run, spark, f"feed/{digest}", self._stopping)
        for name, runner in self._runners.items():
            try:
                runner.start()
            except ConfigError as error:
                raise _told(name, error) from error

    def stop(self) -> None:
        deadline = time.monotonic() + limits.STOP_WAIT_S
        for runner in self._runners.values():
            runner.stop(deadline)

    def statistics(self) -> dict[str, FeedStatus]:
        return {name: runner.statistics() for name, runner in self._runners.items()}


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1_000


def _told(source: str, error: ConfigError) -> ConfigError:
    return ConfigError(f"The feed of source {source!r}: {error.message}", remedy=error.remedy)


def _row_feed(source: Source, schema: pa.Schema) -> RowFeed:
    match source.feed:
        case GeneratorFeed() as feed:
            return Generator(feed, schema, source.time)
        case NexmarkFeed() as feed:
            return NexmarkRows(feed, schema)
        case FileFeed() as feed:
            return FileRows(feed, schema, source.time)
        case _:
            raise InvariantBroken(f"Source {source.name!r} has no feed of rows.")
