"""How a process ended, in words."""

from __future__ import annotations

import signal
from contextlib import suppress


def how_it_ended(code: int) -> str:
    """``was killed by SIGKILL``, from the return code of a process; a shell adds 128 to the number of a signal."""
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        return f"was killed by {signal.Signals(number).name}"
    return f"exited with code {code}"
