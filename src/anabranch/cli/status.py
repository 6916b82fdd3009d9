"""``anabranch status``: the state of a node, and what it waits for; or the state of all nodes of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from anabranch.cli import completing, overview
from anabranch.cli.colours import STATES, Tone
from anabranch.cli.tables import print_table, table
from anabranch.model.node_state import NodeState
from anabranch.model.times import CLOSED_US, SECOND, format_duration, format_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from anabranch.deploy.deployment_status import LanePlace
    from anabranch.runtime.status import (
        FeedStatus,
        HostStatus,
        LaneStatus,
        LinkStatus,
        LogStatus,
        QueryStatus,
        SourceStatus,
        StageStatus,
        WriterStatus,
    )

BEHIND_US: Final = 3 * SECOND
"""How far lanes may be apart before one counts as the one that all wait for: idle lanes speak once a second."""

ANSWER_S: Final = 30.0
"""How long a node may take to say how it is: as long as a connection may be silent. A busy one is slow, and Ctrl-C is
there for whoever does not want to wait."""

WAITS: Final = "Windows wait for lane"


def status(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS|FILE",
            help="The node, as host:port; or the file of a deployment.",
            autocompletion=completing.deployment_file,
        ),
    ] = "",
    deployment: Annotated[
        bool,
        typer.Option(
            "--deployment", help="Show all nodes of a deployment: of FILE, or of the one that runs on this machine."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the state of a node or a deployment, and what it waits for.

    For a node: for each of its queries the sources and their lanes, feeds, Spark stages, writers, and streams with
    their readers; and its links to other nodes.

    For a deployment: its nodes, the copies of each fragment with their lag, and for each stream between nodes which
    copies are read, the lag of each reader, and how often each copy was first. Nodes that do not answer are shown as
    unreachable. Without an argument it shows the deployment that `anabranch up` runs on this machine.

    \b
    Examples:
      anabranch status 127.0.0.1:7700
      anabranch status 127.0.0.1:7700 --json | jq '.queries[].stages'
      anabranch status --deployment
      anabranch status examples/planetlab.toml --json | jq .nodes
    """
    if deployment or not address or address.endswith(".toml"):
        _deployment_status(Path(address) if address else None, as_json=as_json)
        return
    from anabranch.runtime.status import to_plain
    from anabranch.transport.session import connect

    with connect(address, timeout_s=ANSWER_S) as connection:
        found = connection.status()
    if as_json:
        _print_json(to_plain(found))
    else:
        _show(lambda console: _draw(console, found))


def _deployment_status(file: Path | None, *, as_json: bool) -> None:
    from anabranch.deploy.looking import look

    found = look(file)
    if as_json:
        _print_json(found.to_plain())
        return

    def draw(console: Console) -> None:
        console.print(f"deployment {found.file}")
        for made in overview.tables(found):
            print_table(console, made)
        console.print()
        for query in found.queries.values():
            lane = slowest_lane(query.lanes) if query.lanes else ""
            if lane.startswith(WAITS):
                _say(console, lane, Tone.waits)
        for trouble in overview.troubles(found):
            _say(console, trouble, Tone.bad)

    _show(draw)


def _print_json(found: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(found, indent=2))


def _show(draw: Callable[[Console], None]) -> None:
    from anabranch.cli.colours import console as make_console

    console = make_console()
    with console.capture() as captured:  # written at once: Rich has its own view of a closed pipe
        draw(console)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _draw(console: Console, found: HostStatus) -> None:
    queries = found.queries
    if not queries:
        node = f"node {found.node} at {found.address}"
        if found.state == NodeState.WAITING:
            _say(console, f"{node} is waiting for a query: anabranch deploy FILE", Tone.waits)
        else:
            _say(console, f"{node}: {found.state}", "")
        return
    _draw_head(console, found)
    for name, query in queries.items():
        if len(queries) > 1:
            console.print()
            console.print(_text(f"query {name}: ").append_text(_state(query.state)))
        _draw_query(console, query)
    if found.links:
        print_table(console, _links(found.links))
    console.print()
    for name, query in queries.items():
        if query.sources:
            lane = slowest_lane(_lanes(found, name))
            _say(console, lane, Tone.waits if lane.startswith(WAITS) else "")
    if found.executors == 0:
        words = "Batches wait for executors: the cluster needs workers with free cores and memory."
        _say(console, words, Tone.waits)
    for trouble in _troubles(found):
        _say(console, trouble, Tone.bad)


def _draw_head(console: Console, found: HostStatus) -> None:
    queries = list(found.queries)
    what = f"query {queries[0]}" if len(queries) == 1 else f"node {found.node} with {len(queries)} queries"
    intake = "" if found.intake == "open" else f"  {found.intake}"
    head = _text(f"{what} at {found.address}: ").append_text(_state(found.state))
    head.append(f", up {_seconds(found.uptime_s)}").append(intake, style=Tone.bad)
    console.print(head)


def _draw_query(console: Console, query: QueryStatus) -> None:
    if query.sources:
        print_table(console, _sources(query.sources))
    if query.peers:
        print_table(console, _shared_lanes(query.sources))
    if query.feeds:
        print_table(console, _feeds(query.feeds))
    if query.stages:
        print_table(console, _stages(query.stages))
    if query.writers:
        print_table(console, _writers(query.writers))
    print_table(console, _streams(query.streams))


def _say(console: Console, sentence: str, style: str) -> None:
    """One line: where it is longer than the terminal, a command in it can still be copied as a whole."""
    console.print(sentence, style=style, markup=False, soft_wrap=True)


def _troubles(found: HostStatus) -> Iterator[str]:
    if found.spark is not None and found.spark.error:
        yield found.spark.error
    for name, query in found.queries.items():
        before = f"query {name}: " if len(found.queries) > 1 else ""
        for trouble in _query_troubles(query):
            yield before + trouble


def _query_troubles(query: QueryStatus) -> Iterator[str]:
    errors = [stage.error for stage in query.stages.values()]
    if query.error and query.error not in errors:
        yield query.error
    for name, stage in query.stages.items():
        if stage.error:
            yield f"stage {name}: {stage.error}"
    for name, peer in query.peers.items():
        if peer.error:
            yield f"entry point {name} cannot be reached: {peer.error}"
    for stream, copies in query.compared.items():
        for name, copy in copies.items():
            if copy.error:
                yield f"{stream} is not compared with the copy on {name}: {copy.error}"
    yield from overview.alarms(query.alarms)
    for name, feed in query.feeds.items():
        if feed.error:
            yield f"feed of {name}: {feed.error}"
    for name, writers in query.writers.items():
        for writer in writers.values():
            if writer.error:
                yield f"writer of {name}: {writer.error}"


def _lanes(found: HostStatus, query: str) -> dict[str, LanePlace]:
    """All lanes that a query has at a node."""
    from anabranch.deploy.deployment_status import LanePlace

    before = f"{query}/" if len(found.queries) > 1 else ""
    return {
        origin: LanePlace.of(lane, address=found.address, source=before + source)
        for source, each in found.queries[query].sources.items()
        for origin, lane in each.lanes.items()
    }


def slowest_lane(lanes: Mapping[str, LanePlace]) -> str:
    """In words: the lane that holds the others, if there is one, and those that are held at the horizon. Each has the
    address where it can be closed."""
    held = [f"{origin} for {lane.waits_for}" for origin, lane in sorted(lanes.items()) if lane.waits_for is not None]
    waiting = f" Rows wait at the horizon: {', '.join(held)}." if held else ""
    return _slowest_lane(lanes) + waiting


def _slowest_lane(lanes: Mapping[str, LanePlace]) -> str:
    open_lanes = {origin: lane for origin, lane in lanes.items() if not lane.closed}
    if not open_lanes:
        return "All lanes are closed: nothing waits."
    slowest = min(open_lanes, key=lambda origin: (open_lanes[origin].punctuation_us, origin))
    first = max(lane.punctuation_us for lane in open_lanes.values())
    lane = open_lanes[slowest]
    name = slowest.partition("/")[2]
    remedy = f"If it has nothing more to send: anabranch source close {lane.address} {lane.source} {name}"
    if lane.punctuation_us == 0:
        return f"{WAITS} {slowest}, which has not sent anything yet. {remedy}"
    behind_us = first - lane.punctuation_us
    if behind_us < BEHIND_US:
        return f"No lane holds the others back. The slowest, {slowest}, is at {format_time(lane.punctuation_us)}."
    silent = _seconds(lane.silent_us / SECOND)
    return (
        f"{WAITS} {slowest}: it is at {format_time(lane.punctuation_us)}, "
        f"{_seconds(behind_us / SECOND)} of stream time behind the first, and silent for {silent}. {remedy}"
    )


def _sources(sources: Mapping[str, SourceStatus]) -> Table:
    made = table("sources", "lane", ">entries", "punctuation", ">silent for", "")
    for name, source in sources.items():
        late = f", {source.late_rows:,} late" if source.late_rows else ""
        made.add_row(name, "", "", "", f"{source.rows_in:,} rows in{late}", style="bold")
        for origin, lane in source.lanes.items():
            made.add_row(
                f"  {origin}",
                f"{lane.next_number - 1:,}",
                _time(lane.punctuation_us),
                "" if lane.closed else _seconds(lane.silent_us / SECOND),
                _lane_note(lane),
            )
    return made


def _lane_note(lane: LaneStatus) -> str:
    if lane.closed:
        return "closed"
    return "" if lane.held is None else f"held: waits for {lane.held.origin}, at {_time(lane.held.punctuation_us)}"


def _shared_lanes(sources: Mapping[str, SourceStatus]) -> Table:
    """The lanes that this node shares with other entry points."""
    made = table("shared lanes", "lane", "=here", "led by", ">term", ">held", ">released", "held by others")
    for source in sources.values():
        for origin, lane in source.lanes.items():
            shared = lane.shared
            if shared is not None:
                others = ", ".join(f"{peer} {held:,}" for peer, held in sorted(shared.peers.items()))
                numbers = (f"{number:,}" for number in (shared.term, shared.held, shared.released))
                made.add_row(origin, _state(shared.state), shared.leader or "nobody", *numbers, others)
    return made


def _feeds(feeds: Mapping[str, FeedStatus]) -> Table:
    made = table("feeds", "source", "=feed", "=state", ">rows in", "position", ">behind")
    for name, feed in feeds.items():
        behind = _seconds(feed.lag_us / SECOND) if feed.lag_us else ""
        made.add_row(name, feed.kind, _state(feed.state), f"{feed.rows:,}", feed.position, behind)
    return made


def _stages(stages: Mapping[str, StageStatus]) -> Table:
    made = table("stages", "stage", "=state", ">lag rows", ">rows out", ">batches", ">batch ms", "waits for")
    for name, stage in stages.items():
        late = f" and {stage.late_rows:,} late" if stage.late_rows else ""
        made.add_row(
            name,
            _state(stage.state),
            f"{stage.lag_rows:,}",
            f"{stage.rows_out:,}{late}",
            f"{stage.batches:,}",
            f"{stage.batch_ms:,.0f}",
            f"{stage.waits_for.origin} at {_time(stage.waits_for.punctuation_us)}",
        )
    return made


def _links(links: Mapping[str, LinkStatus]) -> Table:
    made = table("links", "node", "=state", ">delay", ">jitter", ">rate", ">connections", ">sent", ">received")
    for name, link in links.items():
        rate = link.rate_bytes_s
        made.add_row(
            name,
            _state(link.state),
            *(format_duration(us) if us else "" for us in (link.delay_us, link.jitter_us)),
            "" if rate is None else f"{_size(rate)}/s",
            f"{link.connections:,}",
            *(_size(count) for count in (link.bytes_there, link.bytes_back)),
        )
    return made


def _writers(outputs: Mapping[str, Mapping[str, WriterStatus]]) -> Table:
    made = table("writers", "output", "writer", "=state", ">rows", ">last id", ">lag rows")
    for name, writers in outputs.items():
        for key, writer in writers.items():
            numbers = (f"{number:,}" for number in (writer.rows, writer.position, writer.lag_rows))
            made.add_row(name, key, _state(writer.state), *numbers)
    return made


def _streams(streams: Mapping[str, LogStatus]) -> Table:
    made = table("streams", "stream", "=kind", ">rows", ">size", ">ids", "=incarnation", "readers")
    for stream, log in streams.items():
        readers = [f"{name} ({reader.lag_rows:,} behind)" for name, reader in log.readers.items()]
        readers += [f"{name} (cut off)" for name in log.cut_off]
        made.add_row(
            stream,
            log.kind,
            f"{log.rows:,}",
            _size(log.bytes),
            f"{log.first_id}-{log.last_id}" if log.rows else "-",
            log.incarnation,
            "\n".join(readers),
        )
    return made


def _state(state: str) -> Text:
    return _text(state, STATES.get(state, ""))


def _text(words: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(words, style=style)


def _time(us: int) -> str:
    return "-" if us == 0 else "closed" if us >= CLOSED_US else format_time(us)


def _seconds(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest:.0f} s" if minutes else f"{rest:.1f} s"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
