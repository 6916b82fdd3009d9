"""A node that no query names yet: it listens at its address until someone hands it one, and remembers that.

What it is given lies beside its state directory, so that it goes on by itself when it is started again:

    STATE.deployment/deployment.json    the tables of the deployment file
    STATE.deployment/QUERY.yaml         each of its queries
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa

from anabranch.deploy.description import read
from anabranch.deploy.plan import NodePlan, Plan, make_plan
from anabranch.deploy.plan import Role as PlannedRole
from anabranch.deploy.validate import Checked, check_draft
from anabranch.errors import ConfigError, DeploymentError, StateError, StreamNotFound
from anabranch.model.links import LinkFault
from anabranch.model.names import is_name
from anabranch.model.node_state import NodeState
from anabranch.model.position import Position
from anabranch.node.tables import tables_read
from anabranch.query.boxes import Diagram
from anabranch.syncing import sync
from anabranch.transport.ports import (
    CopyPiece,
    PieceAnswer,
    PieceRequest,
    Push,
    PushAnswer,
    ReadRequest,
    Registration,
    Role,
    StreamInfo,
)
from anabranch.transport.server import FlightServer

LOOK_S: Final = 0.2
FILE: Final = "deployment.json"


def role_directory(state: Path) -> Path:
    """Where the node with this state directory keeps what it was given."""
    return state.with_name(f"{state.name}.deployment")


def await_role(node: NodePlan, state: Path, between: Callable[[], None]) -> Plan:
    """The plan in which the node has a role: the one it was given before, or is given now.

    ``between`` is called while it waits, and may end that by raising.
    """
    directory = role_directory(state)
    if (directory / FILE).exists():
        checked = _check(directory)
        if checked.mistakes:
            raise DeploymentError(str(directory / FILE), checked.mistakes)
        return _plan_for(node, checked)
    awaiting = Awaiting(node, directory)
    with FlightServer(awaiting, node.address.host, node.address.port, roles=awaiting):
        while not awaiting.given.wait(LOOK_S):
            between()
    assert awaiting.plan is not None
    return awaiting.plan


class Awaiting:
    """The doors of such a node: it takes a role, says that it waits, and has nothing else."""

    def __init__(self, node: NodePlan, directory: Path) -> None:
        self.given: Final = threading.Event()
        self.plan: Plan | None = None
        self._node = node
        self._directory = directory
        self._lock = threading.Lock()
        self._started = time.monotonic()

    def take_role(self, role: Role) -> None:
        """Returns when it is durable. The node stops waiting then."""
        with self._lock:
            if self.given.is_set():
                raise ConfigError(f"The node {self._node.name} has just got a query.")
            if role.node != self._node.name:
                raise ConfigError(
                    f"The node at {self._node.address} is called {self._node.name}, not {role.node}.",
                    remedy="Use the same names and addresses in both files.",
                )
            _check_files(role)
            try:
                self._store(role)
            except OSError as error:
                raise StateError(
                    f"The node {role.node} cannot keep what it is given in {self._directory}: {error.strerror}.",
                    remedy="Give it a --state whose parent directory it may write.",
                ) from error
            self.given.set()

    def _store(self, role: Role) -> None:
        """The file that names the others is written last: without it nothing was given."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, diagram in role.queries.items():
            _write(self._directory / f"{name}.yaml", diagram)  # all JSON is YAML, too
        new = self._directory / f"{FILE}.new"
        _write(new, role.tables)
        checked = _check(self._directory, new)
        if checked.mistakes:
            raise ConfigError(str(DeploymentError("What was handed over", checked.mistakes)))
        self.plan = _plan_for(self._node, checked)
        new.rename(self._directory / FILE)
        sync(self._directory)

    def status(self) -> dict[str, object]:
        parts = ("sources", "feeds", "stages", "inlets", "links", "writers", "streams")
        nothing: dict[str, object] = {key: {} for key in parts}
        return {
            "node": self._node.name,
            "query": None,
            "address": str(self._node.address),
            "state": NodeState.WAITING,
            "intake": "open",
            "uptime_s": round(time.monotonic() - self._started, 1),
            "executors": None,
            "spark": None,
            **nothing,
        }

    def streams(self) -> list[StreamInfo]:
        return []

    def stream(self, name: str) -> StreamInfo:
        self._refuse()

    def read(self, request: ReadRequest, cancelled: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        self._refuse()

    def read_pieces(
        self, request: PieceRequest, cancelled: Callable[[], bool]
    ) -> tuple[PieceAnswer, Iterator[CopyPiece]]:
        self._refuse()

    def register(self, source: str, producer: str, session: int | None = None) -> Registration:
        self._refuse()

    def push(self, push: Push) -> PushAnswer:
        self._refuse()

    def acknowledge(self, stream: str, reader: str, position: Position) -> None:
        self._refuse()

    def forget_reader(self, stream: str, reader: str) -> None:
        self._refuse()

    def close_lane(self, source: str, lane: str | None) -> None:
        self._refuse()

    def fault_link(self, node: str, fault: LinkFault) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StreamNotFound(
            f"The node {self._node.name} has no query yet.", remedy="Give it one: anabranch deploy FILE"
        )


def _check(directory: Path, file: Path | None = None) -> Checked:
    path = file or directory / FILE
    try:
        tables: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StateError(f"{path} is damaged: {error}.", remedy=f"Remove {directory}, and deploy again.") from error
    return check_draft(read(tables), directory / FILE)


def _check_files(role: Role) -> None:
    """Whoever sends a role names no files of this machine: a query in Python would be run."""
    queries = role.tables.get("queries", {})
    named = queries if isinstance(queries, dict) else {}
    files = {name: query.get("file") if isinstance(query, dict) else None for name, query in named.items()}
    if files != {name: f"{name}.yaml" for name in role.queries} or not all(map(is_name, files)):
        raise ConfigError("A role brings its queries with it, each with a name.", remedy="Use anabranch deploy.")


def _plan_for(node: NodePlan, checked: Checked) -> Plan:
    plan = make_plan(checked)
    mine = plan.nodes.get(node.name)
    if mine is None or mine.role is None:
        raise ConfigError(f"No query names the node {node.name}.", remedy="Hand it to the nodes that it names.")
    _check_tables(node, plan.queries[mine.role.query].diagram, mine.role)
    if mine.address != node.address:
        raise ConfigError(
            f"The node {node.name} listens at {node.address}, and not at {mine.address}.",
            remedy="Use the same addresses in both files.",
        )
    # Whoever hands over a query says nothing of the files of this machine.
    return replace(plan, nodes={**plan.nodes, node.name: replace(mine, tables=node.tables, directory=None)})


def _check_tables(node: NodePlan, diagram: Diagram, role: PlannedRole) -> None:
    """Whoever sends a role names no files of this machine: its own file says where its tables are."""
    for table in tables_read(diagram, role.stages):
        if table.rows is None and table.name not in node.tables:
            raise ConfigError(
                f"The file of the node {node.name} does not say where its table {table.name!r} is.",
                remedy=f'Add tables = {{{table.name} = "a file or database there"}} to nodes.{node.name} in its file, '
                "and start it again.",
            )


def _write(path: Path, data: object) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
