"""What ``anabranch run`` says: what the start waits for, how to reach the node, and one line while it runs."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import typer

from anabranch.cli.colours import Tone, can_move, painted

if TYPE_CHECKING:
    from rich.status import Status

    from anabranch.deploy.plan import Plan
    from anabranch.query.boxes import Diagram, Source
    from anabranch.runtime.status import HostStatus

_SAMPLES: Final[dict[str, object]] = {
    "boolean": True,
    "string": "a",
    "binary": "YQ==",
    "float": 1.5,
    "double": 1.5,
    "date": "2026-01-31",
    "timestamp": "2026-01-31T12:00:00Z",
}


class Waiting:
    """Lines that say what the start waits for, with the seconds since it began; on a terminal the last one moves.

    ``between`` is called after each line: it may end the start by raising. ``done`` is the last line. With ``err`` all
    goes to standard error, because standard output is for a script.
    """

    def __init__(self, between: Callable[[], None] = lambda: None, *, done: str = "running", err: bool = False) -> None:
        self._between = between
        self._done = done
        self._err = err
        self._began = time.monotonic()
        self._for = ""
        self._for_since = ""
        self._spinner: Status | None = None

    def progress(self, text: str) -> None:
        if text != self._for:
            self._end_step()
            self._for, self._for_since = text, self._seconds()
            if self._spinner is None:
                self._say(self._for_since, text)
        self._between()

    def __rich__(self) -> str:
        return f"{self._seconds()}  {self._for}"

    def __enter__(self) -> Self:
        if can_move(sys.stderr if self._err else sys.stdout):
            from rich.console import Console

            self._spinner = Console(stderr=self._err, highlight=False).status(self)
            self._spinner.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end_step()
        if self._spinner is not None:
            self._spinner.stop()
        if exc_info[0] is None:
            self._say(self._seconds(), painted(self._done, Tone.good, err=self._err))

    def _end_step(self) -> None:
        """The line that moved stays, as it would have been written without a terminal."""
        if self._spinner is not None and self._for:
            self._say(self._for_since, self._for)

    def _say(self, seconds: str, text: str) -> None:
        typer.echo(f"{painted(seconds, Tone.beside, err=self._err)}  {text}", err=self._err)

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:5.1f} s"


def ways_in_and_out(diagram: Diagram, address: str) -> str:
    """Commands to copy: push a row to each source, read each output, look at the node."""
    pushes = [_push_command(source, address) for source in diagram.sources]
    reads = [f"anabranch subscribe {address} {output.name} --from start" for output in diagram.outputs]
    return "\n".join(["", *pushes, *reads, f"anabranch status {address}", ""])


def ways_through(plan: Plan, file: Path) -> str:
    """The same for a deployment: a source is pushed to at all its entry points, an output read from all its copies.

    A source with a feed has its producer: a second one under the same name would end it.
    """
    named = f"--deployment {shlex.quote(_short(file))}"
    lines = [""]
    for query in plan.queries.values():
        before = f"{query.name}/" if len(plan.queries) > 1 else ""
        for source in query.diagram.sources:
            if source.feed is None:
                nodes = query.entrances[source.name].nodes
                addresses = (str(plan.nodes[node].address) for node in nodes)
                lines.append(_push_command(source, *addresses, before=before))
        lines += [f"anabranch subscribe {before}{output.name} {named}" for output in query.diagram.outputs]
    return "\n".join([*lines, f"anabranch status {shlex.quote(_short(file))}", ""])


def _short(file: Path) -> str:
    """As it can be typed here."""
    here = Path.cwd()
    return str(file.resolve().relative_to(here)) if file.resolve().is_relative_to(here) else str(file)


def _push_command(source: Source, address: str, *others: str, before: str = "") -> str:
    row = {column.name: _sample(column.type or "") for column in source.schema}
    producer = f" - --producer {source.producers[0]}" if source.producers else ""
    nodes = "".join(f" --node {other}" for other in others)
    return f"echo {shlex.quote(json.dumps(row))} | anabranch push {address} {before}{source.name}{producer}{nodes}"


def _sample(kind: str) -> object:
    return _SAMPLES.get(kind, "1.5" if kind.startswith("decimal") else 1)


def running_line(status: HostStatus, width: int) -> str:
    """How it goes, in one line; one that is too long for the terminal ends with a sign that it is."""
    queries = status.queries
    lag = sum(stage.lag_rows for query in queries.values() for stage in query.stages.values())
    outputs = {
        f"{name}/{stream}" if len(queries) > 1 else stream: log.rows_in
        for name, query in queries.items()
        for stream, log in query.streams.items()
        if log.kind == "output"
    }
    out = ", ".join(f"{name} {rows:,}" for name, rows in outputs.items())
    note = "" if status.intake == "open" else "INTAKE STOPPED  "
    line = f"{note}up {status.uptime_s:,.0f} s  in {status.rows_in:,} rows  waiting {lag:,}  out: {out}"
    line = line if len(line) <= width else f"{line[: width - 1]}…"
    return painted(note, Tone.bad) + line.removeprefix(note) if note else line
