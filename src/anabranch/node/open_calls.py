"""The calls that are under way in a part of a query, so that it can be closed while its host goes on serving others.

The files of a part are closed under nobody: whoever is inside is asked to end and waited for, whoever comes is told to
try again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final, TypeVar

from anabranch.errors import NodeUnreachable

T = TypeVar("T")


class OpenCalls:
    """Closed at first; ``name`` is that of the query, or of the part of it. Any thread may use it."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._lock: Final = threading.Lock()
        self._changed: Final = threading.Condition(self._lock)
        self._open = 0
        self._lets_in = False

    @property
    def lets_in(self) -> bool:
        return self._lets_in

    def open(self) -> None:
        with self._lock:
            self._lets_in = True

    def close(self) -> None:
        """Nobody comes in any more; ``wait_over`` waits for those who are."""
        with self._lock:
            self._lets_in = False

    def wait_over(self, timeout_s: float) -> bool:
        with self._lock:
            return self._changed.wait_for(lambda: self._open == 0, timeout_s)

    def inside(self) -> OpenCalls:
        """To be used in a ``with`` statement: the call is under way for as long as the block runs."""
        return self

    def __enter__(self) -> None:
        with self._lock:
            self._check()
            self._open += 1

    def __exit__(self, *exc_info: object) -> None:
        with self._lock:
            self._open -= 1
            self._changed.notify_all()

    def reading(self, pieces: Iterator[T]) -> Iterator[T]:
        """The same pieces. A read that ends because the query is closed says so: it is not the end of the stream."""
        try:
            with self.inside():
                yield from pieces
                self._check()
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()

    def _check(self) -> None:
        if not self._lets_in:
            raise NodeUnreachable(
                f"{self._name} is starting, being rebuilt or stopping.", remedy="Try again in a moment."
            )
