"""The other hosts that this one talks to: one connection to each, whatever is said on it, about whichever query.

It is the one place of a host that opens connections to others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from typing import Final

from anabranch.model.ids import QueryId
from anabranch.transport.client import Client

Route = Callable[[str, str], str]
"""The address at which to reach a host, given its name and the address in the deployment."""


def direct(host: str, address: str) -> str:
    """Nothing lies between."""
    return address


class Dialer:
    """``route`` says at which address a host is reached. Any thread may use it."""

    def __init__(self, route: Route) -> None:
        self._route: Final = route
        self._query: QueryId | None = None
        self._clients: Final[dict[tuple[str, str], Client]] = {}
        self._lock: Final = threading.Lock()

    def about(self, query: QueryId) -> Dialer:
        """The same connections, for one query: what is said on them is about its streams."""
        other = copy(self)
        other._query = query
        return other

    def client(self, host: str, address: str) -> Client:
        """``address`` is that of the deployment."""
        with self._lock:
            if (host, address) not in self._clients:
                self._clients[host, address] = Client(self._route(host, address), called=address)
            client = self._clients[host, address]
        return client if self._query is None else client.about(self._query)

    def dial(self, host: str, address: str, timeout_s: float) -> Client:
        """A connection of its own, which ends with whoever has it, for what must not wait for anything else."""
        client = Client(self._route(host, address), timeout_s=timeout_s, called=address)
        return client if self._query is None else client.about(self._query)

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
