"""A node as a process of its own: ``anabranch node`` in a session of its own, with its messages in a file.

What becomes of it:

    starting -> running -> paused -> running
        \\          \\          \\
         +----------+----------+--> killed    by ``kill``, with all its processes
                                    ended     by itself; what its session left behind is killed
                                    stopped   by ``stop``

It says that it runs by one line of JSON; until then the last line of its messages is what it is at.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from anabranch.deploy import sessions
from anabranch.errors import ConfigError

LIVING: Final = ("starting", "running", "paused")
TAIL_BYTES: Final = 16_384
TAIL_LINES: Final = 15


class Child:
    """One node. ``look`` notices what has changed; all else is done at once."""

    def __init__(self, name: str, arguments: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name: Final = name
        self.log: Final = log
        self.state = "stopped"
        self.code: int | None = None
        self.starts = 0
        self._arguments = arguments
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""
        self._log_start = self._log_read = 0
        self._has_run = False
        self._since = time.monotonic()

    # --- what can be done to it --------------------------------------------------------------------------------------

    def start(self) -> int:
        """Returns the session."""
        if self.is_alive:
            raise ConfigError(f"The node {self.name} is {self.state}.", remedy="Kill or stop it first.")
        mode = "ab" if self.starts else "wb"
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open(mode) as messages:
                self._log_start = self._log_read = messages.tell()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "anabranch.cli", "node", *self._arguments, "--json"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=messages,
                    env={**os.environ, **self._environment},
                    start_new_session=True,
                )
        except OSError as error:
            raise ConfigError(
                f"The node {self.name} cannot write its log to {self.log}: {error.strerror}.",
                remedy="Give --state a directory that this user can write to.",
            ) from error
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self.starts += 1
        self._said, self._has_run, self.code = b"", False, None
        self._become("starting")
        return self._process.pid

    def kill(self) -> None:
        self._need(*LIVING)
        sessions.kill(self.session)
        self._reap("killed")

    def pause(self) -> None:
        self._need("starting", "running")
        sessions.freeze(self.session)
        self._become("paused")

    def resume(self) -> None:
        self._need("paused")
        sessions.thaw(self.session)
        self._become("running" if self._has_run else "starting")

    def ask_stop(self) -> None:
        """To stop cleanly: only the node itself is told, because its JVM has to last until then."""
        if self.state == "paused":
            self.resume()
        if self.state in LIVING and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Whatever is left of it."""
        if self._process is not None:
            sessions.kill(self.session)
            self._reap("stopped")

    # --- looking -----------------------------------------------------------------------------------------------------

    def look(self) -> bool:
        """Whether its state has changed since the last look."""
        before = self.state
        process = self._process
        if process is None or self.state not in LIVING:
            return False
        if self.state == "starting" and self._says_that_it_runs():
            self._become("running")
        if process.poll() is not None:
            sessions.kill(self.session)
            self._reap("ended")
        return self.state != before

    @property
    def session(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self.state in LIVING

    def last_lines(self, count: int = TAIL_LINES) -> list[str]:
        """Of what it said since it was started."""
        return _lines(self._read_log(self._log_start)[1])[-count:]

    def new_lines(self) -> list[str]:
        """What it said since this was asked last, as far as lines are complete; of much only the end."""
        start, text = self._read_log(self._log_read)
        whole = text[: text.rfind(b"\n") + 1]
        self._log_read = start + len(whole)
        return _lines(whole)

    def _read_log(self, start: int) -> tuple[int, bytes]:
        """The end of its messages that is not before ``start``, and where that begins."""
        try:
            with self.log.open("rb") as file:
                start = max(start, file.seek(0, os.SEEK_END) - TAIL_BYTES)
                file.seek(start)
                return start, file.read()
        except OSError:
            return start, b""

    def statistics(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "pid": self.session if self.is_alive else None,
            "since_s": round(time.monotonic() - self._since, 1),
            "starts": self.starts,
            "code": self.code,
            "log": str(self.log),
        }

    # --- inside ------------------------------------------------------------------------------------------------------

    def _says_that_it_runs(self) -> bool:
        assert self._process is not None
        assert self._process.stdout is not None
        while more := self._process.stdout.read(4096):  # None: nothing yet; empty: closed
            self._said += more
        self._has_run = b"\n" in self._said
        return self._has_run

    def _reap(self, state: str) -> None:
        assert self._process is not None
        self.code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._become(state)

    def _become(self, state: str) -> None:
        self.state, self._since = state, time.monotonic()

    def _need(self, *states: str) -> None:
        if self.state not in states:
            remedy = {"paused": "Only a paused node can be resumed."}.get(states[0], "Restart it first.")
            raise ConfigError(f"The node {self.name} is {self.state}.", remedy=remedy)


def _lines(text: bytes) -> list[str]:
    return [line for line in text.decode(errors="replace").splitlines() if line.strip()]
