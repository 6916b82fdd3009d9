"""Named places where a crash test may stop the process exactly.

A crash test needs to end a node *between* two steps, not near them. ``reach("name")`` marks such a place. With
``ANABRANCH_FAILPOINT=name:3`` in the environment the process stops itself (SIGSTOP, all threads at once) the third time
it gets there; the test sees that it stopped and kills the whole process tree. Without the variable it does nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

NAMES: Final = (
    "stage.offsets_written",  # Spark wrote offsets/N; the log transaction has not begun
    "stage.logged",  # the log transaction is durable; Spark has not written commits/N
    "stage.punctuation_pending",  # a batch raised the punctuation and is committed; its empty batch has not begun
    "journal.range",  # a task of Spark is sent a range of a journal, and has not all of it
    "journal.append",  # a stage has written what another will read, in a transaction that is not committed
    "log.trim",  # segments are deleted in a transaction that is not committed
    "push.before_commit",  # a push is written and not committed
    "push.committed",  # a push is durable and not answered
)
CONNECTOR_NAMES: Final = (
    "feed.noted",  # a batch of a spark feed is noted and not pushed
    "writer.intended",  # a batch of Spark's writer is noted and not written
    "writer.written",  # a writer has made tuples durable and not acknowledged them
)
"""Places that are reached only where a source has a feed or an output a writer."""

REBUILD_NAMES: Final = (
    "rebuild.arrived",  # a peer's state has arrived and is durable; the old one is in its place
    "rebuild.decided",  # the arrived state counts; nothing of it is in its place
    "rebuild.installing",  # some of it is in its place
)
"""Places that are reached only by a node that is rebuilt from a peer."""

_name, _, _count = os.environ.get("ANABRANCH_FAILPOINT", "").partition(":")
_left = int(_count or 1)
_lock = threading.Lock()


def reach(name: str) -> None:
    """Stop the process here if the environment asked for this place and its count has come."""
    global _left
    if name != _name:
        return
    with _lock:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
