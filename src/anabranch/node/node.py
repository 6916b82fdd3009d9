"""One query on a host of its own: what ``anabranch run`` starts, and programs that embed a query.

Without more, it runs the whole query at one address, without a name; in a deployment, the part that it is assigned.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from anabranch.errors import AnabranchError, QueryError
from anabranch.model.ids import QueryId
from anabranch.node.host import Host
from anabranch.node.hosted_part import HostedPart
from anabranch.node.query_parts import QueryParts
from anabranch.node.relays import Relays
from anabranch.node.settings import NodeSettings
from anabranch.node.tables import refuse_unknown
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.builder import Query
from anabranch.query.validate import validate
from anabranch.runtime.status import QueryStatus
from anabranch.transport.ports import StreamInfo


class Node:
    """A running query on this machine. Use it as a context manager, or call ``start`` and ``stop``.

    ``part`` is what it runs of the query. ``directory`` is what relative paths of tables begin at, if not where the
    file of the query is. ``relays`` and ``progress`` are those of its ``Host``.
    """

    def __init__(
        self,
        query: Query | Diagram,
        state: Path | str,
        settings: NodeSettings | None = None,
        *,
        part: AssignedQuery | None = None,
        relays: Relays | None = None,
        directory: Path | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.diagram: Final = query.checked() if isinstance(query, Query) else _checked(query)
        base = query.directory if directory is None and isinstance(query, Query) else directory
        assigned = part or AssignedQuery.whole(self.diagram, base)
        if settings is not None:
            refuse_unknown(self.diagram, settings.tables)
        self.host: Final = Host(assigned.host, state, settings, queries=[assigned], relays=relays, progress=progress)

    @property
    def parts(self) -> QueryParts:
        """The query on its host."""
        return self.host.queries[QueryId(self.diagram.name)]

    @property
    def hosted(self) -> HostedPart:
        """Of several parts, the last."""
        return self.parts.parts[-1]

    def start(self) -> None:
        """Returns when every stage has run a batch, or has failed to. Pushes are accepted before that.

        A stage that fails is tried again while the others run; ``failed_stages`` has those that were given up.
        """
        self.host.start()

    def stop(self) -> None:
        """A clean stop: no new batches, the running one is finished or left to the next start, everything closed."""
        self.host.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        return self.host.address

    def stream(self, name: str) -> StreamInfo:
        """One stream of the query."""
        return self.parts.having(name).streams.info(name)

    def failure(self) -> AnabranchError | None:
        """Why the node cannot go on: every stage has given up, one found its state broken, or the housekeeper ended."""
        return self.host.failure()

    def failed_stages(self) -> dict[str, AnabranchError]:
        """The stages that stand still after all their tries, and why. The others go on, and so do all streams."""
        return self.parts.failed_stages()

    def statistics(self) -> QueryStatus:
        """Everything worth showing of its query; that of its host is ``host.statistics``."""
        return self.host.statistics().only_query

    def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until the outputs show all that had been pushed before the call; False if that takes too long."""
        return self.parts.wait_caught_up(timeout_s)


def _checked(diagram: Diagram) -> Diagram:
    problems = validate(diagram)
    if problems:
        raise QueryError(diagram.name, problems)
    return diagram
