"""A query on a host: its parts, and which of them a stream, a stage or a peer is about.

The parts (``query.parts``) start, fail and are rebuilt each by itself. This class only starts and stops them, finds
them, and says how all of them are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Final, TypeVar

from anabranch.connectors.static_tables import StaticTable
from anabranch.errors import AnabranchError, StreamNotFound
from anabranch.model.ids import QueryId
from anabranch.model.names import LATE_SUFFIX, part_named
from anabranch.model.node_state import NodeState
from anabranch.node.hosted_part import HostedPart, HostServices
from anabranch.node.state import QueryDirectory
from anabranch.node.tables import read_by, statuses
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import inlet_names, part_name
from anabranch.runtime.status import PartStatus, QueryStatus
from anabranch.transport.ports import StreamInfo

T = TypeVar("T")

_LOOK_S: Final = 0.01

ATTENTION: Final = (
    NodeState.REBUILDING,
    NodeState.STOPPING,
    NodeState.RESTARTING_SPARK,
    NodeState.STARTING,
    NodeState.RUNNING,
    NodeState.FAILED,
)
"""Of several states, the one to show first. One that failed beside others is shown with them, not instead of them."""


class QueryParts:
    """``whole`` is all that the host runs of the query, ``cut`` its parts, each with its directory."""

    def __init__(
        self,
        whole: AssignedQuery,
        cut: Sequence[tuple[AssignedQuery, QueryDirectory]],
        services: HostServices,
        *,
        tables: Mapping[str, StaticTable] | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.whole: Final = whole
        self._tables: Final = tables or {}
        self._made = time.monotonic()
        self.parts: Final = tuple(
            HostedPart(
                part,
                directory,
                services,
                tables=read_by(part, self._tables),
                progress=partial(_say_of, progress, part if len(cut) > 1 else None),
            )
            for part, directory in cut
        )

    @property
    def id(self) -> QueryId:
        return self.whole.query

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when every stage has run a batch, or has failed to. Pushes are accepted before that.

        The parts start side by side: one may fetch its state for minutes, or wait for room that only another makes. One
        that cannot start is told as failed, and the others run; if none can, that is raised. A query that is refused
        before anything has come of it leaves nothing behind: it can be mended and tried again.
        """
        over: SimpleQueue[_PartStart] = SimpleQueue()
        starts = []
        for part in self.parts:
            starts.append(_PartStart(part, over))
            if not part.part.siblings:
                starts[-1].wait_open()  # entry points first: what the others reserve or read there is there
        ended: list[_PartStart] = []
        refused = False
        while len(ended) < len(starts):
            ended.append(over.get())
            if self._is_refused():
                refused = True
                self.ask_stop()  # those that still start need not go on
        errors = [start.error for start in ended if start.error is not None]
        if refused or len(errors) == len(starts):
            self._end_refused()
            raise errors[0]

    def _is_refused(self) -> bool:
        """Whether a part found that the query is wrong, and nothing has come of any part so far."""
        return any(part.is_refused for part in self.parts) and all(part.is_unused() for part in self.parts)

    def _end_refused(self) -> None:
        self.stop()
        if self._is_refused() and all(part.leaves_nothing for part in self.parts):
            for part in self.parts:
                part.discard()

    def ask_stop(self) -> None:
        for part in self.parts:
            part.ask_stop()

    def stop(self) -> None:
        """Against the flow: whoever reads is gone when what it reads is closed."""
        for part in reversed(self.parts):
            part.stop()

    # --- finding ---------------------------------------------------------------------------------------------------

    @property
    def streams(self) -> frozenset[str]:
        return self.whole.streams | {stream for part in self.parts for stream in part.part.streams}

    def having(self, stream: str) -> HostedPart:
        """The part that makes a stream; if none does, one that reads it."""
        name = stream.removesuffix(LATE_SUFFIX)
        found = [part for part in self.parts if name in part.part.made]
        found += [part for part in self.parts if name in part.part.upstream]
        if not found and len(self.parts) > 1:
            raise StreamNotFound(
                f"There is no stream {stream!r}.", remedy=f"Streams: {', '.join(sorted(self.streams))}."
            )
        return found[0] if found else self.parts[0]

    def entering(self, source: str) -> HostedPart:
        """The part that takes the rows of a source in."""
        found = [part for part in self.parts if source in part.part.entries]
        if not found:
            entries = sorted(source for part in self.parts for source in part.part.entries)
            raise StreamNotFound(f"There is no source {source!r}.", remedy=f"Sources: {', '.join(entries)}.")
        return found[0]

    def running(self, stage: str) -> HostedPart:
        """The part that a stage belongs to."""
        for part in self.parts:
            if any(each.name == stage for each in part.part.stages):
                return part
        raise StreamNotFound(f"This node runs no stage {stage!r}.", remedy="Only Spark asks this.")

    def like(self, asker: str) -> HostedPart:
        """The replica that is like the one that asks, to be rebuilt from it."""
        replicas = [part for part in self.parts if part.part.stages]
        same = [part for part in replicas if part.part.assignment.part == part_named(asker)]
        return next(iter([*same, *replicas, *self.parts]))  # one that is not like it says so itself

    def infos(self) -> Iterator[StreamInfo]:
        """All streams that are there, each once: as it is made, or as it is read."""
        for part in self.parts:
            if not part.calls.lets_in:
                continue
            with part.calls.inside():
                yield from (info for info in part.streams.infos() if self.having(info.name) is part)

    # --- looking in ------------------------------------------------------------------------------------------------

    @property
    def lets_in(self) -> bool:
        return any(part.calls.lets_in for part in self.parts)

    def failure(self) -> AnabranchError | None:
        """Why the query cannot go on here: no part can."""
        failures = [part.failure() for part in self.parts]
        return failures[0] if all(failures) else None

    def failed_parts(self) -> dict[str, AnabranchError]:
        """The parts that cannot go on, and why. The others do."""
        found = {part_name(part.part): part.failure() for part in self.parts}
        return {name: failure for name, failure in found.items() if failure is not None}

    def failed_stages(self) -> dict[str, AnabranchError]:
        """The stages that stand still after all their tries, and why. The others go on, and so do all streams."""
        return {stage: error for part in self.parts for stage, error in part.failed_stages().items()}

    def state(self) -> NodeState:
        """The one that asks most for attention; that of a part which failed beside others is told with the part."""
        states = {part.state() for part in self.parts}
        return next(state for state in ATTENTION if state in states)

    def statistics(self) -> QueryStatus:
        """Everything worth showing: of all parts together, and how each of them is."""
        found = [(part, part.statistics()) for part in self.parts]
        names = inlet_names([part.part for part in self.parts])
        return QueryStatus(
            state=self.state(),
            error=next((each.error for _, each in found if each.error is not None), None),
            uptime_s=round(time.monotonic() - self._made, 1),
            parts={part_name(part.part): PartStatus(state=each.state, error=each.error) for part, each in found},
            tables=statuses(self._tables),
            sources=_joined(each.sources for _, each in found),
            feeds=_joined(each.feeds for _, each in found),
            stages=_joined(each.stages for _, each in found),
            peers=_joined(each.peers for _, each in found),
            inlets=_joined(_renamed(each.inlets, part, names) for part, each in found),
            compared=_joined(each.compared for _, each in found),
            alarms=_joined(_renamed(each.alarms, part, names) for part, each in found),
            determinants=_joined(each.determinants for _, each in found),
            writers=_joined(each.writers for _, each in found),
            streams={
                name: log for part, each in found for name, log in each.streams.items() if self.having(name) is part
            },
        )

    def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until the outputs show all that had been pushed before the call; False if that takes too long."""
        deadline = time.monotonic() + timeout_s
        return all(part.wait_caught_up(max(0.0, deadline - time.monotonic())) for part in self.parts)


class _PartStart:
    """The start of one part, in a thread of its own; it puts itself into ``over`` at the end."""

    def __init__(self, part: HostedPart, over: SimpleQueue[_PartStart]) -> None:
        self.error: BaseException | None = None
        self._part = part
        self._over = over
        self._thread = threading.Thread(target=self._run, name=f"start {part.part.reader}", daemon=True)
        self._thread.start()

    def wait_open(self) -> None:
        """Until others can read it, or it cannot start."""
        while not self._part.calls.lets_in and self._thread.is_alive():
            self._thread.join(_LOOK_S)

    def _run(self) -> None:
        try:
            self._part.start()
        except BaseException as error:  # told by whoever started the query
            self.error = error
        finally:
            self._over.put(self)


def _joined(found: Iterable[Mapping[str, T]]) -> dict[str, T]:
    return {name: each for some in found for name, each in some.items()}


def _renamed(found: Mapping[str, T], part: HostedPart, names: Mapping[tuple[str, str], str]) -> dict[str, T]:
    """By the names of inlets: several parts may read the same stream."""
    return {names.get((part.part.reader, stream), stream): each for stream, each in found.items()}


def _say_of(progress: Callable[[str], None], part: AssignedQuery | None, text: str) -> None:
    progress(text if part is None else f"{part_name(part)}: {text}")
