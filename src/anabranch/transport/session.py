"""The conveniences for people and scripts: connect to a node, look, push, produce, subscribe.

    with connect("127.0.0.1:7700") as node:
        node.push("ping", [{"source": "a", "target": "b", "rtt_ms": 12.5}])
        for batch in node.subscribe("slow_per_target", start="start"):
            ...

A ``Connection`` may be used by several threads; its producers and subscriptions each by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from anabranch.errors import ConfigError, NodeUnreachable, NotLeading, PushRefused
from anabranch.model.position import Position
from anabranch.transport.client import TIMEOUT_S, Client
from anabranch.transport.ports import Push, PushAnswer, StreamInfo
from anabranch.transport.producer import Producer, added, rebased
from anabranch.transport.retry import DEADLINE_S, Retry
from anabranch.transport.rows import Rows, to_batches
from anabranch.transport.subscription import Subscription
from anabranch.transport.wire import data_schema

__all__ = ["Connection", "Producer", "Subscription", "connect"]


def connect(address: str | Sequence[str], *, timeout_s: float = TIMEOUT_S) -> Connection:
    """A connection to the node at ``host:port``. The first call uses it, so the node may still be starting.

    With several addresses, those of the other entry points of a source, pushes go to the next when one is lost.
    """
    addresses = [address] if isinstance(address, str) else list(address)
    if not addresses:
        raise ConfigError("There is no address to connect to.", remedy="Give at least one, as host:port.")
    client, *others = (Client(each, timeout_s=timeout_s) for each in addresses)
    return Connection(client, *others)


class Connection:
    """What a client can do with a node. ``others`` are further entry points, where rows can be pushed."""

    def __init__(self, client: Client, *others: Client) -> None:
        self.client: Final = client
        self._clients: Final = [client, *others]
        self._pushes_to = client

    @property
    def address(self) -> str:
        return self.client.address

    def streams(self) -> list[StreamInfo]:
        return self.client.streams()

    def status(self) -> dict[str, object]:
        return self.client.status()

    def push(self, source: str, rows: Rows) -> PushAnswer:
        """Push rows without numbers: what is answered is durable; what is not answered may be or not.

        Rows are a pyarrow Table or RecordBatch, a pandas DataFrame, or a list of dicts. Large ones go in several
        batches, each accepted or refused whole. Use a ``producer`` to send again without harm. Of several entry points,
        the one that leads is found; what may have reached one that is lost is not sent to another.
        """
        total = PushAnswer()
        done = 0
        for batch in to_batches(rows, self.source_schema(source)):
            try:
                answer = self._push(Push(source=source, rows=batch, count=batch.num_rows))
            except PushRefused as error:
                raise rebased(error, done) from error
            except NodeUnreachable as error:
                self._turn_to_next()
                raise _unsure(error, done, batch.num_rows) from error
            total = added(total, answer)
            done += batch.num_rows
        return total

    def source_schema(self, source: str) -> pa.Schema:
        """The columns that rows of a source have; the first entry point that answers says it."""
        for _ in self._clients[1:]:
            try:
                return data_schema(self._pushes_to.stream(source).schema)
            except NodeUnreachable:
                self._turn_to_next()
        return data_schema(self._pushes_to.stream(source).schema)

    def _push(self, push: Push) -> PushAnswer:
        retry = Retry(DEADLINE_S if len(self._clients) > 1 else 0.0)
        while True:
            try:
                return self._pushes_to.push(push)
            except NotLeading as error:  # nothing was kept
                self._turn_to_next()
                retry.wait_after(error)

    def _turn_to_next(self) -> None:
        at = self._clients.index(self._pushes_to)
        self._pushes_to = self._clients[(at + 1) % len(self._clients)]

    def producer(self, source: str, name: str, *, deadline_s: float = DEADLINE_S) -> Producer:
        """Push exactly once, also across restarts of the node and of this program: see ``Producer``."""
        client, *others = self._clients
        return Producer(client, source, name, others=others, deadline_s=deadline_s)

    def subscribe(
        self,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> Subscription:
        """Read a stream from ``start``, ``end`` or ``incarnation:id``, also across restarts of the node."""
        return Subscription(self.client, stream, start=start, follow=follow, reader=reader, deadline_s=deadline_s)

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _unsure(error: NodeUnreachable, done: int, count: int) -> NodeUnreachable:
    return NodeUnreachable(
        f"{error.message} Of the push, {done} rows are durable; of the next {count} it is not known.",
        remedy="Push with a producer name: then sending again is harmless.",
    )
