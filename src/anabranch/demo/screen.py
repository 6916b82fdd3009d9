"""How the demo looks while it runs: a table that moves on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from anabranch.demo.scenario import BUSY, BUSY_CPU, NETWORK, SERVERS

if TYPE_CHECKING:
    from anabranch.demo.play import Play
    from anabranch.demo.summary import Summary

LINE_EVERY_S: Final = 3.0


class TableScreen:
    """One row per server, below it the whole; drawn again a few times a second."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._live.stop()

    def show(self, play: Play) -> None:
        self._live.update(Group(servers_table(play), Text(state_line(play))), refresh=True)


class LineScreen:
    """For files and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = time.monotonic() + LINE_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def show(self, play: Play) -> None:
        if time.monotonic() >= self._next:
            self._next += LINE_EVERY_S
            busy, network = (sum(play.found(output).values()) for output in (BUSY, NETWORK))
            told = f"{state_line(play)}  slow: {busy:,} busy server, {network:,} network"
            self._console.print(told, soft_wrap=True)


def servers_table(play: Play) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("server")
    for name in ("load", "slow pings to it", "it was busy", "network problems"):
        table.add_column(name, justify="right")
    network, busy = play.found(NETWORK), play.found(BUSY)
    for server in SERVERS:
        load = play.servers.loads.get(server, 0.0)
        table.add_row(
            server,
            Text(f"{load:4.0%}", style="bold yellow" if load >= BUSY_CPU else ""),
            f"{network[server] + busy[server]:,}",
            _count(busy[server], "yellow"),
            _count(network[server], "red" if server in play.scenario.bad_path else ""),
        )
    return table


def state_line(play: Play) -> str:
    late = play.latency_now_s
    latency = "" if late is None else f"  latency {late:.2f} s"
    return f"{play.seconds:5.1f} s  in {play.rows_in:,} rows  out {play.rows_out:,}{latency}  now: {play.happening()}"


def summary_table(summary: Summary) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stream")
    table.add_column("rows", justify="right")
    for name, rows in summary.rows_in.items():
        table.add_row(f"in: {name}", f"{rows:,}")
    for name, rows in summary.rows_out.items():
        table.add_row(f"out: {name}", f"{rows:,}")
    return table


def latency_line(summary: Summary) -> str:
    median, high = summary.latency_median_s, summary.latency_p95_s
    if median is None or high is None:
        return "Latency: no results."
    return f"Latency from the push of a row until a reader has its result: median {median:.2f} s, 95 % {high:.2f} s."


def _count(count: int, style: str) -> Text:
    return Text(f"{count:,}" if count else "-", style=style if count else "dim")
