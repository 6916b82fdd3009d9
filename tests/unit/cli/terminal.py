"""The program on a terminal: a pseudo terminal of a chosen width, and what it shows there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(*arguments: str, columns: int = 80, typed: bytes = b"", **environment: str) -> tuple[int, str]:
    """``anabranch`` with these arguments: its exit code and everything that was shown, with its escape sequences."""
    return shown_by("-m", "anabranch.cli", *arguments, columns=columns, typed=typed, **environment)


def shown_by(*arguments: str, columns: int = 80, typed: bytes = b"", **environment: str) -> tuple[int, str]:
    """Python with these arguments; ``typed`` waits for it on the keyboard."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=other,
        stdout=other,
        stderr=other,
        env=inherited | {"TERM": "xterm-256color"} | environment,
        start_new_session=True,
    )
    os.close(other)
    os.write(main, typed)
    shown = b""
    while True:
        try:
            shown += os.read(main, 65_536)
        except OSError:  # how Linux tells that nobody holds the other end any more
            break
    os.close(main)
    return process.wait(), shown.decode().replace("\r\n", "\n")


def plain(shown: str) -> str:
    return _STYLE.sub("", shown)
