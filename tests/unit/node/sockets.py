"""Plain TCP for tests of relays: a server that answers what it is told to, and clients that connect to an address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.waiting import HANG_S

Handler = Callable[[socket.socket], None]


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


class Server:
    """A thread for each connection. ``accepted`` counts them."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._open: list[socket.socket] = []
        self.accepted = 0
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.accepted += 1
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._handle(connection)


@contextmanager
def serving(handle: Handler = echo) -> Iterator[Server]:
    server = Server(handle)
    try:
        yield server
    finally:
        server.close()


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=HANG_S)


def received(connection: socket.socket, size: int) -> bytes:
    """This many bytes, or as many as there are before the end."""
    parts, left = [], size
    while left and (data := connection.recv(min(left, 1 << 20))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def is_silent(connection: socket.socket, seconds: float) -> bool:
    """Whether nothing comes, not even an end, for so long."""
    connection.settimeout(seconds)
    try:
        connection.recv(1, socket.MSG_PEEK)
        return False
    except TimeoutError:
        return True
    finally:
        connection.settimeout(HANG_S)
