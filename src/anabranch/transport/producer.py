"""A producer: numbers its entries, so that sending one twice is harmless, and sends until it is answered.

Where the source has several entry points, and the producer knows them, it goes on at the next when one is lost, with
the session that it has. What it sends there again under the same numbers is known there.

Registration gives a session and the next number. A producer that restarts reads ``next`` and skips what it had sent
before; one that was replaced by another of its name gets ``SessionExpired``. For one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from anabranch.errors import ConfigError, NodeUnreachable, NotLeading, Overloaded, PushRefused, check
from anabranch.model.header import STIME
from anabranch.model.ids import named_in
from anabranch.model.times import from_datetime
from anabranch.transport.client import Client, PushCall
from anabranch.transport.ports import EntryKind, Push, PushAnswer, Registration
from anabranch.transport.retry import DEADLINE_S, Retry
from anabranch.transport.rows import Rows, to_batches
from anabranch.transport.wire import TIMESTAMP

ATTEMPT_S: Final = 2.5
"""How long one of several entry points may take to answer at first, before the next is tried: it says by itself within
``LEAD_WAIT_S`` that it does not lead. Twice as long in each round, for those that are far away or slow."""


def wall_clock_us() -> int:
    return time.time_ns() // 1_000


class Producer:
    """Entries of one named producer for one source. ``next`` is the number of the next one.

    ``others`` are further entry points of the source, to which it goes when it loses this one.
    """

    def __init__(
        self,
        client: Client,
        source: str,
        name: str,
        *,
        others: Sequence[Client] = (),
        deadline_s: float = DEADLINE_S,
        clock_us: Callable[[], int] = wall_clock_us,
    ) -> None:
        self.source: Final = source
        self.name: Final = name
        self._clients: Final = [client, *others]
        """The one it pushes to is the first."""
        self._call: PushCall | None = None
        """To the entry point that it pushes to."""
        self._deadline_s: Final = deadline_s
        self._clock_us: Final = clock_us
        self._tried = 0
        self.registration: Final = self._register()
        self._named: Final = named_in(self.registration.query, source)
        """With its query: another one of the entry point may get a source of the same name."""
        self.next = self.registration.next
        self._stamp_us = self.registration.stamp_us

    @property
    def schema(self) -> pa.Schema:
        """The columns that rows must have."""
        return self.registration.schema

    def push(self, rows: Rows) -> PushAnswer:
        """Returns when the rows are durable. Large ones go in several batches, each accepted or refused whole.

        After a refusal ``next`` is the number of the first row of the refused batch: push it corrected, or ``void`` it.
        """
        total = PushAnswer()
        done = 0
        for batch in to_batches(rows, self.schema):
            try:
                answer = self._send("rows", batch.num_rows, rows=self._stamped(batch))
            except PushRefused as error:
                raise rebased(error, done) from error
            total = added(total, answer)
            done += batch.num_rows
        return total

    def boundary(self, at: datetime | int) -> PushAnswer:
        """Promise that no later row is before ``at`` (microseconds, or a datetime; without a zone it is UTC)."""
        time_us = from_datetime(at) if isinstance(at, datetime) else at
        answer = self._send("boundary", 1, time_us=time_us)
        self._stamp_us = max(self._stamp_us, time_us)
        return answer

    def void(self, count: int) -> PushAnswer:
        """Use up ``count`` numbers without rows: those of rows that were refused or given up."""
        if count < 1:
            raise ConfigError(f"{count} numbers cannot be voided.", remedy="Give the number of rows to give up.")
        return self._send("void", count)

    def close_lane(self) -> PushAnswer:
        """The last entry of the lane, for ever: nothing waits for it any more."""
        return self._send("close", 1)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the call on which it pushes; it may push again. The session stays, and the connection belongs to the
        caller."""
        if self._call is not None:
            self._call.close()
            self._call = None

    def _pushing(self) -> PushCall:
        if self._call is None:
            self._call = self._client.push_call(self._named)
        return self._call

    def _register(self) -> Registration:
        retry = Retry(self._deadline_s)
        while True:
            try:
                return self._client.register(self.source, self.name, within_s=self._within_s)
            except (NodeUnreachable, NotLeading) as error:
                self._go_to_next(error, retry)

    @property
    def _client(self) -> Client:
        return self._clients[0]

    @property
    def _within_s(self) -> float | None:
        """How long an entry point may take to answer before the next is tried: longer in each round."""
        if len(self._clients) == 1:
            return None
        rounds = self._tried // len(self._clients)
        return min(ATTEMPT_S * (1 << min(rounds, 8)), max(ATTEMPT_S, self._client.timeout_s))

    def _go_to_next(self, error: NodeUnreachable | NotLeading, retry: Retry) -> None:
        """All are tried before there is a wait."""
        self.close()
        self._clients.append(self._clients.pop(0))
        self._tried += 1
        if self._tried % len(self._clients) == 0:
            retry.wait_after(error)

    def _stamped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Where the producer stamps, each row carries its time: the same when the batch is sent again."""
        if not self.registration.stamps:
            return batch
        self._stamp_us = max(self._stamp_us, self._clock_us())
        return stamped(batch, self._stamp_us)

    def _send(
        self, kind: EntryKind, count: int, *, time_us: int | None = None, rows: pa.RecordBatch | None = None
    ) -> PushAnswer:
        push = Push(
            source=self._named,
            producer=self.name,
            session=self.registration.session,
            kind=kind,
            first=self.next,
            count=count,
            time_us=time_us,
            rows=rows,
        )
        answer = self._send_until_answered(push)
        last = self.next + count - 1
        through = answer.through
        check(through is not None and through >= last, f"{self.source!r} accepted entry {last} but not through it.")
        self.next = last + 1
        return answer

    def _send_until_answered(self, push: Push) -> PushAnswer:
        retry = Retry(self._deadline_s)
        moved = False
        self._tried = 0
        while True:
            try:
                if moved:
                    session = self.registration.session
                    self._client.register(self._named, self.name, session, within_s=self._within_s)
                    moved = False
                return self._pushing().push(push, within_s=self._within_s)
            except Overloaded as error:
                retry.wait_after(error)
            except (NodeUnreachable, NotLeading) as error:
                self._go_to_next(error, retry)
                moved = len(self._clients) > 1 or isinstance(error, NotLeading)


def added(total: PushAnswer, answer: PushAnswer) -> PushAnswer:
    """The answer to several pushes, in order."""
    return PushAnswer(
        through=answer.through,
        rows=total.rows + answer.rows,
        repeated=total.repeated + answer.repeated,
        late=total.late + answer.late,
    )


def rebased(error: PushRefused, done: int) -> PushRefused:
    """A refusal of one batch as seen by whoever pushed several: the row counts from the first of them."""
    if done == 0:
        return error
    return PushRefused(
        f"{error.message} (In the batch after row {done}; the rows before it are kept.)",
        row=None if error.row is None else done + error.row,
        remedy=error.remedy,
    )


def stamped(rows: pa.RecordBatch, stamp_us: int) -> pa.RecordBatch:
    """The rows with this stream time in front, as a lane takes them from a producer that stamps."""
    stamps = pa.repeat(pa.scalar(stamp_us, pa.int64()).cast(TIMESTAMP), rows.num_rows)
    return rows.add_column(0, pa.field(STIME, TIMESTAMP), stamps)
