"""How a whole deployment is: every node is asked, and what they say is put together by query, fragment and stream.

A node that does not answer is no error here: it is what one wants to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from anabranch.deploy.control import ask
from anabranch.deploy.deployment_status import (
    DeploymentStatus,
    FragmentCopyStatus,
    FragmentStatus,
    LanePlace,
    NodeStatus,
    PlacedQueryStatus,
    ReadCopyStatus,
    RoleStatus,
    StreamCopyStatus,
    StreamStatus,
)
from anabranch.deploy.plan import NodePlan, Plan, load_plan
from anabranch.deploy.running import Running, all_running, find
from anabranch.errors import AnabranchError
from anabranch.model.ids import QueryId, StreamId
from anabranch.model.node_state import NodeState
from anabranch.model.position import Position
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import inlet_names, part_name, parts
from anabranch.query.query_plan import Fragment, QueryPlan
from anabranch.runtime.status import CopyStatus, HostStatus, LaneStatus, LogStatus, QueryStatus
from anabranch.transport.client import Client

ANSWER_S: Final = 10.0
"""How long a node may take to say how it is. A busy one is slow; one that is paused or dead is not asked."""

Found = Mapping[str, HostStatus | AnabranchError]
"""What each node said, or why it said nothing."""


_UNKNOWN: Final = {"state": "running"}
_STANDING: Final = ("starting", "running")


class Looker:
    """One connection to each node."""

    def __init__(self, plan: Plan, *, answer_s: float = ANSWER_S) -> None:
        self.plan: Final = plan
        self._clients: Final = {
            name: Client(str(node.address), timeout_s=answer_s) for name, node in plan.nodes.items()
        }

    def ask(self, names: Iterable[str] | None = None) -> dict[str, HostStatus | AnabranchError]:
        """These nodes, or all."""
        found: dict[str, HostStatus | AnabranchError] = {}
        for name in self._clients if names is None else names:
            try:
                found[name] = self._clients[name].status()
            except AnabranchError as error:
                found[name] = error
        return found

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def look(file: Path | None = None) -> DeploymentStatus:
    """``overview`` of the deployment of this file, wherever its nodes are; without one, of what runs here."""
    here = [find()] if file is None else [each for each in all_running() if each.file == str(file.resolve())]
    path = file or Path(here[0].file)
    plan = load_plan(path)
    processes = _processes(here)
    standing = [name for name in plan.nodes if processes.get(name, _UNKNOWN)["state"] in _STANDING]
    with Looker(plan) as looker:
        return overview(plan, looker.ask(standing), processes, file=str(path))


def _processes(here: Sequence[Running]) -> dict[str, Any]:
    """What the supervisor says, if the deployment runs here and has one."""
    if not here or here[0].embedded:
        return {}
    try:
        return dict(ask(here[0].control(), {"do": "look"})["nodes"])
    except AnabranchError:  # it is just ending
        return {}


def overview(
    plan: Plan, found: Found, processes: Mapping[str, Mapping[str, Any]] | None = None, *, file: str = ""
) -> DeploymentStatus:
    """The deployment: its nodes, and per query its fragments and streams with all copies.

    ``processes`` is what a supervisor knows of nodes that do not answer: whether they were killed, or are paused.
    """
    known = {name: process["state"] for name, process in (processes or {}).items()}
    answers = {name: said for name, said in found.items() if isinstance(said, HostStatus)}
    return DeploymentStatus(
        file=file,
        nodes={name: _node(plan, node, found.get(name), known.get(name)) for name, node in plan.nodes.items()},
        queries={name: _query(plan, query, _of(answers, name)) for name, query in plan.queries.items()},
    )


def _node(plan: Plan, node: NodePlan, said: HostStatus | AnabranchError | None, known: str | None) -> NodeStatus:
    assigned = node.assignment.queries
    silent = NodeStatus(
        state="unreachable" if known in (None, "running") else str(known),
        address=str(node.address),
        site=node.site,
        queries={
            name: RoleStatus(
                enters=tuple(entry.source for entry in each.entries),
                runs=tuple(part.name for part in plan.queries[name].fragments if node.name in part.nodes),
                writes=tuple(writer.output for writer in each.writers),
            )
            for name, each in assigned.items()
        },
        alarms={},
        error=None if said is None else str(said),
    )
    if not isinstance(said, HostStatus):
        return silent
    return replace(
        silent,
        state=said.state,
        others=tuple(sorted(said.queries.keys() - assigned.keys())),
        uptime_s=said.uptime_s,
        rows_in=said.rows_in,
        alarms={
            str(StreamId(QueryId(name), stream)) if len(plan.queries) > 1 else stream: alarm
            for name, query in said.queries.items()
            for stream, alarm in query.alarms.items()
        },
        error=_error(said),
    )


def _error(said: HostStatus) -> str | None:
    """What is wrong with a node as a whole, or with the first of its queries that cannot go on."""
    if said.intake != "open":
        return said.intake
    failed = (f"query {name}: {query.error}" for name, query in said.queries.items() if query.error)
    of_spark = None if said.spark is None else said.spark.error  # a node that only takes rows in has none
    return of_spark or next(failed, None)


def _of(answers: Mapping[str, HostStatus], query: str) -> dict[str, QueryStatus]:
    """What each node that answers says of a query that it runs."""
    return {name: said.queries[query] for name, said in answers.items() if query in said.queries}


def _query(plan: Plan, query: QueryPlan, answers: Mapping[str, QueryStatus]) -> PlacedQueryStatus:
    return PlacedQueryStatus(
        mode=query.mode,
        fragments={each.name: _fragment(each, query, plan, answers) for each in query.fragments},
        streams={stream: _stream(stream, query, plan, answers) for stream in query.copies},
        lanes=_lanes(query, plan, answers),
    )


def _fragment(fragment: Fragment, query: QueryPlan, plan: Plan, answers: Mapping[str, QueryStatus]) -> FragmentStatus:
    copies = {
        node: _copy_of_fragment(fragment, _part_of(fragment, query, plan, node), answers.get(node))
        for node in fragment.nodes
    }
    return FragmentStatus(boxes=tuple(fragment.boxes), copies=copies)


def _part_of(fragment: Fragment, query: QueryPlan, plan: Plan, node: str) -> str:
    """The part of the query on a node that the fragment belongs to."""
    whole = AssignedQuery(query.diagram, plan.nodes[node].assignment.queries[QueryId(query.name)])
    return next(part_name(part) for part in parts(whole) if fragment.stages[0] in part.stages)


def _copy_of_fragment(fragment: Fragment, part: str, said: QueryStatus | None) -> FragmentCopyStatus:
    """As its stages say, or the part that they belong to, if that does not run."""
    if said is None:
        return FragmentCopyStatus(state="unreachable", lag_rows=None, rows_out=None, error=None)
    stages = [said.stages[stage.name] for stage in fragment.stages if stage.name in said.stages]
    states = [stage.state for stage in stages]
    state: str = next((state for state in ("failed", "restarting") if state in states), "running")
    state = state if len(stages) == len(fragment.stages) else "starting"
    error = next((stage.error for stage in stages if stage.error), None)
    whole = said.parts.get(part)
    if whole is not None and state != "failed" and whole.state not in (NodeState.RUNNING, NodeState.STARTING):
        state, error = whole.state, whole.error or error
    return FragmentCopyStatus(
        state=state,
        lag_rows=sum(stage.lag_rows for stage in stages),
        rows_out=sum(stage.rows_out for stage in stages),
        error=error,
    )


def _lanes(query: QueryPlan, plan: Plan, answers: Mapping[str, QueryStatus]) -> dict[str, LanePlace]:
    """Each lane as the entry point has it that is furthest, with where that is. Of several, as the one that holds it at
    the horizon: only who leads it does."""
    found: dict[str, LanePlace] = {}
    for source, entrance in query.entrances.items():
        named = str(StreamId(QueryId(query.name), source)) if len(plan.queries) > 1 else source
        for node in entrance.nodes:
            entered = answers[node].sources.get(source) if node in answers else None
            for origin, lane in ({} if entered is None else entered.lanes).items():
                place = found.get(origin)
                if place is None or (place.punctuation_us, place.waits_for is not None) < _how_far(lane):
                    found[origin] = LanePlace.of(lane, address=str(plan.nodes[node].address), source=named)
    return found


def _how_far(lane: LaneStatus) -> tuple[int, bool]:
    return lane.punctuation_us, lane.held is not None


def _stream(stream: str, query: QueryPlan, plan: Plan, answers: Mapping[str, QueryStatus]) -> StreamStatus:
    assigned = {name: node.assignment.queries.get(QueryId(query.name)) for name, node in plan.nodes.items()}
    reading = {
        host if key == stream else reader: (host, key)
        for host, each in assigned.items()
        if each is not None
        for (reader, read), key in inlet_names(parts(AssignedQuery(query.diagram, each))).items()
        if read == stream
    }
    logs = {node: answers[node].streams.get(stream) if node in answers else None for node in query.copies[stream]}
    return StreamStatus(
        copies={
            node: None if log is None else StreamCopyStatus(last_id=log.last_id, bytes=log.bytes)
            for node, log in logs.items()
        },
        readers={reader: _reader(key, host, logs, answers) for reader, (host, key) in reading.items()},
    )


def _reader(
    inlet_name: str, host: str, logs: Mapping[str, LogStatus | None], answers: Mapping[str, QueryStatus]
) -> dict[str, ReadCopyStatus] | None:
    """Per copy: whether it is read, how far its reader is behind, and how often it was first; None if nobody says."""
    inlet = answers[host].inlets.get(inlet_name) if host in answers else None
    if inlet is None:
        return None
    return {name: _read_copy(copy, logs.get(name)) for name, copy in inlet.items()}


def _read_copy(copy: CopyStatus, log: LogStatus | None) -> ReadCopyStatus:
    return ReadCopyStatus(state=copy.state, lag_rows=_lag(copy.position, log), first=copy.first, error=copy.error)


def _lag(position: str | None, log: LogStatus | None) -> int | None:
    """Rows that the copy has and its reader has not; None if that cannot be compared."""
    if log is None or position is None:
        return None
    held = Position.parse(position)
    return max(0, log.last_id - held.id) if held.incarnation == log.incarnation else None
