"""Whether a host may take rows in: not while its disk is full, or nearly so."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

AGAIN_S: Final = 0.01
"""How long what was found holds. Less is pushed meanwhile than the reserve by far, and small pushes that come by the
thousand do not ask the file system each time."""


class DiskWatch:
    """The disk that all queries of a host share. Any thread may use it."""

    def __init__(self, path: Path, free_bytes: Callable[[], int], reserve_bytes: int) -> None:
        self._path = path
        self._free_bytes = free_bytes
        self._reserve_bytes = reserve_bytes
        self._stopped: str | None = None
        self._again_s = 0.0
        """When to look again, by a clock that is never set."""

    @property
    def stopped(self) -> str | None:
        """Why intake has stopped, as far as that was looked at."""
        return self._stopped

    def is_low(self) -> bool:
        return self._free_bytes() < self._reserve_bytes

    def is_full(self, error: Exception) -> None:
        """Somebody could not write."""
        self._stopped = str(error)

    def look(self) -> None:
        self._again_s = time.monotonic() + AGAIN_S
        if not self.is_low():
            self._stopped = None
        elif self._stopped is None:
            free, reserve = self._free_bytes() >> 20, self._reserve_bytes >> 20
            self._stopped = (
                f"Intake has stopped: {free} MiB free under {self._path}, below the reserve of {reserve} MiB."
            )

    def why_no_intake(self) -> str | None:
        """Every push asks: between two looks of a housekeeper much can be pushed."""
        if time.monotonic() >= self._again_s:
            self.look()
        return self._stopped
