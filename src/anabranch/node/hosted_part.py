"""One part of a query on a host: its stores, entry points, inlets, stages, feeds and writers, and its life.

A host runs any number of parts, of one query (``query_parts``) or of several; they share its address, its Spark and its
disk, and nothing else. So one can be closed, rebuilt from a peer and begun again, or fail, while the others go on:
``query.parts`` says what forms a part. Everything that decides lies in ``core``; everything that lasts lies in
``storage``, below the part's own directory. Names of streams are those of the query: ``doors`` and the clients of
``dialer`` put the query before them where they leave the host.

Threads: those that call in (Flight's, Spark's); one for each feed and writer; one that asks for digests; one
housekeeper, which ticks the lanes, watches the stages and trims; and, while the part is rebuilt from a peer, one that
sees to that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from anabranch import limits
from anabranch.columns import arrow_schema
from anabranch.connectors.static_tables import StaticTable
from anabranch.errors import (
    AnabranchError,
    DiskFull,
    InvariantBroken,
    NodeUnreachable,
    QueryError,
    StateError,
    StreamNotFound,
)
from anabranch.model.ids import QueryId
from anabranch.model.names import late_stream
from anabranch.model.node_state import NodeState
from anabranch.model.techniques import Technique
from anabranch.model.times import format_time
from anabranch.node.dialer import Dialer
from anabranch.node.disk_watch import DiskWatch
from anabranch.node.entry import EntryPoint
from anabranch.node.feeding import Feeding
from anabranch.node.housekeeper import NEVER, Due, Housekeeper
from anabranch.node.inlets import Inlets
from anabranch.node.journals import Journals
from anabranch.node.kept_roll import refuse_shared
from anabranch.node.open_calls import OpenCalls
from anabranch.node.peers import Peers
from anabranch.node.query_stages import QueryStages
from anabranch.node.rebuilding import Rebuilding
from anabranch.node.settings import NodeSettings
from anabranch.node.shared_entry import SharedEntryPoint, Sharing
from anabranch.node.snapshot import Snapshots
from anabranch.node.spark_host import SparkHost
from anabranch.node.stages import StageRunner
from anabranch.node.state import QueryDirectory
from anabranch.node.streams import Streams
from anabranch.node.synchronizing import Synchronizing
from anabranch.node.tables import Agreement, statuses
from anabranch.node.telling import ComparedOutputs
from anabranch.node.turns import holds
from anabranch.node.writing import Writing, durable_writers
from anabranch.query.assigned import AssignedQuery
from anabranch.query.boxes import Output, Source
from anabranch.query.graph import Stage, all_origins, sources_of
from anabranch.runtime.status import QueryStatus, WaitsFor

if TYPE_CHECKING:
    from anabranch.engine.connector import JournalHost

_END_S: Final = 2 * limits.FOLLOW_WAIT_S
"""How long those who read are waited for when the query is closed: two looks of a following reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """What the parts of a host share."""

    settings: NodeSettings
    dialer: Dialer
    disk: DiskWatch
    spark: Callable[[], SparkHost]
    """The Spark of the host, for a query that needs one."""
    journals: Callable[[], JournalHost]
    """Where Spark reads journals, once the host serves."""


class HostedPart:
    """A part of a query on a host. ``tables`` are those that it reads, ``progress`` is told what the start, or a
    rebuild, is doing."""

    def __init__(
        self,
        part: AssignedQuery,
        directory: QueryDirectory,
        services: HostServices,
        *,
        tables: Mapping[str, StaticTable] | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.part: Final = part
        self.diagram: Final = part.diagram
        self.calls: Final = OpenCalls(part.called if part.siblings else f"The query {part.query}")
        self._directory = directory
        self._services = services
        self._settings = services.settings
        self._disk = services.disk
        self._progress = progress
        self._tables: Final = tables or {}
        self._made = time.monotonic()
        self._origins = all_origins(self.diagram)
        self._stream_origins = part.origins()
        self._lost: AnabranchError | None = None
        self._is_refused = self._leaves_nothing = False
        self._closing = threading.Event()
        self._ending = threading.Lock()
        """Held while it is stopped: a start that is given up stops it, too."""
        self._rebuilding: threading.Thread | None = None
        self._make()

    @property
    def id(self) -> QueryId:
        return self.part.query

    def _make(self) -> None:
        """All that is made anew when the query has got another state: that of a peer."""
        part, settings = self.part, self._settings
        self._entries: dict[str, EntryPoint] = {}
        self._stopping = threading.Event()
        self._writing = Writing(self._stopping)
        self._opened = threading.Event()
        self._ready = threading.Event()
        self._dialer = self._services.dialer.about(part.query)
        self._feeding = Feeding(part, self._dialer, self._stopping)
        self.peers = Peers(part, self._dialer)
        self._inlets = Inlets(
            part,
            self._directory.life,
            clock=_now_us,
            dialer=self._dialer,
            rebuild=self._needs_rebuild,
            holds=holds(part) if part.technique is Technique.DETERMINISTIC else {},
            slowest=lambda: self.streams.reports.slowest(),
        )
        is_synchronized = part.technique is Technique.SYNCHRONIZATION
        self.synchronizing = Synchronizing(part.host, part.siblings, self._dialer) if is_synchronized else None
        self.compared = ComparedOutputs(part, self._dialer)
        self._agreement = Agreement(part, self._tables, self._dialer)
        self.streams = Streams(
            self.diagram, part, settings, clock=_now_us, ready=self._ready, synchronizing=self.synchronizing
        )
        self.snapshots = Snapshots(
            self._directory,
            part,
            self.streams.stores,
            reserve_bytes=settings.disk_reserve_bytes,
            failure=self._why_no_help,
        )
        self._spark = self._services.spark() if part.needs_spark else None
        self._stages = None if self._spark is None else self._made_stages(self._spark)
        self.journals = Journals(self.streams, self.runners, self._stream_origins.__getitem__)
        self._housekeeper = Housekeeper()
        self._ticks: dict[str, Due] = {}
        self._housekeeping: threading.Thread | None = None
        self._housekeeping_error: AnabranchError | None = None
        self._trim_all_at = float("-inf")
        self._rebuild_reason: str | None = None

    def _made_stages(self, spark: SparkHost) -> QueryStages:
        return QueryStages(
            self.part,
            self._directory,
            self._settings,
            spark,
            self._services.journals,
            streams=self.streams,
            inlets=self._inlets,
            compared=self.compared,
            tables={name: table.rows for name, table in self._tables.items()},
            disk=self._disk,
            stopping=self._stopping,
            clock=_now_us,
            opened=self._open_what_waits,
        )

    @property
    def runners(self) -> Mapping[str, StageRunner]:
        """The stages that run here, by name."""
        return {} if self._stages is None else self._stages.runners

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when every stage has run a batch, or has failed to. Pushes are accepted before that.

        A stage that fails is tried again while the others run; ``failed_stages`` has those that were given up. What
        ends the start is told as the failure of the part from then on.
        """
        try:
            if self._rebuild().if_empty():
                self._make()
            self._run()
        except BaseException as error:
            if not self._closing.is_set():
                ours = InvariantBroken(f"{self.part.called} could not start: {error!r}.", remedy="Report this.")
                self._lost = error if isinstance(error, AnabranchError) else ours
            self._is_refused = isinstance(error, QueryError) or error is self._agreement.failure
            self.stop()
            raise

    @property
    def is_refused(self) -> bool:
        """Whether the start ended with what only Spark, or another node, could tell: what is assigned is wrong."""
        return self._is_refused

    def is_unused(self) -> bool:
        """Whether the directory is new, and no row has come into a log so far."""
        return self._directory.is_new and self.streams.are_empty()

    @property
    def leaves_nothing(self) -> bool:
        """After a stop: whether nothing has come of it, nor is there an entry that other entry points may count on."""
        return self._leaves_nothing

    def discard(self) -> None:
        """After a stop: the directory is free again."""
        self._directory.discard()

    def _run(self) -> None:
        self._open_stores()
        for source in self.diagram.sources:
            if source.name in self.part.entries:
                self._open_source(source)
        self._feeding.open({name: entry for name, entry in self._entries.items() if name in self.part.feeds})
        self.calls.open()
        self.peers.start()
        self._agreement.start()
        self._housekeeping = threading.Thread(
            target=self._keep_house, name=f"housekeeper {self.part.reader}", daemon=True
        )
        self._housekeeping.start()
        self._start_stages()
        self._ready.set()
        self._feeding.start(self._spark, self._directory.path / "checkpoints", self.id)

    def _start_stages(self) -> None:
        """What runs in Spark, if anything does, and what only has to wait for it."""
        if self._spark is not None and self._stages is not None:
            self._spark.run(self._stages, self._stopping, self._progress)
            self._stages.wait_first_batches(self._progress)
        else:
            self._open_what_waits()

    def ask_stop(self) -> None:
        """It ends as soon as it can; ``stop`` waits for that."""
        self._closing.set()
        self._stopping.set()

    def stop(self) -> None:
        """A clean stop: no new batches, the running one is finished or left to the next start, everything closed."""
        self._closing.set()
        with self._ending:
            self._wait_rebuilding_over()
            self._close()
            self._wait_rebuilding_over()  # the housekeeper may just have begun it

    def _close(self) -> None:
        """Ends all that runs; the directory stays ours."""
        self._stopping.set()
        self._ready.set()
        self.calls.close()
        if self._spark is not None and self._stages is not None:
            self._spark.leave(self._stages)
        self._feeding.stop()
        self._inlets.stop()
        self.peers.stop()
        if self.synchronizing is not None:
            self.synchronizing.close()
        self.compared.stop()
        self._agreement.stop()
        self._housekeeper.stop()
        if self._housekeeping is not None and self._housekeeping is not threading.current_thread():
            self._housekeeping.join(limits.STOP_WAIT_S)
        if self._stages is not None:
            self._stages.stop(time.monotonic() + limits.STOP_WAIT_S)
        self._writing.stop()
        self.streams.copies.wake()
        self.calls.wait_over(_END_S)
        if self.synchronizing is not None:
            self.synchronizing.join()  # before the logs that it reads are closed
        if not self.streams.are_closed:
            self._leaves_nothing = self.is_unused() and not self.streams.have_entries()
        self.streams.close()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def failure(self) -> AnabranchError | None:
        """Why the query cannot go on: every stage has given up, one found its state broken, or the housekeeper
        ended."""
        runners = list(self.runners.values())
        broken = [runner.failed for runner in runners if runner.is_broken]
        failed = list(self.failed_stages().values())
        given_up = failed if len(failed) == len(self.part.stages) else []
        begun = None if self._stages is None else self._stages.given_up
        ended = [self._housekeeping_error, self._lost, self.peers.failure(), self._agreement.failure, begun]
        return next(filter(None, [*ended, *broken, self._spark_failure(), *given_up]), None)

    def _spark_failure(self) -> AnabranchError | None:
        """Why the query cannot go on without Spark, if it was given up. One that takes rows in goes on without it: they
        are safe here, and wait in their logs."""
        error = None if self._spark is None else self._spark.failed
        matters = not self._entries or isinstance(error, StateError | InvariantBroken)
        return error if matters else None

    def failed_stages(self) -> dict[str, AnabranchError]:
        """The stages that stand still after all their tries, and why. The others go on, and so do all streams."""
        runners = list(self.runners.items())
        return {name: runner.failed for name, runner in runners if runner.failed is not None}

    def _open_stores(self) -> None:
        """All files before anything is written to one: a damaged one is found now, not when Spark has started.

        What the stages wrote in earlier runs can be read from here on, while Spark is still starting.
        """
        for source in sorted(self.part.entries):
            self.streams.open(self._directory.source_file(source))
        for stream in self.part.upstream:
            self.streams.open(self._directory.inlet_file(stream))
        for stage in self.part.stages:
            self.streams.open(self._directory.stage_file(stage.name))
        self.compared.open(log for _, log in self.streams.logs.values())

    def _open_source(self, source: Source) -> None:
        store = self.streams.stores[self._directory.source_file(source.name)]
        schema = arrow_schema((column.name, column.type or "") for column in source.schema)
        self.streams.create(store, source.name, schema, "source")
        self.streams.create(store, late_stream(source.name), schema, "late")
        open_entry: Callable[..., EntryPoint] = partial(EntryPoint, source, store, self._origins)
        peers = tuple(sorted(self.part.peers.get(source.name, {})))
        if not peers:
            refuse_shared(source, store)
        else:
            sharing = Sharing(
                name=self.part.host,
                peers=peers,
                token=self._directory.life,
                fed=source.feed is not None and source.name in self.part.feeds,
                wake=self.peers.wake,
                look=partial(self._look_within, source.name),
                renew=self.streams.renew,
                kept=self.streams.kept_readers,
                rebuild=self._needs_rebuild,
            )
            open_entry = partial(SharedEntryPoint, source, store, self._origins, sharing)
        entry = self._entries[source.name] = open_entry(
            schema=schema,
            clock=_now_us,
            boundary_interval_us=self._settings.boundary_interval_us,
            intake_stopped=self._disk.why_no_intake,
            stopping=self._stopping.is_set,
            reports=None if source.horizon_us is None else self.streams.reports,
        )
        if isinstance(entry, SharedEntryPoint):
            self.peers.add(entry)

    def _open_what_waits(self) -> None:
        """Writers and digests know their streams when the stages have said what these are."""
        session = _no_session if self._spark is None else self._spark.session
        self._writing.start(self._written, self.streams.logs, session)  # before a batch has to wait for a full log
        self.compared.open(log for _, log in self.streams.logs.values())
        self.compared.start()
        self._opened.set()  # trimming begins: the first batch may have to wait for it, if its log is full

    # --- being rebuilt ---------------------------------------------------------------------------------------------

    def _rebuild(self) -> Rebuilding:
        return Rebuilding(
            self._directory,
            self.part,
            writers=durable_writers(self._written),
            dialer=self._dialer,
            progress=self._progress,
            wait=self._closing.wait,
        )

    @property
    def _written(self) -> tuple[Output, ...]:
        """The outputs whose writers run here."""
        return tuple(output for output in self.diagram.outputs if output.name in self.part.writes)

    def _needs_rebuild(self, reason: str) -> None:
        """The part cannot go on here by itself. If there is a host to be rebuilt from, the housekeeper sees to it."""
        if self.part.siblings:
            self._rebuild_reason = self._rebuild_reason or reason
        elif self._lost is None:
            self._lost = StateError(
                f"{self.part.called} cannot continue on its own. {reason}",
                remedy="No other node runs the same stages, so it cannot be rebuilt: start over with empty state "
                "directories on all nodes.",
            )

    def _rebuild_and_go_on(self) -> None:
        """In a thread of its own: everything is closed, gets the state of a peer, and is started again."""
        try:
            self._progress(f"must be rebuilt: {self._rebuild_reason}")
            self._close()
            if self._rebuild().until_done():
                self._make()
                if self._closing.is_set():
                    self._stopping.set()
                self._run()
        except Exception as error:  # nobody waits for this thread: whoever watches the node is told
            ours = InvariantBroken(
                f"{self.part.called} could not be rebuilt: {error!r}.", remedy="Restart the node, and report this."
            )
            self._lost = error if isinstance(error, AnabranchError) else ours
            self._close()
        finally:
            self._rebuilding = None

    def _wait_rebuilding_over(self) -> None:
        rebuilding = self._rebuilding
        if rebuilding is not None:
            rebuilding.join()

    def _why_no_help(self) -> AnabranchError | None:
        """Why nobody can be rebuilt from this part."""
        if self._rebuild_reason is not None:
            return StateError(f"It must be rebuilt itself. {self._rebuild_reason}")
        return self.failure()

    # --- housekeeping ----------------------------------------------------------------------------------------------

    def _keep_house(self) -> None:
        for name, entry in self._entries.items():
            self._ticks[name] = self._housekeeper.add(partial(self._tick, entry))
        for chore in (self._watch_stages, self._trim, self._watch_rebuild):
            self._housekeeper.add(chore)
        try:
            self._housekeeper.run()
        except Exception as error:  # a query whose housekeeper is gone looks alive and is not: tell it, and end
            ours = InvariantBroken(f"The node's housekeeper failed: {error!r}.", remedy="Restart it, and report this.")
            self._housekeeping_error = error if isinstance(error, AnabranchError) else ours

    def _tick(self, entry: EntryPoint) -> float:
        try:
            return entry.tick()
        except DiskFull as error:
            self._disk.is_full(error)
            return limits.LOOK_S

    def _look_within(self, source: str, seconds: float) -> None:
        """The lanes of a source have to be looked after soon. The housekeeper begins with all of them."""
        tick = self._ticks.get(source)
        if tick is not None:
            tick.within(seconds)

    def _watch_stages(self) -> float:
        if self._spark is None or self._stages is None:
            return NEVER
        self._spark.tell_messages()
        return self._stages.watch()

    def _trim(self) -> float:
        self._disk.look()
        if self._opened.is_set():
            self._trim_streams()
            self._inlets.watch()
            self.snapshots.expire()
        return limits.TRIM_EVERY_S

    def _watch_rebuild(self) -> float:
        if self._ready.is_set() and self._rebuild_reason is not None:
            self._housekeeper.stop()
            self._rebuilding = threading.Thread(
                target=self._rebuild_and_go_on, name=f"rebuilding {self.part.reader}", daemon=True
            )
            self._rebuilding.start()
        return limits.TRIM_EVERY_S

    def _trim_streams(self) -> None:
        """A full disk must not end the housekeeper: intake stops, and it tries again."""
        only_large = time.monotonic() < self._trim_all_at
        try:
            self.streams.trim(list(self.runners.values()), only_large=only_large)
        except DiskFull as error:
            self._disk.is_full(error)
            return
        if not only_large:
            self._trim_all_at = time.monotonic() + limits.TRIM_ALL_EVERY_S

    # --- looking in ------------------------------------------------------------------------------------------------

    def statistics(self) -> QueryStatus:
        """Everything worth showing: sources with their lanes, stages, and streams."""
        failure = self.failure()
        empty = QueryStatus(
            state=self.state(),
            error=None if failure is None else str(failure),
            uptime_s=round(time.monotonic() - self._made, 1),
            tables=statuses(self._tables),
        )
        try:
            with self.calls.inside():
                return self._with_contents(empty)
        except NodeUnreachable:  # it is starting, being rebuilt or closed: nothing of it can be looked at
            return empty

    def _with_contents(self, empty: QueryStatus) -> QueryStatus:
        return replace(
            empty,
            sources={name: entry.statistics() for name, entry in self._entries.items()},
            feeds=self._feeding.statistics(),
            stages={
                name: runner.statistics(str(self.part.replica(name)), self._waits_for(runner.stage))
                for name, runner in list(self.runners.items())
            },
            peers=self.peers.statistics(),
            inlets=self._inlets.statistics(),
            compared=self.compared.statistics(),
            alarms=self._inlets.alarms() | self.compared.alarms(),
            determinants={} if self.synchronizing is None else self.synchronizing.statistics(),
            writers=self._writing.statistics(),
            streams={name: log.statistics() for name, (_, log) in list(self.streams.logs.items())},
        )

    def state(self) -> NodeState:
        if self.failure():
            return NodeState.FAILED
        if self._rebuilding is not None:
            return NodeState.REBUILDING
        if self._stopping.is_set():
            return NodeState.STOPPING
        if self._spark is not None and (self._spark.is_restarting or self._waits_for_spark):
            return NodeState.RESTARTING_SPARK
        return NodeState.RUNNING if self._ready.is_set() else NodeState.STARTING

    @property
    def _waits_for_spark(self) -> bool:
        """Whether its stages could not begin in the Spark that is there, and are tried again."""
        return self._ready.is_set() and self._stages is not None and self._stages.is_waiting

    def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until the outputs show all that had been pushed before the call; False if that takes too long."""
        deadline = time.monotonic() + timeout_s
        while self._rebuilding is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        for runner in self.runners.values():  # in the order of flow: what one has logged, the next has to read
            mark = runner.mark()
            runner.hurry(mark)
            while not runner.reached(mark):
                if time.monotonic() > deadline or runner.failed or self.failure() or self._is_without_spark:
                    return False
                time.sleep(0.02)
        return True

    @property
    def _is_without_spark(self) -> bool:
        """For good, until the next start."""
        return self._spark is not None and self._spark.failed is not None

    def _waits_for(self, stage: Stage) -> WaitsFor:
        """What holds the stage: of all lanes that lead to it, the one that promises least; of those that enter
        elsewhere, what arrives of them here."""
        streams = sources_of(self.diagram, stage.root)
        if not streams <= self._entries.keys():
            streams = frozenset(stage.inputs)
        held = {
            origin: self.streams.logs[stream][1].punctuations().get(origin, 0)
            for stream in streams
            for origin in self._stream_origins[stream]
        }
        slowest = min(held, key=lambda origin: (held[origin], origin))
        return WaitsFor(origin=slowest, punctuation_us=held[slowest], punctuation=format_time(held[slowest]))

    # --- finding things --------------------------------------------------------------------------------------------

    def entry(self, source: str) -> EntryPoint:
        if source not in self._entries:
            raise StreamNotFound(f"There is no source {source!r}.", remedy=f"Sources: {', '.join(self._entries)}.")
        return self._entries[source]


def _no_session() -> None:
    """What a writer gets that is not Spark's."""


def _now_us() -> int:
    return time.time_ns() // 1000
