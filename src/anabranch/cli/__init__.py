"""The command line: one module per verb, which reads arguments, calls the library and prints. No logic.

Exit codes: 0 done (also a service after SIGTERM and ``--for``), 2 what you wrote or sent must change, 3 whoever runs
the node must act, 70 a bug, 130 ended by Ctrl-C, 143 a measurement ended by SIGTERM. Spark, Arrow and Rich are imported
inside of the verbs that need them, so that ``--help``, mistyped options and the Tab key are answered at once.
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


def main() -> None:
    """The entry point of the ``anabranch`` program."""
    try:
        from anabranch.cli.app import app
        from anabranch.cli.completing import join_words

        join_words(os.environ)
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # that a connection was lost is told by us
        app(prog_name="anabranch")
    except KeyboardInterrupt:  # before a verb has begun
        sys.exit(INTERRUPTED)
