"""The links of a node that are emulated, or may be hurt: a relay on loopback for each, all in one thread.

A node connects to another where ``route`` says: at a relay in its own process, which connects to the other node. So
each node has in its hands what it opens itself. A link between two nodes is hurt at both: the connections that the
other one opens pass through the other one's relays. Clients and producers connect directly: what they send is not
delayed, and no fault touches it.

Bytes and connections are counted per link. A node without emulated links, where no faults are allowed, has no thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from anabranch.errors import ConfigError, NodeUnreachable
from anabranch.model.links import Link, LinkFault
from anabranch.node.relay import Relay
from anabranch.runtime.status import LinkStatus


class Relays:
    """``links`` has the other nodes that are reached through a relay. Any thread may use it, until it is closed."""

    def __init__(self, node: str, links: Mapping[str, Link], *, allow_faults: bool) -> None:
        self._node: Final = node
        self._relays: Final = {name: Relay(link) for name, link in links.items()}
        self._allow_faults: Final = allow_faults
        self._lock: Final = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def route(self, node: str, address: str) -> str:
        """Where to connect to, instead of the address of that node."""
        relay = self._relays.get(node)
        if relay is None:
            return address
        with self._lock:
            relay.address = address
            if not relay.listens_at:
                self._run(relay.listen())
        return relay.listens_at

    def set(self, node: str, fault: LinkFault) -> None:
        """Does this to the link with that node; it is done when this returns. ConfigError if that is not allowed."""
        if not self._allow_faults:
            raise faults_refused()
        relay = self._relays.get(node)
        if relay is None:
            known = ", ".join(self._relays) or "none"
            raise ConfigError(f"{self._node} has no link to {node!r}.", remedy=f"It has links to: {known}.")
        with self._lock:
            self._run(relay.set(fault))

    def statistics(self) -> dict[str, LinkStatus]:
        """Per node with a link: how the link is, and what went through it."""
        return {name: relay.statistics() for name, relay in self._relays.items()}

    def close(self) -> None:
        """Resets every connection and ends the thread. Calling it again does nothing."""
        with self._lock:
            self._is_closed = True
            if self._loop is None or self._thread is None:
                return
            for relay in self._relays.values():
                asyncio.run_coroutine_threadsafe(relay.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """In the thread of the loop, which begins with the first work, and waits for it. The lock is held."""
        if self._is_closed:
            work.close()
            raise NodeUnreachable("The node is stopping.", remedy="Try again when it is back.")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=f"links of {self._node}", daemon=True)
            self._thread.start()
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


def faults_refused() -> ConfigError:
    """Why a node does not hurt its links, where it was not said that it may."""
    return ConfigError(
        "Faults are not allowed in this deployment.",
        remedy="Write faults = true in the deployment file, and restart its nodes.",
    )
