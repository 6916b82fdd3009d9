"""The other nodes that this one talks to: one connection to each, whatever is said on it."""

from __future__ import annotations

import threading

from anabranch.node.part import Route
from anabranch.transport.client import Client


class Neighbours:
    """``route`` says at which address a node is reached. Any thread may use it."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._clients: dict[str, Client] = {}
        self._lock = threading.Lock()

    def client(self, node: str, address: str) -> Client:
        """``address`` is that of the deployment."""
        with self._lock:
            if node not in self._clients:
                self._clients[node] = Client(self._route(node, address), called=address)
            return self._clients[node]

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
