"""What only this machine can tell of a deployment: whether its ports are free, and its state directories its own.

Looked at for all nodes before the first is started, and told all at once like the mistakes of a file.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from anabranch.deploy.addresses import Address
from anabranch.deploy.parts import assigned_queries
from anabranch.deploy.plan import Plan
from anabranch.errors import AnabranchError, ConfigError, DeploymentError, Mistake, StateError
from anabranch.node.state import check_directory
from anabranch.node.tables import differences, digests, load_tables, other_contents
from anabranch.query.assigned import AssignedQuery


def check_start(file: Path, plan: Plan, states: Mapping[str, Path]) -> None:
    """DeploymentError, if not every node could be started here."""
    tables = _Tables(plan)
    found = [*_ports(plan), *tables.mistakes, *_states(plan, states, tables)]
    if found:
        raise DeploymentError(str(file), found)


def _ports(plan: Plan) -> Iterator[Mistake]:
    for name, node in plan.nodes.items():
        error = _bind(node.address)
        path = f"nodes.{name}.address"
        if error is None:
            continue
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            message = f"The port of {node.address} cannot be used: {error.strerror}."
            yield Mistake(
                code="port-taken", path=path, message=message, remedy="End what uses it, or give another port."
            )
        else:
            message = f"{node.address.host} is not an address of this machine: {error.strerror}."
            remedy = f"Run it on its machine: anabranch node FILE {name}"
            yield Mistake(code="not-here", path=path, message=message, remedy=remedy)


def _bind(address: Address) -> OSError | None:
    host = address.host.strip("[]")
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, address.port))
    except OSError as error:  # also a name that nobody knows
        return error
    return None


class _Tables:
    """The tables that the nodes read, by query and node, and whether they are there and the same."""

    def __init__(self, plan: Plan) -> None:
        self.digests: dict[str, dict[str, dict[str, str]]] = {name: {} for name in plan.queries}
        self.mistakes: list[Mistake] = []
        for name, node in plan.nodes.items():
            for part in assigned_queries(plan, name):
                self._load(name, part, node.tables)

    def _load(self, name: str, part: AssignedQuery, places: Mapping[str, str]) -> None:
        known = self.digests[part.query]
        try:
            found = digests(load_tables(part, places))
        except ConfigError as error:
            self._note(name, error)
            return
        for other, others in known.items():
            for table in differences(found, others):
                self._note(name, other_contents(table, found[table], other, others[table]))
                return
        known[name] = found

    def _note(self, name: str, error: AnabranchError) -> None:
        path = f"nodes.{name}.tables"
        self.mistakes.append(Mistake(code="table", path=path, message=error.message, remedy=error.remedy))


def _states(plan: Plan, states: Mapping[str, Path], tables: _Tables) -> Iterator[Mistake]:
    for name in plan.nodes:
        read = [(part, tables.digests[part.query].get(name)) for part in assigned_queries(plan, name)]
        known = [(part, digests) for part, digests in read if digests is not None]
        if not known:
            continue
        try:
            check_directory(states[name], known)
        except StateError as error:
            yield Mistake(code="state", path=f"nodes.{name}.state", message=error.message, remedy=error.remedy)
