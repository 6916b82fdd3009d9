"""A host: one address, one Spark and one disk, for any number of queries.

It opens the state directory, serves all queries over one Flight server, has one Spark for all of them, opens every
connection to other hosts, and starts and stops the queries (``query_parts``), each in a thread of its own: one that
cannot start, fails or is being rebuilt touches no other. A query can be handed to a host that already runs some.

Spark is imported by hosts that need it, when they start it: without it an entry point starts a second sooner and takes
50 MB less, and a deployment has many.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from anabranch import limits
from anabranch.connectors.static_tables import StaticTable
from anabranch.errors import AnabranchError, ConfigError, InvariantBroken, NodeUnreachable
from anabranch.model.ids import QueryId
from anabranch.model.links import LinkFault
from anabranch.model.node_state import NodeState
from anabranch.node import functions
from anabranch.node.dialer import Dialer, direct
from anabranch.node.disk_watch import DiskWatch
from anabranch.node.doors import ClientDoors, HostDoors, SparkDoors
from anabranch.node.hosted_part import HostServices
from anabranch.node.query_parts import ATTENTION, QueryParts
from anabranch.node.relays import Relays, faults_refused
from anabranch.node.settings import NodeSettings
from anabranch.node.spark_host import SparkHost, spark_settings
from anabranch.node.state import StateDirectory
from anabranch.node.tables import digests, load_tables
from anabranch.query.assigned import AssignedQuery
from anabranch.query.parts import parts
from anabranch.runtime.status import HostStatus, QueryStatus
from anabranch.transport.journals import JournalServer
from anabranch.transport.ports import AssignmentPorts
from anabranch.transport.server import FlightServer

if TYPE_CHECKING:
    from anabranch.engine.connector import JournalHost

_log: Final = logging.getLogger("anabranch.host")

LOOK_S: Final = 0.05
"""How often whoever waits for a start looks whether it is still wanted."""


class Host:
    """Use it as a context manager, or call ``start`` and ``stop``.

    ``relays`` are the links to other hosts that are emulated, or may be hurt; they are closed with the host.
    ``progress`` is told what the start is doing, several times a second for as long as that takes; what it raises ends
    the start. ``assignments`` decides what may be handed to the host while it runs.
    """

    def __init__(
        self,
        name: str,
        state: Path | str,
        settings: NodeSettings | None = None,
        *,
        queries: Iterable[AssignedQuery] = (),
        relays: Relays | None = None,
        progress: Callable[[str], None] = lambda _: None,
        assignments: Callable[[Host], AssignmentPorts] | None = None,
    ) -> None:
        self.name: Final = name
        self.settings: Final = settings or NodeSettings()
        self.queries: Final[dict[QueryId, QueryParts]] = {}
        self.doors: Final = ClientDoors(self.queries, status=self.statistics, fault=self.fault_link)
        """What clients may ask."""
        self._progress = progress
        self._relays = relays
        self._assignments = None if assignments is None else assignments(self)
        loaded = [(part, self._load(part)) for part in queries]
        self._directory = StateDirectory(Path(state))  # only if all tables and functions are there
        self._dialer = Dialer(direct if relays is None else relays.route)
        self._disk = DiskWatch(self._directory.path, self._directory.free_bytes, self.settings.disk_reserve_bytes)
        self._stopping = threading.Event()
        self._server: FlightServer | None = None
        self._journals: JournalServer | None = None
        self._spark: SparkHost | None = None
        self._starting: dict[QueryId, _Start] = {}
        self._lock = threading.Lock()
        self._started = time.monotonic()
        try:
            for part, tables in loaded:
                self._make(part, tables)
        except BaseException:
            self._directory.close()
            raise

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when every stage of every query has run a batch, or has failed to. Pushes are accepted before that.

        A query that cannot start is told and left out, unless that is so of all of them.
        """
        try:
            self._serve()
            spark = f"; starting Spark ({self.settings.master})" if self._spark is not None else ""
            serving = f"serving at {self.address}{spark}"
            self._progress(serving)
            starting = [self._begin(query) for query in list(self.queries.values())]
            self._wait_started(starting, serving)
        except BaseException:
            self.stop()
            raise

    def add(self, part: AssignedQuery) -> None:
        """Another query, for a host that runs. Returns when its directory is there; it starts by itself."""
        tables = self._load(part)
        with self._lock:
            if self._stopping.is_set():
                raise NodeUnreachable("The node is stopping.", remedy="Try again when it is back.")
            if part.query in self.queries:
                raise ConfigError(f"Node {self.name} already runs query {part.query}.")
            query = self._make(part, tables)
        self._begin(query)

    def stop(self) -> None:
        """A clean stop: no new batches, running ones are finished or left to the next start, everything closed."""
        self._stopping.set()
        if self._relays is not None:
            self._relays.close()  # first: a call over a link that is cut would be waited for
        queries = list(self.queries.values())
        for query in queries:
            query.ask_stop()
        for start in list(self._starting.values()):
            start.join(limits.STOP_WAIT_S)  # one that is under way ends by itself
        closing = [threading.Thread(target=query.stop, name=f"stop {query.id}") for query in queries[1:]]
        for thread in closing:
            thread.start()
        for query in queries[:1]:
            query.stop()
        for thread in closing:
            thread.join()
        if self._spark is not None:
            self._spark.stop()
        if self._journals is not None:
            self._journals.stop()
        if self._server is not None:
            self._server.stop()
        self._dialer.close()
        self._directory.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        if self._server is None:
            raise ConfigError("The node has not been started.", remedy="Call start() first.")
        return self._server.address

    def failures(self) -> dict[QueryId, AnabranchError]:
        """The queries that cannot go on, and why."""
        found = {name: self._failure(query) for name, query in list(self.queries.items())}
        return {name: failure for name, failure in found.items() if failure is not None}

    def failure(self) -> AnabranchError | None:
        """Why the host cannot go on: no query can."""
        failures = self.failures()
        return next(iter(failures.values()), None) if len(failures) == len(self.queries) else None

    def failed_parts(self) -> dict[tuple[QueryId, str], AnabranchError]:
        """The parts of queries that cannot go on, and why. The others do."""
        queries = list(self.queries.items())
        return {(name, part): error for name, query in queries for part, error in query.failed_parts().items()}

    def failed_stages(self) -> dict[tuple[QueryId, str], AnabranchError]:
        """The stages that stand still after all their tries, and why. The others go on, and so do all streams."""
        queries = list(self.queries.items())
        return {(name, stage): error for name, query in queries for stage, error in query.failed_stages().items()}

    def _failure(self, query: QueryParts) -> AnabranchError | None:
        start = self._starting.get(query.id)
        return query.failure() or (None if start is None else start.refused())

    # --- queries ---------------------------------------------------------------------------------------------------

    def _load(self, part: AssignedQuery) -> dict[str, StaticTable]:
        """The tables of a query. One whose functions are missing is refused here, before anything is written."""
        functions.digests(part)
        return load_tables(part, self.settings.tables)

    def _make(self, part: AssignedQuery, tables: Mapping[str, StaticTable]) -> QueryParts:
        services = HostServices(
            settings=self.settings,
            dialer=self._dialer,
            disk=self._disk,
            spark=self._spark_host,
            journals=self._journal_host,
        )
        cut = parts(part)
        directories = self._directory.parts(cut, digests(tables))
        start = self._starting[part.query] = _Start(part.query, self._progress)
        cut_with = list(zip(cut, directories, strict=True))
        query = QueryParts(part, cut_with, services, tables=tables, progress=start.say)
        self.queries[part.query] = query
        return query

    def _begin(self, query: QueryParts) -> _Start:
        start = self._starting[query.id]
        start.begin(query.start)
        return start

    def _wait_started(self, starting: list[_Start], text: str) -> None:
        """Says what the starts are at, until all are over."""
        while waiting := [start for start in starting if not start.is_over.wait(0)]:
            for start in starting:
                for said in start.take_said():
                    text = said if len(starting) == 1 else f"{start.query}: {said}"
                    self._progress(text)
            self._progress(text)
            waiting[0].is_over.wait(LOOK_S)
        for start in starting:
            for said in start.take_said():
                self._progress(said if len(starting) == 1 else f"{start.query}: {said}")
        refused = [start.error for start in starting if start.error is not None]
        if refused and len(refused) == len(starting):
            raise refused[0]

    # --- what queries share ----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """One server for all queries. Those that have not begun are not there yet."""
        doors = HostDoors(self.queries)
        self._server = FlightServer(
            self.doors,
            self.settings.host,
            self.settings.port,
            copies=doors,
            lanes=doors,
            peers=doors,
            determinants=doors,
            outputs=doors,
            assignments=self._assignments,
        )

    def _spark_host(self) -> SparkHost:
        if self._spark is None:
            self._spark = SparkHost(self.settings, self._stopping)
        return self._spark

    def _journal_host(self) -> JournalHost:
        from anabranch.engine import connector

        if self._journals is None:
            spark = spark_settings(self.settings)
            self._journals = JournalServer(
                SparkDoors(self.queries), spark.driver_host, spark.journals_port, release=connector.release()
            )
        return connector.JournalHost(address=self._journals.address, token=self._journals.token)

    # --- looking in ------------------------------------------------------------------------------------------------

    def fault_link(self, node: str, fault: LinkFault) -> None:
        if self._relays is None:
            raise faults_refused()
        self._relays.set(node, fault)

    def statistics(self) -> HostStatus:
        """Everything worth showing: of the host itself, and per query its sources, stages and streams."""
        return HostStatus(
            node=self.name,
            address=self.address,
            state=self._state(),
            intake=self._disk.stopped or "open",
            uptime_s=round(time.monotonic() - self._started, 1),
            executors=None if self._spark is None else self._spark.executors(),
            spark=None if self._spark is None else self._spark.statistics(),
            links={} if self._relays is None else self._relays.statistics(),
            queries={name: self._query_statistics(query) for name, query in list(self.queries.items())},
        )

    def _query_statistics(self, query: QueryParts) -> QueryStatus:
        failure = self._failure(query)
        found = query.statistics()
        return found if failure is None else replace(found, state=NodeState.FAILED, error=str(failure))

    def _state(self) -> NodeState:
        """That of its queries; of several the one that asks most for attention, but one that failed beside others."""
        if not self.queries:
            return NodeState.STOPPING if self._stopping.is_set() else NodeState.WAITING
        if self.failure() is not None:
            return NodeState.FAILED
        failed = self.failures()
        states = {query.state() for name, query in list(self.queries.items()) if name not in failed}
        return next(state for state in ATTENTION if state in states)


class _Start:
    """The start of one query, in a thread of its own, and what it says. A rebuild says what it does later."""

    def __init__(self, query: QueryId, tell: Callable[[str], None]) -> None:
        self.query: Final = query
        self._tell = tell
        self.error: BaseException | None = None
        self.is_over: Final = threading.Event()
        self._thread: threading.Thread | None = None
        self._said: list[str] = []
        self._lock = threading.Lock()

    def begin(self, start: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=self._run, args=(start,), name=f"start {self.query}", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def say(self, text: str) -> None:
        if self.is_over.is_set():
            self._tell(text)
            return
        with self._lock:
            self._said.append(text)

    def take_said(self) -> list[str]:
        with self._lock:
            said, self._said = self._said, []
            return said

    def refused(self) -> AnabranchError | None:
        """Why the query could not start."""
        if self.error is None or isinstance(self.error, AnabranchError):
            return self.error
        return InvariantBroken(f"Query {self.query} could not start: {self.error!r}.")

    def _run(self, start: Callable[[], None]) -> None:
        try:
            start()
            _log.info("Query %s is running.", self.query)
        except BaseException as error:
            self.error = error
            _log.info("Query %s could not start: %s", self.query, error)
        finally:
            self.is_over.set()
