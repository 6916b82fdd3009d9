"""A Flight call that stays open: question and answer, again and again.

To begin a call costs more than a small message on it: a stream of its own in gRPC, a thread at the node, Arrow's
schema. So whoever says something small all the time, as a producer or a peer does, keeps its call.

A call that broke is forgotten, and the next question begins another. So does one that the node ended: it does that
after an answer, never instead of one, when it has too many of them open. Nothing is asked twice unless the node had
not read it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.flight as flight

from anabranch.errors import NodeUnreachable
from anabranch.transport import failures
from anabranch.transport.channel import CONNECTION_ERRORS, Channel
from anabranch.transport.overdue import OVERDUE


class OpenCall:
    """Questions of one thread at a time; ``close`` may be called from any."""

    def __init__(self, channel: Channel, descriptor: flight.FlightDescriptor) -> None:
        self._channel: Final = channel
        self._descriptor: Final = descriptor
        self._lock: Final = threading.Lock()
        self._call: _Call | None = None
        self._closed = False

    def ask(self, said: bytes, rows: pa.RecordBatch | None, within_s: float) -> bytes:
        """The answer; what the node raised, or ``NodeUnreachable`` when none came in time."""
        answer = None
        if self._call is not None:
            if self._call.takes(rows):
                answer = self._ask(self._call, said, rows, within_s)
            if answer is None:
                self._forget()
        if answer is None:
            answer = self._ask(self._begin(), said, rows, within_s)
        if answer is None:
            raise failures.unreachable(self._channel.called, "it ended the call")
        return answer

    def close(self) -> None:
        """Ends the call. A thread that waits for an answer is told that there is none."""
        with self._lock:
            self._closed = True
        self._forget()

    def _ask(self, call: _Call, said: bytes, rows: pa.RecordBatch | None, within_s: float) -> bytes | None:
        """None if the node had ended the call before."""
        watched = OVERDUE.watch(within_s, call.give_up)
        try:
            return call.ask(said, rows)
        except CONNECTION_ERRORS as error:
            self._forget()
            if call.given_up:
                raise failures.unreachable(self._channel.called, "it did not answer in time") from error
            raise self._channel.failure(call.client, error) from error
        finally:
            OVERDUE.over(watched)

    def _begin(self) -> _Call:
        with self._channel.calling() as client:
            call = _Call(client, *client.do_exchange(self._descriptor))
        with self._lock:
            if not self._closed:
                self._call = call
                return call
        call.end()
        raise NodeUnreachable("The call was closed.")

    def _forget(self) -> None:
        with self._lock:
            call, self._call = self._call, None
        if call is not None:
            call.end()


class _Call:
    """One call, until it breaks."""

    def __init__(
        self, client: flight.FlightClient, writer: flight.FlightStreamWriter, reader: flight.FlightStreamReader
    ) -> None:
        self.client: Final = client
        self._writer: Final = writer
        self._reader: Final = reader
        self._schema: pa.Schema | None = None
        self.given_up = False

    def takes(self, rows: pa.RecordBatch | None) -> bool:
        """All rows of a call have the same columns."""
        return rows is None or self._schema is None or rows.schema.equals(self._schema, check_metadata=True)

    def ask(self, said: bytes, rows: pa.RecordBatch | None) -> bytes | None:
        if rows is None:
            self._writer.write_metadata(said)
        else:
            if self._schema is None:
                self._schema = rows.schema
                self._writer.begin(rows.schema)
            self._writer.write_with_metadata(rows, said)
        try:
            return bytes(self._reader.read_chunk().app_metadata)
        except StopIteration:
            return None

    def give_up(self) -> None:
        self.given_up = True
        self._reader.cancel()

    def end(self) -> None:
        self._reader.cancel()
        with suppress(*CONNECTION_ERRORS):
            self._writer.close()
