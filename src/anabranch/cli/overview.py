"""A deployment for people: its nodes, the copies of its fragments, and which copy of each stream is ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from anabranch.cli.colours import STATES, Tone
from anabranch.cli.tables import table

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from anabranch.deploy.deployment_status import (
        DeploymentStatus,
        FragmentStatus,
        NodeStatus,
        RoleStatus,
        StreamStatus,
    )
    from anabranch.runtime.status import AlarmStatus


def tables(found: DeploymentStatus) -> Iterator[Table]:
    """All there is, of what ``deploy.looking.overview`` says."""
    yield nodes_table(found.nodes)
    for name, query in found.queries.items():
        yield _fragments(name, query.fragments)
        streams = {stream: facts for stream, facts in query.streams.items() if facts.readers}
        if streams:
            yield _streams(f" of {name}" if len(found.queries) > 1 else "", streams, found.nodes)


def nodes_table(nodes: Mapping[str, NodeStatus], notes: Mapping[str, str] | None = None) -> Table:
    """One line for each node; ``notes`` has what it is at."""
    made = table("nodes", "=node", "=state", "=address", "site", ">rows in", "does", *(["now"] if notes else []))
    for name, node in nodes.items():
        cells: list[str | Text] = [
            name,
            _state(node.state),
            node.address,
            "" if node.site == name else node.site,
            _number(node.rows_in) if any(query.enters for query in node.queries.values()) else "",
            _does(node),
        ]
        made.add_row(*cells, *([notes.get(name, "")] if notes else []))
    return made


def troubles(found: DeploymentStatus) -> Iterator[str]:
    """What went wrong, a sentence each. That a node does not answer which was hurt on purpose is no news."""
    for name, node in found.nodes.items():
        if node.error and node.state not in ("killed", "paused"):
            yield f"node {name}: {node.error}"
        for alarm in alarms(node.alarms):
            yield f"{alarm}; found by {name}"
    several = len(found.queries) > 1
    for name, query in found.queries.items():
        for fragment, facts in query.fragments.items():
            for node_name, copy in facts.copies.items():
                if copy.error:
                    yield f"{f'{name}/' if several else ''}{fragment} on {node_name}: {copy.error}"


def alarms(streams: Mapping[str, AlarmStatus]) -> Iterator[str]:
    """Of the copies of each stream that differ: how often, and where for the last time."""
    for name, alarm in streams.items():
        latest = alarm.latest[-1]
        differ = " and ".join(f"{copy} ({each.rows:,} rows)" for copy, each in latest.copies.items())
        intervals = "1 interval" if alarm.count == 1 else f"{alarm.count:,} intervals, the latest"
        yield (
            f"ALARM: copies of {name} differ in {intervals} from {latest.start} to {latest.end}, tuples of "
            f"{latest.origin}: {differ}"
        )


def _does(node: NodeStatus) -> str:
    """What it runs; where that is of several queries, each with its name."""
    told = {name: "; ".join(_parts(query)) for name, query in node.queries.items()}
    several = len(node.queries) + len(node.others) > 1
    lines = [f"{name}: {parts}" if several else parts for name, parts in told.items()]
    lines += [f"{name}: not in this file" for name in node.others]
    return "\n".join(lines) or "waits for a query"


def _parts(query: RoleStatus) -> Iterator[str]:
    for verb, names in (("takes in", query.enters), ("runs", query.runs), ("writes", query.writes)):
        if names:
            yield f"{verb} {', '.join(names)}"


def _fragments(query: str, fragments: Mapping[str, FragmentStatus]) -> Table:
    made = table(f"fragments of {query}", "fragment", "=copy on", "=state", ">lag rows", ">rows out")
    for name, fragment in fragments.items():
        for number, (node, copy) in enumerate(fragment.copies.items()):
            numbers = (_number(copy.lag_rows), _number(copy.rows_out))
            made.add_row("" if number else name, node, _state(copy.state), *numbers)
    return made


def _streams(of: str, streams: Mapping[str, StreamStatus], nodes: Mapping[str, NodeStatus]) -> Table:
    made = table(
        f"streams{of} between nodes", "stream", "=read by", "=copy of", "=state", ">lag rows", ">first", ">of all"
    )
    for name, stream in streams.items():
        for reader, copies in stream.readers.items():
            if copies is None:
                made.add_row(name, reader, "", _state(nodes[reader].state))
                continue
            total = sum(facts.first for facts in copies.values())
            for number, (copy, facts) in enumerate(copies.items()):
                head = ("", "") if number else (name, reader)
                share = f"{facts.first / total:.0%}" if total else "-"
                made.add_row(*head, copy, _state(facts.state), _number(facts.lag_rows), f"{facts.first:,}", share)
    return made


def _state(state: str) -> Text:
    from rich.text import Text

    own = {"read": Tone.good, "away": Tone.bad, "unreachable": Tone.bad, "killed": Tone.bad, "ended": Tone.bad}
    return Text(state, style=STATES.get(state, own.get(state, Tone.waits)))


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
