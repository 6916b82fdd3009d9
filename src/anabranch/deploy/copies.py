"""Which nodes of a deployment have copies of a stream, for clients that read all of them."""

from __future__ import annotations

from anabranch.deploy.plan import Plan, QueryPlan
from anabranch.errors import StreamNotFound
from anabranch.model.names import LATE_SUFFIX


def copies_of(plan: Plan, stream: str) -> list[str]:
    """The addresses of the nodes that have a copy of this stream, as the deployment has them."""
    found = {name: nodes for name, query in plan.queries.items() if (nodes := _nodes(query, stream))}
    if not found:
        known = sorted({each for query in plan.queries.values() for each in query.copies})
        raise StreamNotFound(
            f"No query of this deployment has a stream {stream!r}.", remedy=f"Streams: {', '.join(known)}."
        )
    if len(found) > 1:
        raise StreamNotFound(
            f"Several queries of this deployment have a stream {stream!r}: {', '.join(found)}.",
            remedy="Name the nodes with --node.",
        )
    (nodes,) = found.values()
    return [str(plan.nodes[node].address) for node in nodes]


def _nodes(query: QueryPlan, stream: str) -> tuple[str, ...]:
    """Late rows are where their source is."""
    return query.copies.get(stream) or query.copies.get(stream.removesuffix(LATE_SUFFIX), ())
