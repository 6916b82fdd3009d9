"""The conveniences for people and scripts: connect to a node, look, push, produce, subscribe.

    with connect("127.0.0.1:7700") as node:
        node.push("ping", [{"source": "a", "target": "b", "rtt_ms": 12.5}])
        for batch in node.subscribe("slow_per_target", start="start"):
            ...

    with connect(["10.0.1.5:7700", "10.0.2.5:7700"]) as replicas:
        for batch in replicas.subscribe("slow_per_target", ordered=True):
            ...

A ``Connection`` may be used by several threads; its producers and subscriptions each by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Self, overload

import pyarrow as pa

from anabranch.errors import ConfigError, NodeUnreachable, NotLeading, PushRefused
from anabranch.limits import LEAD_WAIT_S, RELEASE_WAIT_S
from anabranch.model.position import Position
from anabranch.runtime.status import HostStatus
from anabranch.transport.client import TIMEOUT_S, Client
from anabranch.transport.ordering import OrderedSubscription
from anabranch.transport.ports import Push, PushAnswer, StreamInfo
from anabranch.transport.producer import ATTEMPT_S, Producer, added, rebased
from anabranch.transport.racing import Place, RacingSubscription
from anabranch.transport.retry import DEADLINE_S, Retry
from anabranch.transport.rows import Rows, to_batches
from anabranch.transport.subscription import Subscription
from anabranch.transport.wire import data_schema

__all__ = [
    "Connection",
    "Connections",
    "OrderedSubscription",
    "Producer",
    "RacingSubscription",
    "Subscription",
    "connect",
]


@overload
def connect(address: str, *, timeout_s: float = TIMEOUT_S) -> Connection: ...


@overload
def connect(address: list[str] | tuple[str, ...], *, timeout_s: float = TIMEOUT_S) -> Connections: ...


def connect(address: str | list[str] | tuple[str, ...], *, timeout_s: float = TIMEOUT_S) -> Connection | Connections:
    """A connection to the node at ``host:port``, or to several that have copies of the same streams, or are entry
    points of the same sources.

    The first call uses it, so a node may still be starting.
    """
    if isinstance(address, str):
        return Connection(Client(address, timeout_s=timeout_s))
    return Connections([Client(each, timeout_s=timeout_s) for each in address])


class _Entering:
    """What can be done with one entry point of a source or with several. Of several, one that is lost or does not lead
    is left for the next."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients: Final = tuple(clients)
        self._pushes_to = self.clients[0]

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
        for _ in self.clients[1:]:
            try:
                return data_schema(self._pushes_to.stream(source, within_s=ATTEMPT_S).schema)
            except NodeUnreachable:
                self._turn_to_next()
        return data_schema(self._pushes_to.stream(source).schema)

    def _push(self, push: Push) -> PushAnswer:
        retry = Retry(DEADLINE_S if len(self.clients) > 1 else 0.0)
        within_s = LEAD_WAIT_S + RELEASE_WAIT_S if len(self.clients) > 1 else None  # one that lives answers by then
        tried = 0
        while True:
            try:
                return self._pushes_to.push(push, within_s=within_s)
            except NotLeading as error:  # nothing was kept
                self._turn_to_next()
                tried += 1
                if tried % len(self.clients) == 0:  # all are tried before there is a wait
                    retry.wait_after(error)

    def _turn_to_next(self) -> None:
        at = self.clients.index(self._pushes_to)
        self._pushes_to = self.clients[(at + 1) % len(self.clients)]

    def producer(self, source: str, name: str, *, deadline_s: float = DEADLINE_S) -> Producer:
        """Push exactly once, also across restarts of the node and of this program: see ``Producer``."""
        client, *others = self.clients
        return Producer(client, source, name, others=others, deadline_s=deadline_s)

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Connection(_Entering):
    """What a client can do with a node."""

    def __init__(self, client: Client) -> None:
        super().__init__([client])
        self.client: Final = client

    @property
    def address(self) -> str:
        return self.client.address

    def streams(self) -> list[StreamInfo]:
        return self.client.streams()

    def status(self) -> HostStatus:
        return self.client.status()

    @overload
    def subscribe(
        self,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
        ordered: Literal[False] = False,
    ) -> Subscription: ...

    @overload
    def subscribe(
        self,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
        ordered: Literal[True],
    ) -> OrderedSubscription[Position | None]: ...

    def subscribe(
        self,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
        ordered: bool = False,
    ) -> Subscription | OrderedSubscription[Position | None]:
        """Read a stream from ``start``, ``end`` or ``incarnation:id``, also across restarts of the node; ``ordered``
        by stream time, as late as the slowest origin."""
        plain = Subscription(self.client, stream, start=start, follow=follow, reader=reader, deadline_s=deadline_s)
        return OrderedSubscription(plain) if ordered else plain


class Connections(_Entering):
    """What a client can do with several nodes that have copies of the same streams, or are entry points of the same
    sources."""

    def __init__(self, clients: Sequence[Client]) -> None:
        addresses = [client.address for client in clients]
        if not addresses or len(set(addresses)) < len(addresses):
            raise ConfigError(
                f"These are not addresses of copies: {', '.join(addresses) or 'none given'}.",
                remedy="Name each node once, as host:port.",
            )
        super().__init__(clients)
        self._subscriptions: list[RacingSubscription] = []

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(client.address for client in self.clients)

    @overload
    def subscribe(
        self,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
        ordered: Literal[False] = False,
    ) -> RacingSubscription: ...

    @overload
    def subscribe(
        self,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
        ordered: Literal[True],
    ) -> OrderedSubscription[Place]: ...

    def subscribe(
        self,
        stream: str,
        *,
        start: str | Position = "end",
        follow: bool = True,
        reader: str | None = None,
        deadline_s: float = DEADLINE_S,
        ordered: bool = False,
    ) -> RacingSubscription | OrderedSubscription[Place]:
        """Read all copies of a stream from ``start`` or ``end``: whichever brings a tuple first wins, and a copy that
        is killed, slow or silent holds up nobody. ``deadline_s`` is for all of them being away."""
        racing = RacingSubscription(
            self.clients, stream, start=start, follow=follow, reader=reader, deadline_s=deadline_s
        )
        self._subscriptions = [*(each for each in self._subscriptions if not each.is_closed), racing]
        return OrderedSubscription(racing) if ordered else racing

    def close(self) -> None:
        """Also ends its subscriptions."""
        for subscription in self._subscriptions:
            subscription.close()
        super().close()


def _unsure(error: NodeUnreachable, done: int, count: int) -> NodeUnreachable:
    return NodeUnreachable(
        f"{error.message} {done} rows of the push are durable; the next {count} may or may not be.",
        remedy="Push with a producer name: then sending again is harmless.",
    )
