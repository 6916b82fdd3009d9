"""``anabranch status``: how a node is, and whom it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from anabranch.model.times import CLOSED_US, SECOND, format_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BEHIND_US: Final = 3 * SECOND
"""How far lanes may be apart before one counts as the one that all wait for: idle lanes speak once a second."""


def status(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The node, as host:port.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Show how a node is: its sources and lanes, its Spark stages, its streams and their readers.

    \b
    Examples:
      anabranch status 127.0.0.1:7700
      anabranch status 127.0.0.1:7700 --json | jq .stages
    """
    from anabranch.transport.session import connect

    with connect(address) as connection:
        found: dict[str, Any] = connection.status()
    if as_json:
        import json

        typer.echo(json.dumps(found, indent=2))
        return
    _show(found)


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    intake = "" if found["intake"] == "open" else f"  {found['intake']}"
    console.print(
        f"query {found['query']} at {found['address']}: {found['state']}, up {_seconds(found['uptime_s'])}{intake}",
        markup=False,
    )
    _print(console, _sources(found["sources"]))
    if found.get("feeds"):
        _print(console, _feeds(found["feeds"]))
    if found["stages"]:
        _print(console, _stages(found["stages"]))
    if found.get("writers"):
        _print(console, _writers(found["writers"]))
    _print(console, _streams(found["streams"]))
    console.print(slowest_lane(found), markup=False)
    if found.get("executors") == 0:
        console.print("Batches wait for executors: the cluster needs workers with free cores and memory.")
    for name, stage in found["stages"].items():
        if stage["error"]:
            console.print(f"stage {name}: {stage['error']}", markup=False)
    for name, feed in found.get("feeds", {}).items():
        if feed["error"]:
            console.print(f"feed of {name}: {feed['error']}", markup=False)
    for name, writers in found.get("writers", {}).items():
        for writer in writers.values():
            if writer["error"]:
                console.print(f"writer of {name}: {writer['error']}", markup=False)


def slowest_lane(found: dict[str, Any]) -> str:
    """One sentence: the lane that everything waits for, if there is one."""
    lanes = {lane: facts for source in found["sources"].values() for lane, facts in source["lanes"].items()}
    open_lanes = {lane: facts for lane, facts in lanes.items() if not facts["closed"]}
    if not open_lanes:
        return "All lanes are closed: nothing waits."
    slowest = min(open_lanes, key=lambda lane: (open_lanes[lane]["punctuation_us"], lane))
    first = max(facts["punctuation_us"] for facts in open_lanes.values())
    facts = open_lanes[slowest]
    source, _, lane = slowest.partition("/")
    remedy = f"If nothing more comes from it: anabranch source close {found['address']} {source} {lane}"
    if facts["punctuation_us"] == 0:
        return f"Everything waits for lane {slowest}, which has not sent anything yet. {remedy}"
    behind_us = first - facts["punctuation_us"]
    if behind_us < BEHIND_US:
        return f"No lane holds the others. The slowest, {slowest}, is at {format_time(facts['punctuation_us'])}."
    silent = _seconds(facts["silent_us"] / SECOND)
    return (
        f"Everything waits for lane {slowest}: it is at {format_time(facts['punctuation_us'])}, "
        f"{_seconds(behind_us / SECOND)} of stream time behind the first, and silent for {silent}. {remedy}"
    )


def _sources(sources: dict[str, Any]) -> Table:
    table = _table("sources", "lane", ">entries", "punctuation", ">silent for", "")
    for name, source in sources.items():
        late = f", {source['late_rows']:,} late" if source["late_rows"] else ""
        table.add_row(name, f"{source['rows_in']:,} rows in{late}", style="bold")
        for lane, facts in source["lanes"].items():
            closed = facts["closed"]
            table.add_row(
                f"  {lane}",
                f"{facts['next_number'] - 1:,}",
                _time(facts["punctuation_us"]),
                "" if closed else _seconds(facts["silent_us"] / SECOND),
                "closed" if closed else "",
            )
    return table


def _feeds(feeds: dict[str, Any]) -> Table:
    table = _table("feeds", "source", "feed", "state", ">rows in", "position", ">behind")
    for name, feed in feeds.items():
        behind = _seconds(feed["lag_us"] / SECOND) if feed["lag_us"] else ""
        table.add_row(name, feed["kind"], feed["state"], f"{feed['rows']:,}", feed["position"], behind)
    return table


def _stages(stages: dict[str, Any]) -> Table:
    table = _table("stages", "stage", "state", ">lag rows", ">rows out", ">batches", ">batch ms", "waits for")
    for name, stage in stages.items():
        waits = stage["waits_for"]
        table.add_row(
            name,
            stage["state"],
            f"{sum(facts['lag_rows'] for facts in stage['inputs'].values()):,}",
            f"{stage['rows_out']:,}",
            f"{stage['batches']:,}",
            f"{stage['batch_ms']:,.0f}",
            f"{waits['origin']} at {_time(waits['punctuation_us'])}" if waits else "",
        )
    return table


def _writers(outputs: dict[str, Any]) -> Table:
    table = _table("writers", "output", "writer", "state", ">rows", ">last id", ">lag rows")
    for name, writers in outputs.items():
        for key, writer in writers.items():
            numbers = (f"{writer[fact]:,}" for fact in ("rows", "position", "lag_rows"))
            table.add_row(name, key, writer["state"], *numbers)
    return table


def _streams(streams: dict[str, Any]) -> Table:
    table = _table("streams", "stream", "kind", ">rows", ">size", ">ids", "incarnation", "readers")
    for name, log in streams.items():
        readers = [f"{reader} ({facts['lag_rows']:,} behind)" for reader, facts in log["readers"].items()]
        readers += [f"{reader} (cut off)" for reader in log["cut_off"]]
        table.add_row(
            name,
            log["kind"],
            f"{log['rows']:,}",
            _size(log["bytes"]),
            f"{log['first_id']}-{log['last_id']}" if log["rows"] else "-",
            log["incarnation"],
            "\n".join(readers),
        )
    return table


def _table(title: str, *columns: str) -> Table:
    """A plain table; ``>`` before a column's name aligns it to the right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    return table


def _print(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


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
