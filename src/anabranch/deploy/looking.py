"""How a whole deployment is: every node is asked, and what they say is put together by query, fragment and stream.

A node that does not answer is no error here: it is what one wants to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from anabranch.deploy.control import ask
from anabranch.deploy.plan import Fragment, NodePlan, Plan, QueryPlan, load_plan
from anabranch.deploy.running import Running, all_running, find
from anabranch.errors import AnabranchError
from anabranch.model.ids import QueryId, StreamId
from anabranch.model.position import Position
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import inlet_names, parts
from anabranch.transport.client import Client

ANSWER_S: Final = 10.0
"""How long a node may take to say how it is. A busy one is slow; one that is paused or dead is not asked."""

Found = Mapping[str, Mapping[str, Any] | AnabranchError]
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

    def ask(self, names: Iterable[str] | None = None) -> dict[str, Mapping[str, Any] | AnabranchError]:
        """These nodes, or all."""
        found: dict[str, Mapping[str, Any] | AnabranchError] = {}
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


def look(file: Path | None = None) -> dict[str, Any]:
    """``overview`` of the deployment of this file, wherever its nodes are; without one, of what runs here."""
    here = [find()] if file is None else [each for each in all_running() if each.file == str(file.resolve())]
    path = file or Path(here[0].file)
    plan = load_plan(path)
    processes = _processes(here)
    standing = [name for name in plan.nodes if processes.get(name, _UNKNOWN)["state"] in _STANDING]
    with Looker(plan) as looker:
        return {"file": str(path), **overview(plan, looker.ask(standing), processes)}


def _processes(here: Sequence[Running]) -> dict[str, Any]:
    """What the supervisor says, if the deployment runs here and has one."""
    if not here or here[0].embedded:
        return {}
    try:
        return dict(ask(here[0].control(), {"do": "look"})["nodes"])
    except AnabranchError:  # it is just ending
        return {}


def overview(plan: Plan, found: Found, processes: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The deployment as plain data: its nodes, and per query its fragments and streams with all copies.

    ``processes`` is what a supervisor knows of nodes that do not answer: whether they were killed, or are paused.
    """
    known = {name: process["state"] for name, process in (processes or {}).items()}
    answers = {name: said for name, said in found.items() if not isinstance(said, AnabranchError)}
    return {
        "nodes": {name: _node(plan, node, found.get(name), known.get(name)) for name, node in plan.nodes.items()},
        "queries": {
            name: {
                "mode": query.mode,
                "fragments": {each.name: _fragment(each, _of(answers, name)) for each in query.fragments},
                "streams": {stream: _stream(stream, query, plan, _of(answers, name)) for stream in query.copies},
                "lanes": _lanes(query, plan, _of(answers, name)),
            }
            for name, query in plan.queries.items()
        },
    }


def _node(
    plan: Plan, node: NodePlan, said: Mapping[str, Any] | AnabranchError | None, known: str | None
) -> dict[str, Any]:
    assigned = node.assignment.queries
    facts: dict[str, Any] = {
        "state": "unreachable" if known in (None, "running") else known,
        "address": str(node.address),
        "site": node.site,
        "queries": {
            name: {
                "enters": [entry.source for entry in each.entries],
                "runs": [part.name for part in plan.queries[name].fragments if node.name in part.nodes],
                "writes": [writer.output for writer in each.writers],
            }
            for name, each in assigned.items()
        },
        "others": [],
        "uptime_s": None,
        "rows_in": None,
        "alarms": {},
        "error": str(said) if isinstance(said, AnabranchError) else None,
    }
    if isinstance(said, Mapping):
        queries: Mapping[str, Any] = said["queries"]
        rows_in = sum(source["rows_in"] for query in queries.values() for source in query["sources"].values())
        facts |= {"state": said["state"], "uptime_s": said["uptime_s"], "rows_in": rows_in}
        facts["alarms"] = {
            str(StreamId(QueryId(name), stream)) if len(plan.queries) > 1 else stream: alarm
            for name, query in queries.items()
            for stream, alarm in query["alarms"].items()
        }
        facts["others"] = sorted(queries.keys() - assigned.keys())
        facts["error"] = _error(said)
    return facts


def _error(said: Mapping[str, Any]) -> str | None:
    """What is wrong with a node as a whole, or with the first of its queries that cannot go on."""
    if said["intake"] != "open":
        return str(said["intake"])
    spark = said["spark"] or {}  # a node that only takes rows in has none
    failed = (f"query {name}: {query['error']}" for name, query in said["queries"].items() if query["error"])
    error = spark.get("error") or next(failed, None)
    return None if error is None else str(error)


def _of(answers: Mapping[str, Mapping[str, Any]], query: str) -> dict[str, Mapping[str, Any]]:
    """What each node that answers says of a query that it runs."""
    return {name: said["queries"][query] for name, said in answers.items() if query in said["queries"]}


def _fragment(fragment: Fragment, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "boxes": list(fragment.boxes),
        "copies": {node: _copy_of_fragment(fragment, answers.get(node)) for node in fragment.nodes},
    }


def _copy_of_fragment(fragment: Fragment, said: Mapping[str, Any] | None) -> dict[str, Any]:
    """How far it is behind its own journals, and what it has put out."""
    if said is None:
        return {"state": "unreachable", "lag_rows": None, "rows_out": None, "error": None}
    stages = [said["stages"][stage.name] for stage in fragment.stages if stage.name in said["stages"]]
    states = [stage["state"] for stage in stages]
    worst = next((state for state in ("failed", "restarting") if state in states), "running")
    return {
        "state": worst if len(stages) == len(fragment.stages) else "starting",
        "lag_rows": sum(facts["lag_rows"] for stage in stages for facts in stage["inputs"].values()),
        "rows_out": sum(stage["rows_out"] for stage in stages),
        "error": next((stage["error"] for stage in stages if stage["error"]), None),
    }


def _lanes(query: QueryPlan, plan: Plan, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each lane as the entry point has it that is furthest, with where that is."""
    found: dict[str, dict[str, Any]] = {}
    for source, entrance in query.entrances.items():
        for node in entrance.nodes:
            lanes = answers[node]["sources"].get(source, {}).get("lanes", {}) if node in answers else {}
            for lane, facts in lanes.items():
                if lane not in found or found[lane]["punctuation_us"] < facts["punctuation_us"]:
                    told = {key: facts[key] for key in ("punctuation_us", "silent_us", "closed")}
                    named = str(StreamId(QueryId(query.name), source)) if len(plan.queries) > 1 else source
                    found[lane] = {**told, "address": str(plan.nodes[node].address), "source": named}
    return found


def _stream(stream: str, query: QueryPlan, plan: Plan, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    assigned = {name: node.assignment.queries.get(QueryId(query.name)) for name, node in plan.nodes.items()}
    reading = {
        host if key == stream else reader: (host, key)
        for host, each in assigned.items()
        if each is not None
        for (reader, read), key in inlet_names(parts(AssignedQuery(query.diagram, each))).items()
        if read == stream
    }
    logs = {node: answers[node]["streams"].get(stream) if node in answers else None for node in query.copies[stream]}
    return {
        "copies": {
            node: None if log is None else {"last_id": log["last_id"], "bytes": log["bytes"]}
            for node, log in logs.items()
        },
        "readers": {reader: _reader(key, host, logs, answers) for reader, (host, key) in reading.items()},
    }


def _reader(
    inlet_name: str, host: str, logs: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Per copy: whether it is read, how far its reader is behind, and how often it was first; None if nobody says."""
    inlet = answers[host]["inlets"].get(inlet_name) if host in answers else None
    if inlet is None:
        return None
    return {
        copy: {
            "state": facts["state"],
            "lag_rows": _lag(facts["position"], logs.get(copy)),
            "first": facts["first"],
            "error": facts["error"],
        }
        for copy, facts in inlet.items()
    }


def _lag(position: str | None, log: Mapping[str, Any] | None) -> int | None:
    """Rows that the copy has and its reader has not; None if that cannot be compared."""
    if log is None or position is None:
        return None
    held = Position.parse(position)
    return max(0, log["last_id"] - held.id) if held.incarnation == log["incarnation"] else None
