"""The connection to one node: a gRPC channel, and a new one after it was lost.

A channel that could not connect refuses calls at once and tries again by itself, with growing waits. Where gRPC reads
only in threads that wait for an answer (see ``cli/__init__.py``), nobody watches these attempts: a node that has
started meanwhile stays unreachable for ten to twenty seconds. So a channel on which a call was lost is not used for
another one. The next call opens a new channel, which connects at once. How often that happens is up to whoever calls
again, as before.

Calls that are open on the old channel keep it until they end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa
import pyarrow.flight as flight

from anabranch import limits
from anabranch.errors import AnabranchError
from anabranch.transport import failures

CONNECTION_ERRORS: Final = (flight.FlightError, pa.ArrowException, OSError)

KEEPALIVE_MS: Final = 20_000
"""How long a connection with an open call may be silent before it is tested. Not shorter: a gRPC server cuts a client
that pings more than a few times while it has nothing to say, and a push may wait for room for half a minute."""

KEEPALIVE_WAIT_MS: Final = 10_000
"""How long the test may take before the node counts as gone."""

CONNECT_MS: Final = 5_000
"""How long one attempt to connect may take."""

WINDOW_BYTES: Final = 8 << 20
"""Bytes of one read that may be under way: 40 MB/s with a delay of 100 ms each way."""

_OPTIONS: Final = [
    ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
    ("grpc.max_send_message_length", limits.MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),  # gRPC's name for the limit of one attempt
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_WAIT_MS),
    ("grpc.http2.ping_timeout_ms", KEEPALIVE_WAIT_MS),
    ("grpc.http2.max_pings_without_data", 0),  # a reader sends nothing else
    ("grpc.use_local_subchannel_pool", 1),
    # gRPC measures how much may be under way by a ping for what it reads, which costs as much as a small message.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
]


class Channel:
    """Any thread may use it. ``called`` is how errors name the node."""

    def __init__(self, address: str, called: str) -> None:
        self.called: Final = called
        self._address: Final = address
        self._lock: Final = threading.Lock()
        self._flight: flight.FlightClient | None = None
        self._closed = False

    @contextmanager
    def calling(self) -> Iterator[flight.FlightClient]:
        """What to call with. Raises the errors of ``anabranch.errors``."""
        client = self._current()
        try:
            yield client
        except CONNECTION_ERRORS as error:
            raise self.failure(client, error) from error

    def failure(self, client: flight.FlightClient, error: Exception) -> AnabranchError:
        """What it means that a call with ``client`` failed."""
        if failures.is_connection_lost(error):
            with self._lock:
                if self._flight is client and not self._closed:
                    self._flight = None
        return failures.from_flight(error, self.called)

    def close(self) -> None:
        with self._lock:
            self._closed, client = True, self._flight
        if client is not None:
            with suppress(*CONNECTION_ERRORS):
                client.close()

    def _current(self) -> flight.FlightClient:
        with self._lock:
            if self._closed:
                raise failures.unreachable(self.called, "the connection was closed")
            if self._flight is None:
                self._flight = flight.FlightClient(
                    f"grpc://{self._address}", generic_options=_OPTIONS, write_size_limit_bytes=limits.MESSAGE_BYTES
                )
            return self._flight
