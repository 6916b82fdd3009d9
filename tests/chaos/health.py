"""Whether a node of a deployment has come back: it runs, has what it missed, and is read again by those after it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from anabranch.deploy.deployment_status import PlacedQueryStatus
from anabranch.deploy.looking import Found, overview
from anabranch.deploy.plan import Plan
from anabranch.runtime.status import HostStatus, QueryStatus

LAG_ROWS = 200
"""So far behind may a node be that has caught up: while rows come, there is always something on the way."""


def why_not_back(plan: Plan, found: Found, node: str, hurt: Collection[str]) -> str | None:
    """What it still lacks; ``hurt`` are the nodes that are away on purpose, of which nothing can be expected."""
    said = found.get(node)
    if not isinstance(said, HostStatus):
        return f"{node} does not answer"
    if said.state != "running":
        return f"{node} is {said.state}"
    whole = overview(plan, found).queries
    (query,) = whole.values()
    answers = [other.only_query for other in found.values() if isinstance(other, HostStatus)]
    reasons = (*_lanes(node, said.only_query, answers), *_stages(node, query), *_copies(node, query, hurt))
    return next(iter(reasons), None)


def _lanes(node: str, said: QueryStatus, answers: list[QueryStatus]) -> Iterator[str]:
    """An entry point counts when it has learned what the others hold."""
    for source, facts in said.sources.items():
        for origin, lane in facts.lanes.items():
            held = [other.sources[source].lanes[origin].shared.held for other in answers if source in other.sources]
            if lane.shared.state not in ("leads", "follows"):
                yield f"{node} {lane.shared.state} {origin}"
            elif lane.shared.held + LAG_ROWS < max(held):
                yield f"{node} holds {lane.shared.held} entries of {origin}, another {max(held)}"


def _stages(node: str, query: PlacedQueryStatus) -> Iterator[str]:
    for name, fragment in query.fragments.items():
        copy = fragment.copies.get(node)
        if copy is not None and (copy.state != "running" or copy.lag_rows > LAG_ROWS):
            yield f"{name} on {node} is {copy.state}, {copy.lag_rows} rows behind"


def _copies(node: str, query: PlacedQueryStatus, hurt: Collection[str]) -> Iterator[str]:
    """What it reads and what is read of it, except where the other end is away."""
    for stream, facts in query.streams.items():
        for reader, copies in facts.readers.items():
            at = reader.rpartition("@")[2]  # a further replica of a node that reads the stream is named with its stage
            for copy, state in (copies or {}).items():
                if node in (at, copy) and not {at, copy} & set(hurt):
                    lag = state.lag_rows  # None: of another incarnation
                    if state.state != "read" or lag is None:
                        yield f"{reader} does not read the copy of {stream} on {copy}"
                    elif lag > LAG_ROWS:
                        yield f"{reader} is {lag} rows behind the copy of {stream} on {copy}"
