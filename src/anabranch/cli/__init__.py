"""The command line: one module per verb, which reads arguments, calls the library and prints. No logic.

Exit codes: 0 done (also after SIGTERM and ``--for``), 2 what you wrote or sent must change, 3 whoever runs the node
must act, 70 a bug, 130 ended by Ctrl-C. Spark, Arrow and Rich are imported inside of the verbs that need them, so that
``--help`` and mistyped options are answered at once.
"""

from __future__ import annotations

from anabranch.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """The entry point of the ``anabranch`` program."""
    app(prog_name="anabranch")
