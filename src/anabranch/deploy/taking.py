"""The queries that a host was handed while it ran: it keeps them beside its state directory, and goes on with them.

    STATE.deployment/QUERY.json    a query, and what this host runs of it

So the directory of the state can be lost, and the host still knows what it is to be rebuilt as. A host that has neither
such a file nor a query in its deployment file waits for one.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from anabranch.deploy.addresses import Address
from anabranch.errors import ConfigError, DeploymentError, Mistake, QueryError, StateError
from anabranch.model.names import is_name
from anabranch.node.host import Host
from anabranch.query.assigned import AssignedQuery
from anabranch.query.builder import Query
from anabranch.query.graph import tables_read
from anabranch.syncing import sync
from anabranch.transport import messages
from anabranch.transport.ports import HandOver

_OLD: Final = "deployment.json"


def given_directory(state: Path) -> Path:
    """Where the host with this state directory keeps what it was given."""
    return state.with_name(f"{state.name}.deployment")


def given_before(state: Path, tables: Mapping[str, str]) -> tuple[AssignedQuery, ...]:
    """What the host with this state directory was given, in earlier runs; ``tables`` are the places that it knows."""
    directory = given_directory(state)
    if (directory / _OLD).exists():
        raise StateError(
            f"{directory} was written by an earlier version, which stored one deployment per node.",
            remedy="Remove it, start the node with an empty state directory, and deploy again.",
        )
    given = tuple(_read(path) for path in sorted(directory.glob("*.json")))
    for part in given:
        _check_tables(part, tables)
    return given


def _check_tables(part: AssignedQuery, tables: Mapping[str, str]) -> None:
    """Whoever hands over a query names no files of this machine: the file of the host says where its tables are."""
    for table in tables_read(part.diagram, part.stages):
        if table.rows is None and table.name not in tables:
            raise ConfigError(
                f"The file of node {part.host} has no location for its table {table.name!r}.",
                remedy=f'Add tables = {{{table.name} = "a file or database there"}} to nodes.{part.host} in its file, '
                "and restart it.",
            )


def _read(path: Path) -> AssignedQuery:
    try:
        return assigned(messages.from_plain(json.loads(path.read_text(encoding="utf-8")), HandOver))
    except (OSError, ValueError, ConfigError, QueryError) as error:
        raise StateError(f"{path} is damaged: {error}.", remedy="Remove it, and deploy the query again.") from error


def assigned(given: HandOver) -> AssignedQuery:
    """What was handed over as a query that can run; ConfigError if it is none."""
    if not is_name(given.assignment.query):
        raise ConfigError(f"A query cannot be called {given.assignment.query!r}.", remedy="Use anabranch deploy.")
    return AssignedQuery(Query.from_dict(dict(given.query)).checked(), given.assignment)


class Taking:
    """What may be handed to ``host``, which has this name and address. Several threads may call it at once."""

    def __init__(self, host: Host, name: str, address: Address, state: Path) -> None:
        self._host = host
        self._name = name
        self._address = address
        self._directory = given_directory(state)
        self._lock = threading.Lock()

    def may_take(self, given: HandOver) -> bool:
        part = assigned(given)
        if part.host != self._name:
            raise ConfigError(
                f"The node at {self._address} is called {self._name}, not {part.host}.",
                remedy="Use the same names and addresses in both files.",
            )
        _check_tables(part, self._host.settings.tables)
        running = self._host.queries.get(part.query)
        if running is None:
            return True
        if running.whole != part:
            raise ConfigError(
                f"The node {self._name} runs another query, or another part of it, under the name {part.query}.",
                remedy="Give the query another name, or stop the nodes and deploy it again.",
            )
        return False

    def take(self, given: HandOver) -> None:
        with self._lock:
            if not self.may_take(given):
                return
            path = self._store(given)
            try:
                self._host.add(assigned(given))
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def _store(self, given: HandOver) -> Path:
        path = self._directory / f"{given.assignment.query}.json"
        new = path.with_suffix(".new")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with new.open("w", encoding="utf-8") as file:
                json.dump(messages.to_plain(given), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.rename(path)
            sync(self._directory)
        except OSError as error:
            raise StateError(
                f"The node {self._name} cannot store the query in {self._directory}: {error.strerror}.",
                remedy="Give it a --state whose parent directory it can write to.",
            ) from error
        return path


def refuse_twice(file: Path, named: tuple[AssignedQuery, ...], given: tuple[AssignedQuery, ...], state: Path) -> None:
    """A query that the file names now, and that was handed over before: one of them has to go."""
    both = {part.query for part in named} & {part.query for part in given}
    mistakes = [
        Mistake(
            code="state",
            path=f"queries.{query}",
            message=f"The query was already deployed to this node: {given_directory(state) / f'{query}.json'}.",
            remedy="Remove that file, or remove the query from this one.",
        )
        for query in sorted(both)
    ]
    if mistakes:
        raise DeploymentError(str(file), mistakes)
