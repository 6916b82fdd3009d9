"""The command line: one module per verb, which reads arguments, calls the library and prints. No logic.

Exit codes: 0 done (also a service after SIGTERM and ``--for``), 2 you must change what you wrote or sent, 3 the
operator of the node must act, 70 a bug, 130 ended by Ctrl-C, 143 a measurement ended by SIGTERM. Spark, Arrow and
Rich are imported inside the verbs that need them, so that ``--help``, mistyped options and the Tab key respond at once.
"""

from __future__ import annotations

import os
import sys
from typing import Final

__all__ = ["INTERRUPTED", "TERMINATED", "main"]

INTERRUPTED: Final = 130
"""What a shell expects of a program that Ctrl-C ended: 128 + SIGINT."""

TERMINATED: Final = 143
"""The same for SIGTERM: 128 + SIGTERM."""

GRPC_SETTINGS: Final = {
    "GRPC_VERBOSITY": "ERROR",  # that a connection was lost is told by us
    # gRPC's "event engine" hands a message from thread to thread: 14 wake-ups for a question and its answer, on each
    # side, and half of the processor time of a host at rest. Without it gRPC reads in the thread that waits: 4 to 7.
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
}
"""For this process, and the nodes that it starts; what the environment says counts more."""


def main() -> None:
    """The entry point of the ``anabranch`` program."""
    try:
        from anabranch.cli.app import app
        from anabranch.cli.completing import join_words

        join_words(os.environ)
        for name, value in GRPC_SETTINGS.items():
            os.environ.setdefault(name, value)
        app(prog_name="anabranch")
    except KeyboardInterrupt:  # before a verb has begun
        sys.exit(INTERRUPTED)
