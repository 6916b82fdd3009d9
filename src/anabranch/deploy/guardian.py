"""A process that outlives a supervisor for a moment: it ends what the supervisor started and could not end.

Whoever supervises holds a pipe to it, and names the sessions that it has started (``+ID``) and seen end (``-ID``).
When the pipe closes, however that came about, the sessions that are left are killed, stopped ones included. A node
loses nothing by that: the next start goes on where it was.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from anabranch.deploy import sessions


class Guardian:
    """The supervisor's side. ``start`` again after ``is_gone``, and name all sessions again."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def is_gone(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def add(self, session: int) -> None:
        self._say(f"+{session}\n")

    def remove(self, session: int) -> None:
        self._say(f"-{session}\n")

    def close(self) -> None:
        """Ends it, and with it what was not removed."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()

    def _say(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):  # then it is gone: the supervisor looks for that
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


def watch(lines: Iterable[str]) -> None:
    """Until the lines end; then kills what is left."""
    guarded: set[int] = set()
    for line in lines:
        session = int(line[1:])
        if line.startswith("+"):
            guarded.add(session)
        else:
            guarded.discard(session)
    for session in guarded:
        sessions.kill(session)


if __name__ == "__main__":
    watch(sys.stdin)
