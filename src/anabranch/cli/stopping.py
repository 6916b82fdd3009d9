"""How a verb that runs a node is told to stop.

A signal does not interrupt what is under way, because a call into Spark that is cut in the middle cannot be followed
by another: it is noted, and the next step is a clean stop. A second Ctrl-C ends the process at once, which costs
nothing but time: the next start goes on where this one was.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from anabranch.cli import INTERRUPTED, TERMINATED
from anabranch.errors import OperatorError

_STOPPING: Final = b"\nstopping; Ctrl-C again ends it at once\n"


class StopAsked(BaseException):
    """Someone asked us to stop while the node was starting."""


class Signals:
    """Ctrl-C and SIGTERM while a node runs. ``received`` is the first one, None so far."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._heard, self._rings = os.pipe()
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGTERM, self._handle)

    def wait(self, seconds: float) -> None:
        """Returns sooner when a signal comes. A sleep would not: it goes on after the handler."""
        select.select([self._heard], [], [], seconds)

    def check(self) -> None:
        """Called between two steps of the start."""
        if self.received is not None:
            raise StopAsked

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """What runs in here ends quietly when someone asks for that.

        Whoever stops a service may signal all its processes at once. Then what we have started can be gone before us,
        which looks like a failure and is none.
        """
        try:
            yield
        except StopAsked:
            pass
        except KeyboardInterrupt:  # for a moment of its start, Ctrl-C belongs to Spark
            self.received = signal.SIGINT
        except OperatorError:
            if self.received is None:
                raise

    @property
    def exit_code(self) -> int:
        """Of a service, which runs until it is told to stop."""
        return INTERRUPTED if self.received == signal.SIGINT else 0

    @property
    def cut_short_code(self) -> int:
        """Of a measurement, which is not done then: 0 would say that every bound is kept."""
        return INTERRUPTED if self.received == signal.SIGINT else TERMINATED

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            os.write(self._rings, b"!")
            os.write(sys.stderr.fileno(), _STOPPING)  # the interrupted code may be inside of a print itself
        elif number == signal.SIGINT:
            os._exit(INTERRUPTED)  # the JVM and its workers end when this process does
