"""Which nodes of a deployment have copies of a stream, for clients that read all of them."""

from __future__ import annotations

from anabranch.deploy.plan import Plan
from anabranch.errors import StreamNotFound
from anabranch.model.ids import QueryId, StreamId, query_of
from anabranch.model.names import LATE_SUFFIX
from anabranch.query.query_plan import QueryPlan


def copies_of(plan: Plan, name: str) -> tuple[list[str], str]:
    """The addresses of the nodes that have a copy of this stream, as the deployment has them, and its id.

    The query may be left out where only one has such a stream.
    """
    asked, stream = query_of(name)
    queries = plan.queries if asked is None else {key: query for key, query in plan.queries.items() if key == asked}
    found = {key: nodes for key, query in queries.items() if (nodes := _nodes(query, stream))}
    if not found:
        known = sorted(
            str(StreamId(QueryId(key), each)) for key, query in plan.queries.items() for each in query.copies
        )
        raise StreamNotFound(
            f"No query of this deployment has a stream {name!r}.", remedy=f"Streams: {', '.join(known)}."
        )
    if len(found) > 1:
        raise StreamNotFound(
            f"Several queries of this deployment have a stream {stream!r}.",
            remedy=f"Name one of: {', '.join(str(StreamId(QueryId(key), stream)) for key in sorted(found))}.",
        )
    ((query, nodes),) = found.items()
    return [str(plan.nodes[node].address) for node in nodes], str(StreamId(QueryId(query), stream))


def _nodes(query: QueryPlan, stream: str) -> tuple[str, ...]:
    """Late rows are where their source is."""
    return query.copies.get(stream) or query.copies.get(stream.removesuffix(LATE_SUFFIX), ())
