"""A producer inside of the node: what a feed is for the lane that it feeds.

It numbers its entries, stamps them where the lane wants that, and waits while there is no room, until the node stops.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import pyarrow as pa

from anabranch import limits
from anabranch.core.backoff import Backoff
from anabranch.errors import AnabranchError, DiskFull, NodeUnreachable, NotLeading, Overloaded
from anabranch.model.names import lane_origin
from anabranch.node.entry import EntryPoint
from anabranch.query.boxes import Source
from anabranch.transport.ports import EntryKind, Push, Registration
from anabranch.transport.producer import stamped

PRODUCER: Final = "feed"
"""Who a feed is in a lane that several may push to."""

_NOT_TAKEN: Final = Backoff(waits_s=limits.PEER_BACKOFF_S)
"""How long a feed waits before it offers rows again that were not taken: the entry point has waited already."""


def producer_of(source: Source) -> str:
    """The producer that a feed is: the one that it names, or the only one, or one among other clients."""
    named = source.feed.producer if source.feed is not None else None
    return named or (source.producers[0] if source.producers else PRODUCER)


_NOT_NOW: Final = (Overloaded, DiskFull, NodeUnreachable, NotLeading)
"""Why an entry point takes nothing at the moment."""


class Pushing:
    """A producer inside of the node: numbers its entries and waits for room, until the node stops. ``patience_s`` is
    how long it tries to register, if not for ever; then it raises why that is not possible."""

    def __init__(
        self, entry: EntryPoint, producer: str, stopping: threading.Event, *, patience_s: float | None = None
    ) -> None:
        self.entry: Final = entry
        self.producer: Final = producer
        self.rows = 0
        self.waits_for: AnabranchError | None = None
        self._stopping = stopping
        self.registration: Registration = self._register(patience_s)
        self.next = self.registration.next
        self._stamp_us = self.registration.stamp_us

    def rows_in(self, batch: pa.RecordBatch) -> bool:
        """Whether the rows are durable; if not, the node is stopping."""
        count = batch.num_rows
        if self.registration.stamps:
            self._stamp_us = max(self._stamp_us, time.time_ns() // 1_000)
            batch = stamped(batch, self._stamp_us)
        accepted = self._send("rows", count, batch)
        self.rows += count if accepted else 0
        return accepted

    def void(self, count: int) -> bool:
        return self._send("void", count)

    def close_lane(self) -> bool:
        return self._send("close", 1)

    def is_closed(self) -> bool:
        origin = lane_origin(self.entry.source.name, self.registration.lane)
        return self.entry.statistics().lanes[origin].closed

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
        backoff = _NOT_TAKEN
        while not self._stopping.is_set():
            try:
                if isinstance(self.waits_for, NodeUnreachable | NotLeading):  # another may have led the lane meanwhile
                    self.entry.register(self.producer, self.registration.session)
                self.entry.push(push)
            except _NOT_NOW as error:
                self.waits_for = error
                backoff = backoff.failed()
                self._stopping.wait(backoff.wait_s)
            else:
                self.waits_for = None
                self.next += count
                return True
        return False

    def _register(self, patience_s: float | None) -> Registration:
        began, backoff = time.monotonic(), _NOT_TAKEN
        while True:
            try:
                registration = self.entry.register(self.producer)
            except _NOT_NOW as error:
                self.waits_for = error
                backoff = backoff.failed()
                is_over = patience_s is not None and time.monotonic() - began >= patience_s
                if is_over or self._stopping.wait(backoff.wait_s):
                    raise
            else:
                self.waits_for = None
                return registration
