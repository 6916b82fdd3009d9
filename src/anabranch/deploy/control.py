"""How a running deployment is told to do something: one JSON object in a line, answered by one, over a local socket.

Only this user can reach it (``running`` says where it lies). It is asked between two looks of the supervisor, so that
nothing here needs a thread; a request is answered when it is done.

    {"do": "kill", "node": "wisc"}    ->  {"state": "killed", ...}    or {"error": code, "message": ..., "remedy": ...}
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable

Request = dict[str, Any]
Answer = dict[str, Any]

READ_S: Final = 1.0
"""How long a connection may take to say its line: those who ask are programs of this user."""

ANSWER_S: Final = 120.0
"""How long a request may take: a node with all its processes is killed in a second, and starts in many."""

LINE_BYTES: Final = 1 << 20
_PATH_BYTES: Final = 100
"""What a path of such a socket may have: 108 on Linux, 104 elsewhere."""

_CLASSES: Final = {each.code: each for each in (ConfigError, NodeUnreachable)}


class Control:
    """The side that is asked. ``serve`` waits for requests and hands them on."""

    def __init__(self, path: Path) -> None:
        if len(str(path).encode()) > _PATH_BYTES:
            raise ConfigError(f"{path} is too long for a socket.", remedy="Set TMPDIR to a shorter directory.")
        self._path = path
        path.unlink(missing_ok=True)  # of a process of the same number that was killed
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._socket.setblocking(False)

    def serve(self, handle: Callable[[Request], Answer], wait_s: float) -> None:
        """Answers what is asked within this time; returns after the first."""
        ready, _, _ = select.select([self._socket], [], [], wait_s)
        if not ready:
            return
        connection, _ = self._socket.accept()
        with connection, suppress(OSError):  # whoever asked may be gone
            connection.settimeout(READ_S)
            answer = _answered(handle, _line(connection))
            connection.sendall(json.dumps(answer).encode() + b"\n")

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def ask(path: Path, request: Request) -> Answer:
    """What the deployment answers, or the error that it raised."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(connection))
    except (OSError, ValueError) as error:
        raise NodeUnreachable(
            f"The deployment is not responding: {error}.", remedy="Check that its `anabranch up` is still running."
        ) from error
    if "error" in answer:
        kind = _CLASSES.get(answer["error"], AnabranchError)
        raise kind(answer["message"], remedy=answer["remedy"])
    return dict(answer)


def _answered(handle: Callable[[Request], Answer], line: bytes) -> Answer:
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise ConfigError("A request is one JSON object.", remedy="Use the same version of Anabranch.")
        return handle(request)
    except ValueError as error:
        return {"error": ConfigError.code, "message": f"A request cannot be read: {error}.", "remedy": ""}
    except AnabranchError as error:
        return {"error": error.code, "message": error.message, "remedy": error.remedy}


def _line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < LINE_BYTES:
        more = connection.recv(65_536)
        if not more:
            break
        data += more
    return data
