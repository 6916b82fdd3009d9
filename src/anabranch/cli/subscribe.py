"""``anabranch subscribe``: what comes out of a stream, as a table or as JSON lines."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from anabranch.cli import completing
from anabranch.cli.colours import Tone, painted
from anabranch.errors import StreamNotFound
from anabranch.model.header import HEADER, ID, KIND, ORIGIN, STIME, Kind
from anabranch.model.position import Position

if TYPE_CHECKING:
    from anabranch.transport.session import Connection, Subscription

ACKNOWLEDGE_S: Final = 1.0
"""How often a named reader says how far it is: each time costs the node one transaction."""

START_WAIT_S: Final = 120.0
"""How long to wait for a node whose Spark is still starting: before that an output has no columns."""

START_LOOK_S: Final = 0.5

Row = dict[str, Any]


class Format(StrEnum):
    """How rows are shown."""

    table = "table"
    jsonl = "jsonl"


def subscribe(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The node, as host:port.")],
    stream: Annotated[
        str,
        typer.Argument(metavar="STREAM", help="An output, a source, or SOURCE.late.", autocompletion=completing.stream),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="start|end|INCARNATION:ID",
            help="Where to begin. [default: end; start with --no-follow; with --reader where it was]",
            autocompletion=completing.beginning,
        ),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="[default: table on a terminal, otherwise jsonl]")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Go on with what comes, or end with what there is.")] = True,
    reader: Annotated[
        str | None, typer.Option(metavar="NAME", help="Be a named reader: the log keeps what it has not read.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many rows.")] = None,
    boundaries: Annotated[bool, typer.Option("--boundaries", help="Show punctuations too.")] = False,
) -> None:
    """Read a stream: what is there, then what comes.

    JSON lines carry the header columns: _kind (0 row, 2 boundary), _id, _tid, _stime and _origin. A named reader
    says every second how far it is; after a crash the rows since then come again, with the same _id.

    \b
    Examples:
      anabranch subscribe 127.0.0.1:7700 network_problems
      anabranch subscribe 127.0.0.1:7700 slow_per_target --from start --no-follow --format jsonl > rows.jsonl
    """
    from anabranch.transport.session import connect

    chosen = form or (Format.table if sys.stdout.isatty() else Format.jsonl)
    with connect(address) as connection:
        begin = start or _default_start(connection, stream, follow, reader)
        with _subscription(connection, stream, begin, follow, reader) as subscription:
            if begin == "end" and sys.stderr.isatty():
                hint = f"waiting for new rows of {stream}; Ctrl-C ends, --from start shows those that are there"
                typer.echo(painted(hint, Tone.beside, err=True), err=True)
            show = _table(subscription.schema.names, boundaries) if chosen is Format.table else _json_lines()
            marks = _Marks(connection, subscription)
            try:
                for rows in _limited(_rows(subscription, boundaries), limit):
                    show(rows)
                    marks.passed(rows)
            finally:
                marks.store()


def _default_start(connection: Connection, stream: str, follow: bool, reader: str | None) -> str:
    known = _reader_position(connection, stream, reader) if reader else None
    if known is not None:
        return known
    return "end" if follow and reader is None else "start"


def _reader_position(connection: Connection, stream: str, reader: str) -> str | None:
    """Where a named reader was when it last said so."""
    log: Any = connection.status().get("streams", {})
    log = log.get(stream, {})
    known = log.get("readers", {}).get(reader)
    return str(Position(log["incarnation"], log["last_id"] - known["lag_rows"])) if known else None


def _subscription(connection: Connection, stream: str, start: str, follow: bool, reader: str | None) -> Subscription:
    """The subscription, as soon as the stream is there: while Spark starts, outputs are not."""
    deadline = time.monotonic() + START_WAIT_S
    said = False
    while True:
        try:
            return connection.subscribe(stream, start=start, follow=follow, reader=reader)
        except StreamNotFound:
            starting = connection.status().get("state") == "starting"
            if not starting or time.monotonic() > deadline:
                raise
        if not said:
            typer.echo(f"waiting for {stream}: the node's Spark is still starting", err=True)
            said = True
        time.sleep(START_LOOK_S)


def _rows(subscription: Subscription, boundaries: bool) -> Iterator[list[Row]]:
    from anabranch.cli.shown import rows

    for batch in subscription:
        shown = [row for row in rows(batch) if boundaries or row[KIND] != Kind.BOUNDARY]
        if shown:
            yield shown


def _limited(groups: Iterator[list[Row]], limit: int | None) -> Iterator[list[Row]]:
    """At most ``limit`` rows; boundaries do not count."""
    left = limit
    for rows in groups:
        if left is None:
            yield rows
            continue
        tuples = [number for number, row in enumerate(rows, start=1) if row[KIND] != Kind.BOUNDARY]
        if len(tuples) >= left:
            yield rows[: tuples[left - 1]]
            return
        left -= len(tuples)
        yield rows


def _table(names: list[str], boundaries: bool) -> Any:
    from anabranch.cli.shown import GrowingTable

    header = [KIND, ID, STIME, ORIGIN] if boundaries else [ID, STIME]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    table = GrowingTable([*header, *[name for name in names if name not in HEADER]], width)

    def show(rows: list[Row]) -> None:
        named = [row | {KIND: Kind(row[KIND]).name} for row in rows]
        typer.echo("\n".join(table.lines(named)))

    return show


def _json_lines() -> Any:
    from anabranch.cli.shown import json_line

    def show(rows: list[Row]) -> None:
        typer.echo("\n".join(map(json_line, rows)))

    return show


class _Marks:
    """Says now and then how far a named reader is; says nothing for one without a name."""

    def __init__(self, connection: Connection, subscription: Subscription) -> None:
        self._connection = connection
        self._subscription = subscription
        self._shown_id = 0
        self._stored_id = 0
        self._stored_at = time.monotonic()

    def passed(self, rows: list[Row]) -> None:
        self._shown_id = max([self._shown_id, *(row[ID] for row in rows if row[ID] is not None)])
        if time.monotonic() - self._stored_at >= ACKNOWLEDGE_S:
            self.store()

    def store(self) -> None:
        reader, position = self._subscription.reader, self._subscription.position
        self._stored_at = time.monotonic()
        if reader is None or position is None or self._shown_id <= self._stored_id:
            return
        shown = Position(position.incarnation, self._shown_id)
        self._connection.client.acknowledge(self._subscription.stream, reader, shown)
        self._stored_id = self._shown_id
