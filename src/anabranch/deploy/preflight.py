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
from anabranch.errors import DeploymentError, Mistake, StateError
from anabranch.node.state import check_directory


def check_start(file: Path, plan: Plan, states: Mapping[str, Path]) -> None:
    """DeploymentError, if not every node could be started here."""
    found = [*_ports(plan), *_states(plan, states)]
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


def _states(plan: Plan, states: Mapping[str, Path]) -> Iterator[Mistake]:
    for name, node in plan.nodes.items():
        if not node.assignment.queries:
            continue
        try:
            check_directory(states[name], assigned_queries(plan, name))
        except StateError as error:
            yield Mistake(code="state", path=f"nodes.{name}.state", message=error.message, remedy=error.remedy)
