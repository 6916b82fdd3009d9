"""``anabranch subscribe``: the rows of a stream, as a table or as JSON lines."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from anabranch.cli import completing
from anabranch.cli.colours import Tone, painted
from anabranch.errors import AnabranchError, ConfigError, NodeUnreachable, StreamNotFound
from anabranch.model.header import HEADER, ID, KIND, ORIGIN, STIME, Kind
from anabranch.model.position import Position

if TYPE_CHECKING:
    from anabranch.transport.session import (
        Connection,
        Connections,
        OrderedSubscription,
        RacingSubscription,
        Subscription,
    )

    Reading = Subscription | RacingSubscription | OrderedSubscription[Any]

ACKNOWLEDGE_S: Final = 1.0
"""How often a named reader says how far it is: each time costs the node one transaction."""

START_WAIT_S: Final = 300.0
"""How long to wait for a node whose Spark is still starting: before that an output has no columns. Several that start
on one small machine take minutes."""

START_LOOK_S: Final = 0.5

ANSWER_S: Final = 1.0
"""How long a node may take to say whether it is starting."""

Row = dict[str, Any]


class Format(StrEnum):
    """How rows are shown."""

    table = "table"
    jsonl = "jsonl"


def subscribe(
    address: Annotated[
        str,
        typer.Argument(metavar="[ADDRESS]", help="The node, as host:port. Omit it with --node or --deployment."),
    ],
    stream: Annotated[
        str | None,
        typer.Argument(metavar="STREAM", help="An output, a source, or SOURCE.late.", autocompletion=completing.stream),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="ADDRESS", help="A node that has a copy of the stream; give all of them."),
    ] = None,
    deployment: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Read the copies of this deployment.", autocompletion=completing.files(".toml")
        ),
    ] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Sort by stream time; rows are as late as the slowest origin.")
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="start|end|INCARNATION:ID",
            help="Where to begin. [default: end; with --no-follow start; with --reader its last position]",
            autocompletion=completing.beginning,
        ),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="[default: table on a terminal, otherwise jsonl]")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Follow new rows, or stop after the existing ones.")] = True,
    reader: Annotated[
        str | None, typer.Option(metavar="NAME", help="Read as a named reader: the log keeps what it has not read.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this many rows.")] = None,
    boundaries: Annotated[bool, typer.Option("--boundaries", help="Also show punctuations.")] = False,
) -> None:
    """Read a stream: existing rows, then new ones.

    With several nodes it reads all copies of the stream at once: each row is shown when the first copy delivers it, and
    a node that is killed, slow or silent causes no delay. Then _id is null, and a position means nothing.

    JSON lines include the header columns: _kind (0 row, 2 boundary), _id, _tid, _stime and _origin. A named reader
    acknowledges its position every second; after a crash the rows since then are repeated, with the same _origin,
    _stime and _tid.

    \b
    Examples:
      anabranch subscribe 127.0.0.1:7700 network_problems
      anabranch subscribe 127.0.0.1:7700 slow_per_target --from start --no-follow --format jsonl > rows.jsonl
      anabranch subscribe network_problems --node a:7700 --node b:7700
      anabranch subscribe paths --deployment examples/planetlab.toml --ordered
    """
    addresses, name = _copies(address, stream, nodes or [], deployment)
    shown = _Shown(name, form or (Format.table if sys.stdout.isatty() else Format.jsonl), boundaries, limit)
    if len(addresses) == 1:
        _read_one(addresses[0], shown, start, follow, reader, ordered)
    else:
        _read_all(addresses, shown, start, follow, reader, ordered)


def _copies(address: str, stream: str | None, nodes: list[str], deployment: Path | None) -> tuple[list[str], str]:
    """From which nodes to read which stream. Where the nodes are named by options, the stream stands alone."""
    if stream is None and not nodes and deployment is None:
        raise ConfigError(
            f"No node given to read {address!r} from.",
            remedy="Write ADDRESS STREAM, or name nodes with --node or --deployment.",
        )
    name, named = (address, []) if stream is None else (stream, [address])
    if deployment is None:
        return [*named, *nodes], name
    if named or nodes:
        raise ConfigError("--node and --deployment both name nodes.", remedy="Leave one of them out.")
    from anabranch.deploy.copies import copies_of
    from anabranch.deploy.plan import load_plan

    return copies_of(load_plan(deployment), name)


class _Shown:
    """What is asked for, and how it is to be shown."""

    def __init__(self, stream: str, form: Format, boundaries: bool, limit: int | None) -> None:
        self.stream = stream
        self._form = form
        self._boundaries = boundaries
        self._limit = limit

    def hint(self, start: str) -> None:
        if start == "end" and sys.stderr.isatty():
            hint = f"waiting for new rows of {self.stream}; Ctrl-C stops, --from start shows existing ones"
            typer.echo(painted(hint, Tone.beside, err=True), err=True)

    def show(self, subscription: Reading, passed: Callable[[list[Row], bool], None], *, ids: bool) -> None:
        """All of it. ``passed`` is told the rows that were shown, and whether they are all that was handed out."""
        names = subscription.schema.names
        show = _table(names, self._boundaries, ids) if self._form is Format.table else _json_lines()
        left = self._limit
        for rows in _rows(subscription, self._boundaries):
            wanted, left = _limited(rows, left)
            if wanted:
                show(wanted)
            passed(wanted, len(wanted) == len(rows))
            if left == 0:
                return
        passed([], True)  # what came twice is not shown, but read


def _read_one(address: str, shown: _Shown, start: str | None, follow: bool, reader: str | None, ordered: bool) -> None:
    from anabranch.transport.session import connect

    with connect(address) as connection:
        begin = start or _default_start(connection, shown.stream, follow, reader)

        def subscribed() -> Subscription | OrderedSubscription[Any]:
            # A literal each: the type of what comes depends on it.
            if ordered:
                return connection.subscribe(shown.stream, start=begin, follow=follow, reader=reader, ordered=True)
            return connection.subscribe(shown.stream, start=begin, follow=follow, reader=reader)

        with _as_soon_as_there(subscribed, connection, shown.stream) as subscription:
            _show_marked(subscription, shown, begin, ids=True)


def _read_all(
    addresses: list[str], shown: _Shown, start: str | None, follow: bool, reader: str | None, ordered: bool
) -> None:
    from anabranch.transport.session import connect

    begin = start or ("end" if follow and reader is None else "start")
    with connect(addresses) as connections:

        def subscribed() -> RacingSubscription | OrderedSubscription[Any]:
            if ordered:
                return connections.subscribe(shown.stream, start=begin, follow=follow, reader=reader, ordered=True)
            return connections.subscribe(shown.stream, start=begin, follow=follow, reader=reader)

        with _as_soon_as_there(subscribed, connections, shown.stream) as subscription:
            _show_marked(subscription, shown, begin, ids=False)


def _show_marked(
    subscription: Subscription | RacingSubscription | OrderedSubscription[Any], shown: _Shown, begin: str, *, ids: bool
) -> None:
    """Whatever ends it, what was shown is acknowledged."""
    shown.hint(begin)
    marks = _Marks(subscription)
    try:
        shown.show(subscription, marks.passed, ids=ids)
    finally:
        marks.store()


def _default_start(connection: Connection, stream: str, follow: bool, reader: str | None) -> str:
    known = _reader_position(connection, stream, reader) if reader else None
    if known is not None:
        return known
    return "end" if follow and reader is None else "start"


def _reader_position(connection: Connection, stream: str, reader: str) -> str | None:
    """Where a named reader was when it last said so."""
    try:
        found = connection.client.stream(stream).id
    except AnabranchError:  # it is not there yet; the subscription waits for it
        return None
    query = connection.status().queries.get(found.query)
    log = None if query is None else query.streams.get(found.stream)
    if log is None or reader not in log.readers:
        return None
    return str(Position(log.incarnation, log.last_id - log.readers[reader].lag_rows))


def _as_soon_as_there(subscribed: Callable[[], Any], connection: Connection | Connections, stream: str) -> Any:
    """The subscription, as soon as the stream is there: while Spark starts, outputs are not."""
    deadline = time.monotonic() + START_WAIT_S
    _say_what_it_waits_for(connection, stream)
    while True:
        try:
            return subscribed()
        except (StreamNotFound, NodeUnreachable):
            if not _is_starting(connection) or time.monotonic() > deadline:
                raise
        time.sleep(START_LOOK_S)


def _say_what_it_waits_for(connection: Connection | Connections, stream: str) -> None:
    """The subscription itself waits for a minute, and says nothing meanwhile. The first node that answers can tell."""
    state = next(_states(connection), None)
    if state is None:
        typer.echo(f"waiting for {stream}: no node answers yet", err=True)
    elif state == "starting":
        typer.echo(f"waiting for {stream}: its node is starting", err=True)


def _is_starting(connection: Connection | Connections) -> bool:
    """Whether the node is, or any of several."""
    return "starting" in _states(connection)


def _states(connection: Connection | Connections) -> Iterator[str]:
    """Of the nodes that answer, one after the other; where there are several, a paused one is not waited for long."""
    from anabranch.transport.client import TIMEOUT_S, Client
    from anabranch.transport.session import Connection

    clients = [connection.client] if isinstance(connection, Connection) else connection.clients
    timeout_s = TIMEOUT_S if len(clients) == 1 else ANSWER_S
    for address in [client.address for client in clients]:
        with suppress(AnabranchError), Client(address, timeout_s=timeout_s) as client:
            yield client.status().state


def _rows(subscription: Reading, boundaries: bool) -> Iterator[list[Row]]:
    """The rows of each batch that are to be shown, maybe none."""
    from anabranch.cli.shown import rows

    for batch in subscription:
        yield [row for row in rows(batch) if boundaries or row[KIND] != Kind.BOUNDARY]


def _limited(rows: list[Row], left: int | None) -> tuple[list[Row], int | None]:
    """At most so many of them, and how many may follow; boundaries do not count."""
    if left is None:
        return rows, None
    tuples = [number for number, row in enumerate(rows, start=1) if row[KIND] != Kind.BOUNDARY]
    if len(tuples) < left:
        return rows, left - len(tuples)
    return rows[: tuples[left - 1]], 0


def _table(names: list[str], boundaries: bool, ids: bool) -> Any:
    from anabranch.cli.shown import GrowingTable

    wanted = {ID: ids, KIND: boundaries, ORIGIN: boundaries}
    header = [name for name in (KIND, ID, STIME, ORIGIN) if wanted.get(name, True)]
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

    def __init__(self, subscription: Reading) -> None:
        self._subscription = subscription
        self._place: Any = None
        self._stored: Any = None
        self._stored_at = time.monotonic()

    def passed(self, rows: list[Row], whole: bool) -> None:
        from anabranch.transport.session import Subscription

        if whole:
            self._place = self._subscription.place
        elif isinstance(self._subscription, Subscription) and self._subscription.position is not None:
            # The ids of one log say where within a batch it was ended.
            ids = [row[ID] for row in rows if row[ID] is not None]
            self._place = Position(self._subscription.position.incarnation, max(ids))
        if time.monotonic() - self._stored_at >= ACKNOWLEDGE_S:
            self.store()

    def store(self) -> None:
        self._stored_at = time.monotonic()
        if self._subscription.reader is None or not self._place or self._place == self._stored:
            return
        self._subscription.acknowledge(self._place)
        self._stored = self._place
