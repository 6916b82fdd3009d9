"""Colours and widths, in one place: what a terminal can show is used there, and nowhere else.

Colours say something again that the words say already: green is well, yellow waits, red needs someone, dim is beside
the point. They are left out where the output is no terminal, where the terminal has none (``TERM=dumb``), and where
people do not want them (``NO_COLOR``, with any value).
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console

UNLIMITED: Final = 10_000
"""Columns of a file or a pipe: programs cut lines themselves."""


class Tone(StrEnum):
    """What a colour says, as Rich and the terminal name it."""

    good = "green"
    waits = "yellow"
    bad = "red"
    beside = "bright_black"


STATES: Final = {
    "running": Tone.good,
    "finished": Tone.good,
    "leads": Tone.good,
    "follows": Tone.good,
    "learns": Tone.waits,
    "beginning": Tone.waits,
    "failed": Tone.bad,
    "starting": Tone.waits,
    "restarting": Tone.waits,
    "restarting Spark": Tone.waits,
    "rebuilding": Tone.waits,
    "waiting": Tone.waits,
    "stopping": Tone.waits,
    "stopped": Tone.waits,
    "open": Tone.good,
    "cut": Tone.bad,
}
"""The states of nodes, stages, feeds, writers, links and shared lanes."""


def can_move(stream: TextIO) -> bool:
    """Whether a line that was written can be written again: on a terminal that is not dumb."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    return can_move(stream) and not os.environ.get("NO_COLOR")


def painted(text: str, tone: Tone, *, err: bool = False) -> str:
    """The text in its colour, if the stream that it is for shows colours."""
    return typer.style(text, fg=tone.value) if has_colours(sys.stderr if err else sys.stdout) else text


def console() -> Console:
    """Where tables are drawn: as wide as the terminal; elsewhere as wide as they are."""
    from rich.console import Console

    live, coloured = sys.stdout.isatty(), has_colours(sys.stdout)
    return Console(
        highlight=False,
        force_terminal=live,
        color_system="auto" if coloured else None,
        width=None if live or "COLUMNS" in os.environ else UNLIMITED,
    )
