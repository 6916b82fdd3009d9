"""The static tables that a node reads: loaded at its start, and the same on every node that reads them.

A node that starts asks all others that read one of its tables, and does not begin if one of them has other contents.
Who does not answer is asked again in the background. Where a difference is found late, because two nodes could not
reach each other, the one that started later ends: the other may have been right for long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from anabranch.connectors.static_tables import StaticTable, load_table
from anabranch.errors import AnabranchError, ConfigError, StateError
from anabranch.node.dialer import Dialer
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Diagram
from anabranch.query.graph import tables_read
from anabranch.query.problems import candidates
from anabranch.runtime.status import TableStatus

ASK_EVERY_S: Final = 1.0

T = TypeVar("T")


def load_tables(part: AssignedQuery, places: Mapping[str, str]) -> dict[str, StaticTable]:
    """The tables that a host reads for a query, with their rows. ``places`` says where a table is, if not where the
    query says; tables of other queries may be among them."""
    base = Path() if part.directory is None else part.directory
    read = tables_read(part.diagram, part.stages)
    return {table.name: load_table(table, base, places.get(table.name)) for table in read}


def read_by(part: AssignedQuery, tables: Mapping[str, T]) -> dict[str, T]:
    """Those of the tables of a host that this part reads."""
    read = {table.name for table in tables_read(part.diagram, part.stages)}
    return {name: table for name, table in tables.items() if name in read}


def refuse_unknown(diagram: Diagram, places: Mapping[str, str]) -> None:
    """Where only one query can be meant: a table that it does not have is a mistake."""
    known = [table.name for table in diagram.tables]
    for name in places:
        if name not in known:
            raise ConfigError(f"The query {diagram.name!r} has no table {name!r}.", remedy=candidates(name, known))


def digests(tables: Mapping[str, StaticTable]) -> dict[str, str]:
    return {name: table.digest for name, table in tables.items()}


def statuses(tables: Mapping[str, StaticTable]) -> dict[str, TableStatus]:
    return {name: TableStatus(rows=table.rows.num_rows, digest=table.digest) for name, table in tables.items()}


def differences(mine: Mapping[str, str], other: Mapping[str, Any]) -> list[str]:
    """The tables of which both have a digest, and not the same."""
    return [name for name, digest in mine.items() if other.get(name, digest) != digest]


class Agreement:
    """Whether all nodes that read a table read the same. Any thread may use it."""

    def __init__(self, part: AssignedQuery, tables: Mapping[str, StaticTable], dialer: Dialer) -> None:
        self.failure: AnabranchError | None = None
        """Why this node may not go on."""
        self._part = part
        self._digests = digests(tables)
        self._dialer = dialer
        self._started = time.monotonic()
        self._waiting = dict(part.shares_tables) if tables else {}
        self._stopping = threading.Event()

    def start(self) -> None:
        """Asks all once, when this node can be asked itself, so that of two that start together one notices."""
        self._ask(starting=True)
        if self.failure is not None:
            raise self.failure
        if self._waiting:
            threading.Thread(target=self._run, name="comparing tables", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while self._waiting and self.failure is None and not self._stopping.wait(ASK_EVERY_S):
            self._ask(starting=False)

    def _ask(self, *, starting: bool) -> None:
        for node, address in list(self._waiting.items()):
            try:
                queries = self._dialer.client(node, address).status().queries
            except AnabranchError:
                continue  # it is away, or starting: it asks this one then
            told = queries.get(self._part.query)
            if told is None:
                continue  # it waits for the query
            self._waiting.pop(node)
            there = {name: facts.digest for name, facts in told.tables.items()}
            uptime = time.monotonic() - self._started
            younger = (uptime, node) <= (told.uptime_s, self._part.host)
            for name in differences(self._digests, there):
                if self.failure is None and (starting or younger):
                    self.failure = other_contents(name, self._digests[name], node, there[name])


def other_contents(table: str, mine: str, node: str, theirs: str) -> StateError:
    return StateError(
        f"The contents of table {table!r} differ from those on node {node}: {short(mine)} here, {short(theirs)} there.",
        remedy="Replicas must read the same rows: use the same contents on both nodes, and restart.",
    )


def short(digest: str) -> str:
    """As much of a digest as tells two apart, for people."""
    return digest[:16]
