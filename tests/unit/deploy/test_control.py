"""Asking a running deployment: a line for a line, errors as themselves, and nobody who asks badly does harm."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.deploy.control import Answer, Control, Request, ask
from anabranch.errors import ConfigError, NodeUnreachable


def handle(request: Request) -> Answer:
    if request.get("do") == "add":
        return {"sum": request["a"] + request["b"]}
    raise ConfigError("There is no such thing.", remedy="Ask for another.")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A deployment that answers, as long as the test takes."""
    over = threading.Event()
    with Control(tmp_path / "s") as control:

        def serve() -> None:
            while not over.is_set():
                control.serve(handle, 0.01)

        thread = threading.Thread(target=serve)
        thread.start()
        yield tmp_path / "s"
        over.set()
        thread.join()
    assert not (tmp_path / "s").exists()


def test_a_request_is_answered_and_so_is_the_next(path: Path) -> None:
    assert ask(path, {"do": "add", "a": 1, "b": 2}) == {"sum": 3}
    assert ask(path, {"do": "add", "a": 2, "b": 2}) == {"sum": 4}


def test_an_error_arrives_as_what_it_is(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(path, {"do": "something"})
    assert (caught.value.message, caught.value.remedy) == ("There is no such thing.", "Ask for another.")


@pytest.mark.parametrize("said", [b"", b"no json\n", b"[1]\n", b'{"do": "add"'])
def test_who_asks_badly_harms_nobody(path: Path, said: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(path))
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        assert b'"error": "config"' in connection.recv(4096)
    assert ask(path, {"do": "add", "a": 1, "b": 2}) == {"sum": 3}


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(NodeUnreachable, match="is not responding"):
        ask(tmp_path / "nothing", {"do": "look"})


def test_a_path_that_is_too_long_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TMPDIR"):
        Control(tmp_path / ("x" * 120))
