"""What ``anabranch up`` shows: each node while it starts, how to get in and out, and then a table that moves.

Where the output is no terminal there are lines only: what the nodes say, and what becomes of them.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Self

import typer

from anabranch.cli import overview
from anabranch.cli.colours import Tone, can_move, console, painted
from anabranch.cli.waiting import ways_through
from anabranch.deploy.looking import Looker
from anabranch.deploy.looking import overview as look_over
from anabranch.exits import how_it_ended

if TYPE_CHECKING:
    from rich.live import Live

    from anabranch.deploy.supervisor import Change, Supervisor

REFRESH_S: Final = 1.0
"""How often the table is drawn anew: each time every running node is asked."""

ANSWER_S: Final = 0.5
"""How long a node may take to answer: while one is waited for, nothing else is looked at."""

LAST_LINES: Final = 10

_SAID_BETTER: Final = ("running", "stopped")
"""Lines of a node that say what is shown as its state."""


class Scene:
    """Use it as a context manager; ``update`` it with what has changed."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._plan = supervisor.plan
        self._looker = Looker(supervisor.plan, answer_s=ANSWER_S)
        self._began = time.monotonic()
        self._all_ran = False
        self._notes: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._drawn = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        typer.echo(f"{len(self._plan.nodes)} nodes of {self._supervisor.file}")
        if can_move(sys.stdout):
            from rich.live import Live

            self._live = Live(console=console(), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._live is not None:
            self._live.stop()
        self._looker.close()

    def update(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.state == "ended":
                self._tell_end(change)
        for name in self._plan.nodes:
            self._tell_news(name)
        states = {name: facts["state"] for name, facts in self._supervisor.statistics().items()}
        for name, state in states.items():
            if self._states.get(name) != state:
                self._say(name, painted(state, Tone.good) if state == "running" else state)
        self._states = states
        if not self._all_ran and set(states.values()) == {"running"}:
            self._all_ran = True
            self._echo(f"all nodes running after {self._seconds()}\n{ways_through(self._plan, self._supervisor.file)}")
        if self._live is not None and time.monotonic() - self._drawn >= REFRESH_S:
            self._draw(self._live)

    def tell_fault(self, text: str) -> None:
        """What a fault script does."""
        self._say("faults", text)

    def _tell_news(self, name: str) -> None:
        """Lines of a node that starts are what it is at; on a terminal they stand in the table."""
        child = self._supervisor.child(name)
        for line in map(_without_time, child.new_lines()):
            if line in _SAID_BETTER:
                continue
            if child.state != "starting" or self._live is None:
                self._say(name, line)
            else:
                self._notes[name] = line
        if child.state != "starting":
            self._notes.pop(name, None)

    def _tell_end(self, change: Change) -> None:
        how = "" if change.code is None else f": it {how_it_ended(change.code)}"
        child = self._supervisor.child(change.node)
        told = "".join(f"\n  {line}" for line in child.last_lines(LAST_LINES))
        label = painted(f"{change.node} ended unexpectedly{how}", Tone.bad)
        self._echo(f"{label}. Full log: {child.log}. Last lines:{told or ' nothing'}")

    def _draw(self, live: Live) -> None:
        answering = [name for name, state in self._states.items() if state == "running"]
        found = look_over(self._plan, self._looker.ask(answering), self._supervisor.statistics())
        live.update(overview.nodes_table(found.nodes, self._notes), refresh=True)
        self._drawn = time.monotonic()

    def _say(self, name: str, text: str) -> None:
        self._echo(f"{painted(self._seconds(), Tone.beside)}  {name}: {text}")

    def _echo(self, text: str) -> None:
        if self._live is None:
            typer.echo(text)
        else:
            from rich.text import Text

            self._live.console.print(Text.from_ansi(text), soft_wrap=True)

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:5.1f} s"


def _without_time(line: str) -> str:
    """Without the seconds since the node began: they count from the beginning of all here."""
    return re.sub(r"^\s*[0-9.]+ s  ", "", line).strip()
